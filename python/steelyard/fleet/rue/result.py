"""What a comparison of configurations by RUE answers: plain values, and the document for ``--json``.

Invariants: a speedup is RUE of configuration 1 over that of configuration 2, above 1 where configuration 2
needs less; what is unknown is None beside its reason; ``refused`` says why the total must not be used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from steelyard._base.documents import printed
from steelyard.fleet.rue.clusters import Alike
from steelyard.fleet.rue.strata import StrataChoice
from steelyard.stats.power import Need
from steelyard.stats.ratios import Effect


class Decision(StrEnum):
    """What to do about configuration 2."""

    ADOPT = "adopt"
    DO_NOT = "do not adopt"
    NO_DIFFERENCE = "no difference that matters"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Speedup:
    """A speedup with both intervals; None with the reason in ``missing``."""

    value: float
    once: tuple[float, float] | None
    """The interval for one look at a time that was fixed beforehand."""
    any_time: tuple[float, float] | None
    """The interval that valid at every look."""
    missing: str | None
    side: int = 0
    """1 where it is surely above 1, -1 where surely below, 0 where open: minding how many were asked."""

    @classmethod
    def of(
        cls, effect: Effect, confidence: float, expected_effect: float, *, looks: str = "any", among: int = 1
    ) -> Speedup:
        """Return an effect with its intervals. ``side`` minds that it is one of ``among`` (Bonferroni)."""
        prior = math.log1p(expected_effect)
        strict = 1 - (1 - confidence) / among
        span = (
            effect.interval(strict) if looks == "once" else effect.always_valid(strict, expected_effect=prior)
        )
        side = 0 if span is None or span[0] <= 1 <= span[1] else (1 if span[0] > 1 else -1)
        once = effect.interval(confidence)
        any_time = effect.always_valid(confidence, expected_effect=prior)
        missing = effect.missing
        if missing is None and (once if looks == "once" else any_time) is None:
            missing = "too few replicates: the interval reaches farther than a thousandfold"
        return cls(effect.ratio, once, any_time, missing, side)

    def interval(self, looks: str) -> tuple[float, float] | None:
        """Return the interval that decisions are made by."""
        return self.once if looks == "once" else self.any_time


@dataclass(frozen=True)
class Group:
    """One stratum. Shares are of all samples of both configurations."""

    levels: tuple[str, ...]
    shares: tuple[float, float]
    work: tuple[float, float]
    usage: tuple[float, float]
    rue: tuple[float | None, float | None]
    replicates: tuple[int, int]
    speedup: Speedup | None
    missing: str | None
    """Why the group is not compared."""


@dataclass(frozen=True)
class Total:
    """Both configurations over all groups, each at its own mix."""

    shares: tuple[float, float]
    rue: tuple[float | None, float | None]
    speedup: Speedup
    refused: tuple[str, ...]
    """Why it must not be used; empty where it may."""
    paradox: bool
    """Whether all groups show the opposite (Simpson's paradox)."""


@dataclass(frozen=True)
class Reweighted:
    """Both configurations at configuration 1's mix, over the groups that both have."""

    rue: tuple[float | None, float | None]
    """None where work of several jobs would have to be added."""
    speedup: Speedup
    mix_ratio: float
    """What the total's speedup is over this one: the part that the mixes make up."""
    covered: tuple[float, float]
    """Shares of each configuration's usage in the groups compared."""


@dataclass(frozen=True)
class SampleRatio:
    """A test whether units went to the configurations as they were meant to."""

    question: str
    unit: str
    """What was assigned: ``machine``, ``task``, or work (``operations``, ``instructions``) itself."""
    counts: tuple[float, float]
    expected_shares: tuple[float, float] | None
    p_value: float | None
    method: str | None
    mismatch: bool | None
    missing: str | None = None


@dataclass(frozen=True)
class Comparison:
    """One resource: configuration 2 against configuration 1."""

    resource: str
    unit: str
    configurations: tuple[str, str]
    choice: StrataChoice
    groups: tuple[Group, ...]
    by_first: tuple[Group, ...]
    """By the first factor alone, re-weighted within each of its levels; empty with fewer than two factors."""
    total: Total | None
    reweighted: Reweighted | None
    need: Need | None
    decision: Decision
    recommendation: str
    missing: str | None
    """Why there is no comparison at all."""
    no_usage: int
    """Samples without a figure for this resource."""
    counted: int
    """Samples that have one, and work."""
    alike: Alike | None = None
    """By what replicates are alike, and counted as one: a rack, a cluster, a label."""


@dataclass(frozen=True)
class RueResult:
    """Everything that ``steelyard fleet rue`` answers."""

    KIND: ClassVar[str] = "fleet_rue"

    label: str
    work: str
    replicate: str
    looks: str
    confidence: float
    least_effect_ratio: float
    comparisons: tuple[Comparison, ...]
    sample_ratios: tuple[SampleRatio, ...]
    samples: int
    no_work: int
    notes: tuple[str, ...]

    @property
    @printed
    def total_refused(self) -> bool:
        """Whether a total is refused."""
        return any(
            comparison.total is not None and comparison.total.refused for comparison in self.comparisons
        )
