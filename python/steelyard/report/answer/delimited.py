"""Tables as CSV and as Markdown.

In: what a command would print on a terminal: `rich` renderables, and the tables of answers. Out: text.
Answers, metrics of runs, scaling curves and experiments have exact figures in base units in CSV; other tables
have the figures that a terminal shows. Several tables are apart by an empty line, each after its
title.

Invariants: control characters of names are replaced; a text that a spreadsheet would take for a formula is
quoted (``'=1+1``); what is missing is an empty field in CSV, never 0.

Not here: the flag (``cli.formats``).
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Group
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from steelyard.records import Run
from steelyard.report.answer import (
    Answer,
    Block,
    Cell,
    Column,
    Heat,
    Notes,
    Paragraph,
    Remark,
    Remarks,
    Table,
    table_of,
)
from steelyard.report.answer.terminal import Fitted, Shown
from steelyard.report.format import MISSING, plain, quantity
from steelyard.report.terminal import safe

_GRID = ("name", "value", "note")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|~#])")


@dataclass(frozen=True)
class Plain:
    """A table of texts. ``exact`` holds the same rows with exact figures, under columns of their own."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    exact_columns: tuple[str, ...] | None = None
    exact: tuple[tuple[str, ...], ...] | None = None


def parts_of(renderable: Any) -> Iterator[Plain | str]:
    """Yield the tables and sentences of something that a terminal would show, in their order."""
    if isinstance(renderable, Plain):
        yield renderable
    elif isinstance(renderable, Shown):
        yield from _of_answer(renderable.answer)
    elif isinstance(renderable, Fitted):
        yield of_table(renderable.table)
    elif isinstance(renderable, Group):
        for part in renderable.renderables:
            yield from parts_of(part)
    elif isinstance(renderable, Padding):
        yield from parts_of(renderable.renderable)
    elif isinstance(renderable, RichTable):
        yield from _of_rich(renderable)
    elif isinstance(renderable, str | Text):
        text = _clean(str(renderable))
        if text.strip():
            yield text


def _of_answer(answer: Answer) -> Iterator[Plain | str]:
    """Yield what an answer says and its tables, each under its own title or its section's."""
    said = [answer.heading, answer.verdict or answer.level or "", *answer.lines, *answer.cautions]
    for section in answer.sections:
        said.append(section.intro)
        for block in _with_maps(section.blocks):
            if isinstance(block, Table):
                yield from (_clean(text) for text in said if text)
                yield of_table(block if block.title else replace(block, title=section.title))
                said = [block.caption]
            elif isinstance(block, Paragraph):
                said.append(block.text)
            elif isinstance(block, Remarks):
                said += [line for item in block.items for line in _remark(item)]
            elif isinstance(block, Notes):
                said += block.items
    yield from (_clean(text) for text in said if text)


def _remark(item: Remark) -> list[str]:
    return [
        f"{item.mark}: {item.text}" if item.mark else item.text,
        *(f"{name}: {text}" if name else text for name, text in item.details),
    ]


def _with_maps(blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield blocks, as tables what a terminal or CSV has as such."""
    for block in blocks:
        if isinstance(block, Heat) and block.on_terminal:
            yield table_of(block)
        else:
            yield (block.as_table if isinstance(block, Remarks) else None) or block


def main_table_of(answer: Answer) -> tuple[Plain | None, int]:
    """Return the first table of an answer, which is what CSV has of it, and how many more there are.

    Tables with the same columns are one, with the title of each in a column ``table``.
    """
    tables = [part for part in _of_answer(answer) if isinstance(part, Plain)]
    if not tables:
        return None, 0
    alike = [one for one in tables if one.exact_columns == tables[0].exact_columns]
    if len(alike) == 1:
        return tables[0], len(tables) - 1
    names = (tables[0].columns, tables[0].exact_columns or tables[0].columns)
    columns, exact_columns = (("table", *each) for each in names)
    rows = tuple((one.title, *row) for one in alike for row in one.rows)
    exact = tuple((one.title, *row) for one in alike for row in one.exact or one.rows)
    return Plain("", columns, rows, exact_columns, exact), len(tables) - len(alike)


FIGURES = ("table", "row", "figure", "value", "low", "high", "unit", "note")
"""Columns of an answer's figures, a line each."""


def figures_of(answer: Answer) -> Iterator[tuple[str | float | None, ...]]:
    """Yield every figure of an answer's tables in its base unit, under the names of `FIGURES`.

    A row is named by its texts up to the first figure. The note is a text that stands in place of a figure,
    or why there is none.
    """
    for section in answer.sections:
        for block in (block for block in _with_maps(section.blocks) if isinstance(block, Table)):
            title = _clean(block.title or section.title)
            heads = max(1, _texts(block.columns))
            for row in block.rows:
                name = ", ".join(filter(None, (_clean(cell.text) for cell in row[:heads])))
                for column, one in zip(block.columns[heads:], row[heads:], strict=True):
                    named = (title, name, _clean(column.name))
                    if one.figure is not None:
                        ends = (one.figure.value, one.figure.low, one.figure.high)
                        yield (
                            *named,
                            *ends,
                            one.figure.unit or column.unit or "",
                            _clean(one.figure.missing),
                        )
                    elif one.text not in ("", MISSING):
                        yield (*named, None, None, None, "", _clean(one.text))


def _texts(columns: Sequence[Column]) -> int:
    """Return how many columns of texts lead."""
    return next((at for at, column in enumerate(columns) if not column.is_text), len(columns) - 1)


def of_table(table: Table) -> Plain:
    """Return an answer's table, whole, with its exact figures and the ends of its intervals; without bars."""
    bars = {at for at in range(len(table.columns)) if any(row[at].bar is not None for row in table.rows)}
    if bars:
        kept = [at for at in range(len(table.columns)) if at not in bars]
        columns_of = tuple(table.columns[at] for at in kept)
        table = replace(
            table, columns=columns_of, rows=tuple(tuple(row[at] for at in kept) for row in table.rows)
        )
    names = tuple(_clean(column.name) for column in table.columns)
    rows = tuple(tuple(_clean(cell.text) for cell in row) for row in table.rows)
    columns: list[str] = []
    exact: list[list[str]] = [[] for _ in table.rows]
    for at, column in enumerate(table.columns):
        columns.append(f"{names[at]} [{column.unit}]" if column.unit not in (None, "1") else names[at])
        cells = [row[at] for row in table.rows]
        has_ends = any(_ends(one) != ("", "") for one in cells)
        if has_ends:
            columns += [f"{columns[-1]} low", f"{columns[-1]} high"]
        has_units = any(one.figure is not None and one.figure.unit for one in cells)
        if has_units:
            columns.append(f"{names[at]} unit")
        for row, one in zip(exact, cells, strict=True):
            row += [_exact(one), *(_ends(one) if has_ends else ())]
            if has_units:
                row.append((one.figure and one.figure.unit) or "")
    return Plain(_clean(table.title), names, rows, tuple(columns), tuple(map(tuple, exact)))


def _exact(cell: Cell) -> str:
    if cell.figure is not None:
        return _digits(cell.figure.value)
    text = _clean(cell.text)
    return "" if text == MISSING else text


def _ends(cell: Cell) -> tuple[str, str]:
    return ("", "") if cell.figure is None else (_digits(cell.figure.low), _digits(cell.figure.high))


def _digits(value: float | None) -> str:
    """Return a number with all of its digits, whole ones without a point; "" of none and of infinity."""
    if value is None or not math.isfinite(value):
        return ""
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def metrics_of(runs: Sequence[Run]) -> Plain:
    """Return all metrics of runs, with why those that are missing are."""
    columns = ("run", "benchmark", "metric", "value", "unit", "better", "missing")
    rows, exact = [], []
    for run in runs:
        for name, metric in run.metrics.items():
            head = (_clean(run.run_id), _clean(run.benchmark), _clean(name))
            tail = (_clean(metric.better or ""), _clean(metric.missing or ""))
            rows.append((*head, _clean(quantity(metric.value, metric.unit)), metric.unit, *tail))
            value = "" if metric.value is None else repr(metric.value)
            exact.append((*head, value, metric.unit, *tail))
    return Plain("Metrics", columns, tuple(rows), columns, tuple(exact))


def of_figures(title: str, columns: Sequence[str], rows: Iterable[Sequence[str | float | None]]) -> Plain:
    """Return a table of raw figures: numbers with all of their digits; what is missing or infinite is empty.

    >>> of_figures("", ("name", "value"), [("rate", 0.1), ("peak", None)]).rows
    (('rate', '0.1'), ('peak', ''))
    """

    def text(value: str | float | None) -> str:
        if isinstance(value, str):
            return _clean(value)
        if value is None or not math.isfinite(value):
            return ""
        return str(value) if isinstance(value, int) else repr(float(value))

    return Plain(title, tuple(map(_clean, columns)), tuple(tuple(map(text, row)) for row in rows))


def as_csv(table: Plain) -> str:
    """Return a table as CSV, with its head.

    >>> as_csv(Plain("", ("job", "CPI"), (("=cmd()", "1.5"), ("b", "–"))))
    "job,CPI\\r\\n'=cmd(),1.5\\r\\nb,\\r\\n"
    """
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([_inert(column) for column in table.exact_columns or table.columns])
    for row in table.rows if table.exact is None else table.exact:
        writer.writerow(["" if cell == MISSING else _inert(cell) for cell in row])
    return out.getvalue()


def as_markdown(table: Plain) -> str:
    """Return a table as Markdown, as GitHub and most others read it.

    >>> print(as_markdown(Plain("", ("a", "b"), (("x|y", "<i>"),))))
    | a | b |
    | --- | --- |
    | x\\|y | \\<i\\> |
    """
    lines = [f"**{_escape(table.title)}**\n"] if table.title else []
    lines.append(_line(table.columns))
    lines.append(f"|{' --- |' * len(table.columns)}")
    lines += [_line(row) for row in table.rows]
    return "\n".join(lines)


def sentence(text: str) -> str:
    """Return a sentence as a paragraph of Markdown."""
    return _escape(text)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_escape(cell) for cell in cells)} |"


def _escape(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))


def _inert(text: str) -> str:
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t") and not _NUMBER.fullmatch(text) else text


def _clean(text: str) -> str:
    return " ".join(safe(plain(part)).plain for part in text.splitlines()).strip()


def _of_rich(table: RichTable) -> Iterator[Plain | str]:
    cells = [[_text(cell) for cell in column.cells] for column in table.columns]
    rows = tuple(zip(*cells, strict=True)) if cells else ()
    title = _text(table.title) if table.title else ""
    if not table.show_header and len(rows) < 2:
        # A layout of one line: words, not a table.
        yield from (" ".join(filter(None, row)) for row in rows)
        return
    heads = [_text(column.header) for column in table.columns]
    if not any(heads):
        heads = [*_GRID, *(f"column {at + 1}" for at in range(len(_GRID), len(heads)))][: len(heads)]
    kept = [at for at in range(len(heads)) if heads[at] or any(_says(row[at]) for row in rows)]
    yield Plain(
        title,
        tuple(heads[at] or f"column {at + 1}" for at in kept),
        tuple(tuple(row[at] for at in kept) for row in rows),
    )


def _says(text: str) -> bool:
    # Bars are drawn with blocks, which say nothing elsewhere.
    return bool(text.strip("█▏▎▍▌▋▊▉ "))


def _text(value: Any) -> str:
    if isinstance(value, Text):
        return _clean(value.plain)
    if isinstance(value, str):
        return _clean(Text.from_markup(value).plain) if "[" in value else _clean(value)
    return " ".join(part if isinstance(part, str) else part.title for part in parts_of(value))
