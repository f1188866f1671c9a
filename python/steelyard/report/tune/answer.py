"""The answer of ``steelyard tune``: what each level brought with its interval, and what was not tried.

In: the record. Out: an `Answer`; a gain is a share, above 0 being better. Not here: its words (``words``),
answers of its experiments (``report.experiment``).
"""

from __future__ import annotations

from collections.abc import Sequence

from steelyard._base import command_text
from steelyard.records.tuning import Tuning, TuningEvidence
from steelyard.report.answer import Answer, Block, Cell, Chart, Column, Mark, Section, Series, Table, table
from steelyard.report.experiment.answer import changed
from steelyard.report.tune.words import PURPOSES, fine_print, gain_text, heading, notes
from steelyard.tune.tuning import NONE, UNDECIDED

_LEVELS = {
    "better": "valid",
    "equivalent": "valid",
    "worse": "invalid",
    "dropped": "invalid",
    "undecided": "suspect",
    "not-tried": "suspect",
}


def answer(tuning: Tuning) -> Answer:
    """Return the answer."""
    sections = []
    for purpose, title in PURPOSES:
        rows = [one for one in tuning.evidence if one.purpose == purpose]
        if rows:
            name, _, about = title.partition(": ")
            blocks: tuple[Block, ...] = (_evidence(rows), *_effects(tuning, purpose, rows))
            sections.append(Section(purpose, name.capitalize(), blocks, f"{about[0].upper()}{about[1:]}."))
    return Answer(
        "Tuning",
        heading(tuning),
        (
            *sections,
            Section("knobs", "Knobs", (_knobs(tuning),), on_terminal=False),
            Section("lacking", "Not here", _lacking(tuning), on_terminal=False),
        ),
        lines=(fine_print(tuning),),
        says_no=tuning.outcome in (NONE, UNDECIDED),
        eyebrow=tuning.benchmark or ("command" if tuning.live is None else "service"),
        cautions=notes(tuning),
        command=command_text(tuning.command),
        command_title="Measured by",
        source="tuning.json",
    )


def _evidence(rows: Sequence[TuningEvidence]) -> Table:
    columns = (
        Column("knob", is_text=True),
        Column("level", is_text=True),
        Column("outcome", is_text=True, is_answer=True),
        Column("gain", "ratio"),
        Column("blocks"),
        Column("experiment", is_text=True, rank=2),
    )
    return table(
        columns,
        [
            (
                one.knob or "",
                one.level or "",
                Cell(one.outcome, level=_LEVELS[one.outcome]),
                changed(gain_text(one), one.gain_ratio, one.low, one.high, one.reason),
                one.blocks,
                one.experiment,
            )
            for one in rows
        ],
    )


def _effects(tuning: Tuning, purpose: str, rows: Sequence[TuningEvidence]) -> tuple[Chart, ...]:
    """Each level's gain with its interval, above 0 being better."""
    shown = [one for one in rows if one.gain_ratio is not None]
    if not shown:
        return ()

    def percent(ratio: float | None) -> float | None:
        return None if ratio is None else 100 * (ratio - 1)

    least = tuning.plan.least_effect_ratio
    chart = Chart(
        id=f"gains-{purpose}",
        title=f"Gain of {tuning.metric.name}",
        series=(
            Series(
                name="gain",
                x=[_name(one) for one in shown],
                y=[percent(one.gain_ratio) for one in shown],
                kind="points",
                low=[percent(one.low) for one in shown],
                high=[percent(one.high) for one in shown],
                labels=[gain_text(one) for one in shown],
                size=9,
            ),
        ),
        x_kind="name",
        x_title="level",
        y_title="gain, %",
        # Without labels: where intervals are wide, the three lines are one.
        marks=(
            Mark("y", 0.0, role="ink"),
            Mark("y", percent(1 + least) or 0.0),
            Mark("y", percent(1 / (1 + least)) or 0.0),
        ),
        note="Dashed: none, and the smallest effect that matters.",
    )
    return (chart,)


def _name(one: TuningEvidence) -> str:
    level = one.level or "soft SKU"
    # Of a knob that was raced again, each race has a place of its own.
    return f"{level if one.knob is None else f'{one.knob}={level}'} ({one.experiment[:3]})"


def _knobs(tuning: Tuning) -> Table:
    columns = (
        Column("knob", is_text=True),
        Column("was", is_text=True),
        Column("is best", is_text=True),
        Column("tried", is_text=True),
        Column("risk", is_text=True),
        Column("sets", is_text=True),
    )
    return table(
        columns,
        [
            (
                one.name,
                one.found,
                tuning.chosen.get(one.name, ""),
                one.reason or " ".join(one.levels),
                one.risk,
                one.about,
            )
            for one in tuning.knobs
        ],
    )


def _lacking(tuning: Tuning) -> tuple[Table, ...]:
    columns = (Column("not here", is_text=True), Column("because", is_text=True))
    return (table(columns, [(one.name, one.reason) for one in tuning.lacking]),) if tuning.lacking else ()
