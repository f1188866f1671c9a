"""An experiment on a terminal: a line for each arm, then what to know before believing it.

In: the record and its answers. Out: renderables for a `rich` console. Not here: the page (``page``).
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import geometric_mean

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from steelyard.experiment.answers import Answer, Outcome, values_by_arm
from steelyard.records.experiment import Experiment
from steelyard.report import format as fmt
from steelyard.report.terminal import safe


def change(ratio: float) -> str:
    """Return a ratio as a change: 1.02 as +2.0 %, 1.0004 as +0.04 %, 3.1 as x 3.10."""
    if not 0.5 < ratio < 2:
        return f"x {ratio:.3g}"
    percent = (ratio - 1) * 100
    return f"{percent:+.2f} %" if abs(percent) < 1 else f"{percent:+.1f} %"


def ratio_text(answer: Answer) -> str:
    """Return the change of an arm with its interval."""
    if answer.ratio is None:
        return fmt.MISSING
    if answer.low is None or answer.high is None:
        return change(answer.ratio)
    return f"{change(answer.ratio)} ({change(answer.low)} to {change(answer.high)})"


def sentence(answer: Answer, experiment: Experiment) -> str:
    """Return the answer in words."""
    percent = f"{100 * experiment.plan.least_effect_ratio:.3g} %"
    name, base = answer.arm, answer.base
    match answer.outcome:
        case Outcome.BETTER | Outcome.WORSE:
            return f"{name} is {answer.outcome} than {base}"
        case Outcome.EQUIVALENT:
            return f"{name} and {base} differ by less than {percent}"
        case Outcome.UNDECIDED:
            more = ""
            if answer.blocks_needed is not None and answer.blocks_needed > answer.blocks:
                more = f"; about {answer.blocks_needed} blocks show {percent} in 4 of 5 experiments"
            return f"{base} or {name}: undecided{more}"


def notes(experiment: Experiment, answers: Sequence[Answer]) -> list[str]:
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
        found.append(f"arm {arm}: {total} trials without a value, {reasons[worst]} of them: {worst}")
    disturbed = sum(trial.is_disturbed for trial in experiment.trials)
    if disturbed:
        found.append(
            f"in {disturbed} of {len(experiment.trials)} trials other processes took part of the CPU time:"
            " arms meet that at random, and intervals are wider for it"
        )
    for answer in answers:
        if answer.correlation is not None and answer.low is not None:
            found.append(
                f"arm {answer.arm}: blocks resemble the ones before them"
                f" (correlation {answer.correlation:.2f}); the interval is widened for it"
            )
        if answer.reason is not None:
            found.append(f"arm {answer.arm}: no interval: {answer.reason}")
    if experiment.status_reason is not None:
        found.append(f"ended after {len(experiment.trials)} trials: {experiment.status_reason}")
    return found


def summary(experiment: Experiment, answers: Sequence[Answer]) -> RenderableType:
    """Return the experiment: the answer first, the arms, the notes."""
    parts: list[RenderableType] = [safe(sentence(answer, experiment)) for answer in answers]
    metric = experiment.metric
    table = Table(
        experiment.factor,
        metric.name,
        f"against {answers[0].base}",
        "blocks",
        "",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    values = values_by_arm(experiment)
    first = list(values[answers[0].base].values())
    mean = geometric_mean(first) if first else None
    table.add_row(safe(_label(experiment, 0)), fmt.plain(fmt.quantity(mean, metric.unit or "1")), "", "", "")
    for index, answer in enumerate(answers, start=1):
        table.add_row(
            safe(_label(experiment, index)),
            fmt.plain(fmt.quantity(answer.mean, metric.unit or "1")),
            ratio_text(answer),
            str(answer.blocks),
            str(answer.outcome),
        )
    parts += [Text(), table]
    look = "holds at every look" if answers[0].holds_at_every_look else "for one look, at the end"
    more = "" if len(answers) == 1 else ", all arms together"
    parts.append(
        Text(
            f"intervals of {experiment.plan.confidence:.0%}{more}, {look}; {metric.better} is better",
            style="dim",
        )
    )
    parts += [safe(f"!  {note}") for note in notes(experiment, answers)]
    return Group(*parts)


def _label(experiment: Experiment, index: int) -> str:
    arm = experiment.arms[index]
    told = " ".join(arm.command) or ", ".join(f"{name}={value}" for name, value in arm.settings.items())
    told = told if len(told) <= 48 else told[:45] + "..."
    return arm.name if told.endswith(f"={arm.name}") or not told else f"{arm.name}  {told}"
