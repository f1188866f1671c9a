"""What may be asked: runs, a characterization, two workloads beside each other.

Each field is a flag (``_base.request``). It imports nothing heavy: the help of every command is made of it.
Not here: what a request means (``launch``, ``characterize``, ``colocation``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from steelyard._base import UsageError
from steelyard._base.request import Option
from steelyard.bench.options import RUNS, Chosen, Hooks, LoadCpus, Out, ServerCpus, Tier

DEFAULT_SUITE = "quick"
MOST_TAG_LETTERS = 100
HOSTS = "hosts"
"""Parameter of the hosts that make the load."""
SetLimits = Annotated[
    Sequence[str],
    Option(
        "Limit an interface or disk during each run of a benchmark (lo=1Gbit, sda=200MB); repeatable.",
        flag="--set-limit",
        metavar="PART=RATE",
    ),
]


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """Which benchmarks are run, how often, and with what settings."""

    name: Annotated[str, Option("Suite or benchmark; see `steelyard list`.", is_argument=True)] = (
        DEFAULT_SUITE
    )
    tier: Tier = None
    repeat: Annotated[int, Option("Number of runs of each benchmark.")] = 1
    chosen: Chosen = field(default_factory=dict)
    server_cpus: ServerCpus = None
    load_cpus: LoadCpus = None
    hooks: Hooks = ()
    baseline: Annotated[
        str | None, Option("Baseline machine to score against.", metavar="NAME", anew=True)
    ] = None
    hosts: Annotated[
        Sequence[str],
        Option("Make the load on this host, over ssh; repeatable.", flag="--host", metavar="HOST"),
    ] = ()
    tags: Annotated[
        Sequence[str],
        Option("Tag of the runs, such as nightly or commit=ab12; repeatable.", flag="--tag", metavar="TAG"),
    ] = ()
    plan: Annotated[bool, Option("Show the CPUs and memory of each process, and run nothing.", anew=True)] = (
        False
    )
    preflight: Annotated[
        bool, Option("Show time, memory and disk of each member, and run nothing.", anew=True)
    ] = False
    resume: Annotated[
        str | None,
        Option("Go on with an interrupted suite: a directory, an id or latest.", metavar="SUITE", anew=True),
    ] = None
    root: Annotated[
        Path | None,
        Option("With --plan: a recorded machine (a folder or .tar.bz2).", metavar="DIR", anew=True),
    ] = None
    out: Out = RUNS
    goes_on: Path | None = None
    """Directory of the suite that goes on."""

    def check_tags(self) -> None:
        """Raise UsageError for a tag that no list could show."""
        for tag in self.tags:
            if not tag.strip() or not tag.isprintable() or "," in tag or len(tag) > MOST_TAG_LETTERS:
                raise UsageError(
                    f"--tag {tag[:MOST_TAG_LETTERS]!r}: a tag has 1 to {MOST_TAG_LETTERS} letters, no comma"
                )

    @property
    def settings(self) -> Mapping[str, str]:
        """Return the parameters that were asked for, hosts among them. Raises UsageError for both ways."""
        if not self.hosts:
            return self.chosen
        if HOSTS in self.chosen:
            raise UsageError(f"--host and --set {HOSTS} both name the hosts of the load")
        return {**self.chosen, HOSTS: " ".join(self.hosts)}


@dataclass(frozen=True, kw_only=True)
class CharacterizeRequest:
    """What is looked at: a command, processes, a cgroup, each of a suite; the machine when none is named."""

    command: Annotated[
        Sequence[str], Option("Command to start and profile.", metavar="[-- CMD...]", is_argument=True)
    ] = ()
    pids: Annotated[Sequence[int], Option("Profile this process; repeatable.", flag="--pid")] = ()
    cgroup: Annotated[str | None, Option("Profile this control group.", metavar="PATH")] = None
    everything: Annotated[bool, Option("Profile the whole machine (default).", flag="--all")] = False
    duration: Annotated[
        str | None,
        Option("Time to measure (10s), after which a started command is ended; 0 waits for its end."),
    ] = None
    interval: Annotated[str | None, Option("Time between two samples of the counters.")] = None
    hz: Annotated[int | None, Option("Stack samples per second and CPU (99); 0 turns profiling off.")] = None
    call_graph: Annotated[str | None, Option("How to unwind stacks: fp, dwarf or none.")] = None
    counters: Annotated[bool | None, Option("Count performance events, or not.", has_no=True)] = None
    perf_stat: Annotated[
        Sequence[Path],
        Option(
            "Read the counts from the output of perf stat (-o FILE, also with -x or -j); repeatable."
            " Without a command, --pid, --cgroup or --all, show the files and measure nothing.",
            metavar="FILE",
        ),
    ] = ()
    """Files of ``perf stat`` whose counts belong to the run."""
    ops: Annotated[
        Sequence[str],
        Option(
            "Read counts of operations from log:PATH[:REGEX], prometheus:URL#METRIC,"
            " prometheus-query:URL#PROMQL, csv,time=COLUMN:PATH or load:FILE, with options"
            " (docs/reference/operations.md); repeatable.",
            metavar="SOURCE",
        ),
    ] = ()
    suite: Annotated[
        str | None,
        Option("Run this suite, or read a run of one, and show its matrix.", metavar="NAME|DIR"),
    ] = None
    tier: Tier = None
    limits: Annotated[
        Sequence[str],
        Option(
            "With --suite: a limit to compare with (lo=1Gbit, sda=200MB, dram=20GB); repeatable.",
            flag="--limit",
            metavar="PART=RATE",
        ),
    ] = ()
    set_limits: SetLimits = ()
    chosen: Chosen = field(default_factory=dict)
    out: Out = RUNS

    @property
    def settings(self) -> dict[str, str]:
        """Return the parameters of the run of a command, of processes or the machine."""
        asked: dict[str, object] = {
            "duration": self.duration,
            "interval": self.interval,
            "hz": self.hz,
            "call_graph": self.call_graph,
            "counters": None if self.counters is None else str(self.counters).lower(),
        }
        return {name: str(value) for name, value in asked.items() if value is not None}

    @property
    def reads_files_only(self) -> bool:
        """Return whether files of ``perf stat`` are shown and nothing is measured."""
        return bool(self.perf_stat) and not (self.everything or self._names_programs or self.ops)

    @property
    def scope(self) -> str:
        """Return which of the four it is. Raises UsageError for more than one."""
        given = [("command", self.command), ("pid", self.pids), ("cgroup", self.cgroup)]
        named = [name for name, value in given if value]
        if len(named) > 1:
            raise UsageError(
                "give one of a command, --pid and --cgroup", hint="see steelyard characterize --help"
            )
        return named[0] if named else "all"

    @property
    def _names_programs(self) -> bool:
        return bool(self.command or self.pids or self.cgroup)

    def check(self) -> None:
        """Raise UsageError for options that contradict one another."""
        if self.suite is not None:
            if self.everything or self._names_programs or self.perf_stat or self.ops:
                raise UsageError("--suite characterizes its own workloads: it takes no command or process")
            return
        if self.tier is not None or self.limits or self.set_limits or self.chosen:
            raise UsageError("--tier, --limit, --set-limit, --set and --report need --suite")
        if self.everything and self._names_programs:
            raise UsageError("--all profiles the whole machine: it takes no command, --pid or --cgroup")
        if self.reads_files_only and (given := next(iter(self.settings), None)) is not None:
            raise UsageError(
                f"--{given.replace('_', '-')}: --perf-stat alone measures nothing",
                hint="name a command or a process, or --all for the whole machine",
            )


@dataclass(frozen=True, kw_only=True)
class PairRequest:
    """Which two workloads share this machine, and for how long."""

    first: Annotated[
        str,
        Option(
            "Benchmark, as NAME[:PARAMETER=VALUE,...], or a command in quotes.", metavar="A", is_argument=True
        ),
    ]
    second: Annotated[str, Option("The workload beside it.", metavar="B", is_argument=True)]
    tier: Tier = None
    repeats: Annotated[
        int, Option("Number of blocks: A alone, B alone and both, in random order.", metavar="N")
    ] = 3
    duration: Annotated[
        str | None, Option("Time to measure in each run (10s); by default that of the tier.")
    ] = None
    server_cpus: ServerCpus = None
    load_cpus: LoadCpus = None
    set_limits: SetLimits = ()
    seed: Annotated[int | None, Option("Seed of the order of the runs.", metavar="N")] = None
    out: Out = RUNS
