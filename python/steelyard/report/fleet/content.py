"""What a fleet query says, as data: tables, charts, words. The page and the terminal both draw it from here.

In: figures in base units with their unit, texts from anywhere. Out: `Section`s of blocks. Texts stay texts:
whoever draws them escapes them.

Invariants: None is missing, shown as a dash and never as 0; a `Missing` cell brings its reason; a chart
without a finite value is not drawn, and its place says why.

Not here: drawing (``page``, ``table``), figures (``fleet``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from steelyard.report import format as fmt

_NAME_LENGTH = 300
_FIRST_S, _LAST_S = (datetime(*day, tzinfo=UTC).timestamp() for day in ((1, 1, 1), (9999, 12, 31)))
"""What the calendar holds, in Unix time."""


@dataclass(frozen=True)
class Column:
    """A column's heading. Numbers of it have ``unit`` (as in records: ``ratio``, ``s``, ``bytes``, ``1``)."""

    name: str
    unit: str | None = None
    is_text: bool = False
    """Whether it stands at the left and may be broken over lines."""
    rank: int = 0
    """The higher, the sooner it is left out where a terminal has no room for all."""
    is_answer: bool = False
    """Whether it answers the question of its table: it stands beside the row's name on a page, and is never
    left out on a terminal."""


@dataclass(frozen=True)
class Cell:
    """One figure or text: as people write it, and as it stands in the store. ``level`` (``valid``,
    ``suspect``, ``invalid``, ``incomplete``) makes it a badge.
    """

    text: str
    raw: str = ""
    level: str | None = None
    is_text: bool = False


@dataclass(frozen=True)
class Interval:
    """A figure with what is known about it; None where there is no such bound."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Missing:
    """A figure that is not there, and why."""

    reason: str


@dataclass(frozen=True)
class Table:
    """Rows under columns; the first cell of each row names it."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    title: str = ""
    caption: str = ""

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


@dataclass(frozen=True)
class Series:
    """One line, row of points or set of bars. ``kind``: ``line``, ``points``, ``step``, ``area`` or ``bar``.

    ``x`` are numbers, names, or, on a chart over time, Unix seconds. ``low`` and ``high`` are the ends of
    intervals: a band around a line, whiskers on points and bars. None and NaN are gaps. ``role`` is a colour
    of the style: blue, sky, red, orange, green, purple, ink, yellow, or ``tax-ID`` for a category of the tax
    map.
    """

    name: str
    x: Sequence[Any]
    y: Sequence[float | None]
    kind: str = "line"
    role: str = "blue"
    low: Sequence[float | None] | None = None
    high: Sequence[float | None] | None = None
    dash: str | None = None
    labels: Sequence[str] | None = None
    """What each point is, for whoever points at it."""
    size: float | None = None
    """Diameter of points in pixels."""


@dataclass(frozen=True)
class Mark:
    """A line across a chart at a value of one axis, ``x`` or ``y``."""

    axis: str
    value: float
    label: str = ""
    role: str = "muted"


@dataclass(frozen=True)
class Band:
    """A shaded span of the x axis, as the time in which something was capped."""

    begin: float
    end: float
    label: str = ""
    role: str = "blue"


@dataclass(frozen=True)
class Chart:
    """Series on one pair of axes.

    ``x_kind`` is ``number``, ``name`` (a row of categories in the order of their first appearance) or
    ``time``. ``horizontal`` lays bars along the x axis: names stand at the left, and then ``x`` of a series
    still are the names and ``y`` the figures. ``stacked`` puts bars and areas upon each other.
    """

    id: str
    title: str
    series: tuple[Series, ...]
    x_title: str = ""
    y_title: str = ""
    x_unit: str = "1"
    y_unit: str = "1"
    x_kind: str = "number"
    x_log: bool = False
    y_log: bool = False
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    from_zero: bool = False
    horizontal: bool = False
    stacked: bool = False
    marks: tuple[Mark, ...] = ()
    bands: tuple[Band, ...] = ()
    note: str = ""
    height: int = 320
    missing: str = ""
    """Why there is nothing to draw."""

    @property
    def is_drawable(self) -> bool:
        """Whether any series has a finite value."""
        return not self.missing and any(is_finite(y) for series in self.series for y in series.y)

    @property
    def summary(self) -> str:
        """The chart in words, for whoever cannot see it."""
        parts = []
        for series in self.series[:8]:
            known = [float(y) for y in series.y if y is not None and is_finite(y)]
            if known:
                ends = (fmt.quantity(min(known), self.y_unit), fmt.quantity(max(known), self.y_unit))
                parts.append(f"{series.name[:80]}: {ends[0]} to {ends[1]}")
        return f"{self.title}. {'; '.join(parts)}."

    def spec(self) -> dict[str, Any]:
        """Return what the page's script draws."""
        return {
            "id": self.id,
            "kind": "xy",
            "series": [self._series(series) for series in self.series],
            "xTitle": self.x_title,
            "yTitle": self.y_title,
            "xUnit": self.x_unit,
            "yUnit": "s" if self.y_unit == "ns" else self.y_unit,
            "xKind": self.x_kind,
            "xLog": self.x_log,
            "yLog": self.y_log,
            "xRange": None if self.x_range is None else [self._x(end) for end in self.x_range],
            "yRange": None if self.y_range is None else [self._y(end) for end in self.y_range],
            "fromZero": self.from_zero,
            "horizontal": self.horizontal,
            "stacked": self.stacked,
            "marks": [
                {
                    "axis": m.axis,
                    "at": self._x(m.value) if m.axis == "x" else self._y(m.value),
                    "label": m.label,
                    "role": m.role,
                }
                for m in self.marks
            ],
            "bands": [
                {"begin": self._x(b.begin), "end": self._x(b.end), "label": b.label, "role": b.role}
                for b in self.bands
            ],
        }

    def _x(self, value: Any) -> Any:
        if self.x_kind == "time":
            return utc(value)
        return str(value)[:_NAME_LENGTH] if self.x_kind == "name" else short(value)

    def _y(self, value: float | None) -> float | None:
        # Axes put prefixes before seconds: 4 ms, where nanoseconds would be 4M ns.
        return short(value / 1e9 if value is not None and self.y_unit == "ns" else value)

    def _series(self, series: Series) -> dict[str, Any]:
        spec: dict[str, Any] = {
            "name": series.name[:_NAME_LENGTH],
            "kind": series.kind,
            "role": series.role,
            "x": [self._x(value) for value in series.x],
            "y": [self._y(value) for value in series.y],
        }
        if series.low is not None and series.high is not None:
            spec["low"] = [self._y(value) for value in series.low]
            spec["high"] = [self._y(value) for value in series.high]
        if series.dash:
            spec["dash"] = series.dash
        if series.labels is not None:
            spec["labels"] = [text[:_NAME_LENGTH] for text in series.labels]
        if series.size is not None:
            spec["size"] = series.size
        return spec


@dataclass(frozen=True)
class Heat:
    """A map of cells: a row a list of values, None where there is none.

    With ``middle`` the colours part there: blue below, red above. ``cells`` are texts to write into the cells
    and ``labels`` the texts shown on hover.
    """

    id: str
    title: str
    columns: Sequence[str]
    rows: Sequence[str]
    values: Sequence[Sequence[float | None]]
    unit: str = "1"
    low: float | None = None
    high: float | None = None
    middle: float | None = None
    cells: Sequence[Sequence[str]] | None = None
    labels: Sequence[Sequence[str]] | None = None
    x_title: str = ""
    y_title: str = ""
    note: str = ""
    height: int | None = None
    missing: str = ""

    @property
    def is_drawable(self) -> bool:
        """Whether any cell has a finite value."""
        return not self.missing and any(is_finite(value) for row in self.values for value in row)

    @property
    def summary(self) -> str:
        """The map in words."""
        known = [float(v) for row in self.values for v in row if v is not None and is_finite(v)]
        ends = (
            f"{fmt.quantity(min(known), self.unit)} to {fmt.quantity(max(known), self.unit)}" if known else ""
        )
        return f"{self.title}: {len(self.rows)} rows, {len(self.columns)} columns, {ends}."

    def spec(self) -> dict[str, Any]:
        """Return what the page's script draws."""
        return {
            "id": self.id,
            "kind": "heat",
            "columns": [str(name)[:_NAME_LENGTH] for name in self.columns],
            "rows": [str(name)[:_NAME_LENGTH] for name in self.rows],
            "z": [[short(value) for value in row] for row in self.values],
            "unit": self.unit,
            "low": self.low,
            "high": self.high,
            "middle": self.middle,
            "cells": None if self.cells is None else [list(row) for row in self.cells],
            "labels": None
            if self.labels is None
            else [[t[:_NAME_LENGTH] for t in row] for row in self.labels],
            "xTitle": self.x_title,
            "yTitle": self.y_title,
        }


@dataclass(frozen=True)
class Paragraph:
    """Words. ``level`` sets a warning (``suspect``) or a refusal (``invalid``) apart."""

    text: str
    level: str | None = None


@dataclass(frozen=True)
class Notes:
    """A list of short remarks, as files that were put aside or data that is missing."""

    items: tuple[str, ...]
    title: str = ""


@dataclass(frozen=True)
class Fragment:
    """A piece of HTML of ours, escaped by whoever makes it, from the nonce of the page: a flame graph."""

    make: Callable[[str], str]


Block = Table | Chart | Heat | Paragraph | Notes | Fragment


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it, in reading order; ``grid`` puts charts side by side."""

    anchor: str
    title: str
    blocks: tuple[Block, ...]
    intro: str = ""
    grid: bool = False
    on_terminal: bool = True
    """Whether a terminal shows it, too: a page has room for more."""


@dataclass(frozen=True)
class Tile:
    """A main figure at the head of the page."""

    name: str
    text: str
    raw: str = ""
    note: str = ""


@dataclass(frozen=True)
class Answer:
    """What a query says, on every surface: terminal, page and document."""

    title: str
    heading: str
    """The answer in one line."""
    sections: Sequence[Section]
    document: dict[str, Any]
    subline: str = ""
    cautions: Sequence[str] = ()
    tiles: Sequence[Tile] = ()
    says_no: bool = False
    """Whether the command exits with 1."""
    rows: int = 20
    """Rows of a table on a terminal; pages and documents have them all."""


def table(
    columns: Sequence[Column | str],
    rows: Iterable[Sequence[Any]],
    *,
    title: str = "",
    caption: str = "",
) -> Table:
    """Return a table of plain values.

    A value is a number (written in its column's unit, three digits), an `Interval`, a text, a truth, None (a
    dash), a `Missing` (a dash with its reason) or a ready `Cell`. A column given by its name alone holds
    texts.
    """
    heads = tuple(Column(column, is_text=True) if isinstance(column, str) else column for column in columns)
    made = []
    for row in rows:
        if len(row) != len(heads):
            raise ValueError(f"a row of {len(row)} cells under {len(heads)} columns: {row!r}")
        made.append(tuple(cell(value, head) for value, head in zip(row, heads, strict=True)))
    return Table(heads, tuple(made), title, caption)


def cell(value: Any, column: Column) -> Cell:
    """Return ``value`` as a cell of ``column``.

    >>> cell(0.1234, Column("share", "ratio")).text
    '12.3\u202f%'
    >>> cell(Interval(1.5, 1.25, 1.75), Column("CPI")).text
    '1.50 (1.25 to 1.75)'
    """
    if isinstance(value, Cell):
        return value
    if isinstance(value, Missing):
        return Cell(fmt.MISSING, value.reason, is_text=column.is_text)
    if value is None:
        return Cell(fmt.MISSING, "missing", is_text=column.is_text)
    if isinstance(value, bool):
        return Cell("yes" if value else "no", is_text=column.is_text)
    if isinstance(value, Interval):
        return _interval(value, column)
    if isinstance(value, int | float):
        if not math.isfinite(value):
            return Cell(fmt.MISSING, "missing", is_text=column.is_text)
        return Cell(fmt.quantity(float(value), column.unit), fmt.raw(float(value), column.unit))
    return Cell(str(value), is_text=column.is_text)


def _interval(value: Interval, column: Column) -> Cell:
    if value.value is None or not math.isfinite(value.value):
        return Cell(fmt.MISSING, "missing")
    text = fmt.quantity(value.value, column.unit)
    raw = fmt.raw(value.value, column.unit)
    if value.low is None or value.high is None:
        return Cell(text, f"{raw}, no interval")
    ends = (fmt.quantity(value.low, column.unit), fmt.quantity(value.high, column.unit))
    return Cell(f"{text} ({ends[0]} to {ends[1]})", f"{raw}, {value.low!r} to {value.high!r}")


def store_notes(
    problems: Sequence[Any], missing: Mapping[str, str] | None = None, *, most: int = 20
) -> Notes:
    """Return what a reader must know of the data: files that were put aside, and columns that are missing.

    ``problems`` are the store's, each with what ``str`` says of it; ``missing`` names what is unknown
    with the reason.
    """
    items = [f"{name}: {reason}" for name, reason in (missing or {}).items()]
    items += [f"Put aside: {problem}" for problem in problems[:most]]
    if len(problems) > most:
        items.append(
            f"Put aside: {len(problems) - most:,} more files; `steelyard fleet check` names them all."
        )
    return Notes(tuple(items), "Skipped data")


def is_finite(value: Any) -> bool:
    """Whether ``value`` is a finite number."""
    return value is not None and math.isfinite(value)


def short(value: Any) -> float | int | None:
    """Return a number with six significant digits, so that pages stay light; None for NaN and None."""
    if value is None or not math.isfinite(value):
        return None
    rounded = float(f"{float(value):.6g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


def utc(unix_s: float) -> str:
    """Return a time as the drawing library reads it, in UTC; one beyond the calendar is its end.

    >>> utc(1_763_700_000), utc(2**63)
    ('2025-11-21 04:40:00.000', '9999-12-31 00:00:00.000')
    """
    return datetime.fromtimestamp(min(max(float(unix_s), _FIRST_S), _LAST_S), tz=UTC).strftime(
        "%Y-%m-%d %H:%M:%S.%f"
    )[:-3]
