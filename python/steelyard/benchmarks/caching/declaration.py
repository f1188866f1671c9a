"""What belongs to the benchmark of data caching."""

from steelyard.bench.declaration import Declaration
from steelyard.benchmarks.memcached.stack.recipe import HEADLINE, RECIPE

DECLARATION = Declaration(
    name="caching",
    title="Data caching",
    doc="memcached with small objects of skewed popularity, as Twitter's",
    benchmark="steelyard.benchmarks.caching.benchmark:DataCaching",
    headline=HEADLINE,
    suites=("cloudsuite",),
    order=40,
    recipe=RECIPE,
)
