"""Tables of an answer: typed columns, and cells that keep their figure beside its text.

In: figures in base units with their unit, texts from anywhere. Out: `Table`s. Texts stay texts: whoever
draws them escapes them.

Invariants: None is missing, shown as a dash and never as 0; a `Missing` cell brings its reason.

Not here: drawing (``page``, ``terminal``, ``delimited``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from steelyard.report import format as fmt
from steelyard.report.answer.charts import Heat


@dataclass(frozen=True)
class Column:
    """A column's heading. Numbers of it have ``unit`` (as in records: ``ratio``, ``s``, ``bytes``, ``1``)."""

    name: str
    unit: str | None = None
    is_text: bool = False
    """Whether it stands at the left and may be broken over lines."""
    rank: int = 0
    """The higher, the sooner it is left out where a terminal has no room for all."""
    is_whole: bool = False
    """Whether its words are never broken, since they are there to be typed."""
    is_answer: bool = False
    """Whether it answers the question of its table: it stands beside the row's name on a page, and is never
    left out on a terminal."""
    exported: str = ""
    """Its name in exports of figures, where the text of a cell says what the value alone does not."""


@dataclass(frozen=True)
class Figure:
    """A figure with the ends of its interval; None where there is no such bound.

    It is in the unit of its column, unless it has a ``unit`` of its own. ``missing`` says why there is no
    value.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    missing: str = ""
    unit: str | None = None


@dataclass(frozen=True)
class Cell:
    """One figure or text: as people write it, and as it stands in the store (``raw``, for who points at it).

    ``figure`` is the same exactly, for other programs. ``level`` (``valid``, ``suspect``, ``invalid``,
    ``incomplete``) makes it a badge; ``bar`` is a share of a rail to fill instead of a text, ``mark`` where
    a line crosses that rail. ``href`` is the address of what it names.
    """

    text: str
    raw: str = ""
    level: str | None = None
    is_text: bool = False
    figure: Figure | None = None
    bar: float | None = None
    mark: float | None = None
    href: str = ""


@dataclass(frozen=True)
class Table:
    """Rows under columns; the first cell of each row names it."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    title: str = ""
    caption: str = ""
    closed: bool = False
    """Whether a page shows it when its title is opened: raw values behind the figures of another table."""

    def answer_first(self) -> Table:
        """Return the table with its answer column moved beside the name: the column marked as the answer,
        else the column of badges.
        """
        answers = [at for at, column in enumerate(self.columns) if column.is_answer]
        badges = [at for at in range(1, len(self.columns)) if any(row[at].level for row in self.rows)]
        answer = next(iter(answers + badges), None)
        if answer is None:
            return self
        order = [0, answer, *(at for at in range(1, len(self.columns)) if at != answer)]
        columns = [replace(self.columns[at], is_answer=at == answer) for at in order]
        rows = tuple(tuple(row[at] for at in order) for row in self.rows)
        return replace(self, columns=tuple(columns), rows=rows)


def table(
    columns: Sequence[Column | str],
    rows: Iterable[Sequence[Any]],
    *,
    title: str = "",
    caption: str = "",
    closed: bool = False,
) -> Table:
    """Return a table of plain values; ``closed`` on a page until it is opened.

    A value is a number (written in its column's unit, three digits), a `Figure`, a text, a truth, None (a
    dash) or a ready `Cell`. A column given by its name alone holds texts.
    """
    heads = tuple(Column(column, is_text=True) if isinstance(column, str) else column for column in columns)
    made = []
    for row in rows:
        if len(row) != len(heads):
            raise ValueError(f"a row of {len(row)} cells under {len(heads)} columns: {row!r}")
        made.append(tuple(cell(value, head) for value, head in zip(row, heads, strict=True)))
    return Table(heads, tuple(made), title, caption, closed=closed)


def grid(
    names: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    title: str = "",
    caption: str = "",
    *,
    closed: bool = False,
) -> Table:
    """Return a table of ready cells under plain headings."""
    return Table(tuple(map(Column, names)), tuple(map(tuple, rows)), title, caption, closed)


def cell(value: Any, column: Column) -> Cell:
    """Return ``value`` as a cell of ``column``.

    >>> cell(0.1234, Column("share", "ratio")).text
    '12.3\u202f%'
    >>> cell(Figure(1.5, 1.25, 1.75), Column("CPI")).text
    '1.50 (1.25 to 1.75)'
    """
    if isinstance(value, Cell):
        return value
    if isinstance(value, Figure):
        return _figure(value, column)
    if value is None:
        return Cell(fmt.MISSING, "missing", is_text=column.is_text)
    if isinstance(value, bool):
        return Cell("yes" if value else "no", is_text=column.is_text)
    if isinstance(value, int | float):
        if not math.isfinite(value):
            return Cell(fmt.MISSING, "missing", is_text=column.is_text)
        text, raw = fmt.quantity(float(value), column.unit), fmt.raw(float(value), column.unit)
        return Cell(text, raw, figure=Figure(value, unit=None if column.unit else "1"))
    return Cell(str(value), is_text=column.is_text)


def table_of(heat: Heat) -> Table:
    """Return a map as a table, with the texts of its cells."""
    columns = (Column("", is_text=True), *(Column(name, heat.unit) for name in heat.columns))
    rows = []
    for at, name in enumerate(heat.rows):
        cells: list[Any] = [name]
        for column, value in enumerate(heat.values[at]):
            text = fmt.quantity(value, heat.unit) if heat.cells is None else heat.cells[at][column]
            label = "" if heat.labels is None else heat.labels[at][column]
            missing = label if value is None else ""
            cells.append(Cell(text or fmt.MISSING, label, figure=Figure(value, missing=missing)))
        rows.append(cells)
    return table(columns, rows, title=heat.title, caption=heat.note)


def written(
    text: str, value: float, low: float | None = None, high: float | None = None, *, unit: str | None = None
) -> Cell:
    """Return a figure with a text of its own, where that of its column's unit would not do."""
    raw = repr(value) if low is None or high is None else f"{value!r}, {low!r} to {high!r}"
    return Cell(text, raw, figure=Figure(value, low, high, unit=unit))


def measured(
    value: float | None,
    unit: str | None,
    *,
    text: str = "",
    raw: str = "",
    missing: str = "",
    low: float | None = None,
    high: float | None = None,
) -> Cell:
    """Return a quantity in a unit of its own, for a column that has several; a dash where there is none.

    ``text`` and ``raw`` replace what its unit would have it written as.

    >>> measured(0.25, "ratio").text, measured(0.25, "ratio").figure.unit, measured(None, "ns").figure
    ('25.0\u202f%', 'ratio', None)
    """
    if value is not None and not math.isfinite(value):
        value = None
    known = value is not None or low is not None or high is not None
    figure = Figure(value, low, high, missing, unit or "1") if known or missing else None
    return Cell(text or fmt.quantity(value, unit), raw or missing or fmt.raw(value, unit), figure=figure)


def span(text: str, low: float, high: float, unit: str) -> Cell:
    """Return an interval without a middle, written as ``text``; ``unit`` is that of its ends."""
    return Cell(text, f"{low!r} to {high!r}", figure=Figure(None, low, high, unit=unit))


def _figure(one: Figure, column: Column) -> Cell:
    if one.value is None or not math.isfinite(one.value):
        return Cell(fmt.MISSING, one.missing or "missing", is_text=column.is_text, figure=one)
    unit = one.unit or column.unit
    # Without a unit it is written as a count, and is one.
    one = one if unit else replace(one, unit="1")
    text = fmt.quantity(one.value, unit)
    raw = fmt.raw(one.value, unit)
    if one.low is None or one.high is None:
        return Cell(text, f"{raw}, no interval", figure=one)
    ends = (fmt.quantity(one.low, unit), fmt.quantity(one.high, unit))
    return Cell(f"{text} ({ends[0]} to {ends[1]})", f"{raw}, {one.low!r} to {one.high!r}", figure=one)
