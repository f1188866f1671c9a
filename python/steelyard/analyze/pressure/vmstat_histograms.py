"""What vmstat shows line by line, as histograms over a phase.

In: a recording and a phase. Out: one `Histogram` for each of run queue, blocked tasks, context switches,
interrupts, and the shares of user, system, wait, idle and stolen time: how often each value was seen, a
reading or an interval of the recorder counting once. A mean hides what a histogram shows: a run queue of 4
may be 4 all the time, or 40 a tenth of it.

Every query is an Ibis expression over the recording's tables that gives one row an interval; bins are
counted here.

Invariants: counts sum to the readings that were known; what was not recorded has the reason and no bins.

Not here: drawing (``report``), judging (rules).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from steelyard.telemetry import Recording
from steelyard.telemetry.deferred import ibis
from steelyard.telemetry.engine import fetch, floats
from steelyard.telemetry.tables import increments, intervals_within, within

MOST_BINS = 20
_STEPS = (1.0, 2.0, 5.0, 10.0)
_QUANTILES = (0.5, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class Histogram:
    """How often a quantity had which value.

    ``counts[i]`` readings lay in ``edges[i] <= value < edges[i + 1]``, the last bin with its upper edge.
    """

    name: str
    unit: str
    edges: tuple[float, ...]
    counts: tuple[int, ...]
    readings: int
    mean: float | None
    low: float | None
    high: float | None
    p50: float | None
    p95: float | None
    p99: float | None
    missing: str | None = None

    @classmethod
    def absent(cls, name: str, unit: str, reason: str) -> Histogram:
        """Return a histogram of nothing, with its reason."""
        return cls(name, unit, (), (), 0, None, None, None, None, None, None, reason)


def vmstat_histograms(recording: Recording, begin_ns: int, end_ns: int) -> list[Histogram]:
    """Return the histograms of a phase, in the order of vmstat's columns."""
    span = (begin_ns, end_ns)
    # The kernel's own sum; recordings of an earlier version have the lines only.
    sums = recording.missing("scheduler") is None and "interrupts" in recording.table("scheduler").counters
    interrupts = (
        ("scheduler", {"interrupts": "1/s"}, partial(_per_s, recording, "interrupts", *span))
        if sums
        else ("interrupts", {"interrupts": "1/s"}, partial(_interrupts, recording, *span))
    )
    queries: list[tuple[str, dict[str, str], Callable[[], Any]]] = [
        ("scheduler", {"runnable": "1", "blocked": "1"}, partial(_gauges, recording, *span)),
        interrupts,
        ("scheduler", {"context_switches": "1/s"}, partial(_per_s, recording, "context_switches", *span)),
        ("cpu", dict.fromkeys(_USES, "ratio"), partial(_shares, recording, *span)),
    ]
    histograms = []
    for source, units, query in queries:
        reason = recording.missing(source)
        # One row an interval leaves the engine, however many CPUs and lines there are.
        rows = None if reason else fetch(query())
        for name, unit in units.items():
            histograms.append(
                Histogram.absent(name, unit, reason or "")
                if rows is None
                else histogram(floats(rows[name]), name, unit)
            )
    return histograms


_USES = {
    "user": ("user_ns", "nice_ns"),
    "system": ("system_ns", "irq_ns", "softirq_ns"),
    "idle": ("idle_ns",),
    "wait": ("iowait_ns",),
    "steal": ("steal_ns",),
}
"""Uses of CPU time by the counters of /proc/stat; guests' time is within user and nice time."""


def _gauges(recording: Recording, begin_ns: int, end_ns: int) -> Any:
    inside = within(recording.table("scheduler").rows, begin_ns, end_ns)
    return inside.select(runnable=inside.runnable.cast("float64"), blocked=inside.blocked.cast("float64"))


def _per_s(recording: Recording, column: str, begin_ns: int, end_ns: int) -> Any:
    """Return a counter of the scheduler's table as a rate, for each interval."""
    pairs = increments(recording.table("scheduler"), [column], begin_ns, end_ns)
    pairs = pairs.filter(pairs.end_ns > pairs.begin_ns)
    second = ibis.literal(1e9, "float64")
    return pairs.select(**{column: pairs[column].cast("float64") * second / (pairs.end_ns - pairs.begin_ns)})


def _shares(recording: Recording, begin_ns: int, end_ns: int) -> Any:
    """The shares of all CPUs' time by use, for each interval: all CPUs are read at once."""
    table = recording.table("cpu")
    columns = [column for columns in _USES.values() for column in columns if column in table.counters]
    pairs = increments(table, columns, begin_ns, end_ns)
    # An interval of a CPU in which one counter fell or lacks tells nothing of the shares of the others.
    for column in columns:
        pairs = pairs.filter(pairs[column].notnull())
    parts = {name: _total(pairs, [each for each in use if each in columns]) for name, use in _USES.items()}
    sums = pairs.group_by("end_ns").aggregate(
        whole__=_total(pairs, columns).sum(), **{name: part.sum() for name, part in parts.items()}
    )
    sums = sums.filter(sums.whole__ > 0)
    return sums.select(**{name: sums[name] / sums.whole__ for name in _USES})


def _total(pairs: Any, columns: list[str]) -> Any:
    total = ibis.literal(0.0, "float64")
    for column in columns:
        total = total + pairs[column].cast("float64")
    return total


def _interrupts(recording: Recording, begin_ns: int, end_ns: int) -> Any:
    """Interrupts a second over all lines and CPUs, for each interval between two reads of the file.

    A line has a row only where its count changed, so that a gain belongs to the interval before its row,
    however long ago the row before it is: rows from before the phase are where the first gains count from.
    """
    # From 0: where the first gains count from.
    rows = recording.table("interrupts").rows
    each = ibis.window(group_by=["irq", "name", "cpu"], order_by=rows.time_ns)
    # Floats are exact up to 2 ** 53 interrupts, and these are the most rows that a recording has.
    count = rows["count"].cast("float64")
    gains = rows.select(end_ns=rows.time_ns.cast("int64"), gain=count - count.lag().over(each))
    gains = gains.filter(gains.gain >= 0)
    gains = gains.group_by("end_ns").aggregate(gain=gains.gain.sum())
    times = rows.select(end_ns=rows.time_ns.cast("int64")).distinct()
    times = times.mutate(begin_ns=times.end_ns.lag().over(ibis.window(order_by=times.end_ns)))
    times = intervals_within(times, begin_ns, end_ns)
    joined = times.inner_join(gains, "end_ns")
    second = ibis.literal(1e9, "float64")
    return joined.select(interrupts=joined.gain * second / (joined.end_ns - joined.begin_ns))


def histogram(values: ArrayLike, name: str, unit: str) -> Histogram:
    """Return the histogram of readings; NaN, which stands for what is missing, is left out.

    Shares have 20 bins of 5 %; counts of tasks have whole bins; rates have at most 20 bins of a round width,
    from 0.
    """
    given = np.asarray(values, dtype=np.float64)
    known = given[np.isfinite(given)]
    if not len(known):
        return Histogram.absent(name, unit, "no reading falls within this interval")
    edges = _edges(float(known.min()), float(known.max()), unit)
    width = edges[1] - edges[0]
    last = len(edges) - 2
    beyond = known - edges[0]
    # 0.15 / 0.05 is a little less than 3, and 0.15 * 20 is not.
    places = np.floor(beyond * round(1 / width) if width < 1 else beyond / width).astype(np.int64)
    counts = np.bincount(np.clip(places, 0, last), minlength=last + 1)
    p50, p95, p99 = (float(value) for value in np.quantile(known, _QUANTILES))
    return Histogram(
        name,
        unit,
        edges,
        tuple(int(count) for count in counts),
        len(known),
        float(known.mean()),
        float(known.min()),
        float(known.max()),
        p50,
        p95,
        p99,
    )


def _edges(low: float, high: float, unit: str) -> tuple[float, ...]:
    """Return edges of equal bins that hold ``low`` and ``high``.

    >>> _edges(0, 3, "1")
    (0.0, 1.0, 2.0, 3.0, 4.0)
    >>> _edges(120, 41_000, "1/s")[:3]
    (0.0, 5000.0, 10000.0)
    """
    if unit == "ratio":
        return tuple(index / MOST_BINS for index in range(MOST_BINS + 1))
    base = 0.0 if low >= 0 else float(math.floor(low))
    span = high - base
    # No rate of anything here is reported finer than one in ten days.
    smallest = max(span / MOST_BINS, 1e-6)
    width = 1.0 if unit == "1" or span <= 0 else 10.0 ** math.floor(math.log10(smallest))
    # One bin more than fits the span: the highest value lies inside the last one and not on its edge.
    while (count := math.floor(span / width) + 1) > MOST_BINS:
        width = _rounder(width)
    return tuple(base + index * width for index in range(count + 1))


def _rounder(width: float) -> float:
    """Return the next round number.

    >>> _rounder(1.0), _rounder(2.0), _rounder(500.0)
    (2.0, 5.0, 1000.0)
    """
    power = 10.0 ** math.floor(math.log10(width) + 1e-9)
    return next(step * power for step in _STEPS if step * power > width * (1 + 1e-9))
