"""What belongs to FeedSim."""

from steelyard.bench.declaration import Declaration
from steelyard.bench.tiers import TIERS

DECLARATION = Declaration(
    name="feed",
    title="FeedSim",
    doc="a feed's ranking service: Thrift over TLS, within a latency bound",
    benchmark="steelyard.bench.feed.benchmark:FeedSim",
    headline=(
        "requests_per_s_at_slo",
        "slo_low_per_s",
        "slo_high_per_s",
        "server_cpu_ratio",
        "response_p50_ns",
        "response_p95_ns",
        "response_p99_ns",
        "cpu_per_request_ns",
        "feature_code_bytes",
    ),
    suites=(*TIERS, "dcperf"),
    order=2,
    sections="steelyard.report.bench.feed:sections",
)
