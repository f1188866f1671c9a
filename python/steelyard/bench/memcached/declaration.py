"""What belongs to the benchmark of memcached."""

from steelyard.bench.declaration import Declaration
from steelyard.bench.stack.recipe import Packages, Recipe

DECLARATION = Declaration(
    name="memcached",
    title="Memcached",
    doc="memcached: keys of 32 bytes, values of 25 KB (image previews)",
    benchmark="steelyard.bench.memcached.benchmark:MemcachedBench",
    headline=(
        "requests_per_s",
        "response_p99_ns",
        "hit_ratio",
        "server_cpu_ratio",
        "network_bytes_per_s",
        "stored_bytes",
        "response_p50_ns",
        "errors",
    ),
    suites=("characterization",),
    order=21,
    recipe=Recipe(
        packages=Packages(apt=("memcached",), dnf=("memcached",)),
        programs=("memcached",),
        disk_bytes=2 << 20,
    ),
)
