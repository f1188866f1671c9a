"""What belongs to SparkBench."""

from steelyard.bench.declaration import Declaration
from steelyard.benchmarks.spark.stack.recipe import RECIPE

DECLARATION = Declaration(
    name="spark",
    title="SparkBench",
    doc="a Spark SQL query in three stages over generated tables",
    benchmark="steelyard.benchmarks.spark.benchmark:SparkBench",
    headline=(
        "queries_per_hour",
        "query_s",
        "first_scan_s",
        "second_scan_s",
        "compare_s",
        "rows_per_s",
        "read_bytes_per_s",
        "shuffle_bytes",
        "spill_bytes",
        "gc_ratio",
        "server_cpu_ratio",
    ),
    suites=("dcperf",),
    sections="steelyard.benchmarks.spark.section:sections",
    order=15,
    metric_names={
        "queries_per_hour": "queries per hour",
        "query_s": "time of a query",
        "first_scan_s": "first scan",
        "second_scan_s": "second scan",
        "compare_s": "comparison",
        "gc_ratio": "garbage collection's share of task time",
        "executor_cpu_ratio": "CPU use of tasks",
        "executor_hosts": "hosts of executors",
        "host_cpu_skew_ratio": "CPU time of the busiest host over the mean",
    },
    recipe=RECIPE,
)
