"""What an experiment says, in sentences: the answer, and what to know before believing it.

In: the record and its answers. Out: text. Not here: tables and charts (``answer``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import geometric_mean

from steelyard.experiment.answers import values_by_arm
from steelyard.experiment.beginning import beginning
from steelyard.experiment.carried import carried
from steelyard.experiment.outcomes import ArmAnswer, GuardAnswer, GuardOutcome, Outcome
from steelyard.experiment.response import Response
from steelyard.records.experiment import Experiment
from steelyard.report import format as fmt
from steelyard.stats.knees import Side


def change(ratio: float, *beside: float) -> str:
    """Return a ratio as a change: 1.02 as +2.0 %, 1.0004 as +0.04 %, 3.1 as x 3.10.

    ``beside`` are others of the same sentence: all of them are written in one way.
    """
    if not all(0.5 < each < 2 for each in (ratio, *beside)):
        return f"x {ratio:.3g}"
    percent = (ratio - 1) * 100
    return f"{percent:+.2f} %" if abs(percent) < 1 else f"{percent:+.1f} %"


def span_text(low: float, high: float, *beside: float) -> str:
    """Return the ends of an interval of changes."""
    return f"{change(low, high, *beside)} to {change(high, low, *beside)}"


def within(ratio: float, low: float, high: float) -> str:
    """Return a change with its interval."""
    return f"{change(ratio, low, high)} ({span_text(low, high, ratio)})"


def ratio_text(answer: ArmAnswer) -> str:
    """Return the change of an arm with its interval."""
    if answer.ratio is None:
        return fmt.MISSING
    if answer.low is None or answer.high is None:
        return change(answer.ratio)
    return within(answer.ratio, answer.low, answer.high)


def guard_text(guard: GuardAnswer, base: str) -> str:
    """Return the change of a guardrail with its interval; both means where a change has no number."""
    if guard.ratio is None and guard.mean is not None and guard.base_mean == 0:
        return f"{guard.mean:.3g} where {base} has 0"
    if guard.ratio is not None and guard.low is not None and guard.high is None:
        return f"{change(guard.ratio)} ({change(guard.low)} or more)"
    if guard.ratio is None or guard.low is None or guard.high is None:
        return fmt.MISSING if guard.ratio is None else change(guard.ratio)
    return within(guard.ratio, guard.low, guard.high)


def knee_sentence(curve: Response) -> str:
    """Return where the curve has its knee, or why it has none."""
    found = curve.knee
    if found.at is None or found.low is None or found.high is None:
        return f"no knee: {found.reason}"
    low, at, high = (fmt.plain(fmt.quantity(one, curve.unit)) for one in (found.low, found.at, found.high))
    before, after = found.before or 0.0, found.after or 0.0
    what = "turns round" if before * after < 0 else "flattens" if abs(after) < abs(before) else "steepens"
    place = {Side.AT_OR_BELOW: f"{at} or below", Side.AT_OR_ABOVE: f"{at} or above", None: f"at {at}"}
    gradually = " gradually, without a corner" if found.is_gradual else ""
    return f"knee {place[found.side]} ({low} to {high}), where the curve {what}{gradually}"


_SEEN_ERRORS = 2.6
"""Standard errors from which the effect of an order is said."""


def sentence(answer: ArmAnswer, experiment: Experiment) -> str:
    """Return the answer in words."""
    percent = f"{100 * experiment.plan.least_effect_ratio:.3g} %"
    name, base = answer.arm, answer.base
    match answer.outcome:
        case Outcome.BREACHED:
            names = ", ".join(g.name for g in answer.guards if g.outcome is GuardOutcome.BREACHED)
            by_metric = {
                Outcome.BETTER: f", though it is better by {experiment.metric.name}",
                Outcome.WORSE: f", and is worse by {experiment.metric.name}",
            }.get(answer.by_metric or Outcome.UNDECIDED, "")
            return f"{name} breaches {names} against {base}{by_metric}"
        case Outcome.UNRELIABLE:
            others = f"; the others are {answer.by_metric}"
            return f"{name} is unreliable beside {base}: {_losses(answer, experiment)}{others}"
        case Outcome.BETTER | Outcome.WORSE:
            return f"{name} is {answer.outcome} than {base}{_unequal(answer, experiment)}"
        case Outcome.EQUIVALENT:
            return f"{name} and {base} differ by less than {percent}{_unequal(answer, experiment)}"
        case Outcome.UNDECIDED:
            if answer.mean is None:
                why = f"no block has a value of both: {_losses(answer, experiment)}"
                return f"{base} or {name}: undecided, {why}"
            span = more = ""
            if answer.low is not None and answer.high is not None:
                ends = span_text(answer.low, answer.high).replace(" to ", " and ")
                span = f": {name} is between {ends} beside {base}"
            if answer.blocks_needed is not None and answer.blocks_needed > answer.blocks:
                more = f"; about {answer.blocks_needed:,} blocks would show a difference of {percent}"
            return f"{base} or {name}: undecided{span}{more}{_unequal(answer, experiment)}"


def sentences(answers: Sequence[ArmAnswer], experiment: Experiment) -> list[str]:
    """Return the answers in words; arms with the same one share a sentence."""
    found: dict[tuple[str, Outcome, bool], list[ArmAnswer]] = {}
    for answer in answers:
        is_plain = answer.outcome in _SHARED and not _unequal(answer, experiment)
        key = (answer.base, answer.outcome, is_plain) if is_plain else (answer.arm, answer.outcome, is_plain)
        found.setdefault(key, []).append(answer)
    percent = f"{100 * experiment.plan.least_effect_ratio:.3g} %"
    texts = []
    for (base, outcome, _), alike in found.items():
        if len(alike) == 1:
            texts.append(sentence(alike[0], experiment))
            continue
        *names, last = (answer.arm for answer in alike)
        texts.append(f"{', '.join(names)} and {last} {_SHARED[outcome].format(base=base, percent=percent)}")
    return texts


_SHARED = {
    Outcome.BETTER: "are better than {base}",
    Outcome.WORSE: "are worse than {base}",
    Outcome.EQUIVALENT: "differ from {base} by less than {percent}",
}


def _unequal(answer: ArmAnswer, experiment: Experiment) -> str:
    """Return what to add where the arms did not lose the same number of trials."""
    if len(set(answer.lost.values())) < 2 or answer.mean is None:
        return ""
    return f", where both gave values: {_losses(answer, experiment)}"


def _losses(answer: ArmAnswer, experiment: Experiment) -> str:
    """Return how many trials of both arms gave no value."""
    made = Counter(trial.arm for trial in experiment.trials)
    lost = answer.lost
    reasons = [trial.reason or "" for trial in experiment.trials if trial.value is None]
    # A metric that is 0 has a value, of which there is no ratio.
    is_known = all(one.startswith("the metric is ") and "missing" not in one for one in reasons)
    verb = "gave no positive value" if reasons and is_known else "gave no value"
    return (
        f"{lost[answer.arm]} of {made[answer.arm]} trials of {answer.arm} {verb},"
        f" of {answer.base} {lost[answer.base]} of {made[answer.base]}"
    )


def _effects_of_order(answer: ArmAnswer, experiment: Experiment) -> list[str]:
    """Return what the order of trials did to them, where that is seen and matters."""
    found = []
    where = "as the second of a block" if len(experiment.arms) == 2 else "one later in its block"
    for effect, words, changes in (
        # Pairs of blocks have either place as often: what is not seen changes nothing.
        (answer.position, f"a trial made {where}", False),
        (answer.carry_over, f"a trial after one of {answer.arm} rather than of {answer.base}", True),
    ):
        if effect is None or not (effect.is_there or (changes and effect.is_taken_out)):
            continue
        # A carry-over weighs by a quarter, or half, of itself in the plain ratio of the means.
        if abs(math.log(effect.ratio)) >= math.log1p(experiment.plan.least_effect_ratio) / 2:
            span = span_text(effect.low, effect.high)
            sure = "" if effect.is_there else ", which may be chance"
            found.append(f"{words} is {change(effect.ratio)} ({span}){sure}: taken out of the answer")
    return found


def beside_means(answer: ArmAnswer, experiment: Experiment) -> str | None:
    """Return how the answer differs from the ratio of the means, where an effect of the order matters.

    Each arm has either place in a block as often, but follows the other arm more often than itself: the means
    have a quarter to half of a carry-over in them, which the answer is without.
    """
    if answer.ratio is None or not answer.mean or not answer.base_mean:
        return None
    effects = [answer.position, answer.carry_over]
    if not any(effect is not None and effect.is_taken_out for effect in effects):
        return None
    plain = answer.mean / answer.base_mean
    if abs(math.log(answer.ratio / plain)) < math.log1p(experiment.plan.least_effect_ratio) / 2:
        return None
    return (
        f"arm {answer.arm}: the means alone differ by {change(plain)} from {answer.base};"
        f" {change(answer.ratio)} is without the effect of the order"
    )


def _carried(experiment: Experiment) -> list[str]:
    """Return what arms leave to the trials after them, where there are more than two and that is seen."""
    lines = []
    for arm, (effect, error) in carried(experiment).by_arm.items():
        if abs(effect) > _SEEN_ERRORS * error:
            ends = (change(math.exp(effect + by * _SEEN_ERRORS * error)) for by in (-1, 1))
            span = " to ".join(ends)
            lines.append(
                f"a trial after one of {arm} is {change(math.exp(effect))} ({span}) beside those after any:"
                " taken out of the answers and the means"
            )
    return lines


def _rare(answers: Sequence[ArmAnswer]) -> list[str]:
    """Return what good answers may have missed, a line for arms of as many blocks: rare collapses."""
    lines: dict[tuple[float, int], list[str]] = {}
    for answer in answers:
        is_good = answer.outcome in (Outcome.BETTER, Outcome.EQUIVALENT)
        if is_good and answer.worst_ratio is not None and answer.unseen_ratio is not None:
            worst = f"{answer.arm} {change(answer.worst_ratio)}"
            lines.setdefault((answer.unseen_ratio, answer.blocks), []).append(worst)
    return [
        f"worst trials beside their medians: {', '.join(worst)}; a collapse in fewer than"
        f" {fmt.plain(fmt.quantity(unseen, 'ratio'))} of trials may not have been seen in {blocks} blocks"
        for (unseen, blocks), worst in lines.items()
    ]


def notes(experiment: Experiment, answers: Sequence[ArmAnswer]) -> list[str]:
    """Return what a reader must know: lost trials, correlation, why it ended."""
    found = []
    counts: dict[str, dict[str, int]] = {}
    for trial in experiment.trials:
        if trial.reason is not None:
            reasons = counts.setdefault(trial.arm, {})
            reasons[trial.reason] = reasons.get(trial.reason, 0) + 1
    for arm, reasons in counts.items():
        worst = max(reasons, key=lambda reason: reasons[reason])
        total = sum(reasons.values())
        count = "" if reasons[worst] == total else f", {reasons[worst]} of them"
        found.append(f"arm {arm}: {fmt.several(total, 'trial')} without a value{count}: {worst}")
    disturbed = sum(trial.is_disturbed for trial in experiment.trials)
    if disturbed:
        found.append(
            f"in {disturbed} of {len(experiment.trials)} trials other processes took part of the CPU time:"
            " arms meet that at random, and intervals are wider for it"
        )
    if not experiment.plan.blocks_in_order:
        found.append(
            "replicates have names, and so no order: whether one resembles the one before is not known"
            " (numbers or times are an order)"
        )
    for answer in answers:
        if answer.correlation is not None and answer.low is not None:
            found.append(
                f"arm {answer.arm}: blocks resemble the ones before them (rank correlation"
                f" {answer.correlation:.2f}, corrected for so few blocks); the interval is widened for it"
            )
        if answer.reason is not None:
            found.append(f"arm {answer.arm}: no interval: {answer.reason}")
        if answer.caution is not None:
            found.append(f"arm {answer.arm}: {answer.caution}")
        found += _effects_of_order(answer, experiment)
        found += [] if (beside := beside_means(answer, experiment)) is None else [beside]
        found += [
            f"arm {answer.arm}: guardrail {guard.name} is not known: {guard.reason}"
            for guard in answer.guards
            if guard.reason is not None
        ]
    found += _rare(answers)
    found += _carried(experiment)
    if (begins := beginning(experiment)) is not None:
        found.append(
            f"the first {begins.blocks} blocks are {change(begins.ratio)} beside the others,"
            " in all arms together: ratios within blocks hold, means are not of a settled machine"
        )
    if experiment.status_reason is not None:
        found.append(f"ended after {len(experiment.trials)} trials: {experiment.status_reason}")
    return found


def base_mean(experiment: Experiment, answers: Sequence[ArmAnswer]) -> float | None:
    """Return the base's mean over the blocks it is compared in, or over all its trials where these differ."""
    means = {answer.base_mean for answer in answers}
    if len(means) == 1:
        return means.pop()
    values = list(values_by_arm(experiment)[answers[0].base].values())
    return geometric_mean(values) if values else None


def together(answers: Sequence[ArmAnswer], by_factor: Mapping[str, Sequence[ArmAnswer]] | None) -> str:
    """Return of what all the intervals hold together."""
    parts = ["arms"] if len(answers) > 1 else []
    parts += ["guardrails"] if answers[0].guards else []
    parts += ["factors"] if by_factor else []
    if not parts:
        return ""
    parts = parts if len(answers) > 1 else ["metric", *parts]
    return f", of all {' and '.join(parts)} together"
