"""The page of an experiment: the answer, a chart of effects, and the values block by block.

In: the record and its answers. Out: the path of the page. Not here: the terminal (``table``).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from steelyard.experiment.answers import Answer, Outcome, values_by_arm
from steelyard.records.experiment import Experiment
from steelyard.report import format as fmt
from steelyard.report.experiment.table import change, notes, ratio_text, sentence
from steelyard.report.fleet.content import Cell, Chart, Column, Mark, Section, Series, Table, table
from steelyard.report.fleet.page import write_page

LEVELS = {
    Outcome.BETTER: "valid",
    Outcome.EQUIVALENT: "valid",
    Outcome.WORSE: "invalid",
    Outcome.UNDECIDED: "suspect",
}
_ROLES = ("blue", "orange", "green", "purple", "red", "sky", "yellow", "ink")


def write_experiment(path: Path, experiment: Experiment, answers: Sequence[Answer]) -> Path:
    """Write the page to ``path``. Raises WorkloadFailedError when it cannot be written."""
    plan = experiment.plan
    kind = "hold at every look" if answers[0].holds_at_every_look else "are for one look, at the end"
    return write_page(
        path,
        "Experiment",
        (
            Section("effects", "Effect", (_table(experiment, answers), _effects(experiment, answers))),
            Section("blocks", "Block by block", (_blocks(experiment),)),
        ),
        heading="; ".join(sentence(answer, experiment) for answer in answers),
        subline=f"{experiment.factor}: {experiment.metric.name}, {experiment.metric.better} is better;"
        f" intervals of {plan.confidence:.0%} together {kind}",
        eyebrow=experiment.benchmark or "command",
        cautions=notes(experiment, answers),
        command=" ".join(experiment.command),
        source="experiment.json",
    )


def _table(experiment: Experiment, answers: Sequence[Answer]) -> Table:
    unit = experiment.metric.unit or "1"
    columns = (
        Column(experiment.factor, is_text=True),
        Column("outcome", is_answer=True),
        Column(experiment.metric.name),
        Column(f"against {answers[0].base}"),
        Column("blocks"),
        Column("trials lost"),
    )
    rows = [
        (
            answer.arm,
            Cell(str(answer.outcome), level=LEVELS[answer.outcome]),
            Cell(fmt.quantity(answer.mean, unit)),
            Cell(ratio_text(answer)),
            answer.blocks,
            answer.lost[answer.arm],
        )
        for answer in answers
    ]
    base = answers[0]
    first = (
        base.base,
        Cell(""),
        Cell(fmt.quantity(base.base_mean, unit)),
        Cell(""),
        base.blocks,
        base.lost[base.base],
    )
    return table(columns, [first, *rows])


def _effects(experiment: Experiment, answers: Sequence[Answer]) -> Chart:
    """Each arm's change with its interval, between the lines of the smallest effect that matters."""
    least = experiment.plan.least_effect_ratio

    def percent(ratio: float | None) -> float | None:
        return None if ratio is None else 100 * (ratio - 1)

    return Chart(
        id="effects",
        title=f"Change of {experiment.metric.name} against {answers[0].base}",
        series=(
            Series(
                name="change",
                x=[answer.arm for answer in answers],
                y=[percent(answer.ratio) for answer in answers],
                kind="points",
                low=[percent(answer.low) for answer in answers],
                high=[percent(answer.high) for answer in answers],
                labels=[ratio_text(answer) for answer in answers],
                size=9,
            ),
        ),
        x_kind="name",
        x_title=experiment.factor,
        y_title="change, %",
        # Without labels: where intervals are wide, the three lines are one.
        marks=(
            Mark("y", 0.0, role="ink"),
            Mark("y", percent(1 + least) or 0.0),
            Mark("y", percent(1 / (1 + least)) or 0.0),
        ),
        note=f"Dashed: no effect, and the smallest effect that matters, {change(1 + least)} and"
        f" {change(1 / (1 + least))}.",
    )


def _blocks(experiment: Experiment) -> Chart:
    values = values_by_arm(experiment)
    return Chart(
        id="blocks",
        title=f"{experiment.metric.name} of each trial",
        series=tuple(
            Series(
                name=name,
                x=[block + 1 for block in sorted(blocks)],
                y=[blocks[block] for block in sorted(blocks)],
                kind="points",
                role=_ROLES[index % len(_ROLES)],
                size=6,
            )
            for index, (name, blocks) in enumerate(values.items())
        ),
        x_title="block",
        y_title=f"{experiment.metric.name}, {experiment.metric.unit or '1'}",
    )
