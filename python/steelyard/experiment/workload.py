"""What a trial does: a run of a benchmark, or a command.

In: an arm and the number of its block. Out: `Measured`: the metric, or why there is none. A trial does not
raise for what its workload did; what keeps every trial from working (no such benchmark, no such program) is
an error.

Not here: when a trial is made (``engine``).
"""

import contextlib
import math
import os
import re
import resource
import select
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from steelyard._base import (
    EnvironmentLacksError,
    SteelyardError,
    UsageError,
    parse_cpu_list,
    without_escapes,
)
from steelyard.analyze.checks import CONSTANTS
from steelyard.bench import declaration
from steelyard.bench.clock import Clock
from steelyard.bench.executor import LocalExecutor, Process
from steelyard.bench.launch import SEED, execute, repeat_seed
from steelyard.bench.progress import Silence
from steelyard.bench.request import RunRequest
from steelyard.bench.signals import Interrupts
from steelyard.experiment.counting import CommandCounts
from steelyard.experiment.cpu_time import cpu_ticks
from steelyard.experiment.run_readings import readings_of_run
from steelyard.records import Level, Metric, Run, Verdict
from steelyard.records.experiment import (
    FIGURES,
    ExperimentArm,
    ExperimentGuard,
    ExperimentMetric,
    ExperimentReadBack,
    is_figure,
)

ELAPSED, CPU, IDLE = "elapsed_s", "cpu_s", "idle_ratio"
"""Metrics of a command that need no pattern: how long it took, and its CPU time with that of its children."""
RUNS = "runs"
LOGS = "logs"
_TAIL_BYTES = 1 << 20
"""A command's output is searched from this many bytes before its end."""
SETTLED_RATIO = 0.05
"""Intervals have settled when what they still drift is surely less than this share of their level."""
SETTLED_INTERVALS = 10
_TICK_S = 0.2
"""Interrupts and the time limit are looked at so often."""
_FIRST_LOOK_S = 0.002
_STOP_TIMEOUT_S = 5.0
NEIGHBOURS = frozenset({"steal", "foreign-load"})
"""Checks of a run that an experiment need not pass: other processes meet the arms of a block at random,
which makes the interval wider and not wrong."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What one trial gave."""

    value: float | None
    reason: str | None = None
    unit: str = ""
    better: str | None = None
    run_id: str | None = None
    is_disturbed: bool = False
    """Whether neighbours took so much CPU time that the value alone would mean nothing."""
    readings: Mapping[str, float] = field(default_factory=dict)
    """Other figures of the trial."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Why others could not be taken."""
    read_back: ExperimentReadBack | None = None
    """Where its threads and pages were, where the arm has a placement."""
    co_runner_read_back: ExperimentReadBack | None = None
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    """All metrics of a run."""
    ends_arm: bool = False
    """Whether the arm must not be tried again."""
    intervals: Sequence[float] = ()
    """Metric of each interval behind the value, where it is their mean."""
    others: Mapping[str, "Other"] = field(default_factory=dict)
    """Readings that guardrails and curves are about, by name."""

    @property
    def all_readings(self) -> dict[str, float]:
        """The other figures of the trial."""
        return {name: value for name, value in self._figures().items() if is_figure(value)}

    @property
    def all_missing(self) -> dict[str, str]:
        """Why others could not be taken."""
        others = {name: "no finite number" for name, other in self.others.items() if other.value is None}
        return {**self.missing, **why_left_out(self._figures()), **others}

    def _figures(self) -> dict[str, float]:
        others = {name: other.value for name, other in self.others.items() if other.value is not None}
        return {**self.readings, **others}


@dataclass(frozen=True, slots=True)
class Other:
    """A metric beside the one that is compared."""

    value: float | None
    """None where the trial has none, or one that is not finite."""
    unit: str = ""
    better: str = ""
    """`higher`, `lower`, or empty where nobody said."""


class Workload(Protocol):
    """What an experiment is made with."""

    def measure(self, arm: ExperimentArm, block: int) -> Measured:
        """Try an arm once."""


def why_left_out(readings: Mapping[str, float]) -> dict[str, str]:
    """Return the reason of each reading that is no figure of a trial."""
    return {
        name: f"it is {value:g}: figures are {FIGURES}"
        for name, value in readings.items()
        if not is_figure(value)
    }


def positive(value: float | None, **more: Any) -> Measured:
    """Return a value that ratios can be made of, or why this is none."""
    if value is None or value <= 0 or not is_figure(value):
        shown = "missing" if value is None else f"{value:g}"
        return Measured(None, f"the metric is {shown}: ratios need a positive number", **more)
    return Measured(value, None, **more)


@dataclass(frozen=True)
class BenchmarkRuns:
    """Trials that are runs of a benchmark. Both arms of a block get the same seed, so the same requests."""

    benchmark: str
    tier: str
    metric: str
    directory: Path
    seed: int
    clock: Clock
    interrupts: Interrupts
    hooks: tuple[str, ...] = ()
    has_readings: bool = False
    """Whether latency, errors and counts are read from each run."""
    others: tuple[str, ...] = ()
    """Further metrics that are kept."""

    def measure(self, arm: ExperimentArm, block: int) -> Measured:
        """Run the benchmark with the settings of an arm; a run that is invalid by itself has no value."""
        chosen = {SEED: str(repeat_seed(self.seed, block + 2)), **arm.settings}
        request = RunRequest(
            name=self.benchmark, tier=self.tier, chosen=chosen, hooks=self.hooks, out=self.directory / RUNS
        )
        try:
            with _confined(_cpus_of(arm)):
                launched = execute(request, progress=Silence(), clock=self.clock, interrupts=self.interrupts)
        except UsageError:
            raise
        except SteelyardError as error:
            return Measured(None, error.message)
        attempt = launched.attempts[0]
        run_id = attempt.run.run_id
        if attempt.error is not None:
            return Measured(None, attempt.error.message, run_id=run_id)
        readings, missing = readings_of_run(attempt) if self.has_readings else ({}, {})
        return measured_of(attempt.run, self.metric, self.others, readings=readings, missing=missing)


def measured_of(run: Run, name: str, others: Sequence[str] = (), **more: Any) -> Measured:
    """Return the metric of a run, and ``others`` beside it; one that is invalid by itself has no value.

    Raises UsageError where its benchmark has no such metric.
    """
    about = {"run_id": run.run_id, **more}
    return measured_of_metrics(run.benchmark, run.metrics, run.verdict, name, others, **about)


def measured_of_metrics(
    benchmark: str,
    metrics: Mapping[str, Metric],
    verdict: Verdict | None,
    name: str,
    others: Sequence[str],
    **more: Any,
) -> Measured:
    """Return the metric of a run as `measured_of` does, from its metrics alone."""
    for each in (name, *others):
        if each not in metrics:
            known = ", ".join(sorted(metrics))
            raise UsageError(f"{benchmark} has no metric {each!r}", hint=f"it has {known}")
    metric = metrics[name]
    about: dict[str, Any] = {
        "unit": metric.unit,
        "better": metric.better,
        "metrics": {each: one.value for each, one in metrics.items()},
        "others": {
            each: Other(_finite(metrics[each].value), metrics[each].unit, metrics[each].better or "")
            for each in others
        },
        **more,
    }
    broken = [check for check in verdict.reasons if check.level is Level.INVALID] if verdict else []
    for check in broken:
        if check.id not in NEIGHBOURS:
            return Measured(None, f"invalid: {check.claim}", **about)
    return positive(metric.value, is_disturbed=bool(broken), **about)


@dataclass(frozen=True)
class Commands:
    """Trials that are commands: started without a shell, under a supervisor that leaves no process behind."""

    metric: ExperimentMetric
    directory: Path
    timeout_s: float
    clock: Clock
    interrupts: Interrupts
    readings: Sequence[ExperimentMetric] = ()
    """Other numbers to take from the output."""
    counts: CommandCounts | None = None
    """What counts beside the commands, None: nothing."""
    look: Callable[[int], float] | None = None
    """Looks at a trial under way, by its supervisor's id; returns after how many seconds to look again."""
    guards: tuple[ExperimentGuard, ...] = ()

    def measure(self, arm: ExperimentArm, block: int) -> Measured:
        """Run the command of an arm to its end."""
        log = self.directory / LOGS / f"{block:04}-{arm.name.replace('/', '_')}.log"
        command = arm.command if self.counts is None else self.counts.wrapped(arm.command)
        took = self.run(arm, command, log)
        if isinstance(took, str):
            return Measured(None, took)
        text = tail(log)
        readings, missing = dict(took), {}
        for wanted in self.readings:
            number = _found(text, wanted.pattern or "")
            if isinstance(number, str):
                missing[wanted.name] = number
            else:
                # A reading is no metric: 0 errors, or a depth of 0, is a figure.
                readings[wanted.name] = number
        if self.counts is not None:
            counted, reasons = self.counts.read()
            readings, missing = {**counted, **readings}, {**reasons, **missing}
        is_disturbed = _is_disturbed(arm, readings)
        return measured_of_output(
            self.metric,
            self.guards,
            took,
            text,
            readings=readings,
            missing=missing,
            is_disturbed=is_disturbed,
        )

    def run(self, arm: ExperimentArm, command: Sequence[str], log: Path) -> dict[str, float] | str:
        """Run a command on the CPUs of an arm; return the time that it took, or why it failed."""
        program = arm.command[0]
        if shutil.which(program) is None:
            raise EnvironmentLacksError(f"{program}: no such program", hint="give its path, or install it")
        make_way(log)
        cpus, nodes = placed(arm)
        ticks, before_s, begin_ns = cpu_ticks(cpus), _children_cpu_s(), self.clock.monotonic_ns()
        process = LocalExecutor().start(
            f"trial-{arm.name}", command, log=log, cpus=cpus or None, memory_nodes=nodes, direct=True
        )
        reason = ended(process, self.timeout_s, clock=self.clock, interrupts=self.interrupts, look=self.look)
        end_ns = self.clock.monotonic_ns()
        reason = reason or self._ended_badly(process, program)
        if reason is not None:
            return reason
        took = {ELAPSED: (end_ns - begin_ns) / 1e9, CPU: _children_cpu_s() - before_s}
        idle_ratio = cpu_ticks(cpus).idle_ratio_since(ticks)
        return took if idle_ratio is None else {**took, IDLE: idle_ratio}

    def _ended_badly(self, process: Process, program: str) -> str | None:
        """Return how a command that has ended failed; its CPU time counts among the children's afterwards."""
        ending = process.stop(0.0)
        if ending.code == 0:
            return None
        message = process.last_line()
        return f"{Path(program).name} {ending}" + (f": {message}" if message else "")


def make_way(log: Path) -> None:
    """Leave nothing at a trial's log, in a folder that is there.

    Raises EnvironmentLacksError where something else is in the place of one of them.
    """
    try:
        log.parent.mkdir(exist_ok=True)
        log.unlink(missing_ok=True)
    except OSError as error:
        raise EnvironmentLacksError(
            f"{log}: a trial cannot write its output there: {error.strerror}",
            hint="remove what is there",
        ) from error


def measured_of_output(
    metric: ExperimentMetric,
    guards: Sequence[ExperimentGuard],
    took: Mapping[str, float],
    text: str,
    **more: Any,
) -> Measured:
    """Return the metric of a command that has ended well, from the time that it took and its output."""
    more["others"] = {guard.name: _guarded(guard, took, text) for guard in guards}
    if metric.pattern is None:
        return positive(took[metric.name], unit="s", better="lower", **more)
    more |= {"unit": metric.unit, "better": metric.better}
    value: float | str
    if metric.is_series:
        intervals = _settled(text, metric.pattern)
        if not isinstance(intervals, str):
            return positive(sum(intervals) / len(intervals), intervals=intervals, **more)
        value = intervals
    else:
        value = _found(text, metric.pattern)
    return Measured(None, value, **more) if isinstance(value, str) else positive(value, **more)


def _is_disturbed(arm: ExperimentArm, readings: Mapping[str, float]) -> bool:
    """Return whether others had more of the arm's CPUs than a run of its own may lose."""
    cpus, _ = placed(arm)
    if not cpus or IDLE not in readings:
        return False
    used = readings[CPU] / readings[ELAPSED] / len(cpus)
    return 1 - readings[IDLE] - used > CONSTANTS.headline_invalid_ratio


def _cpus_of(arm: ExperimentArm) -> list[int]:
    """Return the CPUs of an arm; none where it has all that are usable."""
    return [] if arm.cpus is None else parse_cpu_list(arm.cpus.listed) or []


@contextlib.contextmanager
def _confined(cpus: Sequence[int]) -> Iterator[None]:
    """Keep this process, and what it starts, on ``cpus``, so that a benchmark finds no others."""
    before = os.sched_getaffinity(0)
    if cpus:
        os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def placed(arm: ExperimentArm) -> tuple[list[int], list[int]]:
    """Return CPUs and memory nodes of an arm's trials, as executors take them; none where they are free."""
    if arm.placement is None:
        return _cpus_of(arm), []
    return parse_cpu_list(arm.placement.cpus) or [], parse_cpu_list(arm.placement.memory_nodes) or []


def ended(
    process: Process,
    timeout_s: float,
    *,
    clock: Clock,
    interrupts: Interrupts,
    look: Callable[[int], float] | None = None,
) -> str | None:
    """Wait for the end of a process, with a look at it now and then; return why it was not waited for."""
    begin_ns = clock.monotonic_ns()
    tick_s = _TICK_S if look is None else _FIRST_LOOK_S
    next_look_ns = 0
    # Its end is seen at once: polling would round every time to its interval.
    descriptor = os.pidfd_open(process.pid)
    try:
        while not select.select([descriptor], [], [], tick_s)[0]:
            process.poll()
            now_ns = clock.monotonic_ns()
            if interrupts.received is not None:
                process.stop(_STOP_TIMEOUT_S)
                return f"stopped by {interrupts.received}"
            if now_ns - begin_ns > timeout_s * 1e9:
                process.stop(_STOP_TIMEOUT_S)
                return f"took longer than {timeout_s:g} s"
            if look is not None and now_ns >= next_look_ns:
                wait_s = look(process.pid)
                tick_s = min(_TICK_S, wait_s)
                next_look_ns = clock.monotonic_ns() + round(wait_s * 1e9)
    finally:
        os.close(descriptor)
    return None


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _guarded(guard: ExperimentGuard, took: Mapping[str, float], text: str) -> Other:
    """Return the metric of a guardrail."""
    value = took.get(guard.name) if guard.pattern is None else _found(text, guard.pattern)
    return Other(_finite(value if isinstance(value, float) else None), guard.unit, guard.better)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def tail(log: Path, at_most_bytes: int = _TAIL_BYTES) -> str:
    """Return the end of what a trial has printed, without colours."""
    with log.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - at_most_bytes))
        return without_escapes(file.read().decode("utf-8", "replace"))


def _found(text: str, pattern: str) -> float | str:
    """Return what the pattern finds last in the output, or why it finds no number."""
    matches = list(re.finditer(pattern, text, re.MULTILINE))
    if not matches:
        return f"its output has nothing that fits '{pattern}'"
    try:
        return float(matches[-1][1])
    except ValueError:
        return f"{matches[-1][1]!r} is no number"


def _settled(text: str, pattern: str) -> list[float] | str:
    """Return the intervals in the output from where they have settled, or why there are none."""
    matches = [match[1] for match in re.finditer(pattern, text, re.MULTILINE)]
    try:
        values = [float(match) for match in matches]
    except ValueError as error:
        return f"its output has an interval that is no number: {error}"
    if not all(map(math.isfinite, values)):
        return "its output has an interval that is not finite"
    return settled_intervals(values)


def settled_intervals(values: Sequence[float]) -> list[float] | str:
    """Return the stretch at the end on which intervals no longer drift, or why there is none.

    Where they are too noisy to distinguish a plateau from a slow approach, their second half will do if its
    mean is its level all the same.
    """
    from steelyard.stats.steady import check, settled

    plateau = settled(values, tolerance_ratio=SETTLED_RATIO, windows=SETTLED_INTERVALS)
    if plateau is not None:
        return list(values[plateau.index :])
    few = f", {SETTLED_INTERVALS} are needed" if len(values) < SETTLED_INTERVALS else ""
    half = list(values[-max(SETTLED_INTERVALS, len(values) // 2) :])
    if not few and check(half, tolerance_ratio=SETTLED_RATIO).steady:
        return half
    return f"its {len(values)} intervals did not settle within {100 * SETTLED_RATIO:g} %{few}"


def check_pattern(pattern: str, flag: str = "--metric") -> str:
    """Return a pattern with exactly one group. Raises UsageError for another."""
    try:
        groups = re.compile(pattern, re.MULTILINE).groups
    except re.error as error:
        raise UsageError(f"{flag} '{pattern}': {error}") from error
    if groups != 1:
        raise UsageError(
            f"{flag} '{pattern}' has {groups} groups, one is needed: that of the number",
            hint=rf"such as {flag} rate='(\d+) requests/s'",
        )
    return pattern


def headline_of(benchmark: str) -> str:
    """Return the metric that a benchmark is scored by. Raises UsageError for an unknown benchmark."""
    return declaration.find(benchmark).headline[0]
