"""The answer of ``steelyard experiment``: arms, guardrails, factors, a curve of levels, and every trial.

In: the record and its answers. Out: an `Answer`. Changes are shares: 0.05 is 5 % more than the base. Not
here: its sentences (``words``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from steelyard._base import command_text
from steelyard.experiment.answers import values_by_arm
from steelyard.experiment.outcomes import ArmAnswer, GuardOutcome, Outcome
from steelyard.experiment.response import Response
from steelyard.records.experiment import Experiment
from steelyard.report.answer import (
    Answer,
    Band,
    Cell,
    Chart,
    Column,
    Figure,
    Mark,
    Paragraph,
    Section,
    Series,
    Table,
    measured,
    table,
)
from steelyard.report.experiment.words import (
    base_mean,
    beside_means,
    change,
    guard_text,
    knee_sentence,
    notes,
    ratio_text,
    sentences,
    together,
)

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


_SETTING = 48
"""Characters of an arm's command or settings that a table shows."""


def answer(
    experiment: Experiment,
    answers: Sequence[ArmAnswer],
    curve: Response | None = None,
    by_factor: Mapping[str, Sequence[ArmAnswer]] | None = None,
) -> Answer:
    """Return the answer; ``curve`` is of a sweep, ``by_factor`` of a factorial."""
    look = "at all looks" if answers[0].holds_at_every_look else "for one look, at the end"
    first, *others = sentences(answers, experiment)
    return Answer(
        "Experiment",
        first,
        (
            Section("effects", "Effect", (_arms(experiment, answers, curve), _effects(experiment, answers))),
            Section("response", "Response", () if curve is None else _response(experiment, answers, curve)),
            Section("factors", "Factors", _factors(by_factor or {})),
            Section("guardrails", "Guardrails", _guards(experiment, answers)),
            Section("blocks", "Block by block", (_blocks(experiment),)),
        ),
        lines=(
            *others,
            f"intervals of {experiment.plan.confidence:.0%}{together(answers, by_factor)}, {look};"
            f" {experiment.metric.better} is better",
        ),
        says_no=not all(one.is_good for one in answers),
        eyebrow=experiment.benchmark or "command",
        cautions=notes(experiment, answers),
        command=command_text(experiment.command),
        command_title="Measured by",
        source="experiment.json",
    )


def _arms(experiment: Experiment, answers: Sequence[ArmAnswer], curve: Response | None) -> Table:
    metric = experiment.metric
    beside = _columns_beside(experiment, curve)
    settings = [_setting(experiment, at) for at in range(len(experiment.arms))]
    columns = (
        Column(experiment.factor, is_text=True),
        Column("setting", is_text=True, rank=2),
        Column(metric.name, metric.unit or "1"),
        Column(f"against {answers[0].base}", "ratio", exported=f"change against {answers[0].base}"),
        *(Column(name, experiment.unit_of(name), rank=1) for name in beside),
        Column("blocks"),
        Column("trials lost", rank=1),
        Column("outcome", is_text=True, is_answer=True),
    )
    base = answers[0]
    rows: list[list[object]] = [
        [
            base.base,
            settings[0],
            base_mean(experiment, answers),
            "",
            *(means.get(base.base) for means in beside.values()),
            base.blocks,
            base.lost[base.base],
            "",
        ]
    ]
    for at, one in enumerate(answers, start=1):
        why = "; ".join(filter(None, (one.reason, one.caution, beside_means(one, experiment))))
        rows.append(
            [
                one.arm,
                settings[at],
                one.mean,
                changed(ratio_text(one), one.ratio, one.low, one.high, why),
                *(means.get(one.arm) for means in beside.values()),
                one.blocks,
                one.lost[one.arm],
                Cell(str(one.outcome), level=LEVELS[one.outcome]),
            ]
        )
    return table(columns, rows)


def changed(
    text: str, ratio: float | None, low: float | None, high: float | None, missing: str | None = None
) -> Cell:
    """Return a change as a share of the base: 0.05 for a ratio of 1.05."""
    value, least, most = (None if one is None else round(one - 1, 12) for one in (ratio, low, high))
    raw = "missing" if value is None else repr(value)
    if least is not None and most is not None:
        raw += f", {least!r} to {most!r}"
    return Cell(text, raw, figure=Figure(value, least, most, missing or ""))


def _setting(experiment: Experiment, at: int) -> Cell | str:
    """Return what an arm is beside its name: its command or settings."""
    arm = experiment.arms[at]
    what = command_text(arm.command) or ", ".join(f"{name}={value}" for name, value in arm.settings.items())
    if what.endswith(f"={arm.name}"):
        return ""
    return what if len(what) <= _SETTING else Cell(f"{what[: _SETTING - 3]}...", what, is_text=True)


def _columns_beside(experiment: Experiment, curve: Response | None) -> dict[str, dict[str, float]]:
    """Return the means that stand beside a curve and are no metric or guardrail, by arm."""
    found: dict[str, dict[str, float]] = {}
    shown = {experiment.metric.name, *(guard.name for guard in experiment.plan.guards)}
    for level in curve.levels if curve is not None else ():
        for name, mean in level.beside.items():
            if name not in shown and mean is not None:
                found.setdefault(name, {})[level.arm] = mean
    return found


def _factors(by_factor: Mapping[str, Sequence[ArmAnswer]]) -> tuple[Table, ...]:
    columns = (
        Column("factor", is_text=True),
        Column("level", is_text=True),
        Column("over all others", "ratio", exported="change over all others"),
        Column("blocks"),
        Column("outcome", is_text=True, is_answer=True),
    )
    rows = [
        (
            factor,
            f"{one.arm} against {one.base}",
            changed(ratio_text(one), one.ratio, one.low, one.high, one.reason),
            one.blocks,
            Cell(str(one.outcome), level=LEVELS[one.outcome]),
        )
        for factor, answers in by_factor.items()
        for one in answers
    ]
    return (table(columns, rows),) if rows else ()


def _guards(experiment: Experiment, answers: Sequence[ArmAnswer]) -> tuple[Table, ...]:
    columns = (
        Column(experiment.factor, is_text=True),
        Column("guardrail", is_text=True),
        Column("mean", rank=1),
        Column("change", "ratio"),
        Column("allowed", "ratio"),
        Column("blocks"),
        Column("outcome", is_text=True, is_answer=True),
    )
    rows = [
        (
            one.arm,
            guard.name,
            None if guard.mean is None else measured(guard.mean, experiment.unit_of(guard.name)),
            changed(guard_text(guard, one.base), guard.ratio, guard.low, guard.high, guard.reason),
            None if guard.bound is None else changed(change(guard.bound), guard.bound, None, None),
            guard.blocks,
            Cell(str(guard.outcome), level=GUARD_LEVELS[guard.outcome]),
        )
        for one in answers
        for guard in one.guards
    ]
    return (table(columns, rows),) if rows else ()


def _response(
    experiment: Experiment, answers: Sequence[ArmAnswer], curve: Response
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
                y_unit=experiment.unit_of(name),
                marks=marks,
            )
        )
    return (Paragraph(f"{knee_sentence(curve)}."), *charts)


def _effects(experiment: Experiment, answers: Sequence[ArmAnswer]) -> Chart:
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
