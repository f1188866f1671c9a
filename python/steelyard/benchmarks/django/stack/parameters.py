"""The parameters of DjangoBench, declared once."""

from steelyard.bench.load.hosts import HOST_PARAMETERS
from steelyard.bench.load.parameters import length_parameters, port_parameter, rate_parameter, seed_parameter
from steelyard.bench.parameters import Parameter

PARAMETERS = (
    Parameter(
        "processes",
        "count",
        "uWSGI processes",
        derived="the servers' CPUs",
        minimum=1,
        maximum=4096,
    ),
    Parameter(
        "threads",
        "count",
        "threads of each process, of which one at a time runs Python",
        default=2,
        minimum=1,
        maximum=64,
    ),
    Parameter(
        "connections",
        "count",
        "requests in flight",
        derived="1.2 for each thread of uWSGI",
        minimum=1,
        maximum=32_768,
    ),
    Parameter(
        "function_calls",
        "count",
        "generated functions that a request calls, of 6,000",
        default=150,
        minimum=0,
        maximum=100_000,
    ),
    Parameter("users", "count", "users of the network", derived="per tier", minimum=100, maximum=100_000_000),
    Parameter(
        "user_distribution",
        "text",
        "popularity of the users who send requests: uniform or zipf:EXPONENT",
        default="zipf:0.8",
    ),
    Parameter("data_seed", "count", "seed of the network's data", default=1, minimum=0, maximum=2**53),
    Parameter(
        "data",
        "text",
        "existing folder for Cassandra's data, removed after the run; empty for the run's directory",
        default="",
    ),
    Parameter(
        "heap",
        "bytes",
        "heap of Cassandra's Java virtual machine",
        derived="per memory and tier",
        minimum=256 << 20,
    ),
    Parameter("memory", "bytes", "memory of memcached", derived="per tier and user", minimum=16 << 20),
    rate_parameter(),
    Parameter(
        "load_threads",
        "count",
        "load generator threads",
        derived="the load's CPUs, at most 4",
        minimum=1,
        maximum=1024,
    ),
    *length_parameters(),
    port_parameter("the application"),
    *HOST_PARAMETERS,
    seed_parameter("the requests"),
)
