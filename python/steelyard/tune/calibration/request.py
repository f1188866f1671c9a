"""What may be asked of ``steelyard fidelity``: two workloads, or a benchmark to calibrate to one.

Each field is a flag (``_base.request``). It imports nothing heavy: the help of the command is made of it.
Not here: what a request means (``cli.decide``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from steelyard._base.request import Option
from steelyard.bench.options import RUNS, Chosen, Hooks, OrderSeed, Out, Tier


@dataclass(frozen=True, kw_only=True)
class FidelityRequest:
    """Which workloads are compared, or which benchmark is brought near which."""

    words: Annotated[
        Sequence[str],
        Option(
            "A run (id, folder, latest), a file of metrics (.toml, .json, .csv) or of perf stat, or a fleet's"
            " job (STORE#JOB); with --calibrate the target alone.",
            metavar="A B",
            is_argument=True,
        ),
    ] = ()
    calibrate: Annotated[
        str | None,
        Option("Search settings of this benchmark that bring it near the target.", metavar="BENCHMARK"),
    ] = None
    vary: Annotated[
        Sequence[str],
        Option(
            "Search this parameter in a range, or among values (A,B,C); by default those that the benchmark"
            " declares. Repeatable.",
            metavar="NAME=LOW..HIGH[:log]",
        ),
    ] = ()
    hold_out: Annotated[
        Sequence[str],
        Option(
            "Hide this metric from the search; repeatable. By default every third.",
            metavar="METRIC",
        ),
    ] = ()
    trials: Annotated[int, Option("Trials of the search.", metavar="N", least=1)] = 24
    budget: Annotated[
        str | None, Option("Begin no trial after this time, such as 10min.", metavar="TIME")
    ] = None
    repeat: Annotated[int, Option("Fresh runs before and after, which check the result.", least=1)] = 3
    chosen: Chosen = field(default_factory=dict)
    tier: Tier = None
    hooks: Hooks = ()
    seed: OrderSeed = None
    runs: Annotated[Path, Option("Folder of earlier runs.", metavar="DIR")] = RUNS
    out: Out = RUNS
