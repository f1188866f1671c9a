"""A timeline as data: traces over the time of a run, with words and a table for those who cannot see it.

In: times and values in base units. Out: compact JSON without colours: traces name a role, and the page's
style gives each role its colour in light and in dark.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from steelyard.report.format import quantity

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
else:
    # A command that draws nothing does without numpy, which takes a tenth of a second to load.
    Floats = Any


def _no_points() -> Floats:
    import numpy as np

    return np.array([])


@dataclass(frozen=True)
class Trace:
    """One line or area. ``low`` and ``high`` are the extremes within each point, where points are thinned."""

    name: str
    role: str
    y: Floats
    low: Floats | None = None
    high: Floats | None = None
    x: Floats | None = None
    stack: bool = False
    dash: str | None = None
    mode: str = "lines"
    """``lines``, ``markers`` or ``lines+markers``."""
    symbol: str | None = None
    mean: float | None = None
    """Mean over the window where it is known, else that of the points: the last may be of less time."""


@dataclass(frozen=True)
class Timeline:
    """One timeline, or, with ``missing``, the reason why there is none.

    ``x`` is in seconds from the report's zero, for all traces without one of their own; timelines of a page
    are zoomed together and show its phases. ``window`` is the part of x that the summary is about. Of kind
    ``heat`` it has one trace a row.
    """

    id: str
    title: str
    kind: str = "time"
    unit: str = "1"
    x: Floats = field(default_factory=_no_points)
    traces: tuple[Trace, ...] = ()
    log: bool = False
    y_range: tuple[float, float] | None = None
    note: str = ""
    missing: str | None = None
    window: tuple[float, float] | None = None
    size: str = "normal"
    wide: bool = False
    """Whether it has a row of its own."""
    rows: tuple[str, ...] = ()
    y_title: str = ""

    height: int | None = None
    """Pixels; by default as the style says."""

    @property
    def parts(self) -> tuple[()]:
        """Return what a legend below the chart names: it has its own."""
        return ()

    @property
    def is_drawable(self) -> bool:
        """Whether there is anything to draw."""
        import numpy as np

        return self.missing is None and any(np.isfinite(trace.y).any() for trace in self.traces)

    @property
    def summary(self) -> str:
        """The chart in words, over the measure phase."""
        import numpy as np

        if self.kind == "heat":
            values = np.concatenate([trace.y for trace in self.traces]) if self.traces else np.array([])
            known = values[np.isfinite(values)]
            if not len(known):
                return f"{self.title}: nothing was measured."
            return (
                f"{self.title} over time, {len(self.traces)} rows: mean {quantity(known.mean(), self.unit)},"
                f" from {quantity(known.min(), self.unit)} to {quantity(known.max(), self.unit)}."
            )
        parts = [f"{name}: {mean} on average, {low} to {high}" for name, mean, low, high in self.summary_rows]
        return f"{self.title}. " + "; ".join(parts[:8]) + "." if parts else f"{self.title}."

    @property
    def summary_rows(self) -> list[tuple[str, str, str, str]]:
        """Name, mean, lowest and highest of each trace within the window, formatted."""
        import numpy as np

        if self.kind == "heat" and self.unit == "1":
            # The mean of samples taken at the same part of every second means nothing.
            return []
        rows = []
        for trace in self.traces:
            x = self.x if trace.x is None else trace.x
            inside = np.ones(len(x), dtype=bool)
            if self.window is not None:
                inside = (x >= self.window[0]) & (x <= self.window[1])
            known = trace.y[inside & np.isfinite(trace.y)]
            if not len(known):
                continue
            low = _finite(trace.low, inside, known).min()
            high = _finite(trace.high, inside, known).max()
            rows.append(
                (
                    trace.name,
                    quantity(float(known.mean()) if trace.mean is None else trace.mean, self.unit),
                    quantity(float(low), self.unit),
                    quantity(float(high), self.unit),
                )
            )
        return rows

    def spec(self) -> dict[str, Any]:
        """Return what the page's script draws."""
        spec: dict[str, Any] = {
            "id": self.id,
            "kind": "rows" if self.kind == "heat" else "time",
            "unit": self.unit,
            "x": numbers(self.x, digits=6),
            "traces": [_trace(trace, self.unit) for trace in self.traces],
            "size": self.size,
        }
        if self.log:
            spec["log"] = True
        if self.y_range is not None:
            spec["range"] = list(self.y_range)
        if self.rows:
            spec["rows"] = list(self.rows)
        if self.y_title:
            spec["yTitle"] = self.y_title
        return spec


def absent(chart_id: str, title: str, reason: str | None) -> Timeline:
    """Return the place of a timeline that cannot be drawn, with the reason."""
    return Timeline(chart_id, title, missing=reason or "nothing was recorded")


def numbers(values: Floats, digits: int = 4) -> list[float | int | None]:
    """Return ``values`` with ``digits`` significant digits, so that the page stays light; None for NaN.

    >>> import numpy as np
    >>> numbers(np.array([1234.567, float("nan"), 0.0, 12.0]))
    [1235, None, 0, 12]
    """
    result: list[float | int | None] = []
    for value in values.tolist():
        if value is None or not math.isfinite(value):
            result.append(None)
            continue
        short = float(f"{value:.{digits}g}")
        result.append(int(short) if short.is_integer() else short)
    return result


def _finite(values: Floats | None, inside: NDArray[np.bool_], fallback: Floats) -> Floats:
    import numpy as np

    if values is None:
        return fallback
    known = values[inside & np.isfinite(values)]
    return known if len(known) else fallback


def _trace(trace: Trace, unit: str) -> dict[str, Any]:
    # Shares need no more than a tenth of a percent to be drawn, and heat maps have a hundred thousand.
    digits = 3 if unit == "ratio" else 4
    spec: dict[str, Any] = {"name": trace.name, "role": trace.role, "y": _shares(trace.y, unit, digits)}
    if trace.x is not None:
        spec["x"] = numbers(trace.x, digits=6)
    if trace.low is not None and trace.high is not None and _differ(trace.low, trace.high):
        spec["low"] = numbers(trace.low, digits)
        spec["high"] = numbers(trace.high, digits)
    if trace.stack:
        spec["stack"] = True
    if trace.dash:
        spec["dash"] = trace.dash
    if trace.mode != "lines":
        spec["mode"] = trace.mode
    if trace.symbol:
        spec["symbol"] = trace.symbol
    return spec


def _shares(values: Floats, unit: str, digits: int) -> list[float | int | None]:
    import numpy as np

    return numbers(np.round(values, 3) if unit == "ratio" else values, digits)


def _differ(low: Floats, high: Floats) -> bool:
    import numpy as np

    known = np.isfinite(low) & np.isfinite(high)
    return bool((np.abs(high[known] - low[known]) > 0.01 * np.abs(high[known])).any())
