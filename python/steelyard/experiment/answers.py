"""What an experiment says: each arm beside the first, or beside those that its plan names.

In: the record of an experiment, at any time. Out: `Answer`: better, worse, equivalent or undecided, with its
interval, and how many more blocks would decide.

While an experiment may still go on, the interval is the one that holds at every look; after the last block
of one that was not allowed to stop early, it is the one for a single look, which is shorter.

Invariant: only blocks count in which both arms have a value; what was left out is counted by arm.

Not here: intervals (``stats.contrasts``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from statistics import geometric_mean

from steelyard.records.experiment import Experiment
from steelyard.stats.contrasts import Contrast, blocks_needed, contrast

POWER = 0.8


class Outcome(StrEnum):
    """What is known of an arm."""

    BETTER = "better"
    WORSE = "worse"
    EQUIVALENT = "equivalent"
    """The interval lies within the smallest effect that matters, on either side."""
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Answer:
    """One arm beside the base. Ratios are of the metric: above 1 is more of it, better or not."""

    arm: str
    base: str
    outcome: Outcome
    ratio: float | None
    """None where no block has both values."""
    low: float | None
    high: float | None
    confidence: float
    """Of this interval; that of all together is the plan's."""
    holds_at_every_look: bool
    blocks: int
    """Blocks in which both arms have a value."""
    lost: Mapping[str, int]
    """Trials without a value, by arm."""
    mean: float | None
    """Geometric mean of the arm's values in these blocks."""
    base_mean: float | None
    blocks_needed: int | None
    """Blocks in all that find the smallest effect that matters with a probability of 0.8; None where
    the noise is not known, or the answer is."""
    correlation: float | None
    """Where blocks resemble the ones before them, by how much; None where they do not."""
    reason: str | None
    """Why there is no interval."""


def values_by_arm(experiment: Experiment) -> dict[str, dict[int, float]]:
    """Return the values of each arm by block."""
    found: dict[str, dict[int, float]] = {arm.name: {} for arm in experiment.arms}
    for trial in experiment.trials:
        if trial.value is not None:
            found[trial.arm][trial.block] = trial.value
    return found


def answers(experiment: Experiment, *, is_over: bool, base: str | None = None) -> list[Answer]:
    """Return the answer for each arm beside ``base``, by default for each pair of arms that the plan compares.

    ``is_over`` says that no block will follow.
    """
    values = values_by_arm(experiment)
    lost = {arm.name: 0 for arm in experiment.arms}
    for trial in experiment.trials:
        lost[trial.arm] += trial.value is None
    pairs = compared(experiment, base)
    return [_answer(experiment, one, arm, values, lost, len(pairs), is_over=is_over) for one, arm in pairs]


def compared(experiment: Experiment, base: str | None = None) -> list[tuple[str, str]]:
    """Return the pairs of arms that are compared, base and other: the plan's, or each with one arm."""
    if base is None and experiment.plan.pairs:
        return list(experiment.plan.pairs)
    base = base or experiment.arms[0].name
    return [(base, arm.name) for arm in experiment.arms if arm.name != base]


def _answer(
    experiment: Experiment,
    base: str,
    arm: str,
    values: Mapping[str, Mapping[int, float]],
    lost: Mapping[str, int],
    comparisons: int,
    *,
    is_over: bool,
) -> Answer:
    plan = experiment.plan
    blocks = sorted(values[base].keys() & values[arm].keys())
    losses = {name: lost[name] for name in (base, arm)}
    each = 1 - (1 - plan.confidence) / comparisons
    every_look = plan.stop_early or not is_over
    if not blocks:
        reason = "no block in which both arms have a value"
        nothing = (None, None, None, each, every_look, 0, losses, None, None, None, None, reason)
        return Answer(arm, base, Outcome.UNDECIDED, *nothing)
    first, second = ([values[name][block] for block in blocks] for name in (base, arm))
    found = contrast(
        first,
        second,
        least_effect=math.log1p(plan.least_effect_ratio),
        confidence=plan.confidence,
        comparisons=comparisons,
        at_end=not every_look,
    )
    low, high = (found.always_low, found.always_high) if every_look else (found.low, found.high)
    outcome = _outcome(low, high, plan.least_effect_ratio, experiment.metric.better == "higher")
    return Answer(
        arm=arm,
        base=base,
        outcome=outcome,
        ratio=found.ratio,
        low=low,
        high=high,
        confidence=found.confidence,
        holds_at_every_look=every_look,
        blocks=len(blocks),
        lost=losses,
        mean=geometric_mean(second),
        base_mean=geometric_mean(first),
        blocks_needed=_needed(experiment, found, comparisons) if outcome is Outcome.UNDECIDED else None,
        correlation=found.correlation if found.effective_blocks < len(blocks) else None,
        reason=found.reason,
    )


def _outcome(
    low: float | None, high: float | None, least_effect_ratio: float, more_is_better: bool
) -> Outcome:
    if low is None or high is None:
        return Outcome.UNDECIDED
    if 1 / (1 + least_effect_ratio) < low and high < 1 + least_effect_ratio:
        return Outcome.EQUIVALENT
    if low > 1:
        return Outcome.BETTER if more_is_better else Outcome.WORSE
    if high < 1:
        return Outcome.WORSE if more_is_better else Outcome.BETTER
    return Outcome.UNDECIDED


def _needed(experiment: Experiment, found: Contrast, comparisons: int) -> int | None:
    if not found.deviation or (found.low is None and found.always_low is None):
        return None
    # Blocks that resemble each other count as fewer.
    worth = found.blocks / found.effective_blocks
    return blocks_needed(
        found.deviation * math.sqrt(worth),
        math.log1p(experiment.plan.least_effect_ratio),
        confidence=experiment.plan.confidence,
        comparisons=comparisons,
        power=POWER,
        at_every_look=experiment.plan.stop_early,
    )
