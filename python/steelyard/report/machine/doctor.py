"""The answer of ``steelyard doctor``. In: capabilities. Out: an `Answer`. Not here: finding them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from steelyard.machine import Capability, Status
from steelyard.report.answer import Answer, Cell, Column, Section, table

_LEVELS = {Status.YES: "valid", Status.PARTLY: "suspect", Status.NO: "invalid"}
_TITLES = {
    "telemetry": "Telemetry of steelyard-probe",
    "counters": "Counters and profiles",
    "running": "Running a benchmark",
    "conditions": "Conditions now",
}


def answer(capabilities: Sequence[Capability], *, lacks: Sequence[str] = ()) -> Answer:
    """Return a table for each area, in order; ``lacks`` are programs that are missing."""
    order = list(_TITLES)
    known = sorted(capabilities, key=lambda one: order.index(one.area) if one.area in order else len(order))
    columns = (
        Column("what", is_text=True),
        Column("here", is_text=True),
        Column("result", is_text=True),
        Column("how to enable", is_text=True, is_answer=True),
    )
    sections = []
    for area, members in groupby(known, key=lambda capability: capability.area):
        rows = [
            (
                one.name,
                Cell(str(one.status), level=_LEVELS[one.status], is_text=True),
                one.finding,
                one.enable or "",
            )
            for one in members
        ]
        sections.append(Section(area, _TITLES.get(area, area), (table(columns, rows),)))
    counts = {status: sum(one.status is status for one in capabilities) for status in Status}
    return Answer(
        "Doctor",
        ", ".join(f"{count} {status}" for status, count in counts.items()),
        sections,
        cautions=lacks,
        rows=len(capabilities),
        eyebrow="machine",
        source="this machine",
    )
