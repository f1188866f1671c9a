"""The parameters of TaoBench, declared once."""

from steelyard.bench.load.parameters import length_parameters, port_parameter, rate_parameter, seed_parameter
from steelyard.bench.parameters import Parameter
from steelyard.bench.placement.parameters import PLACEMENT_PARAMETERS

MOST_CONNECTIONS = 32_768
"""In all, as in DCPerf's TaoBench of 2025."""

PARAMETERS = (
    Parameter(
        "memory",
        "bytes",
        "total memory of all servers",
        derived="per tier and server CPU, at most 0.75 of memory",
        minimum=8 << 20,
    ),
    Parameter(
        "instances",
        "count",
        "number of servers",
        derived="server CPUs of each NUMA node / 72, rounded up",
        minimum=1,
        maximum=1024,
    ),
    Parameter(
        "fast_threads",
        "count",
        "fast threads per server",
        derived="0.75 x its CPUs, rounded up",
        minimum=1,
        maximum=1024,
    ),
    Parameter(
        "slow_threads",
        "count",
        "slow threads per server",
        derived="3 x fast threads",
        minimum=1,
        maximum=4096,
    ),
    Parameter(
        "load_threads",
        "count",
        "load generator threads per server",
        derived="its share of the load's CPUs",
        minimum=1,
        maximum=4096,
    ),
    Parameter(
        "connections",
        "count",
        "connections per server",
        derived="380 x load threads",
        minimum=1,
        maximum=MOST_CONNECTIONS,
    ),
    Parameter("depth", "count", "requests in flight per connection", default=1, minimum=1, maximum=1024),
    rate_parameter("offered rate per server"),
    Parameter(
        "arrival",
        "choice",
        "arrivals of an open loop (rate above 0)",
        default="poisson",
        choices=("constant", "poisson"),
    ),
    Parameter(
        "target_hit_ratio",
        "ratio",
        "hit ratio that sets the number of keys",
        default=0.9,
        minimum=0.01,
        maximum=0.999,
    ),
    Parameter(
        "keys",
        "count",
        "keys per server",
        derived="from memory and target_hit_ratio",
        minimum=1,
        maximum=10**12,
    ),
    Parameter(
        "key_distribution",
        "text",
        "popularity of keys: uniform or zipf:EXPONENT",
        derived="data/tao/popularity.json",
    ),
    Parameter(
        "backend_delay",
        "text",
        "delay of a miss: none, constant:50us, exponential:MEAN or lognormal:MEDIAN:SIGMA",
        default="none",
    ),
    *length_parameters("an unsettled hit ratio"),
    Parameter(
        "window",
        "seconds",
        "length of one sample of the hit ratio",
        derived="per tier",
        minimum=0.1,
        maximum=60.0,
    ),
    Parameter(
        "io",
        "choice",
        "I/O interface of the load generator",
        default="auto",
        choices=("auto", "uring", "epoll"),
    ),
    port_parameter("the first server"),
    *PLACEMENT_PARAMETERS,
    seed_parameter("random choices"),
    Parameter(
        "server_command",
        "text",
        "command of a memcached-compatible server to measure instead; {port}, {threads}, {memory_mib} and"
        " {connections} are replaced",
        default="",
    ),
)
