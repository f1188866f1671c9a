"""What a calibration found: settings, and distances to the target before and after.

Not here: the search (``search``), drawing (``report.decide``).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from steelyard.decide.fidelity.comparison import Overall


@dataclass(frozen=True)
class CalibratedParameter:
    """A parameter that was searched."""

    name: str
    """The parameter."""
    range: str
    """What was searched."""
    before: str
    """Its value before, as --set takes it."""
    after: str
    """Its value after."""


@dataclass(frozen=True)
class CalibrationTrial:
    """One run of the search."""

    number: int
    """From 1."""
    settings: dict[str, str]
    """Values of the parameters that are searched."""
    distance: float | None
    """Distance to the target by the metrics that the search sees, each divided by its noise; None where the
    run failed."""
    run_id: str | None
    """Its run."""
    missing: str | None
    """Why there is no distance."""


@dataclass(frozen=True)
class CalibratedMetric:
    """One metric of the target, before and after."""

    name: str
    """The metric."""
    title: str
    """It in words."""
    group: str
    """Its group."""
    unit: str
    """Unit of the values."""
    is_held_out: bool
    """Whether the search did not see it."""
    target: float | None
    """Value of the target, None for a mix."""
    before: float | None
    """Mean of the benchmark's runs before."""
    after: float | None
    """Mean of its runs after."""
    distance_before: float | None
    """Distance to the target before."""
    distance_after: float | None
    """Distance after."""
    low_after: float | None
    """Lower end of its interval of 95 %, None without one."""
    high_after: float | None
    """Upper end."""


@dataclass(frozen=True)
class BeforeAfter:
    """Distance to the target of some metrics, from fresh runs."""

    before: Overall | None
    """With the settings before; None where nothing can be compared."""
    after: Overall | None
    """With the settings found."""

    @property
    def gain(self) -> float | None:
        """Return how much nearer it came."""
        if self.before is None or self.after is None:
            return None
        return self.before.distance - self.after.distance


@dataclass(frozen=True)
class Calibration:
    """A benchmark brought near a target: `steelyard fidelity --calibrate BENCHMARK TARGET --json`."""

    KIND: ClassVar[str] = "calibration"

    benchmark: str
    """The benchmark."""
    target: str
    """Name of the target."""
    directory: Path
    """Folder of its runs."""
    parameters: tuple[CalibratedParameter, ...]
    """What was searched."""
    searched: BeforeAfter
    """Metrics that the search saw."""
    held_out: BeforeAfter
    """Metrics that it did not see."""
    metrics: tuple[CalibratedMetric, ...]
    """By metric, farthest before first."""
    trials: tuple[CalibrationTrial, ...]
    """Runs of the search, in order."""
    repeats: int
    """Fresh runs before, and as many after."""
    cautions: tuple[str, ...]
    """What to know before believing it."""
