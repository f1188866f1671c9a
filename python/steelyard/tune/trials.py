"""Trials with knobs: the machine is changed before one, watched during it, and put back after it.

In: an arm with levels of knobs. Out: what the workload inside gave; a value that a knob refuses, or a
guardrail that is breached, ends the arm.

Not here: the workload itself (``experiment.workload``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from steelyard.bench.clock import Clock
from steelyard.bench.signals import Interrupts
from steelyard.experiment.workload import Measured, Workload
from steelyard.records.experiment import ExperimentArm
from steelyard.tune.changes import RefusedError, Write, applied
from steelyard.tune.guards import Guard, breach_of_metrics, watched
from steelyard.tune.knobs import Knob


@dataclass(frozen=True)
class KnobTrials:
    """A workload whose arms have knobs."""

    inner: Workload
    knobs: Mapping[str, Knob]
    guards: Sequence[Guard]
    name: str
    """Of the tuning: its entry in the undo journal."""
    settle_s: float
    """How long the machine is left alone before a trial. Of every arm: the trial of the machine as found
    follows a change too, the one that put it back."""
    clock: Clock
    interrupts: Interrupts

    def measure(self, arm: ExperimentArm, block: int) -> Measured:
        """Try an arm once."""
        try:
            with applied(writes_of(self.knobs, arm.knobs), name=self.name):
                return self._measure(arm, block)
        except RefusedError as error:
            return Measured(None, error.message, ends_arm=True)

    def _measure(self, arm: ExperimentArm, block: int) -> Measured:
        if self.settle_s:
            self.clock.sleep(self.settle_s)
        with watched(self.guards, self.interrupts) as breaches:
            measured = self.inner.measure(arm, block)
        breach = breaches[0] if breaches else None
        if breach is None and measured.value is not None:
            breach = breach_of_metrics(self.guards, measured.metrics)
        if breach is None:
            return measured
        return replace(measured, value=None, reason=breach, ends_arm=True)


def writes_of(knobs: Mapping[str, Knob], levels: Mapping[str, str]) -> list[Write]:
    """Return what levels of knobs write. Raises RefusedError where a knob cannot tell any more."""
    try:
        return [write for name, level in levels.items() for write in knobs[name].writes(level)]
    except OSError as error:
        raise RefusedError(f"{error.filename or 'a knob'} cannot be read: {error.strerror}") from error
