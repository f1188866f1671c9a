"""Charts of an answer as data: series, marks and maps, which a page's script draws.

In: values in base units. Out: what the script reads, without colours: a series names a role, and the page's
style gives each role its colour in light and in dark.

Invariant: a chart without a finite value is not drawn, and its place says why.

Not here: drawing (``templates/charts.js``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from steelyard.report import format as fmt

_NAME_LENGTH = 300
_FIRST_S, _LAST_S = (datetime(*day, tzinfo=UTC).timestamp() for day in ((1, 1, 1), (9999, 12, 31)))
"""What the calendar holds, in Unix time."""


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
    symbol: str | None = None
    """Shape of points: ``circle``, ``square``, ``diamond``, ``cross``, ``x``, ``triangle-up``."""


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

    ``x_kind`` is ``number``, ``name`` (a row of categories in the order of their first appearance),
    ``horizontal`` lays bars along the x axis: names stand at the left, and then ``x`` of a series
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
    size: str = "normal"
    missing: str = ""
    """Why there is nothing to draw."""
    wide: bool = False
    """Whether it has a row of its own."""
    has_named_parts: bool = False
    """Whether parts of stacked bars have their names on them where there is room, and below the chart."""

    @property
    def parts(self) -> tuple[Series, ...]:
        """Return what a legend below the chart names."""
        return self.series if self.has_named_parts else ()

    @property
    def summary_rows(self) -> list[tuple[str, str, str, str]]:
        """Return what its table of values has: of points that tables show, nothing."""
        return []

    @property
    def is_drawable(self) -> bool:
        """Whether any series has a finite value."""
        return not self.missing and any(is_finite(y) for series in self.series for y in series.y)

    @property
    def summary(self) -> str:
        """The chart in words, for whoever cannot see it."""
        if self.x_kind == "quantile":
            parts = [f"{series.name}: {self._quantiles(series)}" for series in self.series]
            return f"{self.title}. {'; '.join(parts)}."
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
            "namedParts": self.has_named_parts,
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

    def _quantiles(self, series: Series) -> str:
        ticks = ((2.0, "median"), (100.0, "99 %"), (1000.0, "99.9 %"))
        known = [at for at in ticks if len(series.x) and at[0] <= series.x[-1]]
        return ", ".join(f"{name} {fmt.quantity(_at(x, series), self.y_unit)}" for x, name in known)

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
        if series.symbol is not None:
            spec["symbol"] = series.symbol
        return spec


def _at(x: float, series: Series) -> float:
    # A command that draws nothing does without it.
    import numpy as np

    return float(np.interp(x, series.x, [math.nan if y is None else y for y in series.y]))


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
    borders: Sequence[int] = ()
    """After how many rows, and as many columns, a line parts groups."""
    cells_high: int | None = None
    """Pixels of the whole map; by default as its rows need."""
    size: str = "normal"
    missing: str = ""
    wide: bool = False
    on_terminal: bool = False
    """Whether a terminal and CSV show it, as a table."""

    @property
    def height(self) -> int:
        """Return the pixels of the map."""
        return min(self.cells_high or 110 + 26 * max(3, len(self.rows)), 2400)

    @property
    def parts(self) -> tuple[Series, ...]:
        """Return what a legend names: the colour bar says it."""
        return ()

    @property
    def summary_rows(self) -> list[tuple[str, str, str, str]]:
        """Return what its table of values has: nothing."""
        return []

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
            "borders": list(self.borders),
            "xTitle": self.x_title,
            "yTitle": self.y_title,
        }


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
