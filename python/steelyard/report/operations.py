"""Sections, terminal lines and JSON values of an application's operations.

In: `Conditions` with operations, and `ReportData` for the time axis. Out: a `Section` with the chart of
operations over time and tables (cost of an operation, series, phases, correlated telemetry, sources),
lines for a terminal, and plain values.

Not here: the figures themselves (``analyze.operations.operations``, ``efficiency``, ``correlates``).
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from steelyard.analyze.conditions import Conditions
from steelyard.analyze.operations.efficiency import efficiency_of
from steelyard.analyze.operations.operations import Operations, OperationSeries, OperationSource
from steelyard.analyze.operations.progress import Progress
from steelyard.analyze.operations.telemetry_correlation import Correlates
from steelyard.analyze.values import Quantity
from steelyard.report import format as fmt
from steelyard.report.answer import (
    Cell,
    Floats,
    Section,
    Table,
    Timeline,
    Trace,
    absent,
    grid,
    measured,
    span,
    written,
)
from steelyard.report.model import ReportData
from steelyard.report.workload_charts import seconds, window_of

_POINTS = 240
_LINES_AT_MOST = 4
_ROWS_AT_MOST = 20
_SHOWN_IN_TERMINAL = 3
_GIGABYTE = 1e9


def operations_section(data: ReportData) -> list[Section]:
    """Return the section of operations, none where no source was given."""
    progress = data.conditions.progress
    if progress is None:
        return []
    operations = progress.operations
    charts = [_chart(data, operations), *_gauges(data, operations)]
    tables = [_costs(data.conditions, operations), *_series(operations), *_phases(operations)]
    tables += [*_moving(progress.correlates), _sources(operations)]
    return [Section("operations", "Operations", (*_widened(charts), *tables), _intro(progress))]


def _intro(progress: Progress) -> str:
    operations, correlates = progress.operations, progress.correlates
    main, rate = operations.main, operations.per_s
    if main is None or rate.value is None:
        return f"There is no rate of operations: {rate.missing or 'no source counts them'}."
    covered = operations.covered_ratio
    part = "" if covered is None or covered > 0.98 else f", known of {fmt.quantity(covered, 'ratio')} of it"
    text = f"{fmt.quantity(rate.value, '1/s')} in the measure phase{part}, counted by {main.name}."
    if correlates is None or correlates.missing:
        return text + (f" Correlated telemetry is unknown: {correlates.missing}." if correlates else "")
    if not correlates.found:
        return f"{text} None of {_tried(correlates)} correlates with them beyond chance."
    return f"{text} {len(correlates.found)} of {_tried(correlates)} correlate with them beyond chance."


def _tried(correlates: Correlates) -> str:
    return f"{correlates.tried} series of telemetry, each at {correlates.lags} lags,"


def _chart(data: ReportData, operations: Operations) -> Timeline:
    title, main = "Operations over time", operations.main
    if main is None or main.total is None:
        return absent("operations", title, operations.missing)
    traces = [_trace(data, main.total, main.name if len(main.series) < 2 else "all", "total")]
    if len(main.series) > 1:
        shown = sorted(main.series, key=lambda series: -float(np.nansum(series.value)))[:_LINES_AT_MOST]
        traces += [_trace(data, series, series.name, f"line{at + 1}") for at, series in enumerate(shown)]
    others = [source for source in operations.sources if source.counts and source is not main]
    traces += [
        _trace(data, source.total, source.name, f"line{1 + (len(traces) - 1 + at) % 7}", dash="dot")
        for at, source in enumerate(others[:_LINES_AT_MOST])
        if source.total is not None
    ]
    return Timeline(
        "operations", title, unit="1/s", x=_first_x(traces), traces=tuple(traces), window=window_of(data),
        note="The shaded area is the measure phase." if len(traces) < 2 else "",
    )  # fmt: skip


def _first_x(traces: list[Trace]) -> Floats:
    x = traces[0].x if traces else None
    return np.array([]) if x is None else x


def _trace(data: ReportData, series: OperationSeries, name: str, role: str, dash: str | None = None) -> Trace:
    timeline = series.timeline()
    x, y, low, high = thinned(seconds(data, timeline.time_ns.tolist()), timeline.value)
    return Trace(name, role, y, low, high, x=x, dash=dash)


def thinned(x: Any, y: Any, points: int = _POINTS) -> tuple[Any, Any, Any, Any]:
    """Return at most ``points`` means with the extremes in each, so that thinning hides no peak."""
    if len(x) <= points:
        return x, y, y, y
    edges = np.linspace(0, len(x), points + 1).astype(int)
    means, lows, highs, middles = [], [], [], []
    for begin, end in pairwise(edges):
        part = y[begin:end]
        known = part[np.isfinite(part)]
        means.append(known.mean() if len(known) else np.nan)
        lows.append(known.min() if len(known) else np.nan)
        highs.append(known.max() if len(known) else np.nan)
        middles.append(x[begin:end].mean())
    return np.array(middles), np.array(means), np.array(lows), np.array(highs)


def _gauges(data: ReportData, operations: Operations) -> list[Timeline]:
    charts = []
    for at, source in enumerate(
        source for source in operations.sources if source.meaning == "gauge" and source.series
    ):
        traces = [
            _trace(data, series, series.name or source.name, f"line{place}")
            for place, series in enumerate(source.series[:_LINES_AT_MOST])
        ]
        charts.append(
            Timeline(
                f"gauge-{at}",
                source.name,
                x=_first_x(traces),
                traces=tuple(traces),
                window=window_of(data),
                note="A gauge, not a counter of operations.",
            )
        )
    return charts


def _figure(name: str, quantity: Quantity, note: str = "", *, unit: str | None = None) -> tuple[Cell, ...]:
    return (
        Cell(name),
        measured(quantity.value, unit or quantity.unit),
        Cell(quantity.missing or note, is_text=True),
    )


def _widened(charts: Sequence[Timeline]) -> list[Timeline]:
    """Return the charts, the first with a row of its own, and the last where it would stand alone."""
    alone = {0, *([] if len(charts) % 2 else [len(charts) - 1])}
    return [replace(chart, wide=at in alone) for at, chart in enumerate(charts)]


def _costs(conditions: Conditions, operations: Operations) -> Table:
    cost = efficiency_of(conditions)
    rows = [_figure("operations", operations.per_s), _figure("in the measure phase", operations.count)]
    if cost is not None:
        rows += [
            _figure("per CPU-second of the machine", cost.per_cpu_s, unit="1", note="all processes'"),
            _figure("per CPU-second of the program", cost.per_program_cpu_s, unit="1"),
            _figure("per joule", cost.per_joule, unit="1", note="of the processor packages"),
            _figure("per GB over the network", *_per_gigabyte(cost.network_bytes)),
            _figure("per GB read from and written to disks", *_per_gigabyte(cost.disk_bytes)),
        ]
    return grid(("operations", "value", "note"), tuple(rows), "Cost")


def _per_gigabyte(each: Quantity) -> tuple[Quantity, str]:
    """Return operations per 10^9 bytes, and what one moves."""
    if each.value is None:
        return Quantity(None, "1", each.missing), ""
    if not each.value:
        return Quantity(None, "1", "no byte was moved"), ""
    return Quantity(_GIGABYTE / each.value, "1"), f"{fmt.quantity(each.value, 'bytes')} each"


def _series(operations: Operations) -> list[Table]:
    main = operations.main
    if main is None or len(main.series) < 2:
        return []
    whole = operations.per_s.value
    rates = [(series, series.per_s(operations.begin_ns, operations.end_ns)) for series in main.series]
    rates.sort(key=lambda pair: -(pair[1].value or 0.0))
    rows = tuple(
        (
            Cell(series.name or "without labels"),
            measured(rate.value, "1/s"),
            Cell(rate.missing or "", bar=None if not whole or rate.value is None else rate.value / whole),
        )
        for series, rate in rates[:_ROWS_AT_MOST]
    )
    hidden = len(rates) - len(rows)
    caption = "By series" + (f", the {len(rows)} largest of {len(rates)}" if hidden > 0 else "")
    return [grid(("series", "rate", "of all"), rows, caption)]


def _phases(operations: Operations) -> list[Table]:
    if len([1 for _, rate in operations.phases if rate.value is not None]) < 2:
        return []
    rows = tuple(
        (
            Cell(phase.name),
            measured(rate.value, "1/s"),
            Cell(rate.missing or "", is_text=True),
        )
        for phase, rate in operations.phases
    )
    return [grid(("phase", "rate", "note"), rows, "By phase")]


def _moving(correlates: Correlates | None) -> list[Table]:
    if correlates is None or not correlates.found:
        return []
    rows = tuple(
        (
            Cell(correlate.name),
            measured(correlate.r, "1", text=f"{correlate.r:.2f}", raw=repr(correlate.r)),
            span(f"{correlate.low:.2f} .. {correlate.high:.2f}", correlate.low, correlate.high, "1"),
            written(f"{correlate.effective_pairs:.0f} of {correlate.pairs}", correlate.effective_pairs),
            Cell(correlate.claim, is_text=True),
        )
        for correlate in correlates.found[:_ROWS_AT_MOST]
    )
    caption = (
        f"Correlation with operations, at the lag where it is strongest. Intervals are 95 % over all"
        f" {correlates.comparisons:,} correlations tested ({correlates.tried} series,"
        f" {correlates.lags} lags); correlation is not causation"
    )
    return [grid(("telemetry", "r", "interval", "effective pairs", "in words"), rows, caption)]


def _sources(operations: Operations) -> Table:
    rows = tuple(
        (
            Cell(source.name),
            Cell(source.given, is_text=True),
            Cell("; ".join(part for part in (source.missing, *source.notes) if part), is_text=True),
            measured(source.cpu_s, "s"),
        )
        for source in operations.sources
    )
    return grid(("source", "as given", "note", "CPU time of reading"), rows, "Sources")


def operations_lines(conditions: Conditions) -> list[tuple[str, str]]:
    """Return the lines for a terminal, as (name, text)."""
    if conditions.progress is None:
        return []
    operations, correlates = conditions.progress.operations, conditions.progress.correlates
    rate = operations.per_s
    if rate.value is None:
        return [("operations", f"not known: {rate.missing}")]
    name = operations.main.name if operations.main else ""
    lines = [("operations", f"{fmt.plain(fmt.quantity(rate.value, '1/s'))} by {name}")]
    if correlates is not None and correlates.missing is None:
        shown = [correlate.text for correlate in correlates.found[:_SHOWN_IN_TERMINAL]]
        lines += [("", text) for text in shown]
        if correlates.tried:
            beyond = f"{len(correlates.found)} of {correlates.tried} series"
            lines.append(
                ("", f"{beyond} correlate with them beyond chance ({correlates.lags} lags each, corrected)")
            )
    lines += [("", note) for source in operations.sources for note in (source.missing, *source.notes) if note]
    return lines


def operations_document(conditions: Conditions) -> dict[str, Any] | None:
    """Return plain values for ``--json``, None where no source was given."""
    progress, cost = conditions.progress, efficiency_of(conditions)
    if progress is None or cost is None:
        return None
    operations, correlates, stalls = progress.operations, progress.correlates, progress.stalls
    return {
        "per_s": _plain(operations.per_s),
        "count": _plain(operations.count),
        "covered_ratio": operations.covered_ratio,
        "per_cpu_s": _plain(cost.per_cpu_s),
        "per_program_cpu_s": _plain(cost.per_program_cpu_s),
        "per_joule": _plain(cost.per_joule),
        "network_bytes_per_operation": _plain(cost.network_bytes),
        "disk_bytes_per_operation": _plain(cost.disk_bytes),
        "phases": [{"name": phase.name, "per_s": _plain(rate)} for phase, rate in operations.phases],
        "sources": [_source(source, operations) for source in operations.sources],
        "correlates": None if correlates is None else _correlates(correlates),
        "stalls": None
        if stalls is None
        else {
            "stretches": [{"begin_ns": begin, "end_ns": end} for begin, end in stalls.stretches],
            "time_ratio": stalls.ratio,
            "usual_per_s": stalls.usual_per_s,
            "stalled_per_s": stalls.stalled_per_s,
            "period_ns": stalls.period_ns,
        },
    }


def _plain(quantity: Quantity) -> dict[str, Any]:
    return {"value": quantity.value, "unit": quantity.unit, "missing": quantity.missing}


def _source(source: OperationSource, operations: Operations) -> dict[str, Any]:
    return {
        "name": source.name,
        "kind": source.kind,
        "given": source.given,
        "meaning": source.meaning,
        "missing": source.missing,
        "notes": list(source.notes),
        "reader_cpu_s": source.cpu_s,
        "series": [_one_series(each, operations) for each in source.series],
    }


def _one_series(each: OperationSeries, operations: Operations) -> dict[str, Any]:
    rate = each.per_s(operations.begin_ns, operations.end_ns)
    return {"name": each.name, **_plain(rate), "resets": each.resets}


def _correlates(correlates: Correlates) -> dict[str, Any]:
    return {
        "tried": correlates.tried,
        "lags": correlates.lags,
        "bin_ns": correlates.bin_ns,
        "alpha": correlates.alpha,
        "missing": correlates.missing,
        "names": list(correlates.names),
        "found": [
            {
                "name": correlate.name,
                "source": correlate.source,
                "r": correlate.r,
                "low": correlate.low,
                "high": correlate.high,
                "lag_ns": correlate.lag_ns,
                "effective_pairs": correlate.effective_pairs,
                "pairs": correlate.pairs,
                "claim": correlate.claim,
            }
            for correlate in correlates.found
        ],
    }
