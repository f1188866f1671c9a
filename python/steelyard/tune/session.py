"""A tuning of this machine in its folder: begun, resumed, shown.

In: the record, the knobs, the workload. Out: ``tuning.json``, complete after each experiment, beside the
folders of these.

Not here: what is tried (``tuning``), flags (``cli.tune``).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import steelyard
from steelyard._base import (
    EnvironmentLacksError,
    RecordError,
    SteelyardError,
    UsageError,
    command_text,
    record_files,
)
from steelyard.bench import undo
from steelyard.bench.clock import Clock
from steelyard.bench.identity import gone
from steelyard.bench.manifest import this_process
from steelyard.bench.progress import Progress
from steelyard.bench.signals import Interrupts
from steelyard.experiment import engine
from steelyard.experiment.engine import StillOpen
from steelyard.experiment.workload import BenchmarkRuns, Commands, Workload
from steelyard.machine.compare import other_machine
from steelyard.records import Machine, RunStatus, read, write
from steelyard.records.experiment import Experiment
from steelyard.records.tuning import Tuning, TuningGuard
from steelyard.tune.guards import Guard, Source, breach_of_metrics
from steelyard.tune.knobs import Knob
from steelyard.tune.trials import KnobTrials
from steelyard.tune.tuning import StoppedError, Tuner

LOCK = "tune.lock"
MANIFEST = record_files.TUNING
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
    on_progress: Callable[[Experiment], None] = lambda experiment: None

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
            # Where no arm changes the machine there is nothing that settles.
            settle_s=self.tuning.plan.settle_s if any(arm.knobs for arm in experiment.arms) else 0.0,
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
            on_progress=self.on_progress,
            still_open=rule,
        ).run()

    def _workload(self, experiment: Experiment, folder: Path) -> Workload:
        plan = self.tuning.plan
        if experiment.live is not None:
            return live_trials(experiment, folder, guards_of(self.tuning.guards), self.clock, self.interrupts)
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


def live_trials(
    experiment: Experiment, folder: Path, guards: Sequence[Guard], clock: Clock, interrupts: Interrupts
) -> Workload:
    """Return trials that look at the running service of an experiment, and end where it breaches a bound."""
    # Not at the top: other trials do without.
    from steelyard.experiment.live import LiveTrials

    def bound(means: Mapping[str, float]) -> str | None:
        return breach_of_metrics([guard for guard in guards if guard.words[0] in means], means)

    return LiveTrials(experiment, folder, clock, interrupts, bound=bound)


@contextmanager
def alone(*roots: Path | str) -> Iterator[None]:
    """Keep a second tuning from taking this one's changes for the machines below ``roots`` as found.

    There is a lock beside the undo journal, and one for each machine: for this one a file that only root may
    open, since anybody could hold a lock of what anybody may open, and for others the folder that stands for
    them. Raises EnvironmentLacksError while another process holds one of them; its end releases them, however
    it comes.
    """
    path = undo.journal_dir().with_name(LOCK)
    with contextlib.ExitStack() as held:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            own = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise EnvironmentLacksError(
                f"{path}: cannot be written: {error.strerror}",
                hint="point XDG_STATE_HOME at a writable folder",
            ) from error
        held.callback(os.close, own)
        _lock(own)
        # In one order, so that two that want the same ones cannot wait for each other's.
        for root in sorted({os.path.realpath(one) for one in roots}):
            try:
                descriptor = _open_lock_of(root)
                if descriptor is None:
                    continue
            except OSError as error:
                raise UsageError(f"--root {root}: {error.strerror}") from error
            held.callback(os.close, descriptor)
            _lock(descriptor)
        yield


def _open_lock_of(root: str) -> int | None:
    """Open what stands for the machine below ``root``; None where that is for root alone. Raises OSError."""
    if root != "/":
        return os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    if os.geteuid() != 0:
        # Knobs of the whole machine are root's; of this user's tunings the first lock keeps a second away.
        return None
    try:
        _OF_ROOT.mkdir(mode=0o700, exist_ok=True)
    except OSError:
        return None
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(_OF_ROOT / LOCK, flags, 0o600)


_OF_ROOT = Path("/run/steelyard")
_NO_LOCKS = (errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL)
"""What file systems answer that have no lock for a folder (NFS): the one beside the journal has to do."""


def _lock(descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise EnvironmentLacksError(
            "another tuning is under way on this machine", hint="wait for its end"
        ) from error
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise


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


def load_to_resume(directory: Path, here: Machine) -> Tuning:
    """Return a tuning that can go on, on the machine ``here``.

    Raises UsageError for one that is complete or still running, and for one that another version of
    Steelyard or another machine began: its trials would not be alike.
    """
    try:
        tuning = load(directory)
    except RecordError as error:
        raise UsageError(f"{directory} holds no tuning: {error.message}") from error
    if tuning.status is RunStatus.COMPLETE:
        raise UsageError(f"{directory} is complete", hint=_shown_by(directory))
    if tuning.status is RunStatus.RUNNING:
        raise UsageError(f"{directory} is still running (process {tuning.orchestrator.pid})")
    if tuning.steelyard_version != steelyard.__version__:
        raise _refused(
            directory,
            f"it began with version {tuning.steelyard_version}, and this is {steelyard.__version__}",
        )
    try:
        then = read(Machine, directory / engine.MACHINE)
    except SteelyardError as error:
        raise _refused(directory, f"it began on an unknown machine: {error.message}") from error
    if (other := other_machine(then, here)) is not None:
        raise _refused(directory, f"it began on another machine: {other}")
    return tuning


def _refused(directory: Path, why: str) -> UsageError:
    return UsageError(f"{directory.name} cannot be resumed: {why}", hint=_shown_by(directory))


def _shown_by(directory: Path) -> str:
    return f"show it: {command_text(['steelyard', 'tune', 'show', directory])}"


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
