"""What the experiments of a tuning say: which levels stay in the race, who won, what a composition can lose.

In: the record of an experiment at any time. Out: arms that are still to be tried, and verdicts in words.
Every comparison is one of ``experiment.answers``, whose intervals hold at every look.

A race has the machine as found first, then the levels. A level is out when it is worse than what was found,
equivalent to it, or so seen that it cannot be better by what matters; once one is better, the others are
compared with the best. So levels that are far behind, or hopeless, cost few trials.

A race only chooses what is confirmed later, on new values. So each comparison in it has the confidence of the
whole plan: to share it by all of them would overlook what helps, to spare a confirmation that fails.

Not here: intervals (``stats.contrasts``), the order of races and their confidence (``tuning``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from steelyard.experiment.answers import answers
from steelyard.experiment.engine import failed
from steelyard.experiment.outcomes import ArmAnswer, Outcome
from steelyard.records.experiment import Experiment

_BEHIND = (Outcome.WORSE, Outcome.EQUIVALENT)


def is_behind(answer: ArmAnswer, experiment: Experiment) -> bool:
    """Return whether an arm is known not to be better by the smallest effect that matters."""
    _, high = gain_ends(answer, experiment)
    matters = 1 + experiment.plan.least_effect_ratio
    return answer.outcome in _BEHIND or (high is not None and high < matters)


def gain_ends(answer: ArmAnswer, experiment: Experiment) -> tuple[float | None, float | None]:
    """Return the interval of the gain of an arm, above 1 is better."""
    if answer.low is None or answer.high is None or experiment.metric.better == "higher":
        return answer.low, answer.high
    return 1 / answer.high, 1 / answer.low


@dataclass(frozen=True, slots=True)
class Standing:
    """A race at one moment."""

    leader: str | None
    """The best of the levels that are better than what was found."""
    still_open: tuple[str, ...]
    """Arms that the next block tries; none when the race is over."""


def standing(experiment: Experiment) -> Standing:
    """Return how a race stands."""
    base = experiment.arms[0].name
    if not experiment.trials:
        return Standing(None, tuple(arm.name for arm in experiment.arms))
    alive = {arm.name for arm in experiment.arms if failed(experiment, arm.name) is None}
    beside_base = {one.arm: one for one in _each(experiment) if one.arm in alive}
    better = [one for one in beside_base.values() if one.outcome is Outcome.BETTER]
    if not better:
        still = [name for name, one in beside_base.items() if not is_behind(one, experiment)]
        return Standing(None, (base, *still) if still else ())
    leader = max(better, key=lambda one: gain(one, experiment)).arm
    # A level that is not yet better than the base may still beat the leader.
    rivals: list[ArmAnswer] = []
    for _ in experiment.arms:
        rivals = [
            one
            for one in _each(experiment, base=leader)
            if one.arm in beside_base and not is_behind(beside_base[one.arm], experiment)
        ]
        ahead = [one for one in rivals if one.outcome is Outcome.BETTER]
        if not ahead:
            break
        leader = max(ahead, key=lambda one: gain(one, experiment)).arm
    still = [one.arm for one in rivals if one.outcome is Outcome.UNDECIDED and not is_behind(one, experiment)]
    return Standing(leader, (leader, *still) if still else ())


def _each(experiment: Experiment, base: str | None = None) -> list[ArmAnswer]:
    """Return the answers of a race, each by itself at the confidence of its plan."""
    return answers(experiment, is_over=False, base=base, comparisons=1)


def still_racing(experiment: Experiment) -> tuple[str, ...]:
    """Return the arms that the next block of a race tries."""
    return standing(experiment).still_open


def undecided_arms(experiment: Experiment) -> tuple[str, ...]:
    """Return the first arm and those without an answer beside it."""
    base = experiment.arms[0].name
    if not experiment.trials:
        return tuple(arm.name for arm in experiment.arms)
    still = [
        one.arm
        for one in answers(experiment, is_over=False)
        if one.outcome is Outcome.UNDECIDED and failed(experiment, one.arm) is None
    ]
    return (base, *still) if still else ()


def gain(answer: ArmAnswer, experiment: Experiment) -> float:
    """Return the ratio of an answer so that above 1 is better."""
    ratio = 1.0 if answer.ratio is None else answer.ratio
    return ratio if experiment.metric.better == "higher" else 1 / ratio


def most_dispensable(experiment: Experiment) -> str | None:
    """Return the arm of an ablation that loses nothing by leaving its knob out; None where all lose.

    An arm leaves out one knob. It loses nothing where it is better than the whole or equivalent to it, and,
    undecided, where it is no worse in these trials.
    """
    idle = [
        one
        for one in answers(experiment, is_over=False)
        if one.outcome in (Outcome.BETTER, Outcome.EQUIVALENT)
        or (one.outcome is Outcome.UNDECIDED and one.ratio is not None and gain(one, experiment) >= 1)
    ]
    return max(idle, key=lambda one: gain(one, experiment)).arm if idle else None


def answer_of(experiment: Experiment, arm: str) -> ArmAnswer:
    """Return what an experiment says of an arm beside the first."""
    return next(one for one in answers(experiment, is_over=True) if one.arm == arm)


def reasons(experiment: Experiment, names: Iterable[str]) -> dict[str, str]:
    """Return why arms were dropped that gave no values."""
    found = ((name, failed(experiment, name)) for name in names)
    return {name: why for name, why in found if why is not None}
