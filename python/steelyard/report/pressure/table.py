"""The pressure point matrix on a terminal and as JSON.

In: rows of ``analyze.pressure.matrix``. Out: a table, lines on differences, a document.
"""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from steelyard.analyze.pressure.intensities import Intensities, Pressure
from steelyard.analyze.pressure.matrix import Difference, Row
from steelyard.report import format as fmt
from steelyard.report.characterize.table import PART_WORDS

PARTS = tuple(field.name for field in fields(Intensities))
RESOURCE_WORDS = {"cpu": "CPU", "dram": "memory", "disk": "disk", "network": "network"}


def render(rows: Sequence[Row]) -> RenderableType:
    """Return the matrix: use over limit of each part, pressure points marked, and the paper's beside them."""
    table = Table(box=None, pad_edge=False)
    table.add_column("workload", header_style="dim")
    for part in PARTS:
        table.add_column(PART_WORDS[part], header_style="dim", justify="right")
    table.add_column("pressure points", header_style="dim")
    table.add_column("published", header_style="dim")
    for row in rows:
        cells = [_cell(None if row.worst is None else getattr(row.worst, part)) for part in PARTS]
        here = "not measured" if row.worst is None else resources_text(row.resources)
        paper = fmt.MISSING if row.published is None else resources_text(row.published)
        table.add_row(Text(row.benchmark), *cells, Text(here), Text(paper))
    lines: list[RenderableType] = [table, Text("● pressure point; figures are use over limit", style="dim")]
    for row in rows:
        if row.missing is not None:
            lines.append(Text(f"{row.benchmark}: {row.missing}"))
        lines += [Text(f"{row.benchmark}: invalid: {objection}", style="red") for objection in row.objections]
        for difference in row.differences():
            lines.append(Text(f"{row.benchmark}: {difference_words(difference)}"))
    return Group(*lines)


def difference_words(difference: Difference) -> str:
    """Return where a row and the paper's differ, and what was seen here."""
    claim = "only here" if difference.here else "only in the paper"
    return f"{RESOURCE_WORDS[difference.resource]} {claim}: {difference.why}"


def _cell(pressure: Pressure | None) -> Text:
    if pressure is None or (pressure.ratio is None and not pressure.pressure):
        return Text(fmt.MISSING, style="dim")
    mark = "● " if pressure.pressure else ""
    text = "" if pressure.ratio is None else fmt.plain(fmt.quantity(pressure.ratio, "ratio"))
    return Text(f"{mark}{text}".strip(), style="bold" if pressure.pressure else "")


def resources_text(names: Sequence[str]) -> str:
    """Return resources in words."""
    return ", ".join(RESOURCE_WORDS[name] for name in names) or "none"


def document(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the matrix as ``--json`` shows it."""
    return {
        "rows": [
            {
                "benchmark": row.benchmark,
                "run_id": row.run_id,
                "missing": row.missing,
                "objections": list(row.objections),
                "pressure_points": list(row.resources),
                "published": None if row.published is None else list(row.published),
                "parts": {} if row.worst is None else _parts(row.worst),
                "steps": {name: _parts(parts) for name, parts in row.steps.items()},
                "differences": [
                    {"resource": each.resource, "here": each.here, "why": each.why}
                    for each in row.differences()
                ],
            }
            for row in rows
        ]
    }


def _parts(parts: Intensities) -> dict[str, Any]:
    return {
        each.part: {
            "ratio": each.ratio,
            "limit": each.limit_source,
            "is_pressure_point": each.pressure,
            "evidence": each.evidence,
            "reason": each.reason,
        }
        for each in parts.parts()
    }
