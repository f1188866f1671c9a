"""The operations that an application finished, on the same clock as telemetry.

In: a run's folder: what was read beside the run (``operations/*.jsonl``, see `files`), else what
its load generators counted (``load.json``). Out: `Operations`: operations a second over the measure phase and
every other phase, and `TimeSeries` for charts and correlation.

A series is a list of intervals with the operations that ended in each. Readings of a counter make an
interval between two of them; lines of a log one between two looks at it, or one of the log's own clock. An
interval over the edge of a phase is shared by time, and a rate is operations over the time of the intervals
in which they are known: a counter's reset, a reading that failed or a gap shortens the time instead of
bending the rate.

Invariants: what could not be read is missing with its reason, never 0; 0 is a time that was watched and in
which nothing ended.

Not here: reading a service or a log while it runs (``bench.operations``), and what a figure amounts to
(``rules.operations``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from steelyard.analyze.operations.series_correlation import TimeSeries
from steelyard.analyze.values import Quantity
from steelyard.records import LoadResult, Phase

if TYPE_CHECKING:
    from collections.abc import Sequence

Floats = NDArray[np.float64]
Times = NDArray[np.int64]

FOLDER = "operations"
COVERED_RATIO = 0.5
"""Below this share of a phase what is known of it does not stand for it."""
COUNTED = ("count", "counter", "rate")
"""What values may mean for operations to follow from them; a ``gauge`` is drawn and correlated only."""


@dataclass(frozen=True)
class OperationSeries:
    """One series: operations in intervals, or, for a gauge, values at the intervals' ends.

    ``value`` is NaN where it is not known. ``resets`` counts intervals in which a counter fell.
    """

    name: str
    meaning: str
    begin_ns: Times
    end_ns: Times
    value: Floats
    resets: int = 0

    @property
    def rates(self) -> Floats:
        """Operations a second in each interval; a gauge's values as they are."""
        if self.meaning == "gauge":
            return self.value
        return np.asarray(self.value * 1e9 / np.maximum(1, self.end_ns - self.begin_ns), dtype=np.float64)

    def timeline(self) -> TimeSeries:
        """Return the series at the middles of its intervals, a gauge at its readings."""
        unit = "1" if self.meaning == "gauge" else "1/s"
        middles = self.end_ns if self.meaning == "gauge" else (self.begin_ns + self.end_ns) // 2
        return TimeSeries(self.name, unit, middles, self.rates)

    def over(self, begin_ns: int, end_ns: int) -> tuple[float, int]:
        """Return the operations known to have ended between two times, and the time they are known of."""
        overlap_ns = np.minimum(self.end_ns, end_ns) - np.maximum(self.begin_ns, begin_ns)
        inside = (overlap_ns > 0) & np.isfinite(self.value)
        share = overlap_ns[inside] / (self.end_ns - self.begin_ns)[inside]
        return float((self.value[inside] * share).sum()), int(overlap_ns[inside].sum())

    def per_s(self, begin_ns: int, end_ns: int) -> Quantity:
        """Return operations a second between two times; a gauge's mean."""
        if self.meaning == "gauge":
            inside = (self.end_ns >= begin_ns) & (self.end_ns <= end_ns) & np.isfinite(self.value)
            mean = float(self.value[inside].mean()) if inside.any() else None
            return Quantity.of(mean, "1", "no value was read in this time")
        count, covered_ns = self.over(begin_ns, end_ns)
        if covered_ns <= 0:
            return Quantity(None, "1/s", self._why_not(begin_ns, end_ns))
        if count < 0:
            return Quantity(None, "1/s", "its values are negative: they are no operations")
        ratio = covered_ns / max(1, end_ns - begin_ns)
        if ratio < COVERED_RATIO:
            return Quantity(None, "1/s", f"operations are known of {ratio:.0%} of the time only")
        return Quantity(count * 1e9 / covered_ns, "1/s")

    def _why_not(self, begin_ns: int, end_ns: int) -> str:
        if self.resets:
            return "the counter was reset between all readings"
        near = int(((self.end_ns >= begin_ns) & (self.begin_ns <= end_ns)).sum())
        return "fewer than two readings in this time" if near < 2 else "no two readings succeeded"


@dataclass(frozen=True)
class OperationSource:
    """One source as it was given, with what was read from it.

    ``total`` is the sum of ``series`` where they count operations. ``notes`` are what a reader must know
    (a log that was rotated, a counter that was reset), ``missing`` why there is nothing.
    """

    name: str
    kind: str
    given: str
    meaning: str
    series: tuple[OperationSeries, ...] = ()
    total: OperationSeries | None = None
    notes: tuple[str, ...] = ()
    missing: str | None = None
    cpu_s: float | None = None
    """CPU time that reading it took."""

    @property
    def counts(self) -> bool:
        """Whether operations follow from it."""
        return self.total is not None and self.meaning in COUNTED


@dataclass(frozen=True)
class Operations:
    """What a run's application finished; the main source is the first that counts operations."""

    begin_ns: int
    end_ns: int
    sources: tuple[OperationSource, ...] = ()
    missing: str | None = None
    phases: tuple[tuple[Phase, Quantity], ...] = field(default=())

    @property
    def main(self) -> OperationSource | None:
        """The source whose operations are the run's."""
        return next((source for source in self.sources if source.counts), None)

    @property
    def per_s(self) -> Quantity:
        """Operations a second over the measure phase."""
        return self.between(self.begin_ns, self.end_ns)

    @property
    def count(self) -> Quantity:
        """Operations of the measure phase: what was counted, extended to the parts that are not known."""
        rate = self.per_s
        if rate.value is None:
            return Quantity(None, "1", rate.missing)
        return Quantity(rate.value * (self.end_ns - self.begin_ns) / 1e9, "1")

    @property
    def covered_ratio(self) -> float | None:
        """Share of the measure phase in which operations are known."""
        main = self.main
        if main is None or main.total is None or self.end_ns <= self.begin_ns:
            return None
        return min(1.0, main.total.over(self.begin_ns, self.end_ns)[1] / (self.end_ns - self.begin_ns))

    @property
    def timeline(self) -> TimeSeries | None:
        """Operations a second over the whole run, None where nothing is known."""
        main = self.main
        return None if main is None or main.total is None else main.total.timeline()

    def between(self, begin_ns: int, end_ns: int) -> Quantity:
        """Return operations a second between two times of CLOCK_MONOTONIC."""
        main = self.main
        if main is None or main.total is None:
            return Quantity(None, "1/s", self.missing or "no source counts operations")
        return main.total.per_s(begin_ns, end_ns)


def load_series(loads: Sequence[LoadResult]) -> OperationSeries:
    """Return what several generators completed together, in the intervals of the first."""
    rows = sorted(loads[0].series, key=lambda row: row.begin_ns)
    begin = np.array([row.begin_ns for row in rows], dtype=np.int64)
    end = np.array([row.end_ns for row in rows], dtype=np.int64)
    value = np.array([float(row.completed) for row in rows])
    for other in loads[1:]:
        # Their seconds are not the first one's: each row is shared out over what it overlaps.
        for row in other.series:
            length = max(1, row.end_ns - row.begin_ns)
            overlap = np.minimum(end, row.end_ns) - np.maximum(begin, row.begin_ns)
            value += np.where(overlap > 0, row.completed * overlap / length, 0.0)
    keep = end > begin
    return OperationSeries("requests completed", "count", begin[keep], end[keep], value[keep])
