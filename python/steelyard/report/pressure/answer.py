"""The answer of ``steelyard characterize --suite``: the pressure point matrix.

In: rows of ``analyze.pressure.matrix``, the panels of each run. Out: an `Answer`. The matrix, the
paper's beside it with the reason where they differ, and for each workload CPU, memory, disk and network over
time with its steps shaded.

Not here: the document (``document``).
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import numpy as np

from steelyard.analyze.pressure.intensities import THRESHOLDS
from steelyard.analyze.pressure.matrix import Row
from steelyard.analyze.pressure.panels import Curve, Panel, Panels
from steelyard.report import format as fmt
from steelyard.report.answer import (
    Answer,
    Band,
    Block,
    Cell,
    Chart,
    Column,
    Figure,
    Heat,
    Mark,
    Notes,
    Paragraph,
    Section,
    Series,
    table,
)
from steelyard.report.characterize.table import PART_WORDS
from steelyard.report.pressure.words import PARTS, difference_words, resources_text

_ROLES = {
    "user": "blue",
    "system": "red",
    "stolen by the hypervisor": "ink",
    "idle, waiting for disks": "green",
    "not reclaimable": "blue",
    "page cache": "green",
    "read": "blue",
    "written": "red",
    "received": "blue",
    "sent": "orange",
    "sent = received": "orange",
}
_STEP_ROLES = ("ink", "sky")
"""Of steps in turn, so that neighbours stand apart."""
_LIMIT_IN_SIGHT = 4.0
"""A limit of more than so many times what was used would flatten the curves: the note names it."""
_HEADROOM = 1.08


def answer(
    suite_id: str, rows: Sequence[Row], panels: Sequence[Panels] = (), *, command: Sequence[str] = ()
) -> Answer:
    """Return the answer; ``panels`` are of the rows, in their order, and have curves over time."""
    expected = [(row, name) for row in rows if row.parts is not None for name in row.published or ()]
    found = sum(name in row.pressure_points for row, name in expected)
    return Answer(
        "Pressure point matrix",
        f"{found} of {len(expected)} published pressure points are pressure points here"
        if expected
        else "Pressure points",
        [_matrix(rows), *map(_workload, rows, panels)],
        lines=(suite_id,),
        cautions=[f"{row.benchmark}: invalid: {objection}" for row in rows for objection in row.objections],
        says_no=any(row.objections for row in rows),
        eyebrow="characterization",
        command=shlex.join(command),
        source="the suite's runs",
    )


def _matrix(rows: Sequence[Row]) -> Section:
    heat = Heat(
        "matrix",
        "Use over limit, the worst step of each workload",
        [PART_WORDS[part] for part in PARTS],
        [row.benchmark for row in rows],
        [[_ratio(row, part) for part in PARTS] for row in rows],
        unit="ratio",
        low=0.0,
        high=1.0,
        cells=[[_cell_text(row, part) for part in PARTS] for row in rows],
        labels=[[_label(row, part) for part in PARTS] for row in rows],
        note="● marks a pressure point. An empty cell has no limit, or was not measured.",
        cells_high=120 + 44 * max(2, len(rows)),
        on_terminal=True,
    )
    columns = (
        "workload",
        Column("as published", is_answer=True),
        Column("pressure points here", is_text=True),
        Column("Table 4 of the paper", is_text=True),
        Column("where they differ", is_text=True),
    )
    shown = table(
        columns,
        [
            (
                row.benchmark,
                _agreement(row),
                "not measured" if row.parts is None else resources_text(row.pressure_points),
                Figure(missing="the paper has no such workload")
                if row.published is None
                else resources_text(row.published),
                row.missing or _in_short(row) or fmt.MISSING,
            )
            for row in rows
        ],
        caption="Awasthi et al., System-Level Characterization of Datacenter Applications, ICPE 2015.",
    )
    thresholds = ", ".join(f"{PART_WORDS[part]} {THRESHOLDS[part]:.0%}" for part in PARTS)
    intro = f"A part is a pressure point from a share of its limit on: {thresholds}."
    return Section("matrix-section", "Matrix", (heat, shown), intro)


def _in_short(row: Row) -> str:
    """Return which resources differ; what was seen of them stands beside the workload's curves."""
    parts = []
    for here, words in ((True, "only here"), (False, "only in the paper")):
        names = tuple(each.resource for each in row.differences if each.here == here)
        parts += [f"{resources_text(names)} {words}"] if names else []
    return "; ".join(parts)


def _agreement(row: Row) -> Cell:
    if row.published is None or row.parts is None:
        return Cell("not compared", level="incomplete")
    if row.differences:
        return Cell("differs", level="suspect")
    return Cell("the same", level="valid")


def _ratio(row: Row, part: str) -> float | None:
    return None if row.parts is None else getattr(row.parts, part).ratio


def _cell_text(row: Row, part: str) -> str:
    if row.parts is None:
        return ""
    pressure = getattr(row.parts, part)
    text = "" if pressure.ratio is None else fmt.plain(fmt.quantity(pressure.ratio, "ratio"))
    return f"● {text}".strip() if pressure.is_pressure_point else text


def _label(row: Row, part: str) -> str:
    if row.parts is None:
        return f"{row.benchmark}: {row.missing}"
    pressure = getattr(row.parts, part)
    parts = [pressure.evidence, pressure.reason, pressure.limit and f"limit: {pressure.limit}"]
    return f"{row.benchmark}, {PART_WORDS[part]}: {'; '.join(each for each in parts if each)}"


def _workload(row: Row, panels: Panels) -> Section:
    blocks: list[Block] = []
    if panels.missing is not None:
        blocks.append(Paragraph(f"No curves: {panels.missing}.", "suspect"))
    blocks += [_chart(row.benchmark, panel, panels) for panel in panels.panels]
    if len(row.steps) > 1:
        blocks.append(_steps(row))
    differences = tuple(f"{difference_words(each)}" for each in row.differences)
    if differences:
        blocks.append(Notes(differences, "Where it differs from the paper"))
    here = "not measured" if row.parts is None else resources_text(row.pressure_points)
    paper = "" if row.published is None else f"; published: {resources_text(row.published)}"
    steps = (
        "Shaded: the steps of the measure phase." if len(panels.steps) > 1 else "Shaded: the measure phase."
    )
    intro = f"Pressure points here: {here}{paper}. {steps}"
    return Section(
        f"workload-{row.benchmark}",
        row.benchmark,
        tuple(blocks),
        intro,
        grid=True,
        on_terminal=bool(differences),
    )


def _chart(benchmark: str, panel: Panel, panels: Panels) -> Chart:
    is_stacked = panel.resource == "cpu"
    series = tuple(
        Series(
            curve.name,
            np.round(curve.seconds, 3).tolist(),
            [None if not np.isfinite(value) else float(value) for value in curve.values],
            kind="area" if is_stacked else "line",
            role=_ROLES[curve.name],
        )
        for curve in panel.curves
    )
    limit = panel.limit.value if panel.limit is not None else None
    top = max((_top(curve) for curve in panel.curves), default=0.0)
    in_sight = limit is not None and (is_stacked or 0 < limit <= _LIMIT_IN_SIGHT * top)
    bands = tuple(
        Band(begin, end, name if len(panels.steps) > 1 else "", _STEP_ROLES[at % len(_STEP_ROLES)])
        for at, (name, begin, end) in enumerate(panels.steps)
    )
    # Bursts go over a limit of the mean; a stack of CPU modes cannot.
    most = max(limit, 0.0 if is_stacked else top) if in_sight and limit is not None else top
    high = most * _HEADROOM
    return Chart(
        f"{benchmark}-{panel.resource}",
        panel.title,
        series,
        x_title="s from the begin of the measure phase",
        y_unit=panel.unit,
        x_range=panels.span_s,
        y_range=(0.0, high) if high > 0 else None,
        from_zero=True,
        stacked=is_stacked,
        bands=bands,
        marks=(Mark("y", limit, "limit"),) if in_sight and limit is not None and not is_stacked else (),
        note=_note(panel),
        height=260,
        missing=panel.missing or "",
    )


def _top(curve: Curve) -> float:
    known = curve.values[np.isfinite(curve.values)]
    return float(known.max()) if len(known) else 0.0


def _note(panel: Panel) -> str:
    if panel.limit is None or panel.resource == "cpu":
        return ""
    if panel.limit.value is None:
        return f"No limit: {panel.limit.missing}." if panel.limit.missing else ""
    return f"Limit: {fmt.plain(fmt.quantity(panel.limit.value, panel.unit))}, {panel.limit.source}."


def _steps(row: Row) -> Block:
    columns = [Column("step", is_text=True), *(Column(PART_WORDS[part], "ratio") for part in PARTS)]
    rows = []
    for name, parts in row.steps.items():
        cells = []
        for part in PARTS:
            pressure = getattr(parts, part)
            if pressure.ratio is None:
                cells.append(Cell("●" if pressure.is_pressure_point else fmt.MISSING, pressure.reason or ""))
            else:
                text = fmt.quantity(pressure.ratio, "ratio")
                cells.append(Cell(f"● {text}" if pressure.is_pressure_point else text, pressure.evidence))
        rows.append((name, *cells))
    return table(columns, rows, caption="Use over limit by step; ● marks a pressure point.")
