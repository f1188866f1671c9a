"""The parameters of FeedSim, declared once."""

from steelyard.bench.parameters import Parameter
from steelyard.bench.placement.parameters import PLACEMENT_PARAMETERS

_DAY_S = 86_400.0

PARAMETERS = (
    Parameter(
        "slo",
        "text",
        "objective that the rate must meet; a short probe ends with some percent of requests in flight",
        default="p95<=500ms,errors<=0.1%,achieved>=90%",
    ),
    Parameter(
        "instances",
        "count",
        "number of roots, each with one leaf",
        derived="server CPUs of each NUMA node / 100, rounded up",
        minimum=1,
        maximum=64,
    ),
    Parameter(
        "probes", "count", "maximum number of loads of the search", derived="per tier", minimum=5, maximum=64
    ),
    Parameter(
        "search",
        "seconds",
        "total time of the search, including warm-ups",
        derived="per tier",
        minimum=1,
        maximum=_DAY_S,
    ),
    Parameter(
        "probe",
        "seconds",
        "minimum length of a load of the search",
        derived="per tier",
        minimum=0.5,
        maximum=_DAY_S,
    ),
    Parameter(
        "probe_warmup",
        "seconds",
        "minimum length of its warm-up",
        derived="per tier",
        minimum=0.1,
        maximum=_DAY_S,
    ),
    Parameter(
        "confidence",
        "ratio",
        "confidence that the interval holds the capacity",
        default=0.95,
        minimum=0.5,
        maximum=0.999,
    ),
    Parameter(
        "measure",
        "seconds",
        "length of the measure phase, at the rate found",
        derived="per tier",
        minimum=1,
        maximum=_DAY_S,
    ),
    Parameter(
        "sweep_points",
        "count",
        "number of points of the latency curve; 0 for none",
        derived="per tier",
        minimum=0,
        maximum=64,
    ),
    Parameter(
        "sweep", "seconds", "length of the load of a point", derived="per tier", minimum=0.5, maximum=_DAY_S
    ),
    Parameter(
        "users",
        "count",
        "number of users whose feeds are requested",
        default=1_000_000,
        minimum=1,
        maximum=2**53,
    ),
    Parameter(
        "user_distribution", "text", "popularity of users: uniform or zipf:EXPONENT", default="uniform"
    ),
    Parameter(
        "connections",
        "count",
        "connections per instance",
        derived="32 for each of its CPUs",
        minimum=1,
        maximum=16_384,
    ),
    Parameter("depth", "count", "requests in flight per connection", default=16, minimum=1, maximum=1024),
    Parameter(
        "load_threads",
        "count",
        "load generator threads per instance",
        derived="its share of the load's CPUs",
        minimum=1,
        maximum=1024,
    ),
    Parameter(
        "compression", "choice", "compression of answers", default="zstd", choices=("none", "snappy", "zstd")
    ),
    Parameter(
        "leaf_delay",
        "text",
        "delay of the simulated backend of a leaf: none, constant:50ms, exponential:MEAN or"
        " lognormal:MEDIAN:SIGMA",
        default="lognormal:150ms:0.35",
    ),
    Parameter("tls", "flag", "use TLS 1.3", default=True),
    Parameter(
        "root_flags",
        "text",
        "more flags of `steelyard-rank root`, such as --feature-calls 1000",
        default="",
    ),
    Parameter("leaf_flags", "text", "more flags of `steelyard-rank leaf`", default=""),
    *PLACEMENT_PARAMETERS,
    Parameter(
        "seed",
        "count",
        "seed of arrivals and users",
        derived="random",
        minimum=0,
        maximum=2**53,
    ),
)
