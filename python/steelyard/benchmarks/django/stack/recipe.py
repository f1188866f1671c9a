"""What the application needs to be installed, and what is shown of a benchmark of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from steelyard.bench.stack.recipe import Packages, Recipe
from steelyard.benchmarks.cassandra.stack.recipe import JAVA
from steelyard.benchmarks.cassandra.stack.recipe import PAYLOAD as CASSANDRA

PAYLOAD = "django"
RECIPE = Recipe(
    packages=Packages(
        apt=("maven", "memcached", "python3", "python3-venv"),
        dnf=("maven", "memcached", "python3.11"),
    ),
    programs=("memcached",),
    java=JAVA,
    shared_payloads=(CASSANDRA,),
    payload=PAYLOAD,
    disk_bytes=500 << 20,
)
METRIC_NAMES = {
    "hit_ratio": "memcached hit ratio",
    "load_cpu_share_ratio": "load's share of the CPU time",
    "ready_s": "start to ready",
    "uwsgi_cpu_share_ratio": "uWSGI's share of the servers' CPU time",
    "cassandra_cpu_share_ratio": "Cassandra's share of the servers' CPU time",
    "memcached_cpu_share_ratio": "memcached's share of the servers' CPU time",
}


@dataclass(frozen=True, slots=True)
class View:
    """One kind of request."""

    name: str
    weight: int
    """Its share of the requests, percent."""
    is_form: bool = False
    """Whether it sends a form."""


def headline(views: Sequence[View]) -> tuple[str, ...]:
    """Return the metrics of an application with these views, the most important first."""
    return (
        "requests_per_s",
        "response_p50_ns",
        "response_p99_ns",
        *(f"{view.name}_p95_ns" for view in views),
        "server_cpu_ratio",
        "load_cpu_share_ratio",
        "hit_ratio",
        "requests_per_server_cpu_s",
        "ready_s",
    )
