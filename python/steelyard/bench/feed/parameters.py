"""The parameters of FeedSim, declared once."""

from steelyard.bench.parameters import Parameter
from steelyard.bench.placement.parameters import PLACEMENT_PARAMETERS

_DAY_S = 86_400.0

PARAMETERS = (
    Parameter(
        "slo",
        "text",
        "what the rate must meet; what is in flight at the end of a short probe is some percent of it",
        default="p95<=500ms,errors<=0.1%,achieved>=90%",
    ),
    Parameter(
        "instances",
        "count",
        "roots, each with a leaf",
        derived="server CPUs of each NUMA node / 100, up",
        minimum=1,
        maximum=64,
    ),
    Parameter("probes", "count", "loads of the search at most", derived="per tier", minimum=5, maximum=64),
    Parameter(
        "search",
        "seconds",
        "for all of them, warm-ups included",
        derived="per tier",
        minimum=1,
        maximum=_DAY_S,
    ),
    Parameter(
        "probe", "seconds", "least length of each of them", derived="per tier", minimum=0.5, maximum=_DAY_S
    ),
    Parameter(
        "probe_warmup",
        "seconds",
        "least load before each",
        derived="per tier",
        minimum=0.1,
        maximum=_DAY_S,
    ),
    Parameter(
        "confidence",
        "ratio",
        "that the interval holds the capacity",
        default=0.95,
        minimum=0.5,
        maximum=0.999,
    ),
    Parameter(
        "measure", "seconds", "fresh load at the rate found", derived="per tier", minimum=1, maximum=_DAY_S
    ),
    Parameter("sweep_points", "count", "of the curve; 0: none", derived="per tier", minimum=0, maximum=64),
    Parameter("sweep", "seconds", "length of each of them", derived="per tier", minimum=0.5, maximum=_DAY_S),
    Parameter("users", "count", "whose feeds are asked for", default=1_000_000, minimum=1, maximum=2**53),
    Parameter(
        "user_distribution", "text", "popularity of users: uniform or zipf:EXPONENT", default="uniform"
    ),
    Parameter(
        "connections",
        "count",
        "per instance",
        derived="32 for each of its CPUs",
        minimum=1,
        maximum=16_384,
    ),
    Parameter("depth", "count", "requests in flight per connection", default=16, minimum=1, maximum=1024),
    Parameter(
        "load_threads",
        "count",
        "per instance",
        derived="its share of the load's CPUs",
        minimum=1,
        maximum=1024,
    ),
    Parameter("compression", "choice", "of answers", default="zstd", choices=("none", "snappy", "zstd")),
    Parameter(
        "leaf_delay",
        "text",
        "of the simulated backend behind each leaf: none, constant:50ms, exponential:MEAN or"
        " lognormal:MEDIAN:SIGMA",
        default="lognormal:150ms:0.35",
    ),
    Parameter("tls", "flag", "speak TLS 1.3", default=True),
    Parameter(
        "root_flags",
        "text",
        "further flags of `steelyard-rank root`, such as --feature-calls 1000",
        default="",
    ),
    Parameter("leaf_flags", "text", "further flags of `steelyard-rank leaf`", default=""),
    *PLACEMENT_PARAMETERS,
    Parameter(
        "seed",
        "count",
        "of arrivals and users",
        derived="from the system's entropy",
        minimum=0,
        maximum=2**53,
    ),
)
