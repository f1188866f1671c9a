"""Makes the trials of an experiment, block by block, until it has its answers.

In: the record of an experiment, new or interrupted, and its workload. Out: the record with its trials,
on disk after each of them.

It ends when every arm has an answer (where the plan allows that; a sweep goes on until its knee can be asked
for), when its blocks or its time are used up, or when an arm gives no value several times in a row: what
fails in one arm only is no experiment. A rule of its own (``still_open``) may drop arms instead, and decide
when it ends.

Not here: what a trial does (``workload``), what the trials say (``answers``).
"""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Protocol

import steelyard
from steelyard._base import RecordError, SteelyardError, UsageError, WorkloadFailedError, record_files
from steelyard.analyze.scaling.curve import READING_UNITS
from steelyard.bench.clock import Clock
from steelyard.bench.identity import gone
from steelyard.bench.manifest import this_process
from steelyard.bench.progress import Progress
from steelyard.bench.signals import Interrupts
from steelyard.experiment.answers import DECIDED, answers
from steelyard.experiment.design import orders
from steelyard.experiment.response import lacks_blocks_for_knee
from steelyard.experiment.workload import Measured, Workload
from steelyard.machine.compare import other_machine
from steelyard.records import Machine, RunStatus, read, write
from steelyard.records.experiment import Experiment, ExperimentArm, ExperimentTrial

MANIFEST = record_files.EXPERIMENT
MACHINE = "machine.json"
"""The machine on which it began."""
INTERVALS = 100
"""Most intervals of a trial in the record, which is written after each trial."""
FAILURES = 3
"""So many trials of an arm without a value, one after the other, end the experiment."""


class Together(Protocol):
    """Makes the trials of a block at once."""

    def measure_together(self, placed: Sequence[tuple[ExperimentArm, str]], block: int) -> list[Measured]:
        """Try each arm on its host."""


StillOpen = Callable[[Experiment], Collection[str]]
"""Which arms the next block tries; none: the experiment is over."""


class Engine:
    """An experiment under way in ``directory``."""

    def __init__(
        self,
        directory: Path,
        experiment: Experiment,
        workload: Workload,
        *,
        clock: Clock,
        progress: Progress,
        interrupts: Interrupts,
        on_progress: Callable[[Experiment], None] = lambda experiment: None,
        still_open: StillOpen | None = None,
        keep: Callable[[Experiment, Path], None] = write,
        together: Together | None = None,
    ) -> None:
        """``still_open`` takes the place of "until every arm has an answer"; ``keep`` stores the record.

        ``together`` makes the trials of a block at once, each on a host of its own, in place of ``workload``.
        """
        self.directory = directory
        self.experiment = experiment
        self._workload = workload
        self._clock = clock
        self._progress = progress
        self._interrupts = interrupts
        self._on_progress = on_progress
        self._still_open = still_open
        self._keep = keep
        self._together = together

    def run(self) -> Experiment:
        """Make the trials that are missing; return the record.

        Raises WorkloadFailedError for an arm that gives no value.
        """
        self._change(status=RunStatus.RUNNING, status_reason=None, orchestrator=this_process())
        arms = {arm.name: arm for arm in self.experiment.arms}
        plan = self.experiment.plan
        self._progress.phase("trials")
        try:
            last = max((trial.block for trial in self.experiment.trials), default=0)
            for block, order in enumerate(orders(list(arms), plan.blocks, plan.seed)):
                if block < last:
                    # What is missing there was no longer open then.
                    continue
                still_open = self._open()
                is_whole = all(trial.block != block for trial in self.experiment.trials)
                if is_whole and (reason := self._enough(still_open)) is not None:
                    self._change(status=RunStatus.COMPLETE, status_reason=reason)
                    return self.experiment
                if self._together is not None:
                    self._try_together([arms[name] for name in order], block)
                    self._on_progress(self.experiment)
                    continue
                for name in order:
                    if name in still_open and not self._has(block, name):
                        self._try(arms[name], block)
                self._on_progress(self.experiment)
        except _StoppedError as stopped:
            self._change(status=RunStatus.INCOMPLETE, status_reason=str(stopped))
            return self.experiment
        except BaseException as error:
            self._change(status=RunStatus.INCOMPLETE, status_reason=str(error) or type(error).__name__)
            raise
        self._change(status=RunStatus.COMPLETE, status_reason=self._enough(self._open()))
        return self.experiment

    def _change(self, **update: object) -> None:
        self.experiment = self.experiment.model_copy(update=update)
        self._keep(self.experiment, self.directory / MANIFEST)

    def _has(self, block: int, arm: str) -> bool:
        return any(trial.block == block and trial.arm == arm for trial in self.experiment.trials)

    def _try(self, arm: ExperimentArm, block: int) -> None:
        self._begin(block, arm.name)
        begin_ns = self._clock.monotonic_ns()
        measured = self._workload.measure(arm, block)
        self._check()
        self._add(self._trial(arm, block, begin_ns, measured), measured)

    def _try_together(self, arms: Sequence[ExperimentArm], block: int) -> None:
        """Try the arms of a block at once, the first in its order on the first host."""
        assert self._together is not None
        if self._has(block, arms[0].name):
            return
        self._begin(block, ", ".join(arm.name for arm in arms))
        begin_ns = self._clock.monotonic_ns()
        placed = list(zip(arms, self.experiment.hosts, strict=True))
        found = self._together.measure_together(placed, block)
        self._check()
        made = [
            self._trial(arm, block, begin_ns, measured).model_copy(update={"host": host})
            for (arm, host), measured in zip(placed, found, strict=True)
        ]
        # One after the other would be half a block, after a kill between them.
        self._change(trials=[*self.experiment.trials, *made])
        for trial, measured in zip(made, found, strict=True):
            self._learn(trial, measured)

    def _begin(self, block: int, arms: str) -> None:
        self._check()
        done = len(self.experiment.trials)
        total = self.experiment.plan.blocks * len(self.experiment.arms)
        self._progress.status({"block": f"{block + 1}", "arm": arms, "trials": f"{done} of at most {total}"})

    def _check(self) -> None:
        """Stop where a signal asked for it: what it cut short is no trial, and is made again."""
        if self._interrupts.received is not None:
            raise _StoppedError(f"stopped by {self._interrupts.received}")

    def _trial(self, arm: ExperimentArm, block: int, begin_ns: int, measured: Measured) -> ExperimentTrial:
        return ExperimentTrial(
            block=block,
            arm=arm.name,
            begin_ns=begin_ns,
            end_ns=self._clock.monotonic_ns(),
            value=measured.value,
            reason=measured.reason,
            intervals=_condensed(measured.intervals),
            readings=measured.all_readings,
            missing=measured.all_missing,
            run_id=measured.run_id,
            is_disturbed=measured.is_disturbed,
            read_back=measured.read_back,
            co_runner_read_back=measured.co_runner_read_back,
            ends_arm=measured.ends_arm,
        )

    def _add(self, trial: ExperimentTrial, measured: Measured) -> None:
        self._change(trials=[*self.experiment.trials, trial])
        self._learn(trial, measured)

    def _learn(self, trial: ExperimentTrial, measured: Measured) -> None:
        if learnt := self._learnt(measured):
            self._change(**learnt)
        if trial.reason is not None:
            self._progress.note(f"block {trial.block + 1}, arm {trial.arm}: no value: {trial.reason}")
            self._give_up(trial.arm, trial.reason)

    def _learnt(self, measured: Measured) -> dict[str, object]:
        """Return what the first trial tells of the metrics: their units, and which way is better."""
        found: dict[str, object] = {}
        metric, plan = self.experiment.metric, self.experiment.plan
        if measured.unit and not metric.unit:
            better = measured.better or metric.better
            found["metric"] = metric.model_copy(update={"unit": measured.unit, "better": better})
        guards = []
        for guard in plan.guards:
            reading = measured.others.get(guard.name)
            if reading is not None:
                update = {"unit": guard.unit or reading.unit, "better": guard.better or reading.better}
                if not update["better"]:
                    raise UsageError(
                        f"--guard {guard.name}: {self.experiment.benchmark} does not say which way is worse",
                        hint="+5% allows 5 % more (less is better), -5% allows 5 % less",
                    )
                guards.append(guard.model_copy(update=update))
            else:
                guards.append(guard)
        if guards != plan.guards:
            found["plan"] = plan.model_copy(update={"guards": guards})
        units = {name: READING_UNITS[name] for name in measured.readings if name in READING_UNITS}
        units |= {name: other.unit for name, other in measured.others.items() if other.unit}
        if new := units.keys() - self.experiment.units.keys():
            found["units"] = {**self.experiment.units, **{name: units[name] for name in sorted(new)}}
        return found

    def _give_up(self, arm: str, reason: str) -> None:
        if self._still_open is not None and arm != self.experiment.arms[0].name:
            # It is for the rule to drop such an arm.
            return
        if failed(self.experiment, arm) is None:
            return
        if self.experiment.trials[-1].ends_arm:
            raise WorkloadFailedError(f"arm {arm}: {reason}")
        raise WorkloadFailedError(f"arm {arm} gave no value {FAILURES} times in a row: {reason}")

    def _open(self) -> Collection[str]:
        if self._still_open is None:
            return [arm.name for arm in self.experiment.arms]
        return self._still_open(self.experiment)

    def _enough(self, still_open: Collection[str]) -> str | None:
        """Return why no further block is made."""
        plan = self.experiment.plan
        if not self.experiment.trials:
            return None
        if not still_open:
            return "no arm is left to try"
        if self._still_open is None and plan.stop_early and not lacks_blocks_for_knee(self.experiment):
            known = answers(self.experiment, is_over=False)
            if all(answer.is_known for answer in known):
                return DECIDED
        # Not the time since the start: an experiment may have been interrupted.
        spent_s = sum(trial.end_ns - trial.begin_ns for trial in self.experiment.trials) / 1e9
        if plan.budget_s is not None and spent_s >= plan.budget_s:
            return f"its time of {plan.budget_s:g} s is used up"
        return None


def _condensed(intervals: Sequence[float]) -> list[float]:
    """Return intervals, or means of as many neighbours as leave `INTERVALS` of them; the last few may go."""
    size = -(-len(intervals) // INTERVALS)
    if size < 2:
        return list(intervals)
    whole = range(0, len(intervals) - size + 1, size)
    return [sum(intervals[at : at + size]) / size for at in whole]


class _StoppedError(Exception):
    """A signal asked for the end."""


def failed(experiment: Experiment, arm: str) -> str | None:
    """Return why an arm gives no value any more; None where it may be tried again."""
    trials = [trial for trial in experiment.trials if trial.arm == arm][-FAILURES:]
    if trials and trials[-1].ends_arm:
        return trials[-1].reason
    if len(trials) == FAILURES and all(trial.value is None for trial in trials):
        return trials[-1].reason
    return None


def load(directory: Path) -> Experiment:
    """Return the experiment in ``directory``; one whose process is gone says so.

    Raises RecordError when there is none that can be read.
    """
    experiment = read(Experiment, directory / MANIFEST)
    if experiment.status is not RunStatus.RUNNING:
        return experiment
    reason = gone(experiment.orchestrator, phase=f"trial {len(experiment.trials) + 1}")
    if reason is None:
        return experiment
    return experiment.model_copy(update={"status": RunStatus.INCOMPLETE, "status_reason": reason})


def load_to_resume(directory: Path, here: Machine | None = None) -> Experiment:
    """Return an experiment that can go on, on the machine ``here``.

    Raises UsageError for one that is complete or still running, and for one that another version of
    Steelyard or another machine began: its blocks would not be alike.
    """
    try:
        experiment = load(directory)
    except RecordError as error:
        raise UsageError(f"{directory} holds no experiment: {error.message}") from error
    if experiment.status is RunStatus.COMPLETE:
        raise UsageError(f"{directory} is complete", hint="show it: steelyard experiment DIR")
    if experiment.status is RunStatus.RUNNING:
        raise UsageError(f"{directory} is still running (process {experiment.orchestrator.pid})")
    if experiment.steelyard_version != steelyard.__version__:
        raise _refused(
            directory,
            f"it began with version {experiment.steelyard_version}, and this is {steelyard.__version__}",
        )
    if here is not None:
        try:
            then = read(Machine, directory / MACHINE)
        except SteelyardError as error:
            raise _refused(directory, f"it began on an unknown machine: {error.message}") from error
        if (difference := other_machine(then, here)) is not None:
            raise _refused(directory, f"it began on another machine: {difference}")
    return experiment


def _refused(directory: Path, why: str) -> UsageError:
    return UsageError(
        f"{directory.name} cannot be resumed: {why}", hint="show what is known: steelyard experiment DIR"
    )
