"""Every figure of an answer, a row each: as CSV, and as an Arrow table for Parquet.

In: an `Answer`, and the runs that it is about. Out: text or a table with the columns of `FIGURES`: first the
runs' metrics under their own names, then what the answer's tables show. A row without a value has a note: a
text that stands in its place, or why there is none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from steelyard.report.answer import Answer
from steelyard.report.answer.delimited import FIGURES, Plain, as_csv, clean, digits, figures_of
from steelyard.report.exports.runs import ExportedRun

NUMBERS = ("value", "low", "high")
SCHEMA = pa.schema([pa.field(name, pa.float64() if name in NUMBERS else pa.string()) for name in FIGURES])


Row = tuple[str | float | None, ...]


def figures(answer: Answer, runs: Sequence[ExportedRun]) -> Iterator[Row]:
    """Yield the metrics of ``runs`` and the figures of ``answer``, under the names of `FIGURES`."""
    for one in runs:
        for name, metric in one.metrics.items():
            note = metric.missing or "no reason was given" if metric.value is None else ""
            row = clean(f"{one.run.benchmark}, {one.run.run_id}")
            yield ("metrics", row, clean(name), metric.value, None, None, clean(metric.unit), clean(note))
    yield from figures_of(answer)


def figures_csv(rows: Iterable[Row]) -> str:
    """Return the figures as CSV, with their head."""
    texts = tuple(
        tuple(
            digits(_finite(cell)) if name in NUMBERS else str(cell)
            for name, cell in zip(FIGURES, row, strict=True)
        )
        for row in rows
    )
    return as_csv(Plain("", FIGURES, texts))


def figures_table(figures: Iterable[Row], title: str) -> pa.Table:
    """Return the figures as a table."""
    rows = list(figures)
    arrays = []
    for at, field in enumerate(SCHEMA):
        cells = [row[at] for row in rows]
        arrays.append(pa.array(map(_finite, cells) if field.name in NUMBERS else cells, field.type))
    return pa.Table.from_arrays(arrays, schema=SCHEMA.with_metadata({"title": title}))


def _finite(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
