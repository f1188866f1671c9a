"""What a projection says: machines, how far off it is, what carries it, and what to measure next.

In: made by ``project``. Out: printed by ``_base.documents``, shown by ``report.decide.project``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

_KINDS = ("processor", "family", "generation", "machine")


def singular(attribute: str) -> str:
    """Return what machines that are left out together share.

    >>> singular("family"), singular("memory_bytes")
    ('family', 'value of memory_bytes')
    """
    return attribute if attribute in _KINDS else f"value of {attribute}"


def plural(attribute: str) -> str:
    """Return several of what machines that are left out together share.

    >>> plural("family"), plural("processor"), plural("memory_bytes")
    ('families', 'processors', 'values of memory_bytes')
    """
    if attribute not in _KINDS:
        return f"values of {attribute}"
    return f"{attribute[:-1]}ies" if attribute.endswith("y") else f"{attribute}s"


@dataclass(frozen=True, slots=True)
class ProjectedMachine:
    """A machine with its projection, and the truth where it is known."""

    name: str
    """The machine."""
    group: str
    """Its processor, or what else makes machines alike here."""
    projected: float | None
    """Projected target, in the target's unit; never from this machine's own measurement."""
    low: float | None
    """Lower end of the interval for the target."""
    high: float | None
    """Upper end of it."""
    actual: float | None
    """Measured target, null where it is to be projected."""
    over_calibration: float | None
    """Projected target over that of the calibration machine."""
    error_ratio: float | None
    """Projected over measured, minus 1."""
    siblings: int
    """Machines of the same group whose target is known."""
    flags: tuple[str, ...] = ()
    """What stands against the projection."""
    missing: str | None = None
    """Why there is no projection."""
    same_as: str | None = None
    """Machine with exactly the same results, which may be this one under another name."""

    @property
    def is_new(self) -> bool:
        """Whether its target is not known."""
        return self.actual is None


@dataclass(frozen=True, slots=True)
class ErrorSummary:
    """How far off projections are of machines whose whole group was left out."""

    machines: int
    """Machines."""
    groups: int
    """Groups, such as processors."""
    median_error_ratio: float
    """Median of |projected / measured - 1|."""
    p90_error_ratio: float
    """90th percentile of it."""
    bias_ratio: float
    """Median of projected / measured, minus 1."""
    coverage_ratio: float | None
    """Share of machines inside their interval, null where there are none."""


@dataclass(frozen=True, slots=True)
class GroupError:
    """The error of one group, or of one span of years."""

    name: str
    """The group."""
    machines: int
    """Machines of it."""
    median_error_ratio: float
    """Median of |projected / measured - 1|."""
    bias_ratio: float
    """Median of projected / measured, minus 1."""


@dataclass(frozen=True, slots=True)
class SiblingError:
    """The error when some machines of a group are known."""

    siblings: int
    """Known machines of the group, chosen at random."""
    median_error_ratio: float
    """Median of |projected / measured - 1| of the others."""
    p90_error_ratio: float
    """90th percentile of it."""


@dataclass(frozen=True, slots=True)
class SuiteError:
    """The error of a suite of results alone."""

    name: str
    """The suite."""
    results: tuple[str, ...]
    """Its results."""
    scaled_median_error_ratio: float | None
    """Median error of its geometric mean, scaled to the known machines of other groups."""
    scaled_p90_error_ratio: float | None
    """90th percentile of it."""
    model_median_error_ratio: float | None
    """Median error of the model with this suite and the attributes alone, null where it was not tried."""
    model_p90_error_ratio: float | None
    """90th percentile of it."""


@dataclass(frozen=True, slots=True)
class ResultWorth:
    """What one result is worth."""

    name: str
    """The result, or an attribute of the machine."""
    scaled_median_error_ratio: float | None
    """Median error of this result alone, scaled to known machines of other groups; null for attributes."""
    scaled_p90_error_ratio: float | None
    """90th percentile of it."""
    loss_ratio: float | None
    """How much the model's mean error in logarithms grows when this result is shuffled among machines."""
    most_misled: str | None
    """The machine on which it is furthest from the target."""
    misled_ratio: float | None
    """How many times too high (above 1) or too low it is there."""


@dataclass(frozen=True, slots=True)
class LearningPoint:
    """The error with fewer known groups."""

    groups: int
    """Groups that are known."""
    machines: int
    """Machines that are known, on average over the draws."""
    median_error_ratio: float
    """Median error on the others, mean of the draws."""
    p90_error_ratio: float
    """90th percentile of it, mean of the draws."""


@dataclass(frozen=True, slots=True)
class NextMachine:
    """A machine to measure next."""

    name: str
    """The machine."""
    group: str
    """Its group."""
    narrowed: int
    """Machines whose interval it narrows, itself included."""
    half_width_before_ratio: float
    """Median half-width of the interval of its group, as a ratio minus 1."""
    half_width_after_ratio: float
    """The same once it is measured."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Machines that most results take for alike and the target does not."""

    group: str
    """Their group."""
    cpus: float | None
    """Their CPUs."""
    machines: int
    """How many there are."""
    lowest: str
    """The one with the smallest target."""
    highest: str
    """The one with the largest."""
    target_ratio: float
    """Largest over smallest target."""
    results_ratio: float
    """The same of the result that differs most among them, in the median over the results."""


@dataclass(frozen=True)
class Projection:
    """What ``steelyard project`` answers."""

    KIND: ClassVar[str] = "projection"
    VERSION: ClassVar[str] = "1.0"

    target: str
    """The result that is projected."""
    unit: str
    """Its unit."""
    better: str
    """``higher`` or ``lower``."""
    method: str
    """``model`` or ``geomean``."""
    calibration: str
    """The machine that others are put in proportion to."""
    group_attribute: str
    """The attribute whose machines are left out together."""
    confidence: float
    """Of the intervals."""
    results: tuple[str, ...]
    """Results that the projection is made from."""
    left_out_results: tuple[str, ...]
    """Results that were not used, since they were measured together with the target."""
    machines: tuple[ProjectedMachine, ...]
    """Every machine."""
    error: ErrorSummary | None
    """Null where too few targets are known."""
    groups: tuple[GroupError, ...]
    """The error by group, worst first; in the order of time where earlier ones project later ones."""
    is_forward: bool
    """Whether they are years, each projected from earlier ones."""
    siblings: tuple[SiblingError, ...]
    """The error when machines of the group are known."""
    suites: tuple[SuiteError, ...]
    """Suites of results alone, best first."""
    worths: tuple[ResultWorth, ...]
    """What each result is worth; empty unless asked."""
    learning: tuple[LearningPoint, ...]
    """The error by known groups; empty unless asked."""
    groups_needed: int | None
    """Groups that must be known for the error that was asked for, null where none was, or too many are."""
    wanted_error_ratio: float | None
    """The median error that was asked for."""
    next: tuple[NextMachine, ...]
    """Machines to measure next, the most useful first."""
    contradictions: tuple[Contradiction, ...]
    """Where the target contradicts itself."""
    notes: Sequence[str]
    """What to know of the data."""
