"""Stretches of time in which an application did much less than usual.

In: a series of operations in intervals, and a phase. Out: `Stalls`: when they were, how much of the phase
they took, and whether they come at regular distances.

A stretch is a run of bins with less than half of the median bin. Counts scatter by chance, so bins are made
so wide that the median one holds `LEAST_COUNT` operations: a Poisson count of mean 50 is below 25 once in
20,000 bins. Without enough bins nothing is said.

Not here: why (``rules.operations``).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steelyard.analyze.operations.operations import OperationSeries

LEAST_COUNT = 50
LEAST_BINS = 20
SHARE = 0.5
"""Of the median: below it a bin is part of a stretch."""
PERIODIC_STRETCHES = 4
PERIODIC_SCATTER = 0.25
"""Standard deviation of the distances over their mean; random moments have about 1."""


@dataclass(frozen=True)
class Stalls:
    """``stretches`` are (begin, end) in ns. ``usual_per_s`` is the median bin, ``stalled_per_s`` the mean in
    the stretches. ``period_ns`` is the mean distance of their beginnings where that is regular.
    """

    stretches: tuple[tuple[int, int], ...]
    ratio: float
    usual_per_s: float
    stalled_per_s: float
    bin_ns: int
    period_ns: int | None

    @property
    def mean_ns(self) -> float:
        """Mean length of a stretch."""
        return float(np.mean([end - begin for begin, end in self.stretches]))

    def contains(self, times_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of the times lie in a stretch."""
        inside = np.zeros(len(times_ns), dtype=bool)
        for begin, end in self.stretches:
            inside |= (times_ns >= begin) & (times_ns < end)
        return inside


def stalls_of(series: OperationSeries, begin_ns: int, end_ns: int) -> Stalls | None:
    """Return the stretches between two times; None where there are none, or nothing can be said."""
    inside = (series.begin_ns >= begin_ns) & (series.end_ns <= end_ns) & np.isfinite(series.value)
    if series.meaning == "gauge" or int(inside.sum()) < LEAST_BINS:
        return None
    begin, end, value = series.begin_ns[inside], series.end_ns[inside], series.value[inside]
    while len(value) >= LEAST_BINS and np.median(value) < LEAST_COUNT:
        begin, end, value = _halve(begin, end, value)
    if len(value) < LEAST_BINS or np.median(value) < LEAST_COUNT:
        return None
    rates = value * 1e9 / np.maximum(1, end - begin)
    usual = float(np.median(rates))
    low = rates < SHARE * usual
    if not low.any():
        return None
    stretches = _stretches(begin, end, low)
    stalled_ns = int((end - begin)[low].sum())
    return Stalls(
        stretches=stretches,
        ratio=stalled_ns / int((end - begin).sum()),
        usual_per_s=usual,
        stalled_per_s=float(value[low].sum()) * 1e9 / stalled_ns,
        bin_ns=int(np.median(end - begin)),
        period_ns=_period(stretches),
    )


def _halve(
    begin: NDArray[np.int64], end: NDArray[np.int64], value: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Join neighbouring pairs of bins."""
    whole = len(value) // 2 * 2
    return begin[:whole:2], end[1:whole:2], value[:whole:2] + value[1:whole:2]


def _stretches(
    begin: NDArray[np.int64], end: NDArray[np.int64], low: NDArray[np.bool_]
) -> tuple[tuple[int, int], ...]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], low, [False]]).astype(np.int8)))
    return tuple(
        (int(begin[first]), int(end[last - 1])) for first, last in zip(edges[::2], edges[1::2], strict=True)
    )


def _period(stretches: tuple[tuple[int, int], ...]) -> int | None:
    if len(stretches) < PERIODIC_STRETCHES:
        return None
    distances = np.diff([first for first, _ in stretches])
    mean = float(np.mean(distances))
    return int(mean) if float(np.std(distances)) <= PERIODIC_SCATTER * mean else None
