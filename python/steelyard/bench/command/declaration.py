"""What belongs to the benchmark that repeats a command."""

from steelyard.bench.declaration import Declaration

DECLARATION = Declaration(
    name="command",
    title="Command",
    doc="a command of yours, run again and again: --set command='gzip -k file'",
    benchmark="steelyard.bench.command.benchmark:CommandBench",
    headline=(
        "iterations_per_s",
        "iteration_p50_ns",
        "cpu_per_iteration_ns",
        "server_cpu_ratio",
    ),
    order=60,
    metric_names={
        "iterations_per_s": "iterations",
        "iteration_p50_ns": "iteration, median",
        "cpu_per_iteration_ns": "CPU time of an iteration",
    },
)
"""In no suite: it is nothing without a command."""
