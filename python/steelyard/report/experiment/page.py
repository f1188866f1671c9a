"""The page of an experiment: the answer, a chart of effects, and the values block by block.

In: the record and its answers. Out: the path of the page. Not here: the terminal (``table``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from steelyard._base import command_text
from steelyard.experiment.answers import Answer, GuardOutcome, Outcome, values_by_arm
from steelyard.experiment.response import Response
from steelyard.records.experiment import Experiment
from steelyard.report import format as fmt
from steelyard.report.experiment.table import (
    GUARD_COLUMNS,
    base_mean,
    change,
    factor_rows,
    guard_rows,
    knee_sentence,
    notes,
    ratio_text,
    sentences,
)
from steelyard.report.fleet.content import (
    Band,
    Cell,
    Chart,
    Column,
    Mark,
    Paragraph,
    Section,
    Series,
    Table,
    table,
)
from steelyard.report.fleet.page import write_page

LEVELS = {
    Outcome.BETTER: "valid",
    Outcome.EQUIVALENT: "valid",
    Outcome.WORSE: "invalid",
    Outcome.UNDECIDED: "suspect",
    Outcome.BREACHED: "invalid",
    Outcome.UNRELIABLE: "invalid",
}
GUARD_LEVELS = {
    GuardOutcome.KEPT: "valid",
    GuardOutcome.BREACHED: "invalid",
    GuardOutcome.UNDECIDED: "suspect",
}
_ROLES = ("blue", "orange", "green", "purple", "red", "sky", "yellow", "ink")


def write_experiment(
    path: Path,
    experiment: Experiment,
    answers: Sequence[Answer],
    curve: Response | None = None,
    by_factor: Mapping[str, Sequence[Answer]] | None = None,
) -> Path:
    """Write the page to ``path``. Raises WorkloadFailedError when it cannot be written."""
    plan = experiment.plan
    kind = "hold at all looks" if answers[0].holds_at_every_look else "are for one look, at the end"
    return write_page(
        path,
        "Experiment",
        (
            Section("effects", "Effect", (_table(experiment, answers), _effects(experiment, answers))),
            Section("response", "Response", () if curve is None else _response(experiment, answers, curve)),
            Section("factors", "Factors", _factors(by_factor or {})),
            Section("guardrails", "Guardrails", _guards(experiment, answers)),
            Section("blocks", "Block by block", (_blocks(experiment),)),
        ),
        heading="; ".join(sentences(answers, experiment)),
        subline=f"{experiment.factor}: {experiment.metric.name}, {experiment.metric.better} is better;"
        f" intervals of {plan.confidence:.0%} {kind}, all together",
        eyebrow=experiment.benchmark or "command",
        cautions=notes(experiment, answers),
        command=command_text(experiment.command),
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
        Cell(fmt.quantity(base_mean(experiment, answers), unit)),
        Cell(""),
        base.blocks,
        base.lost[base.base],
    )
    return table(columns, [first, *rows])


def _factors(by_factor: Mapping[str, Sequence[Answer]]) -> tuple[Table, ...]:
    columns = (
        Column("factor", is_text=True),
        Column("level", is_text=True),
        Column("over all others"),
        Column("blocks"),
        Column("outcome", is_answer=True),
    )
    rows = [
        (factor, level, Cell(ratio), blocks, Cell(outcome, level=LEVELS[outcome]))
        for factor, level, ratio, blocks, outcome in factor_rows(by_factor)
    ]
    return (table(columns, rows),) if rows else ()


def _guards(experiment: Experiment, answers: Sequence[Answer]) -> tuple[Table, ...]:
    rows = guard_rows(answers)
    if not rows:
        return ()
    columns = (
        Column(experiment.factor, is_text=True),
        Column("guardrail", is_text=True),
        *(Column(name) for name in GUARD_COLUMNS),
        Column("outcome", is_answer=True),
    )
    return (
        table(
            columns,
            [
                (arm, name, Cell(change), Cell(allowed), blocks, Cell(outcome, level=GUARD_LEVELS[outcome]))
                for arm, name, change, allowed, blocks, outcome in rows
            ],
        ),
    )


def _response(
    experiment: Experiment, answers: Sequence[Answer], curve: Response
) -> tuple[Paragraph | Chart, ...]:
    """The metric over the levels with its knee, and what stands beside it over the same."""
    at = [level.level for level in curve.levels]
    ends = {answer.arm: answer for answer in answers}
    base = ends[answers[0].arm].base_mean

    def end(arm: str, ratio: float | None) -> float | None:
        mean = ends[arm].base_mean if arm in ends else base
        return None if ratio is None or mean is None else mean * ratio

    lows = [end(arm, ends[arm].low) if arm in ends else None for arm in (one.arm for one in curve.levels)]
    highs = [end(arm, ends[arm].high) if arm in ends else None for arm in (one.arm for one in curve.levels)]
    knee = curve.knee
    marks = () if knee.at is None else (Mark("x", knee.at, label="knee", role="red"),)
    bands = () if knee.low is None or knee.high is None else (Band(knee.low, knee.high, role="red"),)
    unit = experiment.metric.unit or "1"
    charts = [
        Chart(
            id="response",
            title=f"{experiment.metric.name} over {experiment.factor}",
            series=(
                Series(experiment.metric.name, at, [one.mean for one in curve.levels], kind="line"),
                Series(
                    f"with the interval against {answers[0].base}",
                    at,
                    [one.mean for one in curve.levels],
                    kind="points",
                    low=lows,
                    high=highs,
                ),
            ),
            x_title=experiment.factor,
            x_unit=curve.unit,
            x_log=curve.is_log,
            y_title=experiment.metric.name,
            y_unit=unit,
            marks=marks,
            bands=bands,
            note="Whiskers are of the difference from the base.",
        )
    ]
    for index, name in enumerate(curve.levels[0].beside):
        means = [one.beside[name] for one in curve.levels]
        charts.append(
            Chart(
                id=f"beside-{index}",
                title=f"{name} over {experiment.factor}",
                series=(Series(name, at, means, kind="line", role="orange"),),
                x_title=experiment.factor,
                x_unit=curve.unit,
                x_log=curve.is_log,
                y_title=name,
                y_unit="ns" if name.endswith("_ns") else "1",
                marks=marks,
            )
        )
    return (Paragraph(f"{knee_sentence(curve)}."), *charts)


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
