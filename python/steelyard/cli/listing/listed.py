"""What ``steelyard list`` finds: what can be run, with what settings, and what was run.

In: the declarations that also parse the command line, and the folder of runs. Out: `Listed`. Runs are read
as plain JSON where that is enough, so that the list comes at once.

Not here: showing it (``listing``).
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from steelyard._base import EnvironmentLacksError, RecordError, record_files
from steelyard._base.documents import OPTIONAL
from steelyard.bench import declaration, tiers
from steelyard.bench import hook as hooks
from steelyard.bench.parameters import Parameter
from steelyard.bench.tiers import Suite

if TYPE_CHECKING:
    from steelyard.records import Run

EXPERIMENT = record_files.EXPERIMENT
_UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class ListedBenchmark:
    """A benchmark."""

    name: str
    """As in ``steelyard run NAME``."""
    title: str
    """Title."""
    doc: str
    """Description, a sentence or two."""
    parameters: tuple[Parameter, ...]
    """What can be set."""


@dataclass(frozen=True, slots=True)
class ListedTier:
    """How long benchmarks run."""

    name: str
    """As in --tier NAME."""
    doc: str
    """How long, one line."""


@dataclass(frozen=True, slots=True)
class ListedHook:
    """A hook."""

    name: str
    """As in --hook NAME."""
    doc: str
    """Description, one line."""
    always: bool
    """Whether it is part of every run."""
    options: tuple[Parameter, ...]
    """As in --hook NAME:OPTION=VALUE."""


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run under the folder of runs; of an unreadable one no more is known than why."""

    run_id: str
    """Name of the run and of its folder."""
    directory: Path
    """Its folder."""
    status: str
    """`running`, `complete`, `incomplete` or `unreadable`."""
    status_reason: str | None
    """Why it is not complete, None otherwise."""
    suite_id: str | None = None
    """The suite whose folder contains it, None for none."""
    benchmark: str | None = None
    """Which benchmark."""
    tier: str | None = None
    """How long it ran."""
    verdict: str | None = None
    """Whether its result may be believed: `valid`, `suspect` or `invalid`."""
    metrics: dict[str, float | None] = field(default_factory=dict)
    """Its main result, in base units, by the metric's name."""
    unit: str | None = None
    """Unit of its main result."""


@dataclass(frozen=True, slots=True)
class ListedSuite:
    """A run of a suite; of an unreadable one no more is known than why."""

    suite_id: str
    """Name of the suite's folder."""
    directory: Path
    """Its folder."""
    status: str
    """`running`, `complete`, `incomplete` or `unreadable`."""
    status_reason: str | None
    """Why it is not complete, None otherwise."""
    suite: str | None = None
    """Which suite."""
    tier: str | None = None
    """How long its members ran."""
    members: tuple[str, ...] = ()
    """Its benchmarks."""
    verdict: str | None = None
    """The worst verdict among its members, None unless each has one."""
    overall: float | None = None
    """Overall score, None when there is none."""
    no_overall: str | None = None
    """Why there is no overall score, None otherwise."""


@dataclass(frozen=True, slots=True)
class ListedExperiment:
    """An experiment; of an unreadable one no more is known than why."""

    experiment_id: str
    """Name of its folder."""
    directory: Path
    """Its folder."""
    status: str
    """`running`, `complete`, `incomplete` or `unreadable`."""
    status_reason: str | None
    """Why it is not complete, or ended early, None otherwise."""
    benchmark: str | None = None
    """Benchmark of its trials, None for commands."""
    factor: str | None = None
    """What differs between its arms."""
    metric: str | None = None
    """What it compares."""
    outcomes: dict[str, str] = field(default_factory=dict)
    """What is known of each arm beside the first."""


@dataclass(frozen=True, slots=True)
class Listed:
    """What there is: `steelyard list WHAT --json` prints only the parts that WHAT names."""

    KIND: ClassVar[str] = "list"

    benchmarks: list[ListedBenchmark] | None = field(default=None, metadata=OPTIONAL)
    """Benchmarks."""
    suites: list[Suite] | None = field(default=None, metadata=OPTIONAL)
    """Suites."""
    tiers: list[ListedTier] | None = field(default=None, metadata=OPTIONAL)
    """Tiers."""
    hooks: list[ListedHook] | None = field(default=None, metadata=OPTIONAL)
    """Hooks."""
    runs: list[ListedRun] | None = field(default=None, metadata=OPTIONAL)
    """Runs, those of suites included."""
    suite_runs: list[ListedSuite] | None = field(default=None, metadata=OPTIONAL)
    """Runs of suites."""
    experiments: list[ListedExperiment] | None = field(default=None, metadata=OPTIONAL)
    """Experiments."""


def find(part: str, out: Path) -> Listed:
    """Return everything that ``part`` names, with runs below ``out``."""
    is_of_runs = part in ("all", "runs")
    return Listed(
        benchmarks=benchmarks() if part in ("all", "benchmarks", "parameters") else None,
        suites=list(tiers.suites().values()) if part in ("all", "suites") else None,
        tiers=[ListedTier(*tier) for tier in tiers.TIERS.items()] if part in ("all", "tiers") else None,
        hooks=[_hook(name) for name in hooks.names()] if part in ("all", "hooks") else None,
        runs=_runs(out) if is_of_runs else None,
        suite_runs=_suite_runs(out) if is_of_runs else None,
        experiments=[experiment_in(folder) for folder in experiments(out)] if is_of_runs else None,
    )


def benchmarks() -> list[ListedBenchmark]:
    """Return every benchmark; of one that this machine lacks something for, what that is."""
    return [_benchmark(name) for name in declaration.names()]


def _benchmark(name: str) -> ListedBenchmark:
    try:
        declared = declaration.find(name)
        return ListedBenchmark(name, declared.title, declared.doc, tuple(declared.load().parameters))
    except EnvironmentLacksError as error:
        return ListedBenchmark(name, name, error.message, ())


def _hook(name: str) -> ListedHook:
    hook = hooks.find(name)
    return ListedHook(name, hook.doc, hook.always, hook.parameters)


def _runs(out: Path) -> list[ListedRun]:
    if not out.is_dir() or not any(any(out.glob(f"{deep}/run.json")) for deep in ("*", "*/*")):
        return []
    from steelyard.bench import runs

    return [run_in(directory, out, run) for directory, run in runs.listing(out)]


def run_in(directory: Path, out: Path, run: "Run | RecordError") -> ListedRun:
    """Return the run in a folder, or why it cannot be read."""
    if isinstance(run, RecordError):
        return ListedRun(directory.name, directory, _UNREADABLE, run.message)
    declared = declaration.of_run(run.benchmark)
    # A benchmark is shown by the metric that it is scored by, a characterization by the first that it has.
    names = declared.headline[:1] if declared.listed else declared.headline
    first = next((name for name in names if name in run.metrics), None)
    return ListedRun(
        run_id=run.run_id,
        directory=directory,
        status=str(run.status),
        status_reason=run.status_reason,
        suite_id=directory.parent.name if directory.parent != out else None,
        benchmark=run.benchmark,
        tier=run.tier,
        verdict=str(run.verdict.level) if run.verdict else None,
        metrics={} if first is None else {first: run.metrics[first].value},
        unit=None if first is None else run.metrics[first].unit,
    )


def _suite_runs(out: Path) -> list[ListedSuite]:
    if not out.is_dir() or not any(out.glob("*/suite.json")):
        return []
    from steelyard.bench import runs

    return [suite_in(directory) for directory in runs.suites(out)]


def suite_in(directory: Path) -> ListedSuite:
    """Return the suite's run in a folder, or why it cannot be read."""
    from steelyard.bench.suites import suite as suite_files

    try:
        suite, _ = suite_files.load(directory)
    except RecordError as error:
        return ListedSuite(directory.name, directory, _UNREADABLE, error.message)
    level = suite_files.verdict_of(suite)
    return ListedSuite(
        suite_id=suite.suite_id,
        directory=directory,
        status=str(suite.status),
        status_reason=suite.status_reason,
        suite=suite.suite,
        tier=suite.tier,
        members=tuple(member.benchmark for member in suite.members),
        verdict=None if level is None else str(level),
        overall=suite.overall.score if suite.overall is not None else None,
        no_overall=suite.overall.withheld if suite.overall is not None else None,
    )


def experiments(out: Path) -> list[Path]:
    """Return the folders of experiments below ``out``."""
    return sorted(path.parent for path in out.glob(f"*/{EXPERIMENT}")) if out.is_dir() else []


def experiment_in(directory: Path) -> ListedExperiment:
    """Return the experiment in a folder, or why it cannot be read."""
    from steelyard.experiment import engine
    from steelyard.experiment.answers import answers

    try:
        experiment = engine.load(directory)
    except RecordError as error:
        return ListedExperiment(directory.name, directory, _UNREADABLE, error.message)
    found = answers(experiment, is_over=experiment.status == "complete")
    return ListedExperiment(
        experiment_id=experiment.experiment_id,
        directory=directory,
        status=str(experiment.status),
        status_reason=experiment.status_reason,
        benchmark=experiment.benchmark,
        factor=experiment.factor,
        metric=experiment.metric.name,
        outcomes={answer.arm: str(answer.outcome) for answer in found},
    )
