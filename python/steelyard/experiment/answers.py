"""What an experiment says: each arm beside the first, or beside those that its plan names.

In: the record of an experiment, at any time. Out: `ArmAnswer`: better, worse, equivalent or undecided, an
interval, and how many more blocks would decide.

An experiment that may stop early is looked at after a few numbers of blocks (``stats.sequential``): its
intervals hold together over all of them, and it ends at the first that decides. Between two looks the
answer is that of the last one. After the last block, or when its time is used up, it is looked at once
more. One that may not stop early is looked at once, at the end, with a shorter interval.

Invariant: only blocks count in which both arms have a value; what was left out is counted by arm.

A guardrail is another metric that must not get worse than a margin. It is breached when its whole interval
lies beyond the margin, kept when none of it does. An arm that breaches one is called so, whatever its metric
says; so is one whose trials fail more often than the base's by an exact test, because its metric is of those
alone that worked.

The intervals of all that is stated of an experiment hold together with its plan's confidence: of each arm's
metric, of each guardrail of each arm, and of each level over those of the other factors.

Not here: intervals (``stats.contrasts``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, geometric_mean, median

from steelyard.experiment.carried import carried
from steelyard.experiment.outcomes import GOOD, ArmAnswer, GuardAnswer, GuardOutcome, Outcome
from steelyard.records.experiment import Experiment, ExperimentArm, ExperimentGuard, ExperimentTrial
from steelyard.stats.contrasts import Contrast, Order, blocks_needed, contrast
from steelyard.stats.exact import fails_more_p_value
from steelyard.stats.fieller import MeansRatio, means_ratio
from steelyard.stats.sequential import FIRST_LOOK, early_confidence, early_looks, last_confidence

POWER = 0.8
DECIDED = "decided"
"""Why an experiment ended whose arms all had an answer: at a moment that the values chose."""


def values_by_arm(experiment: Experiment) -> dict[str, dict[int, float]]:
    """Return the values of each arm by block; where hosts change places, by the pair of blocks."""
    found: dict[str, dict[int, float]] = {arm.name: {} for arm in experiment.arms}
    for trial in experiment.trials:
        if trial.value is not None:
            found[trial.arm][trial.block] = trial.value
    return _of_pairs(experiment, found)


def whole_blocks(values: Mapping[str, Mapping[int, float]]) -> set[int]:
    """Return the blocks in which every arm has a value."""
    return set[int].intersection(*(set(found) for found in values.values()))


def readings_by_arm(experiment: Experiment, name: str) -> dict[str, dict[int, float]]:
    """Return the values of another metric by arm and block, of the trials that have a value themselves."""
    found: dict[str, dict[int, float]] = {arm.name: {} for arm in experiment.arms}
    for trial in experiment.trials:
        if trial.value is not None and name in trial.readings:
            found[trial.arm][trial.block] = trial.readings[name]
    return _of_pairs(experiment, found)


def blocks_of_answer(experiment: Experiment) -> int:
    """Return how many blocks of trials are one of the answer's."""
    return 2 if experiment.hosts else 1


def _of_pairs(experiment: Experiment, found: dict[str, dict[int, float]]) -> dict[str, dict[int, float]]:
    """Return each arm's mean over both hosts; values of pairs without the other are left out."""
    if blocks_of_answer(experiment) == 1:
        return found
    return {
        arm: {
            block // 2: math.copysign(math.sqrt(abs(values[block] * values[block + 1])), values[block])
            for block in values
            if block % 2 == 0 and block + 1 in values
        }
        for arm, values in found.items()
    }


def answers(
    experiment: Experiment, *, is_over: bool, base: str | None = None, comparisons: int | None = None
) -> list[ArmAnswer]:
    """Return the answer for each arm beside ``base``, by default for each pair that the plan compares.

    ``is_over`` says that no block will follow; ``comparisons`` is how many intervals hold together, by
    default those of `comparisons_of`.
    """
    values = carried(experiment).taken_out(values_by_arm(experiment))
    lost = {arm.name: 0 for arm in experiment.arms}
    for trial in experiment.trials:
        lost[trial.arm] += trial.value is None
    together = comparisons or comparisons_of(experiment, base)
    found = []
    for one, arm in compared(experiment, base):
        answer = _answer(experiment, one, arm, values, lost, together, is_over=is_over)
        guards = tuple(
            _guard(experiment, guard, one, arm, together, is_over=is_over) for guard in experiment.plan.guards
        )
        answer = replace(answer, guards=guards)
        if any(guard.outcome is GuardOutcome.BREACHED for guard in guards):
            answer = replace(answer, outcome=Outcome.BREACHED, by_metric=answer.outcome, blocks_needed=None)
        elif answer.outcome in GOOD and _fails_more(experiment, lost, arm, one):
            answer = replace(answer, outcome=Outcome.UNRELIABLE, by_metric=answer.outcome)
        found.append(answer)
    return found


def _fails_more(experiment: Experiment, lost: Mapping[str, int], arm: str, base: str) -> bool:
    """Return whether the trials of ``arm`` fail more often than those of ``base``, beyond chance.

    Asked once of an arm, when its metric is decided, so that one test at the plan's confidence is honest.
    """
    made = Counter(trial.arm for trial in experiment.trials)
    chance = fails_more_p_value(lost[arm], made[arm], lost[base], made[base])
    return chance <= 1 - experiment.plan.confidence


def comparisons_of(experiment: Experiment, base: str | None = None) -> int:
    """Return how many intervals are stated of an experiment, so that all hold together.

    Those of the metric and of each guardrail, for each pair of arms; and of factors, each level beside the
    first.
    """
    arms = len(compared(experiment, base)) * (1 + len(experiment.plan.guards))
    levels = [len(set(found)) - 1 for found in levels_by_factor(experiment).values()]
    return arms + (sum(levels) if len(levels) > 1 else 0)


def levels_by_factor(experiment: Experiment) -> dict[str, list[str]]:
    """Return the level of each arm by factor, where arms are combinations of factors."""
    factors = dict.fromkeys(name for arm in experiment.arms for name in arm.levels)
    return {factor: [arm.levels[factor] for arm in experiment.arms] for factor in factors}


def compared(experiment: Experiment, base: str | None = None) -> list[tuple[str, str]]:
    """Return the pairs of arms that are compared, base and other: the plan's, or each with one arm."""
    if base is None and experiment.plan.pairs:
        return list(experiment.plan.pairs)
    base = base or experiment.arms[0].name
    return [(base, arm.name) for arm in experiment.arms if arm.name != base]


def factor_answers(experiment: Experiment, *, is_over: bool) -> dict[str, list[ArmAnswer]]:
    """Return, where arms are combinations of factors, the levels of each factor beside its first level.

    The value of a level in a block is the geometric mean over all combinations with it; blocks without one of
    their values do not count. Empty for less than two factors.
    """
    factors = levels_by_factor(experiment)
    if len(factors) < 2:
        return {}
    values = values_by_arm(experiment)
    whole = sorted(whole_blocks(values))
    found = {}
    for factor in factors:
        arms: dict[str, list[str]] = {}
        for arm, level in zip(experiment.arms, factors[factor], strict=True):
            arms.setdefault(level, []).append(arm.name)
        trials = [
            ExperimentTrial(
                block=block,
                arm=level,
                begin_ns=0,
                end_ns=0,
                value=geometric_mean(values[arm][block] for arm in names),
            )
            for block in whole
            for level, names in arms.items()
        ]
        levels = [ExperimentArm(name=level, settings={}, command=[]) for level in arms]
        plan = experiment.plan.model_copy(update={"guards": []})
        one = experiment.model_copy(update={"factor": factor, "arms": levels, "trials": trials, "plan": plan})
        found[factor] = answers(one, is_over=is_over, comparisons=comparisons_of(experiment))
    return found


@dataclass(frozen=True, slots=True)
class _Look:
    """The latest look at the blocks of two arms."""

    blocks: int
    """How many of them it has, from the first; 0 before the first look."""
    confidence: float
    is_last: bool


def _look(experiment: Experiment, count: int, comparisons: int, *, is_over: bool) -> _Look:
    """Return the latest look at ``count`` blocks that both arms have."""
    plan = experiment.plan
    each = 1 - (1 - plan.confidence) / comparisons
    if is_over and not plan.stop_early:
        return _Look(count, each, is_last=True)
    planned = plan.blocks // blocks_of_answer(experiment)
    if count >= planned or (is_over and experiment.status_reason != DECIDED):
        return _Look(count, last_confidence(planned, count, each), is_last=True)
    looks = early_looks(planned, count + 1)
    if not looks:
        return _Look(0, each, is_last=False)
    return _Look(looks[-1], early_confidence(looks[-1], each), is_last=False)


def _order(experiment: Experiment, base: str, arm: str, blocks: Sequence[int]) -> Order | None:
    """Return in which order the trials of two arms were made; None where nobody noted it."""
    if experiment.hosts or any(trial.end_ns == 0 for trial in experiment.trials):
        return None
    made = sorted(experiment.trials, key=lambda trial: trial.begin_ns)
    places = {(trial.block, trial.arm): place for place, trial in enumerate(made)}
    lags = [places[block, arm] - places[block, base] for block in blocks]
    if len(experiment.arms) > 2:
        return Order(lags)
    firsts = [min(places[block, arm], places[block, base]) for block in blocks]
    before = [int(made[place - 1].arm == arm) if place else None for place in firsts]
    return Order(lags, before)


def _guard(
    experiment: Experiment,
    guard: ExperimentGuard,
    base: str,
    arm: str,
    comparisons: int,
    *,
    is_over: bool,
) -> GuardAnswer:
    bound = None
    if guard.better:
        bound = 1 + guard.margin_ratio if guard.better == "lower" else 1 - guard.margin_ratio
    values = readings_by_arm(experiment, guard.name)
    blocks = sorted(values[base].keys() & values[arm].keys())
    look = _look(experiment, len(blocks), comparisons, is_over=is_over)
    blocks = blocks[: look.blocks]
    first, second = ([values[name][block] for block in blocks] for name in (base, arm))

    def unknown(reason: str) -> GuardAnswer:
        nothing = (None, None, None, look.confidence, bound, len(blocks), reason)
        return GuardAnswer(guard.name, GuardOutcome.UNDECIDED, *nothing)

    if bound is None or not blocks:
        return unknown("no block in which both arms have a value" if look.is_last else _BEFORE_FIRST_LOOK)
    if min(*first, *second) < 0:
        return unknown("a value is negative: ratios need positive numbers")
    if min(*first, *second) == 0 and len(blocks) < 2:
        return unknown("fewer than 2 blocks")
    found: Contrast | MeansRatio
    if min(*first, *second) == 0:
        # Errors are 0 in many blocks, which have no ratio of their own; their means do.
        found = means_ratio(first, second, confidence=look.confidence)
    else:
        order = _order(experiment, base, arm, blocks)
        found = contrast(
            first,
            second,
            confidence=look.confidence,
            order=order,
            in_order=experiment.plan.blocks_in_order,
            is_last=look.is_last,
        )
    low, high = found.low, found.high
    outcome = GuardOutcome.UNDECIDED
    if low is not None and high is not None:
        is_beyond, is_within = (low > bound, high < bound) if bound > 1 else (high < bound, low > bound)
        outcome = GuardOutcome.BREACHED if is_beyond else GuardOutcome.KEPT if is_within else outcome
    ratio, low, high = (_finite(one) for one in (found.ratio, low, high))
    return GuardAnswer(
        guard.name,
        outcome,
        ratio,
        low,
        high,
        look.confidence,
        bound,
        len(blocks),
        found.reason,
        mean=fmean(second),
        base_mean=fmean(first),
    )


_BEFORE_FIRST_LOOK = f"the first look is after {FIRST_LOOK} blocks"


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _answer(
    experiment: Experiment,
    base: str,
    arm: str,
    values: Mapping[str, Mapping[int, float]],
    lost: Mapping[str, int],
    comparisons: int,
    *,
    is_over: bool,
) -> ArmAnswer:
    plan = experiment.plan
    blocks = sorted(values[base].keys() & values[arm].keys())
    losses = {name: lost[name] for name in (base, arm)}
    has_looks = plan.stop_early or not is_over
    look = _look(experiment, len(blocks), comparisons, is_over=is_over)
    seen = blocks[: look.blocks] or blocks
    if not seen:
        reason = "no block in which both arms have a value"
        nothing = (None, None, None, look.confidence, has_looks, 0, losses, None, None, None, None, reason)
        return ArmAnswer(arm, base, Outcome.UNDECIDED, *nothing)
    first, second = ([values[name][block] for block in seen] for name in (base, arm))
    found = contrast(
        first,
        second,
        confidence=look.confidence,
        order=_order(experiment, base, arm, seen),
        in_order=plan.blocks_in_order,
        is_last=look.is_last,
        within=_within(experiment, base, arm, seen),
    )
    if not look.blocks:
        found = replace(found, low=None, high=None, reason=_BEFORE_FIRST_LOOK)
    outcome = _outcome(found.low, found.high, plan.least_effect_ratio, experiment.metric.better == "higher")
    return ArmAnswer(
        arm=arm,
        base=base,
        outcome=outcome,
        ratio=found.ratio,
        low=found.low,
        high=found.high,
        confidence=found.confidence,
        holds_at_every_look=has_looks,
        blocks=len(seen),
        lost=losses,
        mean=geometric_mean(second),
        base_mean=geometric_mean(first),
        blocks_needed=_needed(experiment, found, comparisons) if outcome is Outcome.UNDECIDED else None,
        correlation=found.correlation if found.effective_blocks < len(seen) else None,
        reason=found.reason,
        caution=found.caution,
        position=found.position,
        carry_over=found.carry_over,
        worst_ratio=(min if experiment.metric.better == "higher" else max)(second) / median(second),
        unseen_ratio=1 - 0.05 ** (1 / len(second)),
    )


def _within(
    experiment: Experiment, base: str, arm: str, blocks: Sequence[int]
) -> tuple[list[list[float]], list[list[float]]] | None:
    """Return the intervals of both arms in these blocks; None where a value is one number."""
    if experiment.hosts:
        return None
    trials = {(trial.arm, trial.block): trial.intervals for trial in experiment.trials}
    first, second = ([trials[name, block] for block in blocks] for name in (base, arm))
    if any(len(each) < 2 or min(each) <= 0 for each in [*first, *second]):
        return None
    return first, second


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
    if not found.deviation or found.low is None:
        return None
    # Blocks that resemble each other count as fewer.
    worth = found.blocks / found.effective_blocks
    return blocks_of_answer(experiment) * blocks_needed(
        found.deviation * math.sqrt(worth),
        math.log1p(experiment.plan.least_effect_ratio),
        confidence=1 - (1 - experiment.plan.confidence) / comparisons,
        power=POWER,
        has_looks=experiment.plan.stop_early,
        degrees=max(1.0, found.effective_blocks - 1),
    )
