"""Steelyard for programs: the verbs of the command line as functions that return results.

    import steelyard

    run = steelyard.read("runs/20261121-024500-004-tao-quick-1f3a")
    run.metrics["requests_per_s"].value
    steelyard.compare("runs/A", "runs/B").to_pandas()

In: paths and options, named as on the command line. Out: a `Result`: the typed result that ``--json`` prints,
the answer that a terminal shows, and every figure of it as rows, an Arrow table or a data frame. Nothing goes
to standard output, and only what measures shows its progress, on standard error; an expected error is a
``SteelyardError`` with a hint.

Invariants: the names in ``__all__`` and their parameters are stable and held by a test; they are also names
of ``steelyard``, loaded when they are asked for.

Not here: anything that a command cannot do.
"""

from steelyard._base import SteelyardError
from steelyard.api.comparing import compare
from steelyard.api.deciding import choose, project, score, size
from steelyard.api.fleet import FleetStore, open_store
from steelyard.api.measuring import run, run_experiment, this_machine
from steelyard.api.reading import Reading, read
from steelyard.api.result import Figure, Result

__all__ = [
    "Figure",
    "FleetStore",
    "Reading",
    "Result",
    "SteelyardError",
    "choose",
    "compare",
    "open_store",
    "project",
    "read",
    "run",
    "run_experiment",
    "score",
    "size",
    "this_machine",
]
