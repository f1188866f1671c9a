"""What belongs to the benchmark of Cassandra."""

from steelyard.bench.declaration import Declaration
from steelyard.benchmarks.cassandra.stack.recipe import RECIPE

DECLARATION = Declaration(
    name="cassandra",
    title="Cassandra",
    doc="Apache Cassandra, one node, under YCSB's workloads A to F",
    benchmark="steelyard.benchmarks.cassandra.benchmark:CassandraBench",
    headline=(
        "requests_per_s",
        "response_p50_ns",
        "response_p99_ns",
        "server_cpu_ratio",
        "server_cpu_iowait_ratio",
        "disk_read_bytes_per_s",
        "disk_written_bytes_per_s",
        "gc_pause_ratio",
        "gc_pause_max_ns",
        "heap_used_max_bytes",
        "ready_s",
    ),
    suites=("characterization",),
    order=30,
    sections="steelyard.benchmarks.cassandra.section:sections",
    metric_names={
        "server_cpu_iowait_ratio": "server CPUs waiting for disk",
        "gc_pause_ratio": "time in GC pauses",
        "gc_pause_max_ns": "longest GC pause",
        "gc_pauses": "GC pauses",
        "heap_used_max_bytes": "most heap in use after a GC",
        "ready_s": "start to ready",
        "stop_s": "stop",
    },
    recipe=RECIPE,
)
