"""What belongs to the benchmark of Nutch's indexing."""

from steelyard.bench.declaration import Declaration
from steelyard.benchmarks.hadoop.recipe import RECIPE

DECLARATION = Declaration(
    name="nutch",
    title="Nutch indexing",
    doc="a generated crawl, parsed and indexed with Lucene by Hadoop MapReduce",
    benchmark="steelyard.benchmarks.nutch.benchmark:NutchBench",
    headline=(
        "documents_per_s",
        "input_bytes_per_s",
        "jobs_per_hour",
        "map_s",
        "reduce_s",
        "shuffle_bytes",
        "spilled_records",
        "gc_ratio",
        "server_cpu_ratio",
    ),
    suites=("characterization",),
    order=40,
    sections="steelyard.benchmarks.hadoop.section:sections",
    metric_names={
        "round_s": "time of a job",
        "map_s": "map tasks",
        "reduce_s": "reduce tasks",
        "gc_ratio": "garbage collection's share of task time",
        "task_cpu_ratio": "CPU use of tasks",
        "spilled_ratio": "spills of a record",
    },
    recipe=RECIPE,
)
