"""Which parts of the machine's telemetry move with an application's operations, and which comes first.

In: operations over time and a recording, over one phase. Out: `Correlates`: every series that was tried, and
those whose correlation with the operations at some lag chance does not explain.

Multiple comparisons. With m series at k lags each, m x k correlations are looked at, and the largest of them
is large by chance. A series is reported when two tests agree, each corrected so that over all series and lags
together unrelated telemetry is reported in at most 5 % of runs:

- the interval of its best lag at the confidence that Bonferroni's correction leaves, 1 - 0.05 / (m k), is
  without 0: this knows trends and memory, for series whose values are not far from normal;
- its best lag is stronger than the best lag of all but 0.05 / m of surrogates of the operations (the same
  values and spectrum at other times, ``stats.surrogates``): this knows bursts and periods.

A test simulates both kinds of series. One that is constant or missing cannot be tried and is not counted.

Correlation is no cause: a third thing may move both. A lag says what came first.

Not here: the coefficients and what pairs are worth (``series_correlation``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steelyard.analyze.operations.series_correlation import Correlation, Floats, TimeSeries, correlate, grids
from steelyard.stats.surrogates import largest_correlations, surrogates

if TYPE_CHECKING:
    from steelyard.telemetry import Recording, Series

ALPHA = 0.05
"""Chance that any of the series is reported when none is related."""
MOST_LAG_NS = 30_000_000_000
LAG_SHARE = 5
"""Lags go up to this part of the phase: beyond it too few pairs are left."""
POINTS = 400
"""Points that a phase is thinned to: correlation needs the shape, and a long run is not to take long."""
_SEED = 20_260_722
_BUSY = ("user_ns", "nice_ns", "system_ns", "irq_ns", "softirq_ns")
_KERNEL = ("system_ns", "irq_ns", "softirq_ns")


@dataclass(frozen=True)
class Moving:
    """One series that moves with the operations.

    ``low`` and ``high`` bound r at 95 % over all series and lags together.
    """

    name: str
    source: str
    unit: str
    r: float
    low: float
    high: float
    lag_ns: int
    """How long after the series the operations follow; negative where they come first."""
    effective_pairs: float
    pairs: int

    @property
    def claim(self) -> str:
        """The relation in a sentence without its numbers."""
        verb = "rise" if self.r > 0 else "fall"
        seconds = f"{abs(self.lag_ns) / 1e9:.1f} s"
        if self.lag_ns > 0:
            return f"operations {verb} {seconds} after {self.name} rises"
        if self.lag_ns < 0:
            return f"{self.name} {verb}s {seconds} after operations rise"
        return f"operations {verb} while {self.name} rises"

    @property
    def text(self) -> str:
        """The relation with its numbers."""
        return (
            f"{self.claim}: r = {self.r:.2f} ({self.low:.2f} .. {self.high:.2f}), n effective ="
            f" {self.effective_pairs:.0f}"
        )


@dataclass(frozen=True)
class Correlates:
    """What was tried and what was found, the strongest first; ``missing`` is why nothing was tried."""

    tried: int = 0
    lags: int = 0
    bin_ns: int = 0
    alpha: float = ALPHA
    found: tuple[Moving, ...] = ()
    names: tuple[str, ...] = ()
    """Every series that was tried."""
    missing: str | None = None

    @property
    def comparisons(self) -> int:
        """How many correlations were looked at."""
        return self.tried * self.lags


def correlates_of(
    operations: TimeSeries | None, recording: Recording | None, begin_ns: int, end_ns: int
) -> Correlates:
    """Return what of a recording moves with the operations between two times."""
    if operations is None:
        return Correlates(missing="no source counts operations")
    if recording is None:
        return Correlates(missing="there is no telemetry")
    inside = (operations.time_ns >= begin_ns) & (operations.time_ns <= end_ns)
    cut = TimeSeries(operations.name, operations.unit, operations.time_ns[inside], operations.value[inside])
    return compare(cut, list(telemetry_series(recording, begin_ns, end_ns)), span_ns=end_ns - begin_ns)


def compare(
    operations: TimeSeries, telemetry: Sequence[tuple[str, TimeSeries]], *, span_ns: int, alpha: float = ALPHA
) -> Correlates:
    """Return which of the (source, series) move with ``operations``."""
    moving = [(source, series) for source, series in telemetry if _moves(series.value)]
    if not moving:
        return Correlates(missing="no telemetry moved during the phase")
    if not _moves(operations.value):
        return Correlates(missing="operations are constant, or too few readings of them are known")
    most_lag_ns = min(MOST_LAG_NS, span_ns // LAG_SHARE)
    confidence = 1 - alpha / len(moving)
    compared = [
        (
            source,
            series,
            correlate(series, operations, most_lag_ns=most_lag_ns, confidence=confidence, best_only=True),
        )
        for source, series in moving
    ]
    known = [
        (source, series, correlation)
        for source, series, correlation in compared
        if correlation.best is not None
    ]
    if not known:
        return Correlates(missing=compared[0][2].missing or "too few readings fall together")
    chance = _Chance(alpha / len(moving))
    passed = [
        _moving(source, series, correlation)
        for source, series, correlation in known
        if correlation.distinguishable and chance.is_beaten(series, operations, correlation, most_lag_ns)
    ]
    return Correlates(
        tried=len(moving),
        lags=max(correlation.looked_at for _, _, correlation in known),
        bin_ns=max(correlation.bin_ns for _, _, correlation in known),
        alpha=alpha,
        found=tuple(sorted(passed, key=lambda moving: (-abs(moving.r), moving.name))),
        names=tuple(series.name for _, series in moving),
    )


class _Chance:
    """What the operations at other times would show: surrogates, made once for each set of bins."""

    def __init__(self, alpha: float) -> None:
        self._alpha = alpha
        # Enough of them that a single one beyond the observed can be allowed for.
        self._count = int(2 / alpha) - 1
        self._made: dict[bytes, Floats] = {}

    def is_beaten(
        self, series: TimeSeries, operations: TimeSeries, correlation: Correlation, most_lag_ns: int
    ) -> bool:
        """Return whether the best lag is beyond all but a share ``alpha`` of them."""
        binned = grids(series, operations, correlation.bin_ns)
        if binned is None:
            return False
        first, second = binned
        second = np.where(np.isfinite(second), second, np.nanmean(second))
        key = second.tobytes()
        if key not in self._made:
            # The same each time: a report that is drawn again says the same.
            self._made[key] = surrogates(second, self._count, np.random.default_rng(_SEED))
        most = min(most_lag_ns // correlation.bin_ns, len(first) - 1)
        observed = largest_correlations(first, second, most)[0]
        beyond = int((largest_correlations(first, self._made[key], most) >= observed).sum())
        return (1 + beyond) / (1 + self._count) <= self._alpha


def _moving(source: str, series: TimeSeries, correlation: Correlation) -> Moving:
    best = correlation.best
    if best is None or best.r is None or correlation.low is None or correlation.high is None:
        raise AssertionError("a distinguishable correlation has an interval")
    return Moving(
        series.name,
        source,
        series.unit,
        best.r,
        correlation.low,
        correlation.high,
        best.lag_ns,
        best.effective_pairs or 0.0,
        best.pairs,
    )


def _moves(values: Floats) -> bool:
    known = values[np.isfinite(values)]
    return len(known) > 1 and bool(np.ptp(known) > 1e-12 * np.abs(known).max())


def cpu_use(recording: Recording, begin_ns: int, end_ns: int) -> TimeSeries | None:
    """Return how many CPUs the machine used over time, None where that was not recorded."""
    columns = (*_BUSY, "idle_ns", "iowait_ns", "steal_ns")
    series = recording.series("cpu", begin_ns, end_ns, columns, POINTS)
    used = next((used for _, used in _cpu(series)), None)
    if used is None:
        return None
    return TimeSeries(used.name, "1", used.time_ns, used.value * len(series.entities))


def telemetry_series(recording: Recording, begin_ns: int, end_ns: int) -> Iterator[tuple[str, TimeSeries]]:
    """Yield what is compared with operations: (source, series) of the whole machine."""

    def read(source: str, columns: Iterable[str]) -> Series:
        return recording.series(source, begin_ns, end_ns, tuple(columns), POINTS)

    yield from _cpu(read("cpu", [*_BUSY, "idle_ns", "iowait_ns", "steal_ns"]))
    for source, columns in _PLAIN.items():
        series = read(source, [column for column, *_ in columns])
        for column, name, unit, scale in columns:
            yield from _sum(source, series, column, name, unit, scale)
    pressure = read("pressure", ["some_ns"])
    for entity in pressure.entities:
        resource = str(entity.entity["resource"])
        values = entity.bands["some_ns"].mean / 1e9
        yield "pressure", TimeSeries(f"{resource} pressure", "ratio", entity.time_ns, values)


_PLAIN: dict[str, tuple[tuple[str, str, str, float], ...]] = {
    "scheduler": (
        ("runnable", "run queue", "1", 1.0),
        ("blocked", "number of blocked tasks", "1", 1.0),
        ("context_switches", "context switch rate", "1/s", 1.0),
        ("forks", "fork rate", "1/s", 1.0),
    ),
    "schedstat": (("wait_ns", "number of tasks waiting for a CPU", "1", 1e-9),),
    "memory": (
        ("available_bytes", "available memory", "bytes", 1.0),
        ("dirty_bytes", "dirty memory", "bytes", 1.0),
        ("writeback_bytes", "memory under writeback", "bytes", 1.0),
    ),
    "vmstat": (
        ("pgfault", "page fault rate", "1/s", 1.0),
        ("pgmajfault", "rate of page faults that read a disk", "1/s", 1.0),
        ("pgscan_direct", "direct reclaim", "1/s", 1.0),
        ("pswpout", "swapping out", "1/s", 1.0),
        ("pswpin", "swapping in", "1/s", 1.0),
        ("compact_stall", "memory compaction", "1/s", 1.0),
    ),
    "disk": (
        ("read_bytes", "disk reading", "bytes/s", 1.0),
        ("written_bytes", "disk writing", "bytes/s", 1.0),
        ("flushes", "rate of disk flushes", "1/s", 1.0),
        ("weighted_ns", "disk queue", "1", 1e-9),
    ),
    "network": (
        ("received_bytes", "network receiving", "bytes/s", 1.0),
        ("sent_bytes", "network sending", "bytes/s", 1.0),
    ),
    "tcp": (
        ("retransmitted_segments", "rate of TCP retransmissions", "1/s", 1.0),
        ("passive_opens", "rate of new connections", "1/s", 1.0),
    ),
    "cpufreq": (("frequency_hz", "CPU frequency", "hz", 1.0),),
}
"""Source -> (column, name, unit, scale) of what is summed over the source's entities."""
_MEANS = ("cpufreq",)


def _cpu(series: Series) -> Iterator[tuple[str, TimeSeries]]:
    if not series.entities:
        return
    middles, _ = series.grid("user_ns")
    modes = {
        name: np.nansum(series.grid(name)[1], axis=0)
        for name in (*_BUSY, "idle_ns", "iowait_ns", "steal_ns")
        if name in series.entities[0].bands
    }
    whole = np.sum(list(modes.values()), axis=0)
    whole = np.where(whole > 0, whole, np.nan)
    for name, parts in (
        ("CPU use", _BUSY),
        ("CPU use of the kernel", _KERNEL),
        ("time idle for I/O", ("iowait_ns",)),
        ("stolen CPU time", ("steal_ns",)),
    ):
        values = np.sum([modes[part] for part in parts if part in modes], axis=0) / whole
        yield "cpu", TimeSeries(name, "ratio", middles, np.asarray(values, dtype=np.float64))


def _sum(
    source: str, series: Series, column: str, name: str, unit: str, scale: float
) -> Iterator[tuple[str, TimeSeries]]:
    """Yield one series over all entities; whole disks and their partitions move alike, so both may be in."""
    having = [entity for entity in series.entities if column in entity.bands]
    if not having:
        return
    middles, values = series.grid(column)
    known = np.isfinite(values)
    total = np.where(known.any(axis=0), np.where(known, values, 0.0).sum(axis=0), np.nan) * scale
    if source in _MEANS:
        total = total / np.maximum(1, known.sum(axis=0))
    yield source, TimeSeries(name, unit, middles, np.asarray(total, dtype=np.float64))
