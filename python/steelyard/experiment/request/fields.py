"""What may be asked: an experiment, a scaling curve, a NUMA experiment.

Each field is a flag and a key (``_base.request``). It imports nothing heavy: the help of every command is
made of it. Not here: what a request begins (``record``, ``curve``, ``scenarios``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
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
    OrderSeed,
    Out,
    Tier,
    Timeout,
    ToTheEnd,
    Window,
)

Resume = Annotated[
    Path | None,
    Option("Go on with the interrupted experiment in this folder.", metavar="DIR", key=None, anew=True),
]


@dataclass(frozen=True)
class Variant:
    """An arm of a file."""

    name: str
    values: dict[str, str]
    """Settings of a benchmark, or what stands in the places of a command."""
    command: Sequence[str] = ()
    factors: dict[str, str] = field(default_factory=dict)
    """Its level of each factor, where arms are their combinations."""


@dataclass(frozen=True, kw_only=True)
class ExperimentRequest:
    """What an experiment compares, how, and for how long."""

    words: Annotated[
        Sequence[str],
        Option(
            "What a trial runs, an experiment in a file, or the folder of one to show.",
            metavar="[BENCHMARK|DIR|FILE.toml|-- CMD...]",
            is_argument=True,
            key=None,
        ),
    ] = ()
    """A benchmark, the folder of an experiment, or a command with places for the levels of a sweep."""
    a: Annotated[str | None, Option("First arm: NAME=VALUE,... or a command.", metavar="ARM", key=None)] = (
        None
    )
    b: Annotated[str | None, Option("Second arm.", metavar="ARM", key=None)] = None
    sweep: Annotated[
        str | None,
        Option(
            "An arm for each value of a parameter, or of {NAME} in CMD.", metavar="NAME=VALUE,...", key=None
        ),
    ] = None
    metric: Compared = None
    lower_is_better: Annotated[bool, Option("With a REGEX or --from: smaller numbers are better.")] = False
    intervals: Annotated[
        bool, Option("With a REGEX: each match is an interval; average them once they settled.")
    ] = False
    least_effect: LeastEffect = "1%"
    guards: Annotated[
        Sequence[str],
        Option(
            "Another metric that must not get worse than this share; +5% where more of it is worse.",
            flag="--guard",
            metavar="NAME[=REGEX]=MARGIN",
        ),
    ] = ()
    readings: Annotated[
        Sequence[str],
        Option(
            "Another number of the output to keep; p99_... is drawn over a sweep.",
            flag="--reading",
            metavar="NAME=REGEX",
        ),
    ] = ()
    sources: Annotated[
        Sequence[str],
        Option(
            "Look at a running service, as `characterize --ops`; arms are commands that change it.",
            flag="--ops",
            metavar="SOURCE",
            key="ops",
        ),
    ] = ()
    window: Window = None
    hosts: Annotated[
        str | None,
        Option("Try both arms at once on two hosts, which change places.", metavar="A,B", has_commas=True),
    ] = None
    ssh: Annotated[str, Option("ssh and its options, for --hosts.")] = "ssh"
    remote_command: Annotated[str, Option("steelyard on the hosts, for benchmarks.", metavar="PATH")] = (
        "steelyard"
    )
    blocks: Annotated[int, Option("Most blocks; each tries every arm once.")] = 40
    budget: Budget = None
    to_the_end: ToTheEnd = False
    chosen: Chosen = field(default_factory=dict)
    tier: Tier = None
    hooks: Hooks = ()
    seed: OrderSeed = None
    timeout: Timeout = "10min"
    resume: Resume = None
    source: Annotated[
        Path | None,
        Option(
            "Analyse values that were measured elsewhere; run nothing.",
            flag="--from",
            metavar="FILE.csv",
            key=None,
        ),
    ] = None
    plan: Annotated[
        bool, Option("Show how many blocks earlier experiments call for; run nothing.", key=None)
    ] = False
    pilot: Annotated[
        int | None,
        Option("Try the first arm beside itself in N blocks, for the blocks needed.", metavar="N", key=None),
    ] = None
    out: Out = RUNS
    variants: tuple[Variant, ...] = ()
    """Arms of a file; flags name none then."""


@dataclass(frozen=True, kw_only=True)
class CurveRequest:
    """Of what a scaling curve is made, and what is to be said of it."""

    words: Annotated[
        Sequence[str],
        Option(
            "What a trial runs ({cpus} is the number of CPUs), or the folder of a curve to show.",
            metavar="[BENCHMARK|DIR|-- CMD...]",
            is_argument=True,
        ),
    ] = ()
    steps: Annotated[
        str | None,
        Option("Numbers of CPUs to try (1, 2, 4 ... and all).", metavar="N,N,...", has_commas=True),
    ] = None
    metric: Annotated[
        str | None,
        Option(
            "Throughput: a metric of the benchmark, a number in the output, or elapsed_s.",
            metavar="NAME[=REGEX]",
        ),
    ] = None
    readings: Annotated[
        Sequence[str],
        Option(
            "Another number of the output to show by step, such as latency_p99_us; repeatable.",
            flag="--reading",
            metavar="NAME=REGEX",
        ),
    ] = ()
    blocks: Annotated[int, Option("Blocks; each tries every step once.", least=1)] = 5
    budget: Budget = None
    profile: Annotated[
        bool, Option("Sample stacks of a command at both ends, or not.", has_no=True, anew=True)
    ] = True
    chosen: Chosen = field(default_factory=dict)
    tier: Tier = None
    hooks: Hooks = ()
    seed: OrderSeed = None
    timeout: Timeout = "10min"
    resume: Annotated[
        Path | None, Option("Go on with the interrupted curve in this folder.", metavar="DIR", anew=True)
    ] = None
    source: Annotated[
        Path | None, Option("Analyse a curve that was measured elsewhere.", flag="--from", metavar="FILE.csv")
    ] = None
    profile_low: Annotated[
        Path | None,
        Option("Profile or `perf report` of the fewest CPUs, measured elsewhere.", metavar="FILE", anew=True),
    ] = None
    profile_high: Annotated[Path | None, Option("The same of the most CPUs.", metavar="FILE", anew=True)] = (
        None
    )
    predict: Annotated[
        Sequence[int],
        Option(
            "Predict throughput at N CPUs (or threads), measured or not; repeatable.",
            metavar="N",
            least=1,
            anew=True,
        ),
    ] = ()
    sibling_worth: Annotated[
        float | None,
        Option(
            "For --predict: what second threads of cores add, of what the cores do alone, as 0.3.",
            metavar="RATIO",
            least=0,
            most=1,
            is_share=True,
            anew=True,
        ),
    ] = None
    siblings_of: Annotated[
        Sequence[Path],
        Option(
            "The same from the curve of another machine with this processor; repeatable.",
            metavar="FILE.csv",
            anew=True,
        ),
    ] = ()
    out: Out = RUNS


@dataclass(frozen=True, kw_only=True)
class ScenarioRequest:
    """Of what six placements between two nodes are tried."""

    words: Annotated[
        Sequence[str],
        Option(
            "What a trial runs, or the folder of an experiment to show.",
            metavar="[BENCHMARK|DIR|-- CMD...]",
            is_argument=True,
        ),
    ] = ()
    co_runners: Annotated[
        Sequence[str],
        Option(
            "A command or benchmark on the other cores; repeatable.",
            flag="--with",
            metavar="WORKLOAD",
            key="with",
        ),
    ] = ()
    nodes: Annotated[
        str | None,
        Option("The two nodes; by default the largest, farthest apart.", metavar="A,B", has_commas=True),
    ] = None
    cores: Annotated[
        int | None, Option("Cores of the workload; by default those of a node.", metavar="N")
    ] = None
    every_thread: Annotated[bool, Option("Use all hardware threads of a core, not one.")] = False
    plan: Annotated[bool, Option("Show the scenarios and run nothing.")] = False
    root: Annotated[
        Path | None, Option("With --plan: a recorded machine (a folder or .tar.bz2).", metavar="TREE")
    ] = None
    figures: Annotated[
        Path | None,
        Option("Figures measured elsewhere: scenario, replicate and a metric.", flag="--from", metavar="CSV"),
    ] = None
    store: Annotated[
        str | None,
        Option(
            "Compare with what a fleet's store shows of --job.",
            flag="--from-fleet",
            metavar="STORE",
            anew=True,
        ),
    ] = None
    job: Annotated[str | None, Option("The job of --from-fleet.", anew=True)] = None
    fleet_metric: Annotated[
        str | None,
        Option("Figure of the job: cpu_per_operation, cpi, latency_mean, ...", metavar="NAME", anew=True),
    ] = None
    metric: Compared = None
    lower_is_better: Annotated[bool, Option("With a REGEX or CSV: smaller numbers are better.")] = False
    least_effect: LeastEffect = "1%"
    blocks: Annotated[int, Option("Most blocks; each tries every scenario once.")] = 40
    budget: Budget = None
    to_the_end: ToTheEnd = False
    chosen: Chosen = field(default_factory=dict)
    tier: Tier = None
    hooks: Hooks = ()
    seed: OrderSeed = None
    timeout: Timeout = "10min"
    resume: Resume = None
    out: Out = RUNS
