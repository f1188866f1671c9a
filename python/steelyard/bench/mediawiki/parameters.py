"""The parameters of the MediaWiki benchmark, declared once."""

from steelyard.bench.parameters import Parameter

_DAY_S = 86_400.0

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
    Parameter(
        "rate",
        "per_second",
        "offered rate; 0 for a closed loop",
        default=0.0,
        minimum=0.0,
        maximum=1e9,
    ),
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
    Parameter(
        "warmup_min",
        "seconds",
        "minimum length of the warm-up",
        derived="per tier",
        minimum=0.0,
        maximum=_DAY_S,
    ),
    Parameter(
        "warmup_max",
        "seconds",
        "maximum length of the warm-up; the verdict reports unsettled throughput",
        derived="per tier",
        minimum=0.1,
        maximum=_DAY_S,
    ),
    Parameter(
        "measure", "seconds", "length of the measure phase", derived="per tier", minimum=1.0, maximum=_DAY_S
    ),
    Parameter("port", "count", "port of nginx; 0 for a free one", default=0, minimum=0, maximum=65535),
    Parameter(
        "seed", "count", "seed of the load's random choices", derived="random", minimum=0, maximum=2**53
    ),
)
