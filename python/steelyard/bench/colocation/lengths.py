"""How long the measure phases of two workloads are set, so that they last equally long.

In: the phases of runs that were made. Out: the parameter ``measure`` of the next ones. A benchmark's phase
may be longer than its parameter: one of several steps fills its servers between them.

Invariant: only the shorter one changes, and no phase becomes longer than the other was seen to be.
"""

from dataclasses import dataclass

from steelyard.records import Run

PARAMETER = "measure"
"""The parameter of benchmarks that says how long the measure phase is."""
_ALIKE_RATIO = 0.9
"""Phases of which one is shorter by less than this are of the same length."""
_LONGEST_RATIO = 20.0
"""How many times as long as was asked for a phase is made at most."""


@dataclass(slots=True)
class Length:
    """The measure phase of one workload. ``asked_s`` None: it cannot be set, or the user has set it."""

    asked_s: float | None
    next_s: float | None = None
    lasted_s: float | None = None
    """Its last measure phase, with ``next_s``."""

    def __post_init__(self) -> None:
        self.next_s = self.asked_s if self.next_s is None else self.next_s

    def note(self, run: Run) -> None:
        """Take in a run that was made with ``next_s``."""
        for phase in run.phases:
            if phase.name == PARAMETER and phase.end_ns is not None:
                self.lasted_s = (phase.end_ns - phase.begin_ns) / 1e9


def align(first: Length, second: Length) -> None:
    """Make the shorter phase as long as the other one was, where it can be set."""
    if first.lasted_s is None or second.lasted_s is None:
        return
    shorter, longer = sorted((first, second), key=lambda each: each.lasted_s or 0.0)
    if not shorter.lasted_s or not longer.lasted_s or shorter.lasted_s >= _ALIKE_RATIO * longer.lasted_s:
        return
    if shorter.next_s is None or shorter.asked_s is None:
        return
    wanted_s = shorter.next_s * longer.lasted_s / shorter.lasted_s
    shorter.next_s = round(min(wanted_s, _LONGEST_RATIO * shorter.asked_s), 2)
    shorter.lasted_s = longer.lasted_s
