"""Files of ``perf stat`` by themselves, without a run: what each says, and what differs between two.

In: what was read of a file. Out: `FileCounts`, `FileComparison`. Rates are over the time that perf says;
counts over counts (IPC, shares) need none. Metrics are those that hold on every processor, since a file names
none.

Invariants: a missing value has its reason; a difference is called one only where the file has the spread of
repeats (``perf stat -r``, or several outputs in one file) and the difference is beyond it.

Not here: reading files (``telemetry.perf_stat``), counts of a run (``use``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from steelyard._base import UsageError
from steelyard.analyze.counters.events import whole_of
from steelyard.analyze.counters.metrics import MetricValue
from steelyard.analyze.counters.use import metrics_of_series, outputs_of
from steelyard.telemetry.counters import CounterSeries, gains
from steelyard.telemetry.perf_stat.output import PerfStat, read_perf_stat
from steelyard.telemetry.perf_stat.rows import PerfMetric

BEYOND = 1.96
"""Standard errors that a difference must exceed: those of 95 % of a normal distribution."""


@dataclass(frozen=True)
class EventCount:
    """What one event counted over the whole file."""

    name: str
    count: float | None
    unit: str = ""
    per_s: float | None = None
    """Rate over the time elapsed; None for times and where no time is known."""
    coverage_ratio: float | None = None
    """Part of the time that it was counted in."""
    variation_ratio: float | None = None
    """Standard error of the mean over the mean, of repeats."""
    missing: str | None = None


@dataclass(frozen=True)
class FileCounts:
    """One file of ``perf stat``."""

    path: str
    target: str | None
    """What perf says that it counted."""
    duration_s: float | None
    events: tuple[EventCount, ...]
    metrics: Mapping[str, MetricValue]
    perf_metrics: tuple[PerfMetric, ...]
    """What perf worked out itself."""
    cautions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Difference:
    """One event or metric of two files."""

    name: str
    unit: str
    a: float | None
    b: float | None
    ratio: float | None
    """B over A; None where either is missing or A is 0."""
    beyond_noise: bool | None
    """Whether the difference is more than the repeats spread; None without repeats on both sides."""
    missing: str | None = None


@dataclass(frozen=True)
class FileComparison:
    """Two files beside each other."""

    a: FileCounts
    b: FileCounts
    events: tuple[Difference, ...]
    rates: tuple[Difference, ...]
    """Of events: per second of the time elapsed."""
    metrics: tuple[Difference, ...]
    cautions: tuple[str, ...]


def counts_in(path: Path) -> FileCounts:
    """Return what a file says. Raises RecordError, and UsageError for counts that do not add up."""
    read = read_perf_stat(path)
    series = whole_of(read.series)
    if isinstance(series, str):
        if not read.metrics:
            raise UsageError(f"{path}: {series}")
        series = CounterSeries("process", "", (), {}, {})
    duration_s = read.duration_s
    metrics, _ = metrics_of_series(series, None, duration_s) if series.events else ({}, "")
    return FileCounts(
        path=str(path),
        target=read.target,
        duration_s=duration_s,
        events=tuple(_events(series, read, duration_s)),
        metrics={name: each for name, each in metrics.items() if each.value is not None},
        perf_metrics=tuple(each for each in read.metrics if each.time_s is None and not each.summary),
        cautions=tuple(_cautions(read, path.name)),
    )


def _events(series: CounterSeries, read: PerfStat, duration_s: float | None) -> list[EventCount]:
    found = gains(series, floor_ratio=0.0)
    known = []
    for name, gain in found.events.items():
        unit = series.events[name].unit
        rate = gain.value / duration_s if gain.value is not None and duration_s and not unit else None
        known.append(
            EventCount(
                name,
                gain.value,
                unit,
                rate,
                gain.coverage_ratio,
                read.variation_ratio.get(name),
                gain.missing,
            )
        )
    return [*known, *(EventCount(name, None, missing=why) for name, why in found.missing.items())]


def _cautions(read: PerfStat, name: str) -> list[str]:
    cautions = []
    if read.runs > 1:
        cautions.append(f"{name}: counts are means of {read.runs} repeats (perf stat -r)")
    if read.outputs > 1:
        cautions.append(outputs_of(read, name))
    if read.unread:
        cautions.append(f"{name}: {read.unread} lines could not be understood")
    return [*cautions, *(f"{name}: {remark}" for remark in read.remarks if "left out" in remark)]


def compare_files(a: FileCounts, b: FileCounts) -> FileComparison:
    """Return what differs. Raises UsageError where the files have nothing in common."""
    sides = ({each.name: each for each in a.events}, {each.name: each for each in b.events})
    common = [name for name in sides[0] if name in sides[1]]
    if not common and not set(a.metrics) & set(b.metrics):
        raise UsageError(
            f"{a.path} and {b.path} have no event in common",
            hint="count the same events in both: perf stat -e EVENTS",
        )
    names = [*sides[0], *(name for name in sides[1] if name not in sides[0])]
    events = tuple(_difference(name, sides[0].get(name), sides[1].get(name), "count") for name in names)
    rates = tuple(
        _difference(name, sides[0][name], sides[1][name], "per_s")
        for name in common
        if sides[0][name].per_s is not None and sides[1][name].per_s is not None
    )
    metrics = tuple(
        _of_values(name, each.unit, each.value, b.metrics[name].value)
        for name, each in a.metrics.items()
        if name in b.metrics
    )
    return FileComparison(a, b, events, rates, metrics, (*a.cautions, *b.cautions, *_notes(a, b, events)))


def _notes(a: FileCounts, b: FileCounts, events: Sequence[Difference]) -> list[str]:
    notes = []
    if a.target != b.target and a.target and b.target:
        notes.append(f"A counted {a.target}, B counted {b.target}")
    if all(each.beyond_noise is None for each in events):
        notes.append("no error bars: only repeats show which differences are noise (perf stat -r 5)")
    return notes


def _difference(name: str, a: EventCount | None, b: EventCount | None, what: str) -> Difference:
    left, right = (None if each is None else getattr(each, what) for each in (a, b))
    unit = next((each.unit for each in (a, b) if each is not None and each.unit), "")
    beyond = None
    spreads = [None if each is None else each.variation_ratio for each in (a, b)]
    if left and right and spreads[0] is not None and spreads[1] is not None:
        # The relative errors of two means add up as squares in the logarithm of their ratio.
        beyond = abs(math.log(right / left)) > BEYOND * math.hypot(spreads[0], spreads[1])
    missing = None
    if left is None or right is None:
        side = "A" if left is None else "B"
        each = a if left is None else b
        missing = f"{side}: {each.missing or 'not counted'}" if each is not None else f"not in {side}"
    ratio = right / left if left and right is not None else None
    return Difference(name, "1/s" if what == "per_s" else unit or "1", left, right, ratio, beyond, missing)


def _of_values(name: str, unit: str, left: float | None, right: float | None) -> Difference:
    ratio = right / left if left and right is not None else None
    return Difference(name, unit, left, right, ratio, None)
