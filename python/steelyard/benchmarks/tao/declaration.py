"""What belongs to TaoBench."""

from steelyard.bench.declaration import Declaration
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
    suites=(*TIERS, "dcperf"),
    order=1,
    leaves=("cache-stats",),
)
