"""What may be asked: a tuning, or the sweep of one knob.

Each field is a flag (``_base.request``). It imports nothing heavy: the help of every command is made of it.
Not here: what a request begins (``begin``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated

from steelyard._base.request import Option
from steelyard.bench.options import (
    RUNS,
    Budget,
    Chosen,
    Compared,
    Hooks,
    LeastEffect,
    Ops,
    OrderSeed,
    Out,
    Tier,
    Timeout,
    Window,
)

Command = Annotated[Sequence[str], Option("Command of a trial.", metavar="[-- CMD...]", is_argument=True)]
Benchmark = Annotated[str | None, Option("Benchmark of a trial.", metavar="NAME")]
UserFile = Annotated[
    Path | None, Option("Knobs and guardrails of your own.", flag="--knobs", metavar="FILE.toml")
]
LowerIsBetter = Annotated[bool, Option("With a REGEX or --ops: smaller numbers are better.")]
Settle = Annotated[str, Option("Time before a trial, after changes.", metavar="TIME")]
Root = Annotated[Path, Option("Root of /proc, /sys and /dev.", metavar="DIR")]


@dataclass(frozen=True, kw_only=True)
class TuneRequest:
    """What is tuned, by which knobs, and how it is judged."""

    command: Command = ()
    benchmark: Benchmark = None
    sources: Ops = ()
    window: Window = None
    knobs: Annotated[
        Sequence[str],
        Option(
            "Try this knob, a parameter, a {NAME} in CMD, memory_max or env:NAME; by default what --risk"
            " allows.",
            flag="--knob",
            metavar="NAME[=LEVEL,...]",
        ),
    ] = ()
    user_file: UserFile = None
    risk: Annotated[str, Option("Most that knobs may risk: low, medium or high.")] = "low"
    guards: Annotated[
        Sequence[str],
        Option(
            "Drop a level whose run breaches this bound; repeatable.", flag="--guard", metavar="METRIC<=N"
        ),
    ] = ()
    strategy: Annotated[str, Option("Order of trials: one-at-a-time, hill-climb, exhaustive or optuna.")] = (
        "one-at-a-time"
    )
    metric: Annotated[
        str | None,
        Option(
            "What to improve: a metric of the benchmark, a source's name, elapsed_s, cpu_s, or a number"
            " in the output.",
            metavar="NAME[=REGEX]",
        ),
    ] = None
    lower_is_better: LowerIsBetter = False
    least_effect: LeastEffect = "1%"
    blocks: Annotated[int, Option("Most blocks; each tries every arm once.")] = 40
    confirm_blocks: Annotated[int, Option("Blocks of the confirmation.")] = 40
    budget: Budget = None
    settle: Settle = "0s"
    chosen: Chosen = field(default_factory=dict)
    tier: Tier = None
    hooks: Hooks = ()
    seed: OrderSeed = None
    timeout: Timeout = "10min"
    resume: Annotated[
        Path | None,
        Option("Go on with the interrupted tuning in this folder.", metavar="DIR", anew=True),
    ] = None
    advice: Annotated[bool, Option("Show what would be tried, and change nothing.")] = False
    root: Root = Path("/")
    out: Out = RUNS
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Levels by knob, of a tuning that goes on."""


@dataclass(frozen=True, kw_only=True)
class SweepRequest:
    """Which knob is swept, and under what."""

    knob: Annotated[
        str,
        Option("The knob; by default all of its levels.", metavar="KNOB[=LEVEL,...]", is_argument=True),
    ]
    command: Command = ()
    benchmark: Benchmark = None
    sources: Ops = ()
    window: Window = None
    user_file: UserFile = None
    metric: Compared = None
    lower_is_better: LowerIsBetter = False
    least_effect: LeastEffect = "1%"
    blocks: Annotated[int, Option("Most blocks; each tries every level once.")] = 40
    budget: Budget = None
    settle: Settle = "0s"
    chosen: Chosen = field(default_factory=dict)
    tier: Tier = None
    hooks: Hooks = ()
    seed: OrderSeed = None
    timeout: Timeout = "10min"
    root: Root = Path("/")
    out: Out = RUNS

    def as_tuning(self) -> TuneRequest:
        """Return the tuning of this knob alone, without its confirmation."""
        shared = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "knob"}
        return TuneRequest(knobs=(self.knob,), **shared)
