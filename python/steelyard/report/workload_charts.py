"""Charts of the load and of the server's own counters: throughput, hits, latency, the slow queue.

In: `ReportData`. Out: charts in reading order. Several generators are added up (throughput) or mixed by
their counts (percentile curves); percentiles per second of several generators show the worst of them.
"""

from collections.abc import Sequence

import numpy as np

from steelyard.bench import declaration
from steelyard.records import CacheStats, IntervalRow, LatencySummary, LoadResult
from steelyard.report.answer import Chart, Floats, Series, Timeline, Trace, absent
from steelyard.report.model import ReportData

# A percentile curve beyond the last request is invention: it ends at 1/(1-q) = count.
_QUANTILES_PER_DECADE = 40


def workload_charts(data: ReportData) -> list[Timeline]:
    """Return the charts of the section "over time"."""
    charts = [_throughput(data), _latency(data), _hit_ratio(data)]
    is_cache = "cache-stats" in declaration.of_run(data.run.benchmark).leaves
    return [*charts, _queue(data), _queue_wait(data)] if is_cache or data.cache_stats else charts


def window_of(data: ReportData) -> tuple[float, float] | None:
    """Return the measure phase in chart seconds."""
    if data.measure is None:
        return None
    return (0.0, ((data.measure.end_ns or data.end_ns) - data.zero_ns) / 1e9)


def seconds(data: ReportData, times_ns: Sequence[int]) -> Floats:
    """Return times in chart seconds."""
    return (np.asarray(times_ns, dtype=np.float64) - float(data.zero_ns)) / 1e9


def _no_load(data: ReportData) -> str:
    lacking = [lack.reason for lack in data.lacking if lack.name == "load result"]
    return lacking[0] if lacking else "the load generator gave no result"


def _middle(row: IntervalRow) -> int:
    return (row.begin_ns + row.end_ns) // 2


def _whole_seconds(load: LoadResult) -> list[IntervalRow]:
    """Return the intervals long enough for a rate; the last before a change of phase may be too short."""
    lengths = [row.end_ns - row.begin_ns for row in load.series]
    usual = float(np.median(lengths)) if lengths else 0.0
    return [
        row for row in load.series if row.end_ns - row.begin_ns >= usual / 2 and row.end_ns > row.begin_ns
    ]


def _throughput(data: ReportData) -> Timeline:
    title = "Throughput"
    traces = []
    x: Floats = np.array([])
    if data.loads:
        rows = _whole_seconds(data.loads[0])
        x = seconds(data, [_middle(row) for row in rows])
        total = np.array(
            [row.completed * 1e9 / (row.end_ns - row.begin_ns) for row in rows], dtype=np.float64
        )
        for load in data.loads[1:]:
            other = _whole_seconds(load)
            rates = [row.completed * 1e9 / (row.end_ns - row.begin_ns) for row in other]
            total = total + np.interp(x, seconds(data, [_middle(row) for row in other]), rates)
        traces.append(Trace("all requests", "total", total))
        offered = [load.offered_per_s for load in data.loads]
        if all(rate is not None for rate in offered):
            offered_rate = np.full(len(x), sum(rate or 0.0 for rate in offered))
            traces.append(Trace("offered", "bound", offered_rate, dash="dot"))
    for name, role, column in (
        ("fast (hits)", "fast", "fast_requests"),
        ("slow (misses)", "slow", "slow_requests"),
    ):
        curve = _server_rate(data, column)
        if curve is not None:
            traces.append(Trace(name, role, curve[1], x=curve[0]))
    if not traces:
        return absent("throughput", title, _no_load(data))
    return Timeline("throughput", title, unit="1/s", x=x, traces=tuple(traces), window=window_of(data))


def _server_rate(data: ReportData, column: str) -> tuple[Floats, Floats] | None:
    """Return times and rates of one counter, added up over the server's instances."""
    curve: tuple[Floats, Floats] | None = None
    for lines in data.cache_stats:
        x, y = _differences(data, lines, column)
        if not len(x):
            continue
        curve = (x, y) if curve is None else (curve[0], curve[1] + np.interp(curve[0], x, y))
    return curve


def _differences(data: ReportData, lines: Sequence[CacheStats], column: str) -> tuple[Floats, Floats]:
    """Return the rate of a cumulative counter between neighbouring lines; NaN where it fell."""
    times = np.array([line.monotonic_ns for line in lines], dtype=np.float64)
    values = np.array([float(getattr(line, column)) for line in lines], dtype=np.float64)
    if len(times) < 2:
        return np.array([]), np.array([])
    gaps, gains = np.diff(times), np.diff(values)
    # A closing line may follow the last one at once; a rate over a sliver of time says nothing.
    usable = gaps > 0.2 * float(np.median(gaps))
    if data.measure is not None and data.measure.end_ns is not None:
        # The load ends within this one: its rate is that of neither time.
        usable &= ~((times[:-1] < data.measure.end_ns) & (times[1:] > data.measure.end_ns))
    rates = np.where(gains >= 0, gains * 1e9 / np.where(gaps > 0, gaps, 1.0), np.nan)
    middles = (times[:-1] + times[1:]) / 2 - float(data.zero_ns)
    return middles[usable] / 1e9, rates[usable]


def _latency(data: ReportData) -> Timeline:
    title = "Latency, each second"
    if not data.loads:
        return absent("latency", title, _no_load(data))
    rows = _whole_seconds(data.loads[0])
    others = [_whole_seconds(load) for load in data.loads[1:]]
    traces = []
    for name, role, column, dash in (
        ("response p50", "p50", "response_p50_ns", None),
        ("response p99", "p99", "response_p99_ns", None),
        ("response p99.9", "p999", "response_p999_ns", None),
        ("service p99", "service", "service_p99_ns", "dot"),
    ):
        y = _column(rows, column)
        for other in others:
            shorter = min(len(y), len(other))
            y[:shorter] = np.fmax(y[:shorter], _column(other, column)[:shorter])
        traces.append(Trace(name, role, y, dash=dash))
    note = "Response counts from the intended time, service from the send."
    if others:
        note += f" The worst of {len(data.loads)} generators in each second."
    return Timeline(
        "latency",
        title,
        unit="ns",
        x=seconds(data, [_middle(row) for row in rows]),
        traces=tuple(traces),
        log=True,
        note=note,
        window=window_of(data),
    )


def _column(rows: Sequence[IntervalRow], column: str) -> Floats:
    values = [getattr(row, column) for row in rows]
    return np.array([np.nan if value is None else float(value) for value in values], dtype=np.float64)


def _hit_ratio(data: ReportData) -> Timeline:
    title = "Hit ratio"
    fast, slow = _server_rate(data, "fast_requests"), _server_rate(data, "slow_requests")
    if fast is not None and slow is not None and np.nansum(fast[1]) + np.nansum(slow[1]) > 0:
        whole = fast[1] + slow[1]
        ratio = np.divide(fast[1], whole, out=np.full(len(whole), np.nan), where=whole > 0)
        trace, x = Trace("answered from the cache", "fast", ratio), fast[0]
    elif data.loads:
        rows = _whole_seconds(data.loads[0])
        requests = np.array([row.hits + row.misses for row in rows], dtype=np.float64)
        hits = np.array([row.hits for row in rows], dtype=np.float64)
        ratio = np.divide(hits, requests, out=np.full(len(rows), np.nan), where=requests > 0)
        trace, x = Trace("keys found", "fast", ratio), seconds(data, [_middle(row) for row in rows])
    else:
        return absent("hit-ratio", title, _no_load(data))
    known = ratio[np.isfinite(ratio)]
    if not len(known):
        return absent("hit-ratio", title, "the load has no lookups, which alone hit or miss")
    floor = float(np.floor(known.min() * 20) / 20) if len(known) else 0.0
    return Timeline(
        "hit-ratio",
        title,
        unit="ratio",
        x=x,
        traces=(trace,),
        y_range=(min(floor, 0.95), 1.0),
        window=window_of(data),
        note="" if floor < 0.05 else "The axis does not start at 0.",
    )


def _no_stats(data: ReportData) -> str:
    lacking = [lack.reason for lack in data.lacking if lack.name == "server statistics"]
    return lacking[0] if lacking else "the server wrote no statistics"


def _queue(data: ReportData) -> Timeline:
    title = "Cache misses waiting for a slow thread"
    if not data.cache_stats:
        return absent("slow-queue", title, _no_stats(data))
    x = seconds(data, [line.monotonic_ns for line in data.cache_stats[0]])
    depth = np.array([line.slow_queue_depth for line in data.cache_stats[0]], dtype=np.float64)
    for lines in data.cache_stats[1:]:
        times = seconds(data, [line.monotonic_ns for line in lines])
        depth = depth + np.interp(x, times, [float(line.slow_queue_depth) for line in lines])
    return Timeline(
        "slow-queue", title, x=x, traces=(Trace("queue depth", "slow", depth),), window=window_of(data)
    )


def _queue_wait(data: ReportData) -> Timeline:
    title = "Time of a cache miss in the server"
    misses = _server_rate(data, "slow_requests")
    waits, services = _server_rate(data, "slow_wait_ns_total"), _server_rate(data, "slow_service_ns_total")
    if misses is None or waits is None or services is None:
        return absent("slow-wait", title, _no_stats(data))
    some = misses[1] > 0
    if not some.any():
        return absent("slow-wait", title, "there were no misses")

    def each(total: Floats) -> Floats:
        shared: Floats = np.divide(total, misses[1], out=np.full(len(total), np.nan), where=some)
        return shared

    return Timeline(
        "slow-wait",
        title,
        unit="ns",
        x=misses[0],
        traces=(
            Trace("wait for a slow thread (mean)", "slow", each(waits[1])),
            Trace("service by the slow thread (mean)", "fast", each(services[1]), dash="dot"),
        ),
        window=window_of(data),
    )


PERCENTILES_NOTE = "The axis shows percentiles: 90 %, 99 %, 99.9 %."


def percentile_chart(data: ReportData) -> Chart:
    """Return the percentile curve of the measure phase."""
    lines = []
    for name, role, dash in (("response", "blue", None), ("service", "ink", "dot")):
        x, y = curve([getattr(load.latency, name) for load in data.loads])
        if len(x):
            lines.append(Series(name, x.tolist(), y.tolist(), role=role, dash=dash))
    why = "no request was answered in the measure phase" if data.loads else _no_load(data)
    return percentiles(lines, f"{PERCENTILES_NOTE} A gap between the curves is time before sending.", why)


def percentiles(lines: Sequence[Series], note: str, why: str) -> Chart:
    """Return the chart of curves whose x is 1/(1-quantile) and y a latency, ns; ``why`` there is none."""
    return Chart(
        "percentiles",
        "Latency by percentile",
        tuple(lines),
        x_kind="quantile",
        y_unit="ns",
        y_log=True,
        note=note,
        missing="" if lines else why,
    )


def curve(summaries: Sequence[LatencySummary]) -> tuple[Floats, Floats]:
    """Return 1/(1-quantile) and the value there (ns) for the mixture of ``summaries``.

    The mixture's distribution function is the mean of theirs weighted by their counts.
    """
    used = [summary for summary in summaries if summary.count and summary.curve]
    if not used:
        return np.array([]), np.array([])
    count = sum(summary.count for summary in used)
    decades = np.log10(max(count, 2))
    x = np.logspace(0, decades, max(2, int(decades * _QUANTILES_PER_DECADE)))
    probabilities = 1 - 1 / x
    if len(used) == 1:
        points = sorted((point.quantile, float(point.value_ns)) for point in used[0].curve)
        quantiles, values = (np.array(column) for column in zip(*points, strict=True))
        return x, np.interp(probabilities, quantiles, values)
    grid = np.unique([float(point.value_ns) for summary in used for point in summary.curve])
    below = np.zeros(len(grid))
    for summary in used:
        points = sorted((float(point.value_ns), point.quantile) for point in summary.curve)
        values, quantiles = (np.array(column) for column in zip(*points, strict=True))
        below += summary.count / count * np.interp(grid, values, quantiles, left=0.0, right=1.0)
    return x, np.interp(probabilities, below, grid)
