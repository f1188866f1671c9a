"""What belongs to the benchmark of Django."""

from steelyard.bench.declaration import Declaration
from steelyard.bench.stack.recipe import Packages, Recipe

VIEWS = {"feed_timeline": 30, "timeline": 30, "seen": 5, "inbox": 20, "bundle_tray": 15}
"""The views and their shares of the requests, percent, as in DCPerf's DjangoBench."""

DECLARATION = Declaration(
    name="django",
    title="DjangoBench",
    doc="a photo network's application: Django on uWSGI, Cassandra",
    benchmark="steelyard.bench.django.benchmark:DjangoBench",
    headline=(
        "requests_per_s",
        "response_p50_ns",
        "response_p99_ns",
        *(f"{view}_p95_ns" for view in VIEWS),
        "server_cpu_ratio",
        "load_cpu_share_ratio",
        "hit_ratio",
        "requests_per_server_cpu_s",
        "ready_s",
    ),
    suites=("dcperf", "cloudsuite"),
    order=11,
    sections="steelyard.report.bench.django:sections",
    metric_names={
        "hit_ratio": "memcached hit ratio",
        "load_cpu_share_ratio": "load's share of the CPU time",
        "ready_s": "start to ready",
        "uwsgi_cpu_share_ratio": "uWSGI's share of the servers' CPU time",
        "cassandra_cpu_share_ratio": "Cassandra's share of the servers' CPU time",
        "memcached_cpu_share_ratio": "memcached's share of the servers' CPU time",
    },
    recipe=Recipe(
        packages=Packages(
            apt=("openjdk-17-jre-headless", "maven", "memcached", "python3", "python3-venv"),
            dnf=("java-17-openjdk-headless", "maven", "memcached", "python3.11"),
        ),
        programs=("java", "memcached"),
        payload="django",
        disk_bytes=500 << 20,
    ),
)
