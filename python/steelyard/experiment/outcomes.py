"""What is known of an arm beside another: better, worse, equivalent or undecided, with its interval.

In: nothing. Out: `ArmAnswer`, with a `GuardAnswer` for each guardrail.

Not here: finding them (``answers``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from steelyard.stats.contrasts import Effect


class Outcome(StrEnum):
    """What is known of an arm."""

    BETTER = "better"
    WORSE = "worse"
    EQUIVALENT = "equivalent"
    """The interval lies within the smallest effect that matters, on either side."""
    UNDECIDED = "undecided"
    BREACHED = "breached"
    """A guardrail is worse than its margin, whatever the metric is."""
    UNRELIABLE = "unreliable"
    """Better or equivalent, but its trials fail more often than the base's (an exact test)."""


GOOD = (Outcome.BETTER, Outcome.EQUIVALENT)
"""Outcomes of an arm that may take the place of the base."""


class GuardOutcome(StrEnum):
    """What is known of an arm's guardrail."""

    KEPT = "kept"
    BREACHED = "breached"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class GuardAnswer:
    """A guardrail of one arm beside the base's."""

    name: str
    """Its metric."""
    outcome: GuardOutcome
    """Whether it was kept."""
    ratio: float | None
    """Value of the arm over the base's; None where no block has both, and where the base's are all 0."""
    low: float | None
    """Lower end of its interval; None where there is none, and where nothing bounds it on that side."""
    high: float | None
    """Upper end of it."""
    confidence: float
    """Of this interval; that of all guardrails together is the plan's."""
    bound: float | None
    """Ratio that it must not pass, upwards where less is better; None while that is not known."""
    blocks: int
    """Blocks in which both arms have a value."""
    reason: str | None
    """Why there is no interval, None where there is one."""
    mean: float | None = None
    """Mean of the arm's values in these blocks."""
    base_mean: float | None = None
    """That of the base."""


@dataclass(frozen=True, slots=True)
class ArmAnswer:
    """One arm beside the base. Ratios are of the metric: above 1 is more of it, better or not."""

    arm: str
    """Which arm."""
    base: str
    """The arm that it is compared with."""
    outcome: Outcome
    """What is known of it."""
    ratio: float | None
    """Value of the arm over the base's, None where no block has both values."""
    low: float | None
    """Lower end of the interval of ``ratio``, None where ``reason`` says why."""
    high: float | None
    """Upper end of it."""
    confidence: float
    """Of this interval; that of all arms together is the plan's."""
    holds_at_every_look: bool
    """Whether the interval holds at all looks together."""
    blocks: int
    """Blocks in which both arms have a value."""
    lost: Mapping[str, int]
    """Trials without a value, by arm."""
    mean: float | None
    """Geometric mean of the arm's values in these blocks."""
    base_mean: float | None
    """That of the base."""
    blocks_needed: int | None
    """Blocks of trials that find the smallest effect that matters with a probability of 0.8; None where
    the noise is not known, or the answer is."""
    correlation: float | None
    """Where blocks resemble the ones before them, by how much; None where they do not."""
    reason: str | None
    """Why there is no interval, None where there is one."""
    guards: tuple[GuardAnswer, ...] = ()
    """Metrics that must not get worse than a margin."""
    by_metric: Outcome | None = None
    """The outcome by the metric alone, where a breach or lost trials take its place."""
    caution: str | None = None
    """What the interval leaves out, None where that is nothing."""
    position: Effect | None = None
    """Of a trial made one later within its block, which is taken out; None where the order is not known."""
    carry_over: Effect | None = None
    """Of following a trial of the arm rather than of the base; taken out where it exceeds its error."""
    worst_ratio: float | None = None
    """The worst of the arm's values over their median, None without values."""
    unseen_ratio: float | None = None
    """What happens in fewer of the arm's trials than this may not have been seen, with a confidence of 95 %.

    Of n trials, 1 - 0.05^(1/n), about 3 / n (J. Hanley and A. Lippman-Hand, "If Nothing Goes Wrong, Is
    Everything All Right?", JAMA 249, 1983). None without values."""

    @property
    def is_known(self) -> bool:
        """Whether further blocks could only confirm it."""
        if self.outcome in (Outcome.BREACHED, Outcome.UNRELIABLE):
            # Neither is taken back: what was lost stays lost.
            return True
        open_guards = any(guard.outcome is GuardOutcome.UNDECIDED for guard in self.guards)
        return self.outcome is not Outcome.UNDECIDED and not open_guards

    @property
    def is_good(self) -> bool:
        """Whether the arm may take the base's place: better or equivalent, and all guardrails kept."""
        kept = all(guard.outcome is GuardOutcome.KEPT for guard in self.guards)
        return self.outcome in GOOD and kept
