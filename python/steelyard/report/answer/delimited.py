"""An answer as CSV, Markdown and figures a line.

In: an `Answer`. Out: text. CSV and figures are exact, in base units; Markdown has the figures that a terminal
shows. Several tables are apart by an empty line, each after its title.

Invariants: control characters of names are replaced; a text that a spreadsheet would take for a formula is
quoted (``'=1+1``); what is missing is an empty field in CSV, never 0.

Not here: the flag (``cli.formats``).
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

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
from steelyard.report.format import MISSING, plain
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


def parts_of(answer: Answer) -> Iterator[Plain | str]:
    """Yield what an answer says and its tables, each under its own title or its section's."""
    said = [answer.heading, answer.verdict or answer.level or "", *answer.lines, *answer.cautions]
    said += [line for item in (answer.remarks.items if answer.remarks else ()) for line in _remark(item)]
    for section in answer.sections:
        said.append(section.intro)
        for block in _with_maps(section.blocks):
            if isinstance(block, Table):
                yield from (clean(text) for text in said if text)
                yield of_table(block if block.title else replace(block, title=section.title))
                said = [block.caption]
            elif isinstance(block, Paragraph):
                said.append(block.text)
            elif isinstance(block, Remarks):
                said += [line for item in block.items for line in _remark(item)]
            elif isinstance(block, Notes):
                said += block.items
    yield from (clean(text) for text in said if text)


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
    tables = [part for part in parts_of(answer) if isinstance(part, Plain)]
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
            title = clean(block.title or section.title)
            heads = max(1, _texts(block.columns))
            for row in block.rows:
                name = ", ".join(filter(None, (clean(cell.text) for cell in row[:heads])))
                for column, one in zip(block.columns[heads:], row[heads:], strict=True):
                    named = (title, name, clean(column.exported or column.name))
                    if one.figure is not None:
                        ends = (one.figure.value, one.figure.low, one.figure.high)
                        yield (
                            *named,
                            *ends,
                            one.figure.unit or column.unit or "",
                            clean(one.figure.missing),
                        )
                    elif one.text not in ("", MISSING):
                        yield (*named, None, None, None, "", clean(one.text))


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
    names = tuple(clean(column.name) for column in table.columns)
    rows = tuple(tuple(clean(cell.text) for cell in row) for row in table.rows)
    columns: list[str] = []
    exact: list[list[str]] = [[] for _ in table.rows]
    for at, column in enumerate(table.columns):
        columns.append(f"{names[at]} [{column.unit}]" if column.unit not in (None, "1") else names[at])
        cells = [row[at] for row in table.rows]
        has_ends = any(_ends(one) != ("", "") for one in cells)
        if has_ends:
            columns += [f"{columns[-1]} low", f"{columns[-1]} high"]
        has_units = any(one.figure is not None and one.figure.unit not in (None, "", "1") for one in cells)
        if has_units:
            columns.append(f"{names[at]} unit")
        for row, one in zip(exact, cells, strict=True):
            row += [_exact(one), *(_ends(one) if has_ends else ())]
            if has_units:
                row.append((one.figure and one.figure.unit) or "")
    return Plain(clean(table.title), names, rows, tuple(columns), tuple(map(tuple, exact)))


def _exact(cell: Cell) -> str:
    if cell.figure is not None:
        return digits(cell.figure.value)
    text = clean(cell.text)
    return "" if text == MISSING else text


def _ends(cell: Cell) -> tuple[str, str]:
    return ("", "") if cell.figure is None else (digits(cell.figure.low), digits(cell.figure.high))


def digits(value: float | None) -> str:
    """Return a number with all of its digits, whole ones without a point; "" of none and of infinity."""
    if value is None or not math.isfinite(value):
        return ""
    return str(int(value)) if float(value).is_integer() else repr(float(value))


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


def brief_markdown(answer: Answer, rows: int = 20) -> str:
    """Return the beginning of an answer as Markdown: its lines, and the first ``rows`` of its main table."""
    said = [answer.verdict or answer.level or "", *answer.lines, *answer.cautions]
    parts = [f"**{sentence(clean(answer.heading))}**", *(sentence(clean(text)) for text in said if text)]
    table, more = main_table_of(answer)
    if table is not None:
        left = len(table.rows) - rows
        parts.append(as_markdown(replace(table, rows=table.rows[:rows])))
        rest = [f"{left} more rows"] if left > 0 else []
        rest += [f"{more} more {'table' if more == 1 else 'tables'}"] if more else []
        parts += [f"{' and '.join(rest)}: print() shows all."] if rest else []
    return "\n\n".join(parts)


def sentence(text: str) -> str:
    """Return a sentence as a paragraph of Markdown."""
    return _escape(text)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_escape(cell) for cell in cells)} |"


def _escape(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))


def _inert(text: str) -> str:
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t") and not _NUMBER.fullmatch(text) else text


def clean(text: str) -> str:
    """Return a text, which may be from anywhere, on one line and without control characters."""
    return " ".join(safe(plain(part)).plain for part in text.splitlines()).strip()
