"""From a request on the command line to finished runs: what ``steelyard run`` does.

In: a `Request`. Out: one `Attempt` per run, complete or not, in the order made.

Everything that can be refused is refused before the first directory is made: names, ranges, CPUs, hooks,
memory. Not here: reading the command line, drawing results.
"""

import contextlib
import hashlib
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import steelyard
from steelyard import machine as machines
from steelyard._base import EnvironmentLacksError, SteelyardError, UsageError
from steelyard.bench import hook as hooks
from steelyard.bench import tiers, undo
from steelyard.bench.benchmark import Benchmark
from steelyard.bench.clock import Clock, SystemClock
from steelyard.bench.executor import Executor, LocalExecutor
from steelyard.bench.interrupts import Interrupts
from steelyard.bench.manifest import Manifest
from steelyard.bench.parameters import Settings, check_names
from steelyard.bench.placement import Placement, cores, format_cpu_list, parse_cpu_list, place
from steelyard.bench.progress import Progress
from steelyard.bench.session import Session
from steelyard.records import Cpus, Machine, Parameter, Run, Series, write

SEED = "seed"
_SEED_BITS = 48
"""Seeds stay below 2^53, so that every JSON reader gets them exactly."""


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for."""

    name: str = tiers.DEFAULT_SUITE
    tier: str | None = None
    repeat: int = 1
    chosen: Mapping[str, str] = field(default_factory=dict)
    server_cpus: str | None = None
    load_cpus: str | None = None
    hooks: Sequence[str] = ()
    out: Path = Path("runs")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run that was made: its directory, its manifest, and the error that ended it early."""

    directory: Path
    run: Run
    error: SteelyardError | None = None


@dataclass(frozen=True, slots=True)
class _Plan:
    """One benchmark, checked and ready to be repeated."""

    benchmark: type[Benchmark]
    suite: str | None
    tier: str
    settings: Settings
    placement: Placement
    machine: Machine


def plan(request: Request, machine: Machine) -> list[_Plan]:
    """Return the benchmarks of a request with their settings; raises UsageError or EnvironmentLacksError."""
    suite, names, tier = tiers.resolve(request.name, request.tier)
    benchmarks = [tiers.benchmark(name) for name in names]
    known = [parameter.name for benchmark in benchmarks for parameter in benchmark.parameters]
    check_names(request.chosen, known, owner=request.name)
    if request.repeat < 1:
        raise UsageError(f"--repeat {request.repeat}: allowed is 1..")
    hooks.create(request.hooks)
    usable = sorted(os.sched_getaffinity(0))
    plans = []
    for benchmark in benchmarks:
        placement = place(
            cores(usable),
            load_ratio=benchmark.load_ratio,
            server=_cpus(request.server_cpus, "--server-cpus"),
            load=_cpus(request.load_cpus, "--load-cpus"),
        )
        declared = {parameter.name for parameter in benchmark.parameters}
        suggest = partial(benchmark.suggest, machine=machine, tier=tier, placement=placement)
        seeded = {SEED: secrets.randbits(_SEED_BITS)}
        settings = Settings.resolve(
            benchmark.parameters,
            {name: text for name, text in request.chosen.items() if name in declared},
            lambda asked, suggest=suggest, seeded=seeded: {**seeded, **suggest(asked)},  # type: ignore[misc]
            owner=benchmark.name,
        )
        benchmark.checks(settings, machine=machine)
        plans.append(_Plan(benchmark, suite.name if suite else None, tier, settings, placement, machine))
    return plans


def _cpus(text: str | None, flag: str) -> tuple[int, ...] | None:
    return None if text is None else parse_cpu_list(text, flag=flag)


def execute(
    request: Request,
    *,
    progress: Progress,
    finished: Callable[[Attempt], None] = lambda attempt: None,
    clock: Clock | None = None,
    executor: Executor | None = None,
) -> list[Attempt]:
    """Make the runs that were asked for; ``finished`` hears of each.

    A run that fails does not keep the next from being tried; a signal does. Raises SteelyardError only when
    nothing could be started.
    """
    for line in undo.replay():
        progress.note(line)
    machine = machines.snapshot()
    plans = plan(request, machine)
    _make_folder(request.out)
    series = secrets.token_hex(4)
    attempts: list[Attempt] = []
    interrupts = Interrupts()
    with interrupts.caught():
        for index in range(1, request.repeat + 1):
            for planned in plans:
                attempt = _one(
                    request,
                    planned,
                    Series(id=series, index=index, count=request.repeat),
                    progress=progress,
                    interrupts=interrupts,
                    clock=clock or SystemClock(),
                    executor=executor or LocalExecutor(),
                )
                attempts.append(attempt)
                finished(attempt)
                if interrupts.received is not None:
                    return attempts
    return attempts


def repeat_seed(seed: int, index: int) -> int:
    """Return the seed of repeat ``index``: that of the first is ``seed`` itself, so that it can be repeated.

    The others are independent of it and of each other (the first bits of SHA-256).
    """
    if index == 1:
        return seed
    digest = hashlib.sha256(f"{seed}:{index}".encode()).digest()
    return int.from_bytes(digest[: _SEED_BITS // 8], "big")


def _one(
    request: Request,
    planned: _Plan,
    series: Series,
    *,
    progress: Progress,
    interrupts: Interrupts,
    clock: Clock,
    executor: Executor,
) -> Attempt:
    settings = planned.settings
    seed = repeat_seed(settings.count(SEED), series.index)
    settings = settings.with_value(SEED, seed, settings.source(SEED))
    directory = _make_run_folder(request.out, planned.benchmark.name, planned.tier, clock)
    placement = planned.placement
    manifest = Manifest.create(
        directory,
        clock,
        benchmark=planned.benchmark.name,
        suite=planned.suite,
        tier=planned.tier,
        series=series,
        version=steelyard.__version__,
        command=command_line(request, planned, seed),
        parameters={
            name: Parameter(value=value, unit=settings.parameters[name].unit, source=settings.source(name))
            for name, value in settings.items()
        },
        cpus=Cpus(server=format_cpu_list(placement.server), load=format_cpu_list(placement.load) or None),
    )
    try:
        write(planned.machine, directory / "machine.json")
        manifest.put_artifacts({"machine": "machine.json"})
        session = Session(
            manifest,
            settings=settings,
            machine=planned.machine,
            placement=placement,
            hooks=hooks.create(request.hooks),
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


def command_line(request: Request, planned: _Plan, seed: int) -> list[str]:
    """Return the command that repeats exactly this run."""
    command = ["steelyard", "run", planned.benchmark.name, "--tier", planned.tier]
    for name, text in {**request.chosen, SEED: str(seed)}.items():
        command += ["--set", f"{name}={text}"]
    for flag, value in (("--server-cpus", request.server_cpus), ("--load-cpus", request.load_cpus)):
        command += [flag, value] if value is not None else []
    for text in request.hooks:
        command += ["--hook", text]
    return command


def _make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(out, error) from error


def _make_run_folder(out: Path, benchmark: str, tier: str, clock: Clock) -> Path:
    milliseconds = clock.now().realtime_ns // 1_000_000
    moment = time.strftime("%Y%m%d-%H%M%S", time.gmtime(milliseconds / 1000))
    # Names sort by time; the end keeps apart two that start in the same millisecond.
    name = f"{moment}-{milliseconds % 1000:03}-{benchmark}-{tier}-{secrets.token_hex(2)}"
    try:
        (out / name / "logs").mkdir(parents=True)
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
