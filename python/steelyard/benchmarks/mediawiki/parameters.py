"""The parameters of the MediaWiki benchmark, declared once."""

from steelyard.bench.load.hosts import HOST_PARAMETERS
from steelyard.bench.load.parameters import length_parameters, port_parameter, rate_parameter, seed_parameter
from steelyard.bench.parameters import Parameter

PARAMETERS = (
    Parameter(
        "articles",
        "count",
        "number of articles; each has a talk page, and one in a hundred more is long",
        derived="per tier",
        minimum=30,
        maximum=100_000,
    ),
    Parameter(
        "content_seed",
        "count",
        "seed of the wiki's content; the same in every run, so that its data is made only once",
        default=1,
        minimum=0,
        maximum=2**53,
    ),
    Parameter(
        "workers",
        "count",
        "PHP processes",
        derived="2 x server CPUs",
        minimum=1,
        maximum=4096,
    ),
    Parameter(
        "connections",
        "count",
        "connections of the load, each with one request in flight",
        derived="2 x server CPUs",
        minimum=1,
        maximum=32_768,
    ),
    rate_parameter("offered rate"),
    Parameter(
        "load_threads",
        "count",
        "load generator threads",
        derived="1 per 16 server CPUs",
        minimum=1,
        maximum=256,
    ),
    Parameter(
        "popularity",
        "text",
        "popularity of articles: uniform or zipf:EXPONENT",
        default="zipf:0.9",
    ),
    Parameter(
        "database_memory",
        "bytes",
        "buffer pool of MariaDB",
        derived="per tier",
        minimum=32 << 20,
    ),
    Parameter("cache_memory", "bytes", "memory of memcached", derived="per tier", minimum=32 << 20),
    *length_parameters(),
    port_parameter("nginx"),
    *HOST_PARAMETERS,
    seed_parameter("the load's random choices"),
)
