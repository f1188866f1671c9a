"""A tuning of this machine in its folder: begun, resumed, shown.

In: the record, the knobs, the workload. Out: ``tuning.json``, complete after each experiment, beside the
folders of these.

Not here: what is tried (``tuning``), flags (``cli.tune``).
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from steelyard._base import EnvironmentLacksError, RecordError, UsageError
from steelyard.bench import undo
from steelyard.bench.clock import Clock
from steelyard.bench.identity import gone
from steelyard.bench.manifest import this_process
from steelyard.bench.progress import Progress
from steelyard.bench.signals import Interrupts
from steelyard.experiment import engine
from steelyard.experiment.engine import StillOpen
from steelyard.experiment.workload import BenchmarkRuns, Commands, Workload
from steelyard.records import RunStatus, read, write
from steelyard.records.experiment import Experiment
from steelyard.records.tuning import Tuning, TuningGuard
from steelyard.tune.guards import Guard, Source
from steelyard.tune.knobs import Knob
from steelyard.tune.trials import KnobTrials
from steelyard.tune.tuning import StoppedError, Tuner

LOCK = "tune.lock"
MANIFEST = "tuning.json"
USER_FILE = "knobs.toml"


@dataclass
class Session:
    """A tuning under way in ``directory``."""

    directory: Path
    tuning: Tuning
    knobs: Mapping[str, Knob]
    clock: Clock
    progress: Progress
    interrupts: Interrupts
    told: Callable[[Experiment], None] = lambda experiment: None

    def run(self) -> Tuning:
        """Tune; return the record, which is incomplete after an interrupt. Raises SteelyardError."""
        self._keep(
            self.tuning.model_copy(
                update={
                    "status": RunStatus.RUNNING,
                    "status_reason": None,
                    "orchestrator": this_process(),
                }
            )
        )
        tuner = Tuner(self.tuning, self.knobs, self._make, self._keep)
        try:
            tuner.run()
        except StoppedError as stopped:
            self._end(RunStatus.INCOMPLETE, str(stopped))
        except BaseException as error:
            self._end(RunStatus.INCOMPLETE, str(error) or type(error).__name__)
            raise
        else:
            self._end(RunStatus.COMPLETE, None)
        return self.tuning

    def _end(self, status: RunStatus, reason: str | None) -> None:
        self._keep(self.tuning.model_copy(update={"status": status, "status_reason": reason}))

    def _keep(self, tuning: Tuning) -> None:
        self.tuning = tuning
        write(tuning, self.directory / MANIFEST)

    def _make(self, name: str, experiment: Experiment, rule: StillOpen | None) -> Experiment:
        folder = self.directory / name
        if (folder / engine.MANIFEST).exists():
            made = read(Experiment, folder / engine.MANIFEST)
            if made.arms != experiment.arms:
                raise UsageError(f"{folder} holds another experiment: begin a new tuning")
            if made.status is RunStatus.COMPLETE:
                return made
            experiment = made
        folder.mkdir(exist_ok=True)
        self.progress.note(f"{name}: {', '.join(arm.name for arm in experiment.arms)}")
        workload = KnobTrials(
            inner=self._workload(experiment, folder),
            knobs=self.knobs,
            guards=guards_of(self.tuning.guards),
            name=f"tune-{self.directory.name}",
            settle_s=self.tuning.plan.settle_s,
            clock=self.clock,
            interrupts=self.interrupts,
        )
        return engine.Engine(
            folder,
            experiment,
            workload,
            clock=self.clock,
            progress=self.progress,
            interrupts=self.interrupts,
            told=self.told,
            still_open=rule,
        ).run()

    def _workload(self, experiment: Experiment, folder: Path) -> Workload:
        plan = self.tuning.plan
        if experiment.benchmark is None:
            return Commands(experiment.metric, folder, plan.timeout_s, self.clock, self.interrupts)
        return BenchmarkRuns(
            benchmark=experiment.benchmark,
            tier=experiment.tier or "quick",
            metric=experiment.metric.name,
            directory=folder,
            seed=experiment.plan.seed,
            clock=self.clock,
            interrupts=self.interrupts,
            hooks=tuple(experiment.hooks),
        )


@contextmanager
def alone() -> Iterator[None]:
    """Keep a second tuning from taking this one's changes for the machine as found.

    Raises EnvironmentLacksError while another one holds the lock, which its end releases, however it comes.
    """
    path = undo.journal_dir().with_name(LOCK)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise EnvironmentLacksError(
                    "another tuning is under way on this machine", hint="wait for its end"
                ) from error
            yield
    except PermissionError as error:
        raise EnvironmentLacksError(
            f"{path}: cannot be written: {error.strerror}", hint="point XDG_STATE_HOME at a writable folder"
        ) from error


def guards_of(records: Sequence[TuningGuard]) -> list[Guard]:
    """Return the guardrails of a record."""
    return [Guard(one.name, Source(one.source), tuple(one.words), one.is_most, one.limit) for one in records]


def load(directory: Path) -> Tuning:
    """Return the tuning in ``directory``; one whose process is gone says so. Raises RecordError."""
    tuning = read(Tuning, directory / MANIFEST)
    if tuning.status is not RunStatus.RUNNING:
        return tuning
    reason = gone(tuning.orchestrator)
    if reason is None:
        return tuning
    return tuning.model_copy(update={"status": RunStatus.INCOMPLETE, "status_reason": reason})


def load_to_resume(directory: Path) -> Tuning:
    """Return a tuning that can go on. Raises UsageError for one that is complete or still running."""
    try:
        tuning = load(directory)
    except RecordError as error:
        raise UsageError(f"{directory} holds no tuning: {error.message}") from error
    if tuning.status is RunStatus.COMPLETE:
        raise UsageError(f"{directory} is complete", hint=f"show it: steelyard tune show {directory}")
    if tuning.status is RunStatus.RUNNING:
        raise UsageError(f"{directory} is still running (process {tuning.orchestrator.pid})")
    return tuning


def check_as_found(tuning: Tuning, knobs: Mapping[str, Knob]) -> None:
    """Raise UsageError where a knob no longer has the value with which the tuning began."""
    for entry in tuning.knobs:
        knob = knobs.get(entry.name)
        if entry.reason is None and (knob is None or knob.read() != entry.found):
            now = "is not there any more" if knob is None else f"is {knob.read()}"
            raise UsageError(
                f"{entry.name} was {entry.found} when the tuning began, and {now}",
                hint="steelyard tune restore puts back what a killed tuning left behind",
            )
