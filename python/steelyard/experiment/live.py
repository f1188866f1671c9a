"""A running service as the workload: a trial applies a variant to it and looks at it for a while.

In: an arm's command, which changes the service (its configuration, its environment, the machine), none
where something else does, and sources of operations as `steelyard characterize --ops` reads them. Out: the
value of the metric over the intervals from where it has settled, and of the other sources over the same time.

Nothing here starts or ends the service. The first arm's command stands in the undo journal while another
variant may be in place: it is run again at the end of the experiment, and by the next start after a kill.

Not here: reading the sources (``bench.operations``), when a trial is made (``engine``).
"""

from __future__ import annotations

import contextlib
import json
import math
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard._base import EnvironmentLacksError, command_text
from steelyard.bench import undo
from steelyard.bench.clock import Clock
from steelyard.bench.executor import LocalExecutor, Process
from steelyard.bench.operations import afterwards
from steelyard.bench.operations.recorder import COMM
from steelyard.bench.operations.sources import KINDS, Spec, parse
from steelyard.bench.operations.watching import reader_command
from steelyard.bench.signals import Interrupts
from steelyard.experiment.workload import LOGS, Commands, Measured, Other, positive, settled_intervals
from steelyard.records import Clock as Clocks
from steelyard.records.experiment import Experiment, ExperimentArm

if TYPE_CHECKING:
    from steelyard.analyze.operations.operations import OperationSeries

INTERVALS = 20
"""How often a source is read in a trial, unless it names an interval: enough to see whether it settles."""
LEAST_INTERVAL_S = 0.25
FOLDER = "operations"
_VARIANT = "variant of a service"
_READY_S = 10.0
_STOP_S = 8.0
_TICK_S = 0.1
_READINGS_OF_A_LOOK = 5
"""A bound is compared with the mean of this many readings: single ones of a busy service stray."""


@dataclass(frozen=True)
class LiveTrials:
    """Trials that look at a running service."""

    experiment: Experiment
    directory: Path
    clock: Clock
    interrupts: Interrupts
    bound: Callable[[Mapping[str, float]], str | None] | None = None
    """Says what is wrong with the last readings of the sources, by name; that ends the trial and its arm."""

    def measure(self, arm: ExperimentArm, block: int) -> Measured:
        """Apply the variant of an arm and look at the service."""
        live = self.experiment.live
        assert live is not None
        reason = self._apply(arm, block) if arm.command else None
        if reason is not None:
            return Measured(None, reason)
        folder = self.directory / FOLDER / f"{block:04}-{arm.name.replace('/', '_')}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        specs = [parse(source) for source in live.sources]
        begin_ns, end_ns, breach = self._look(specs, folder, live.window_s)
        if self.interrupts.received is not None:
            return Measured(None, f"stopped by {self.interrupts.received}")
        if breach is not None:
            return Measured(None, breach, ends_arm=True)
        return self._measured(_series(specs, folder), begin_ns, end_ns)

    def _apply(self, arm: ExperimentArm, block: int) -> str | None:
        """Run the command of an arm to its end; return why it failed."""
        commands = Commands(
            self.experiment.metric,
            self.directory,
            self.experiment.plan.timeout_s,
            self.clock,
            self.interrupts,
        )
        log = self.directory / LOGS / f"{block:04}-{arm.name.replace('/', '_')}.log"
        took = commands.run(arm, arm.command, log)
        return took if isinstance(took, str) else None

    def _look(self, specs: Sequence[Spec], folder: Path, window_s: float) -> tuple[int, int, str | None]:
        """Read all sources for a while; return when that began and ended, and which bound ended it early."""
        interval_s = max(LEAST_INTERVAL_S, window_s / INTERVALS)
        clocks = Clocks.now()
        readers: dict[int, Process] = {}
        try:
            for index, spec in enumerate(specs):
                if KINDS[spec.kind].live:
                    command = reader_command(spec, folder / f"{index}.jsonl", interval_s)
                    readers[index] = LocalExecutor().start(COMM, command, log=folder / f"{index}.log")
            self._wait(
                _READY_S,
                lambda: all(
                    (folder / f"{index}.jsonl").is_file() or reader.poll() is not None
                    for index, reader in readers.items()
                ),
            )
            begin_ns = self.clock.monotonic_ns()
            breach = self._watch(specs, folder, window_s, interval_s)
            end_ns = self.clock.monotonic_ns()
        finally:
            for reader in readers.values():
                reader.stop(_STOP_S)
        span = afterwards.Span(begin_ns, end_ns, clocks, Clocks.now())
        for index, spec in enumerate(specs):
            path = folder / f"{index}.jsonl"
            if not KINDS[spec.kind].live:
                afterwards.collect(spec, path, span, self.directory)
            elif not path.is_file():
                message = (readers[index].last_line() or "").removeprefix(f"{COMM}: ")
                afterwards.write_missing(spec, path, message or "its reader ended")
        return begin_ns, end_ns, breach

    def _watch(self, specs: Sequence[Spec], folder: Path, window_s: float, interval_s: float) -> str | None:
        """Wait for the end of the window; return early with what is wrong where a bound is breached."""
        live = [index for index, spec in enumerate(specs) if KINDS[spec.kind].live]
        if self.bound is None or not live:
            self._wait(window_s, lambda: False)
            return None
        until_ns = self.clock.monotonic_ns() + round(window_s * 1e9)
        while (left_s := (until_ns - self.clock.monotonic_ns()) / 1e9) > 0:
            self._wait(min(interval_s, left_s), lambda: False)
            if self.interrupts.received is not None:
                return None
            means = _latest(_series(specs, folder, live))
            breach = self.bound(means)
            if breach is not None:
                return breach
        return None

    def _wait(self, seconds: float, is_over: Callable[[], bool]) -> None:
        until_ns = self.clock.monotonic_ns() + round(seconds * 1e9)
        while not is_over() and self.interrupts.received is None:
            left_s = (until_ns - self.clock.monotonic_ns()) / 1e9
            if left_s <= 0:
                return
            self.clock.sleep(min(_TICK_S, left_s))

    def _measured(self, found: Mapping[str, OperationSeries | str], begin_ns: int, end_ns: int) -> Measured:
        """Return the metric from where it has settled, and the others over the same time."""
        metric = self.experiment.metric
        own = found[metric.name]
        if isinstance(own, str):
            return Measured(None, own)
        known = [
            (since, until, rate)
            for since, until, rate in zip(own.begin_ns, own.end_ns, own.rates, strict=True)
            if until > begin_ns and since < end_ns and math.isfinite(rate)
        ]
        stretch = settled_intervals([float(rate) for _, _, rate in known])
        if isinstance(stretch, str):
            return Measured(None, f"{stretch}: look longer (--window)")
        since_ns, until_ns = int(known[-len(stretch)][0]), int(known[-1][1])
        directions = {guard.name: guard.better for guard in self.experiment.plan.guards}
        others: dict[str, Other] = {}
        missing: dict[str, str] = {}
        for name, series in found.items():
            if name == metric.name:
                continue
            if isinstance(series, str):
                missing[name] = series
                continue
            mean = series.per_s(since_ns, until_ns)
            if mean.value is None:
                missing[name] = mean.missing or "not known"
            else:
                others[name] = Other(mean.value, "", directions.get(name, ""))
        value = own.per_s(since_ns, until_ns).value
        return positive(
            value,
            metrics={metric.name: value, **{name: other.value for name, other in others.items()}},
            unit=metric.unit,
            better=metric.better,
            others=others,
            missing=missing,
            intervals=stretch,
        )


def _latest(found: Mapping[str, OperationSeries | str]) -> dict[str, float]:
    """Return the mean of the last readings by source; none of a source that has fewer."""
    means = {}
    for name, series in found.items():
        if isinstance(series, str):
            continue
        known = [
            (since, until)
            for since, until, rate in zip(series.begin_ns, series.end_ns, series.rates, strict=True)
            if math.isfinite(rate)
        ][-_READINGS_OF_A_LOOK:]
        if len(known) == _READINGS_OF_A_LOOK:
            mean = series.per_s(int(known[0][0]), int(known[-1][1])).value
            if mean is not None:
                means[name] = mean
    return means


def _series(
    specs: Sequence[Spec], folder: Path, only: Sequence[int] = ()
) -> dict[str, OperationSeries | str]:
    """Return what was read of each source by its name: operations or a gauge, or why there is nothing."""
    # Not at the top: other trials do without.
    from steelyard.analyze.operations.files import read_sources

    found: dict[str, OperationSeries | str] = {}
    # In the order in which files are read: that of their names.
    files = sorted(f"{index}.jsonl" for index in (only or range(len(specs))))
    named = [specs[int(Path(file).stem)] for file in files if only == () or (folder / file).is_file()]
    for spec, source in zip(named, read_sources(folder, None), strict=True):
        series = source.total or (source.series[0] if len(source.series) == 1 else None)
        if source.missing is not None:
            found[spec.name] = source.missing
        elif series is None:
            found[spec.name] = f"it has {len(source.series)} series: select one by its labels"
        else:
            found[spec.name] = series
    return found


@contextlib.contextmanager
def variants_in_place(experiment: Experiment, on_failure: Callable[[str], None]) -> Iterator[None]:
    """Run the first arm's command once more when the context ends; the undo journal has it meanwhile.

    ``on_failure`` gets the reason where that fails: then it is tried again at the next start.
    """
    first = experiment.arms[0].command
    program = shutil.which(first[0])
    if program is None:
        raise EnvironmentLacksError(f"{first[0]}: no such program", hint="give its path, or install it")
    details = {
        "command": json.dumps([str(Path(program).absolute()), *first[1:]]),
        "folder": str(Path.cwd()),
        "timeout_s": str(experiment.plan.timeout_s),
    }
    change = undo.Change.begin(f"{experiment.experiment_id}-variant", _VARIANT, details)
    try:
        yield
    finally:
        try:
            change.undo()
        except OSError as error:
            on_failure(f"the first arm could not be applied again: {error}")


def _apply_again(details: Mapping[str, str]) -> None:
    command = json.loads(details["command"])
    try:
        subprocess.run(
            command,
            cwd=details["folder"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=float(details["timeout_s"]),
            check=True,
        )
    except subprocess.SubprocessError as error:
        raise OSError(str(error)) from error


undo.register(_VARIANT, _apply_again, words=lambda details: command_text(json.loads(details["command"])))
