"""What belongs to TaoBench."""

from steelyard.bench.declaration import Declaration
from steelyard.bench.parameters.ranges import SearchRange
from steelyard.bench.tiers import TIERS

DECLARATION = Declaration(
    name="tao",
    title="TaoBench",
    doc="read-through cache tier: memcached protocol, fast and slow threads",
    benchmark="steelyard.benchmarks.tao.benchmark:TaoBench",
    headline=(
        "requests_per_s",
        "hit_ratio",
        "response_p50_ns",
        "generator_lag_ratio",
        "response_p99_ns",
        "response_p999_ns",
        "server_cpu_user_ratio",
        "server_cpu_system_ratio",
        "requests_per_server_cpu_s",
        "network_sent_bytes_per_s",
    ),
    search=(
        SearchRange(
            "target_hit_ratio",
            0.5,
            0.98,
            moves=("hit_ratio", "llc_mpki", "l2_mpki", "memory_bytes_per_s", "cpu_per_request_ns"),
        ),
        SearchRange(
            "connections",
            8,
            1024,
            is_log=True,
            moves=(
                *("latency_p50_ns", "latency_p95_ns", "latency_p99_ns", "latency_p999_ns"),
                *("context_switches_per_s", "context_switches_per_request", "cpu_kernel_ratio"),
                "requests_in_flight",
            ),
        ),
        SearchRange(
            "depth",
            1,
            16,
            is_log=True,
            moves=(
                *("throughput_per_s", "cpu_kernel_ratio", "cpu_user_ratio", "cpu_per_request_ns"),
                *("context_switches_per_request", "network_sent_bytes_per_s", "requests_in_flight"),
            ),
        ),
        SearchRange("slow_threads", 1, 32, is_log=True, moves=("threads_per_core", "context_switches_per_s")),
        SearchRange(
            "memory", 16 << 20, 256 << 20, is_log=True, moves=("resident_bytes", "llc_mpki", "dtlb_mpki")
        ),
        SearchRange(
            "backend_delay",
            choices=("none", "constant:50us", "constant:200us", "constant:1ms"),
            moves=("latency_p95_ns", "latency_p99_ns", "latency_p999_ns"),
        ),
    ),
    suites=(*TIERS, "dcperf"),
    order=1,
    leaves=("cache-stats",),
)
