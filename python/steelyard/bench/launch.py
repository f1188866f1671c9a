"""From a request on the command line to finished runs: what ``steelyard run`` does.

In: a `RunRequest`. Out: one `Attempt` per run, complete or not, in the order made; for a suite a directory
that holds them all.

Everything that can be refused is refused before the first directory is made: names, ranges, CPUs, hooks,
memory. A member of a suite for which the machine lacks something does not keep the others from being run.
Not here: reading the command line, drawing results.
"""

import contextlib
import hashlib
import os
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import steelyard
from steelyard import machine as machines
from steelyard._base import EnvironmentLacksError, SteelyardError, UsageError
from steelyard._base.request import asked_document, options, resumed, words
from steelyard.bench import declaration, tiers, undo
from steelyard.bench import hook as hooks
from steelyard.bench.benchmark import Benchmark
from steelyard.bench.clock import Clock, SystemClock
from steelyard.bench.executor import Executor, LocalExecutor
from steelyard.bench.footprint import Footprint, misfit
from steelyard.bench.manifest import Manifest
from steelyard.bench.parameters import Settings, by_benchmark
from steelyard.bench.placement import Placement
from steelyard.bench.placement.parameters import BINDING
from steelyard.bench.placement.request import as_allowed, live_layout, placement_of, record_of
from steelyard.bench.progress import Progress
from steelyard.bench.request import RunRequest
from steelyard.bench.session import Session
from steelyard.bench.signals import Interrupts
from steelyard.bench.suites.resume import Expected, Resumption, interrupted_suite, open_suite
from steelyard.bench.suites.suite import SuiteManifest
from steelyard.records import Machine, Parameter, Run, Series, write

SEED = "seed"
_SEED_BITS = 48
"""Seeds stay below 2^53, so that every JSON reader gets them exactly."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run that was made: its directory, its manifest, and the error that ended it early."""

    directory: Path
    run: Run
    error: SteelyardError | None = None


@dataclass(frozen=True, slots=True)
class Launched:
    """What was made of a request. ``suite`` is the directory that holds the runs, None for runs alone."""

    attempts: list[Attempt]
    suite: Path | None = None
    refused: Mapping[str, EnvironmentLacksError] = field(default_factory=dict)
    """Members of the suite that could not be started here."""
    stopped: str | None = None
    """What ended it before all runs had their turn."""
    interrupted: bool = False
    """Whether a signal ended it, in a run or between two."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One benchmark, checked and ready to be repeated; ``lacks`` is why a suite must do without it."""

    declared: declaration.Declaration
    benchmark: type[Benchmark]
    suite: str | None
    tier: str
    chosen: Mapping[str, str]
    """Of the settings, those that were asked for, as texts."""
    settings: Settings
    placement: Placement
    machine: Machine
    footprint: Footprint
    lacks: EnvironmentLacksError | None = None


def plan(request: RunRequest, machine: Machine) -> list[Plan]:
    """Return the benchmarks of a request with their settings. Raises UsageError."""
    suite, names, tier = tiers.resolve(request.name, request.tier)
    declarations = [declaration.find(name) for name in names]
    benchmarks = [entry.load() for entry in declarations]
    declared = {
        name: [parameter.name for parameter in benchmark.parameters]
        for name, benchmark in zip(names, benchmarks, strict=True)
    }
    asked = by_benchmark(request.settings, declared, owner=request.name)
    request.check_tags()
    if request.repeat < 1:
        raise UsageError(f"--repeat {request.repeat}: allowed is 1..")
    for entry in declarations:
        for _, hook in hooks.create(request.hooks, entry.hooks):
            hook.check()
    layout = live_layout()
    plans: list[Plan] = []
    for entry, benchmark in zip(declarations, benchmarks, strict=True):
        chosen = asked[entry.name]
        placement = placement_of(
            benchmark,
            layout,
            chosen,
            server_cpus=request.server_cpus,
            load_cpus=request.load_cpus,
        )
        placement = as_allowed(placement, is_asked=chosen.get(BINDING) == "node")
        suggest = partial(benchmark.suggest, machine=machine, tier=tier, placement=placement)
        seeded = {SEED: secrets.randbits(_SEED_BITS)}
        settings = Settings.resolve(
            benchmark.parameters,
            chosen,
            lambda chosen, suggest=suggest, seeded=seeded: {**seeded, **suggest(chosen)},  # type: ignore[misc]
            owner=entry.name,
        )
        footprint = benchmark.footprint(settings, placement=placement)
        lacks = None
        try:
            benchmark.checks(settings, machine=machine)
            left = [disk for each in plans if each.lacks is None for disk in each.footprint.stays]
            if (lacking := misfit(footprint, machine, request.out, before=left)) is not None:
                lacks = EnvironmentLacksError(f"{entry.name}: {lacking[0]}", hint=lacking[1])
        except EnvironmentLacksError as error:
            lacks = error
        name = suite.name if suite else None
        plans.append(
            Plan(entry, benchmark, name, tier, chosen, settings, placement, machine, footprint, lacks)
        )
    return plans


def execute(
    request: RunRequest,
    *,
    progress: Progress,
    finished: Callable[[Attempt], None] = lambda attempt: None,
    planned: Callable[[Sequence[Plan]], None] = lambda plans: None,
    clock: Clock | None = None,
    executor: Executor | None = None,
    interrupts: Interrupts | None = None,
) -> Launched:
    """Make the runs that were asked for; ``planned`` gets what is to run, ``finished`` each run.

    A run that fails does not keep the next from being tried; a signal does, which ``interrupts`` then holds.
    Raises SteelyardError only when nothing could be started.
    """
    for line in undo.replay():
        progress.note(line)
    machine = machines.snapshot()
    plans = plan(request, machine)
    resumed = _resume(request, plans, machine)
    planned(plans)
    lacking = [each.lacks for each in plans if each.lacks is not None]
    if len(lacking) == len(plans) and resumed is None:
        raise lacking[0]
    clock = clock or SystemClock()
    make_folder(request.out)
    suite = _begin_suite(request, plans, clock, resumed)
    out = request.out if suite is None else suite.directory
    turns = _turns(plans, request.repeat, resumed)
    kept = [] if resumed is None else resumed.kept
    series = kept[0][1].series.id if kept else secrets.token_hex(4)
    attempts = [Attempt(folder, run) for folder, run in kept]
    interrupts = interrupts or Interrupts()
    with interrupts.caught():
        for number, (index, each) in enumerate(turns, start=len(kept) + 1):
            if len(kept) + len(turns) > 1:
                progress.note(f"{each.declared.name}: run {number} of {len(kept) + len(turns)}")
            attempt = _one(
                request,
                each,
                Series(id=series, index=index, count=request.repeat),
                out=out,
                begun=suite.put_run if suite else lambda run: None,
                progress=progress,
                interrupts=interrupts,
                clock=clock,
                executor=executor or LocalExecutor(),
            )
            attempts.append(attempt)
            finished(attempt)
            if suite is not None:
                suite.put_run(attempt.run)
            if interrupts.received is not None:
                break
        stopped = None
        asked = len(kept) + len(turns)
        if interrupts.received is not None and len(attempts) < asked:
            stopped = f"stopped by {interrupts.received} after {len(attempts)} of {asked} runs"
        if suite is not None:
            suite.finish(stopped)
    refused = {each.declared.name: each.lacks for each in plans if each.lacks is not None}
    interrupted = interrupts.received is not None
    return Launched(attempts, suite.directory if suite else None, refused, stopped, interrupted)


def _resume(request: RunRequest, plans: Sequence[Plan], machine: Machine) -> Resumption | None:
    """Return the suite that goes on, None where nothing is resumed. Raises UsageError where it cannot."""
    if request.goes_on is None:
        return None
    expected = {each.declared.name: Expected(each.settings, record_of(each.placement)) for each in plans}
    return open_suite(request.goes_on, machine, expected)


def _turns(plans: Sequence[Plan], repeat: int, resumed: Resumption | None) -> list[tuple[int, Plan]]:
    """Return the runs to make: repeat and benchmark, with the seeds that a resumed suite began with."""
    turns = []
    for each in plans:
        if each.lacks is not None:
            continue
        ready = each
        if resumed is not None and each.declared.name in resumed.seeds:
            seed = resumed.seeds[each.declared.name]
            settings = each.settings.with_value(SEED, seed, each.settings.source(SEED))
            ready = replace(each, settings=settings)
        turns += [
            (index, ready)
            for index in range(1, repeat + 1)
            if resumed is None or not resumed.has(each.declared.name, index)
        ]
    # One of each before the next of each; the order of plans stays within a repeat.
    return sorted(turns, key=lambda turn: turn[0])


def _begin_suite(
    request: RunRequest, plans: Sequence[Plan], clock: Clock, resumed: Resumption | None
) -> SuiteManifest | None:
    """Make the directory of the suite, None where a lone benchmark was asked for."""
    name, tier = plans[0].suite, plans[0].tier
    if name is None:
        return None
    members = [
        (each.declared.name, each.declared.headline[0], None if each.lacks is None else each.lacks.message)
        for each in plans
    ]
    if resumed is not None:
        resumed.set_aside()
        kept = [run for _, run in resumed.kept]
        return SuiteManifest.resume(resumed.directory, clock, resumed.suite, members=members, kept=kept)
    label = name if name == tier else f"{name}-{tier}"
    return SuiteManifest.create(
        make_run_folder(request.out, label, clock),
        clock,
        suite=name,
        tier=tier,
        repeats=request.repeat,
        version=steelyard.__version__,
        command=_command(request),
        request=asked_document(request),
        members=members,
    )


def repeat_seed(seed: int, index: int) -> int:
    """Return the seed of repeat ``index``: that of the first is ``seed`` itself, so that it can be repeated.

    The others are independent of it and of each other (the first bits of SHA-256).
    """
    if index == 1:
        return seed
    digest = hashlib.sha256(f"{seed}:{index}".encode()).digest()
    return int.from_bytes(digest[: _SEED_BITS // 8], "big")


def _one(
    request: RunRequest,
    planned: Plan,
    series: Series,
    *,
    out: Path,
    begun: Callable[[Run], None],
    progress: Progress,
    interrupts: Interrupts,
    clock: Clock,
    executor: Executor,
) -> Attempt:
    settings = planned.settings
    seed = repeat_seed(settings.count(SEED), series.index)
    settings = settings.with_value(SEED, seed, settings.source(SEED))
    directory = make_run_folder(out, f"{planned.declared.name}-{planned.tier}", clock)
    (directory / "logs").mkdir()
    placement = planned.placement
    manifest = Manifest.create(
        directory,
        clock,
        benchmark=planned.declared.name,
        suite=planned.suite,
        tier=planned.tier,
        series=series,
        tags=request.tags,
        version=steelyard.__version__,
        command=command_line(request, planned, seed),
        parameters={
            name: Parameter(value=value, unit=settings.parameters[name].unit, source=settings.source(name))
            for name, value in settings.items()
        },
        cpus=record_of(placement),
    )
    try:
        begun(manifest.run)
        write(planned.machine, directory / "machine.json")
        manifest.put_artifacts({"machine": "machine.json"})
        session = Session(
            manifest,
            settings=settings,
            machine=planned.machine,
            placement=placement,
            hooks=hooks.create(request.hooks, planned.declared.hooks),
            executor=executor,
            clock=clock,
            progress=progress,
            interrupts=interrupts,
        )
        with _confined(placement.load or placement.server):
            session.run(planned.benchmark)
    except SteelyardError as error:
        return Attempt(directory, manifest.run, error)
    return Attempt(directory, manifest.run)


def command_line(request: RunRequest, planned: Plan, seed: int) -> list[str]:
    """Return the command that repeats exactly this run."""
    repeated = replace(
        request,
        name=planned.declared.name,
        tier=planned.tier,
        repeat=1,
        chosen={**planned.chosen, SEED: str(seed)},
        hosts=(),
    )
    return _command(repeated)


def _command(request: RunRequest) -> list[str]:
    """Return the command of a request, without what says where its runs go and what else is shown."""
    beside = [name for name, field in options(RunRequest).items() if field.option.anew]
    return ["steelyard", "run", *words(request, always=("name",), never=beside)]


def request_of(request: RunRequest, given: Collection[str], directory: Path) -> RunRequest:
    """Return the request of the suite in ``directory``, as it was begun; ``given`` are the typed fields.

    Raises UsageError where ``request`` asks for something else than that.
    """
    suite = interrupted_suite(directory)
    again = ["steelyard", "run", "--resume", directory.name]
    begun = resumed(suite.request, request, given, words=again)
    return replace(begun, out=directory.absolute().parent, goes_on=directory)


def make_folder(out: Path) -> None:
    """Make the folder of runs. Raises EnvironmentLacksError when that cannot be done."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(out, error) from error


def make_run_folder(out: Path, label: str, clock: Clock) -> Path:
    """Make and return the folder of one run. Raises EnvironmentLacksError when that cannot be done."""
    milliseconds = clock.now().realtime_ns // 1_000_000
    moment = time.strftime("%Y%m%d-%H%M%S", time.gmtime(milliseconds / 1000))
    # Names sort by time; the end keeps apart two that start in the same millisecond.
    name = f"{moment}-{milliseconds % 1000:03}-{label}-{secrets.token_hex(2)}"
    try:
        (out / name).mkdir(parents=True)
    except OSError as error:
        raise _unwritable(out, error) from error
    return out / name


def _unwritable(out: Path, error: OSError) -> EnvironmentLacksError:
    return EnvironmentLacksError(
        f"{out}: runs cannot be written there: {error.strerror}", hint="choose another folder with --out"
    )


@contextlib.contextmanager
def _confined(cpus: Sequence[int]) -> Iterator[None]:
    """Keep this process off the servers' CPUs for the time of a run."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
