"""What belongs to the benchmark of memcached."""

from steelyard.bench.declaration import Declaration
from steelyard.benchmarks.memcached.stack.recipe import HEADLINE, RECIPE

DECLARATION = Declaration(
    name="memcached",
    title="Memcached",
    doc="memcached: keys of 32 bytes, values of 25 KB (image previews)",
    benchmark="steelyard.benchmarks.memcached.benchmark:MemcachedBench",
    headline=HEADLINE,
    suites=("characterization",),
    order=21,
    recipe=RECIPE,
)
