"""The repeats of a run beside it: each one's value and verdict, and their median.

In: `ReportData`. Out: a `Section`.
"""

import os
from urllib.parse import quote

from steelyard.report import format as fmt
from steelyard.report import runs
from steelyard.report.answer import Cell, Column, Section, measured, table
from steelyard.report.metrics import metric_name, metric_text, metric_unit
from steelyard.report.model import ReportData


def repeats(data: ReportData, *, is_beside: bool = True) -> Section | None:
    """Return the repeats of the run; None where it has none. ``is_beside``: see ``page.answer``."""
    if len(data.siblings) < 2 and data.run.series.count < 2:
        return None
    name = data.headline[0] if data.headline else None
    found = [sibling.run.metrics.get(name) if name else None for sibling in data.siblings]
    values = [metric.value for metric in found if metric is not None and metric.value is not None]
    most = max(values, default=0.0)
    rows = []
    for sibling, metric in zip(data.siblings, found, strict=True):
        is_here = sibling.run.run_id == data.run.run_id
        link = "" if is_here or not is_beside else f"../{quote(os.fsencode(sibling.folder.name))}/report.html"
        value = None if metric is None else metric.value
        index = str(sibling.run.series.index)
        rows.append(
            (
                Cell(f"{index} (this run)" if is_here else index, href=link),
                Cell(runs.word_of(sibling.run), level=runs.level_of(sibling.run), is_text=True),
                measured(value, metric.unit, text=metric_text(name, metric))
                if name and metric
                else Cell(fmt.MISSING, "no result"),
                Cell("", bar=0.0 if value is None or not most else max(0.0, value / most)),
            )
        )
    unit = metric_unit(name, data.run.metrics[name]) if name and name in data.run.metrics else None
    median, note = runs.median_text(values, unit)
    columns = (
        Column("run", is_text=True),
        Column("verdict", is_text=True, is_answer=True),
        Column(metric_name(name, data.run.benchmark) if name else "result"),
        Column(""),
    )
    intro = f"{median[:1].upper()}{median[1:]}{f'; {note}' if note else ''}."
    return Section("repeats", "Repeats", (table(columns, rows),), intro)
