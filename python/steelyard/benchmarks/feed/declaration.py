"""What belongs to FeedSim."""

from steelyard.bench.declaration import Declaration
from steelyard.bench.parameters.ranges import SearchRange
from steelyard.bench.tiers import TIERS

DECLARATION = Declaration(
    name="feed",
    title="FeedSim",
    doc="a feed's ranking service: Thrift over TLS, within a latency bound",
    benchmark="steelyard.benchmarks.feed.benchmark:FeedSim",
    headline=(
        "requests_per_s_at_slo",
        "slo_low_per_s",
        "slo_high_per_s",
        "requests_per_s",
        "server_cpu_ratio",
        "response_p50_ns",
        "response_p95_ns",
        "response_p99_ns",
        "cpu_per_request_ns",
        "feature_code_bytes",
    ),
    metric_names={
        # The measure phase offers fresh load at the interval's lower end, below the headline's rate.
        "requests_per_s": "rate of the measure phase",
        "server_cpu_ratio": "server CPU at that rate",
        "response_p50_ns": "response p50 at that rate",
        "response_p95_ns": "response p95 at that rate",
        "response_p99_ns": "response p99 at that rate",
    },
    search=(
        SearchRange("users", 1000, 10_000_000, is_log=True, moves=("llc_mpki", "l2_mpki", "dtlb_mpki")),
        SearchRange("connections", 4, 1024, is_log=True, moves=("context_switches_per_s", "latency_p99_ns")),
        SearchRange(
            "compression",
            choices=("none", "snappy", "zstd"),
            moves=("tax_categories", "functions", "response_bytes", "cpu_per_request_ns"),
        ),
        SearchRange("tls", choices=("true", "false"), moves=("tax_categories", "functions")),
        SearchRange(
            "leaf_delay",
            choices=("none", "constant:50ms", "lognormal:150ms:0.35", "constant:300ms"),
            moves=("latency_p50_ns", "latency_p95_ns", "cpu_idle_ratio"),
        ),
    ),
    suites=(*TIERS, "dcperf"),
    order=2,
    sections="steelyard.benchmarks.feed.section:sections",
)
