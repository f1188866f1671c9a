"""What belongs to the benchmark of Redis."""

from steelyard.bench.declaration import Declaration
from steelyard.bench.stack.recipe import Packages, Recipe

DECLARATION = Declaration(
    name="redis",
    title="Redis",
    doc="Redis: lpush, lpop, zadd, zrange and sadd, one after the other",
    benchmark="steelyard.benchmarks.redis.benchmark:RedisBench",
    headline=(
        "requests_per_s",
        "lpush_per_s",
        "lpop_per_s",
        "zadd_per_s",
        "zrange_per_s",
        "sadd_per_s",
        "server_cpu_ratio",
        "load_cpu_ratio",
        "network_bytes_per_s",
    ),
    parts=("lpush_per_s", "lpop_per_s", "zadd_per_s", "zrange_per_s", "sadd_per_s"),
    suites=("characterization",),
    sections="steelyard.report.bench.steps:load_sections_by_step",
    order=20,
    recipe=Recipe(
        packages=Packages(apt=("redis-server",), dnf=("redis",)),
        programs=("redis-server",),
        disk_bytes=8 << 20,
    ),
)
