"""What belongs to the benchmark of text classification."""

from steelyard.bench.declaration import Declaration
from steelyard.benchmarks.hadoop.recipe import RECIPE

DECLARATION = Declaration(
    name="bayes",
    title="Bayes classification",
    doc="texts classified by complement naive Bayes, as jobs of Hadoop MapReduce",
    benchmark="steelyard.benchmarks.bayes.benchmark:BayesBench",
    headline=(
        "documents_per_s",
        "input_bytes_per_s",
        "jobs_per_hour",
        "count_map_s",
        "train_map_s",
        "classify_map_s",
        "accuracy_ratio",
        "shuffle_bytes",
        "spilled_records",
        "gc_ratio",
        "server_cpu_ratio",
    ),
    suites=("characterization",),
    order=41,
    sections="steelyard.benchmarks.hadoop.section:sections",
    metric_names={
        "round_s": "time of the three jobs",
        "count_map_s": "counting terms",
        "train_map_s": "training",
        "classify_map_s": "classification",
        "accuracy_ratio": "accuracy",
        "recognisable_ratio": "best possible accuracy",
        "skipped_ratio": "skipped of the corpus",
        "gc_ratio": "garbage collection's share of task time",
        "task_cpu_ratio": "CPU use of tasks",
        "spilled_ratio": "spills of a record",
    },
    recipe=RECIPE,
)
