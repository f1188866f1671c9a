"""The runs of a co-location: in each block both workloads alone and both together, in random order.

In: a `Pair`. Out: the directory of the co-location with its runs, and the record that says what they show.

Invariants: every run is a process of its own under ``steelyard-exec``, so that a kill of this one leaves
nothing behind; together, the measure phases begin at the same time (hook ``rendezvous``); limits are set once
for all runs and undone, also by the next start.

Not here: what the runs show (``analyze.colocation``).
"""

import contextlib
import json
import os
import random
import secrets
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import steelyard
from steelyard import machine as machines
from steelyard._base import EnvironmentLacksError, SteelyardError, UsageError, WorkloadFailedError
from steelyard._base.request import asked_document
from steelyard.analyze import colocation as analysis
from steelyard.analyze.pressure.disk_limits import GroupLimit
from steelyard.analyze.pressure.limits import Limits
from steelyard.bench import launch, undo
from steelyard.bench import runs as run_files
from steelyard.bench.clock import Clock, SystemClock
from steelyard.bench.colocation.lengths import PARAMETER, Length, align
from steelyard.bench.colocation.manifest import ColocationManifest, history
from steelyard.bench.colocation.member import answer_path
from steelyard.bench.colocation.workload import Workload
from steelyard.bench.executor import Executor, LocalExecutor, Process
from steelyard.bench.health import check as health_check
from steelyard.bench.health import known_limits
from steelyard.bench.limits.disk import DiskLimit
from steelyard.bench.limits.network import NetworkLimit
from steelyard.bench.manifest import this_process
from steelyard.bench.progress import Progress
from steelyard.bench.request import RunRequest
from steelyard.bench.session import TICK_S
from steelyard.bench.signals import Interrupts
from steelyard.records import (
    Colocation,
    ColocationBlock,
    ColocationRun,
    ColocationWorkload,
    Condition,
    Run,
    RunStatus,
)

_SEED_BITS = 48
_SET = "set for all runs"
_STOP_S = 15.0
"""How long a run that is asked to end gets: it stops its servers in order."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two workloads that share this machine, and how that is measured."""

    workloads: tuple[Workload, Workload]
    tier: str = "quick"
    repeats: int = 3
    measure_s: float | None = None
    server_cpus: str | None = None
    load_cpus: str | None = None
    limits: Sequence[NetworkLimit | DiskLimit] = ()
    limit_texts: Sequence[str] = ()
    seed: int | None = None
    out: Path = Path("runs")
    command: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Colocated:
    """What was made of a request: its directory, its record, and the error that ended it early."""

    directory: Path
    record: Colocation
    error: SteelyardError | None = None


def plan(request: Pair) -> list[Length]:
    """Return how long each measure phase is to be.

    Raises UsageError or EnvironmentLacksError for what cannot be run or set.
    """
    if request.repeats < 1:
        raise UsageError(f"--repeats {request.repeats}: allowed is 1..")
    machine = machines.snapshot()
    lengths = []
    for workload in request.workloads:
        (planned,) = launch.plan(_run_request(request, workload, request.measure_s, Path(), None), machine)
        can_be_set = PARAMETER in planned.settings and PARAMETER not in workload.chosen
        lengths.append(Length(planned.settings.number(PARAMETER) if can_be_set else None))
    for limit in request.limits:
        limit.check()
    return lengths


def _run_request(
    request: Pair, workload: Workload, measure_s: float | None, out: Path, meeting: Path | None
) -> RunRequest:
    chosen = dict(workload.chosen)
    if measure_s is not None:
        chosen.setdefault(PARAMETER, f"{measure_s:g}")
    asked = [f"rendezvous:folder='{meeting}',runs=2"] if meeting is not None else []
    return RunRequest(
        name=workload.benchmark,
        tier=request.tier,
        chosen=chosen,
        server_cpus=request.server_cpus,
        load_cpus=request.load_cpus,
        hooks=asked,
        out=out,
    )


def colocate(
    request: Pair, *, progress: Progress, clock: Clock | None = None, executor: Executor | None = None
) -> Colocated:
    """Make the runs and say what they show. Raises SteelyardError only when nothing could be started."""
    for line in undo.replay():
        progress.note(line)
    lengths = plan(request)
    clock = clock or SystemClock()
    launch.make_folder(request.out)
    names = "-".join(each.benchmark for each in request.workloads)
    directory = launch.make_run_folder(request.out, f"colocation-{names}", clock)
    (directory / "logs").mkdir()
    (directory / "requests").mkdir()
    manifest = ColocationManifest(directory, _begun(request, directory, clock))
    interrupts = Interrupts()
    with interrupts.caught():
        try:
            with _limits(request, directory.name) as disks:
                executor = executor or LocalExecutor()
                blocks = _Blocks(request, lengths, manifest, progress, interrupts, clock, executor, disks)
                blocks.run()
            record = analysis.concluded(manifest.record, blocks.seen, history(request.out))
            manifest.put(_ended(record, clock, RunStatus.COMPLETE, None))
        except SteelyardError as error:
            manifest.put(_ended(manifest.record, clock, RunStatus.INCOMPLETE, error.message))
            return Colocated(directory, manifest.record, error)
        except BaseException as error:
            reason = f"internal error: {type(error).__name__}: {error}"
            manifest.put(_ended(manifest.record, clock, RunStatus.INCOMPLETE, reason))
            raise
    return Colocated(directory, manifest.record)


def _ended(record: Colocation, clock: Clock, status: RunStatus, reason: str | None) -> Colocation:
    return record.model_copy(
        update={"status": status, "status_reason": reason, "end_ns": clock.monotonic_ns()}
    )


def _begun(request: Pair, directory: Path, clock: Clock) -> Colocation:
    from steelyard.bench import declaration

    workloads = [
        ColocationWorkload(
            name=each.name,
            benchmark=each.benchmark,
            parameters=dict(each.chosen),
            metric=declaration.find(each.benchmark).headline[0],
            alone=[],
            together=[],
            use={},
            beside={},
        )
        for each in request.workloads
    ]
    return Colocation(
        colocation_id=directory.name,
        tier=request.tier,
        repeats=request.repeats,
        measure_s=request.measure_s,
        seed=secrets.randbits(_SEED_BITS) if request.seed is None else request.seed,
        limits=list(request.limit_texts),
        status=RunStatus.RUNNING,
        steelyard_version=steelyard.__version__,
        command=list(request.command),
        clock=clock.now(),
        orchestrator=this_process(),
        workloads=workloads,
        blocks=[],
        together={},
        over=[],
        objections=[],
    )


@contextlib.contextmanager
def _limits(request: Pair, label: str) -> Iterator[list[GroupLimit]]:
    """Hold this process, and whatever it starts, to the limits; gives those on disks."""
    disks = []
    with contextlib.ExitStack() as stack:
        for limit in request.limits:
            stack.callback(limit.undo)
            if isinstance(limit, DiskLimit):
                group = str(limit.set(label))
                limit.hold(os.getpid())
                disks.append(GroupLimit(limit.device, limit.rate_bytes_per_s, group, _SET))
            else:
                limit.set(label)
        yield disks


class _Blocks:
    """The runs under way."""

    def __init__(
        self,
        request: Pair,
        lengths: Sequence[Length],
        manifest: ColocationManifest,
        progress: Progress,
        interrupts: Interrupts,
        clock: Clock,
        executor: Executor,
        disk_limits: Sequence[GroupLimit],
    ) -> None:
        self._request = request
        self._lengths = lengths
        self._disk_limits = disk_limits
        self._manifest = manifest
        self._progress = progress
        self._interrupts = interrupts
        self._clock = clock
        self._executor = executor
        self._names = [each.name for each in request.workloads]
        check = known_limits.last_good(request.out, health_check.machine_identity())
        self._health = check.result if check is not None else None
        self.seen: tuple[list[analysis.Seen], list[analysis.Seen]] = ([], [])

    def run(self) -> None:
        """Make all blocks. Raises WorkloadFailedError when a run fails or a signal comes."""
        draw = random.Random(self._manifest.record.seed)  # noqa: S311 - an order, no secret.
        for index in range(1, self._request.repeats + 1):
            order = list(Condition)
            draw.shuffle(order)
            if index == 1:
                # How long each one's measure phase is has to be seen first.
                order.sort(key=lambda condition: condition is Condition.TOGETHER)
            runs: list[ColocationRun] = []
            for condition in order:
                self._progress.note(f"block {index} of {self._request.repeats}: {self._words(condition)}")
                self._put(ColocationBlock(index=index, order=order, runs=runs))
                made = self._turn(index, condition)
                if any(run.overlap_ratio is not None and run.refused is not None for run in made):
                    self._progress.note(f"block {index}: {made[0].refused or made[1].refused}: once more")
                    made = [*made, *self._turn(index, condition, again=True)]
                runs = [*runs, *made]
                self._put(ColocationBlock(index=index, order=order, runs=runs))

    def _words(self, condition: Condition) -> str:
        if condition is Condition.TOGETHER:
            return " and ".join(self._names) + " together"
        return f"{self._names[0 if condition is Condition.FIRST else 1]} alone"

    def _put(self, block: ColocationBlock) -> None:
        blocks = [each for each in self._manifest.record.blocks if each.index != block.index]
        self._manifest.put(self._manifest.record.model_copy(update={"blocks": [*blocks, block]}))

    def _turn(self, index: int, condition: Condition, *, again: bool = False) -> list[ColocationRun]:
        """Make the run of a workload alone, or those of both together."""
        align(*self._lengths)
        label = f"{index}-{condition}" + ("-again" if again else "")
        both = condition is Condition.TOGETHER
        numbers = (0, 1) if both else (0,) if condition is Condition.FIRST else (1,)
        meeting = self._manifest.directory / "requests" / f"meeting-{label}" if both else None
        started = [(number, *self._start(label, number, meeting)) for number in numbers]
        self._wait([process for _, _, process in started], [path for _, path, _ in started])
        made = [(number, *self._answer(path, process)) for number, path, process in started]
        entries = []
        for at, (number, folder, run) in enumerate(made):
            other = made[1 - at][2] if both else None
            entry = ColocationRun(workload=number, condition=condition, status=run.status, objections=[])
            metric = self._manifest.record.workloads[number].metric
            entries.append(analysis.judged_run(entry, run, metric, other))
            self._note_metric(number, run)
            self._lengths[number].note(run)
            if not both:
                found = analysis.seen_alone(
                    folder, run, limits=self._in_force(), disk_limits=self._disk_limits, health=self._health
                )
                self.seen[number].extend([found] if found is not None else [])
        return analysis.paired(entries)

    def _in_force(self) -> Limits:
        """Return the limits that were set on interfaces for all runs."""
        links = {x.interface: x.rate_bytes_per_s for x in self._request.limits if isinstance(x, NetworkLimit)}
        return Limits(network_bytes_per_s=links, source=_SET)

    def _start(self, turn: str, number: int, meeting: Path | None) -> tuple[Path, Process]:
        directory = self._manifest.directory
        label = f"{turn}-{number}"
        path = directory / "requests" / f"{label}.json"
        workload, length = self._request.workloads[number], self._lengths[number]
        asked = _run_request(self._request, workload, length.next_s, directory, meeting)
        path.write_text(json.dumps(asked_document(asked)))
        command = [sys.executable, "-m", "steelyard.bench.colocation.member", str(path)]
        process = self._executor.start(
            f"{self._names[number]} ({label})",
            command,
            log=directory / "logs" / f"{label}.log",
            grace_s=_STOP_S,
        )
        return path, process

    def _wait(self, processes: Sequence[Process], paths: Sequence[Path]) -> None:
        """Wait until all runs have ended; one that fails ends the others, as a signal does."""
        failed: tuple[Path, Process] | None = None
        try:
            while failed is None and any(process.poll() is None for process in processes):
                self._clock.sleep(TICK_S)
                if self._interrupts.received is not None:
                    raise WorkloadFailedError(f"stopped by {self._interrupts.received}")
                for path, process in zip(paths, processes, strict=True):
                    ending = process.poll()
                    if ending is not None and ending.code != 0:
                        failed = path, process
        finally:
            for process in processes:
                process.stop(_STOP_S)
        if failed is not None:
            # The others were ended for it: what they say is no reason.
            self._answer(*failed)

    def _answer(self, path: Path, process: Process) -> tuple[Path, Run]:
        """Return a run that was made. Raises what it failed with where it came to nothing."""
        try:
            answer = json.loads(answer_path(path).read_text())
        except OSError as error:
            message = process.last_line()
            raise WorkloadFailedError(
                f"{process.name} {process.stop(0.0)}" + (f": {message}" if message else ""),
                hint=f"see {process.log}",
            ) from error
        if "message" in answer:
            kinds = {int(kind.exit_code): kind for kind in (UsageError, EnvironmentLacksError)}
            kind = kinds.get(answer["exit_code"], WorkloadFailedError)
            raise kind(f"{process.name}: {answer['message']}", hint=answer.get("hint"))
        folder = self._manifest.directory / str(answer["run_id"])
        return folder, run_files.load(folder)

    def _note_metric(self, number: int, run: Run) -> None:
        record = self._manifest.record
        metric = run.metrics.get(record.workloads[number].metric)
        if metric is None:
            return
        workloads = [
            each.model_copy(update={"unit": metric.unit, "better": metric.better or "higher"})
            if at == number
            else each
            for at, each in enumerate(record.workloads)
        ]
        self._manifest.put(record.model_copy(update={"workloads": workloads}))
