"""What memcached needs to be installed."""

from steelyard.bench.stack.recipe import Packages, Recipe

RECIPE = Recipe(
    packages=Packages(apt=("memcached",), dnf=("memcached",)),
    programs=("memcached",),
    disk_bytes=2 << 20,
)
HEADLINE = (
    "requests_per_s",
    "response_p99_ns",
    "hit_ratio",
    "server_cpu_ratio",
    "network_bytes_per_s",
    "stored_bytes",
    "response_p50_ns",
    "errors",
)
"""Metrics of a benchmark of memcached to show first."""
