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
    """The speedup, 1 is none."""
    once: tuple[float, float] | None
    """The interval for one look at a time that was fixed beforehand."""
    any_time: tuple[float, float] | None
    """The interval that valid at every look."""
    missing: str | None
    """Why there is no interval."""
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
    """Levels of the factors."""
    shares: tuple[float, float]
    """Shares of each configuration."""
    work: tuple[float, float]
    """Work of each."""
    usage: tuple[float, float]
    """Usage of each."""
    rue: tuple[float | None, float | None]
    """Usage per unit of work of each."""
    replicates: tuple[int, int]
    """Units of assignment of each."""
    speedup: Speedup | None
    """Configuration 2 over configuration 1."""
    missing: str | None
    """Why the group is not compared."""


@dataclass(frozen=True)
class Total:
    """Both configurations over all groups, each at its own mix."""

    shares: tuple[float, float]
    """Shares of each configuration."""
    rue: tuple[float | None, float | None]
    """Usage per unit of work of each."""
    speedup: Speedup
    """Configuration 2 over configuration 1."""
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
    """Configuration 2 over configuration 1."""
    mix_ratio: float
    """What the total's speedup is over this one: the part that the mixes make up."""
    covered: tuple[float, float]
    """Shares of each configuration's usage in the groups compared."""


@dataclass(frozen=True)
class SampleRatio:
    """A test whether units went to the configurations as they were meant to."""

    question: str
    """What is asked."""
    unit: str
    """What was assigned: ``machine``, ``task``, or work (``operations``, ``instructions``) itself."""
    counts: tuple[float, float]
    """What each configuration has."""
    expected_shares: tuple[float, float] | None
    """Shares that it should have, None where they are not known."""
    p_value: float | None
    """Chance of such counts."""
    method: str | None
    """The test."""
    mismatch: bool | None
    """Whether something is broken, None where that could not be tested."""
    missing: str | None = None
    """Why it was not tested."""


@dataclass(frozen=True)
class Comparison:
    """One resource: configuration 2 against configuration 1."""

    resource: str
    """Which resource."""
    unit: str
    """Its unit."""
    configurations: tuple[str, str]
    """Configuration 1 and configuration 2."""
    choice: StrataChoice
    """Factors that groups are made of."""
    groups: tuple[Group, ...]
    """Each group."""
    by_first: tuple[Group, ...]
    """By the first factor alone, re-weighted within each of its levels; empty with fewer than two factors."""
    total: Total | None
    """Both over all groups, each at its own mix."""
    reweighted: Reweighted | None
    """Both at configuration 1's mix."""
    need: Need | None
    """How much more it takes to see the smallest difference that matters."""
    decision: Decision
    """What to do."""
    recommendation: str
    """The same in words."""
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
    """Label whose values are the configurations."""
    work: str
    """Unit of work."""
    replicate: str
    """Unit of assignment."""
    looks: str
    """Whether intervals hold at any look or at one."""
    confidence: float
    """Of the intervals."""
    least_effect_ratio: float
    """Smallest difference that matters."""
    comparisons: tuple[Comparison, ...]
    """By resource."""
    sample_ratios: tuple[SampleRatio, ...]
    """Whether units went to the configurations as they were meant to."""
    samples: int
    """Samples that were compared."""
    no_work: int
    """Samples without work."""
    notes: tuple[str, ...]
    """What to know before believing it."""

    @property
    @printed
    def total_refused(self) -> bool:
        """Whether a total is refused."""
        return any(
            comparison.total is not None and comparison.total.refused for comparison in self.comparisons
        )
