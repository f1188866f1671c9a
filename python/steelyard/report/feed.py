"""FeedSim's part of a report: the curve with the objective and the interval, stages of a request, the search.

In: `ReportData` of a run of ``feed``. Out: `Section`s; what cannot be read is left out.

Not here: searching, and metrics of the run (``bench.feed_metrics``).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from steelyard._base import SteelyardError
from steelyard.analyze.stages import requests_of, stage_gains
from steelyard.records import CapacityProbe, CapacityResult, RankStats, Record, SweepResult, read, read_lines
from steelyard.report import format as fmt
from steelyard.report.chart import Chart, Mark, Trace, absent
from steelyard.report.model import ReportData
from steelyard.report.sections import Cell, Section, Table, load_sections

R = TypeVar("R", bound=Record)
_OUTCOMES = {"met": ("met", "valid"), "unmet": ("not met", "invalid"), "generator": ("generator", "suspect")}
_PURPOSES = {
    "bracket": "find the range",
    "narrow": "narrow it",
    "confirm-low": "confirm the lower end",
    "confirm-high": "confirm the upper end",
}


def sections(data: ReportData) -> list[Section]:
    """Return what FeedSim found, then what its load left in the measure phase."""
    searches = _all(CapacityResult, data.folder, "capacity")
    sweeps = _all(SweepResult, data.folder, "sweep")
    curves = tuple(
        _curve(search, sweeps[at] if at < len(sweeps) else None, at, len(searches))
        for at, search in enumerate(searches)
    ) or (absent("curve", "Latency over throughput", "the search left no result"),)
    intro = " ".join(_sentence(search) for search in searches[:1])
    found = [
        Section("slo", "Capacity", intro, curves, tuple(_probes(one) for one in searches)),
    ]
    stages = _stages(data)
    if stages:
        found.append(
            Section(
                "stages",
                "Stages",
                "Where a request spent its time in the measure phase. Time passes in a queue and while leaves"
                " answer, too; CPU time is what its thread used.",
                tables=tuple(stages),
            )
        )
    if len(searches) > 1:
        found.append(Section("instances", "Instances", "", tables=(_instances(searches),)))
    return [*found, *(_without_cache(section) for section in load_sections(data))]


def _without_cache(section: Section) -> Section:
    """Leave out what only a cache has."""
    kept = tuple(chart for chart in section.charts if chart.id in ("throughput", "latency", "percentiles"))
    return Section(section.anchor, section.title, section.intro, kept)


def _all(model: type[R], folder: Path, stem: str) -> list[R]:
    found = []
    for path in sorted(folder.glob(f"{stem}*.json")):
        try:
            found.append(read(model, path))
        except SteelyardError:
            continue
    return found


def _percentile(search: CapacityResult) -> tuple[str, float] | None:
    """Return the percentile that the objective bounds, and the bound, ns."""
    for probe in search.probes:
        for criterion in probe.criteria:
            if criterion.unit == "ns":
                return criterion.name, criterion.bound
    return None


def _at(summary: object, name: str) -> float:
    value = getattr(summary, f"{name.replace('.', '')}_ns", None)
    return float("nan") if value is None else float(value)


def _curve(search: CapacityResult, sweep: SweepResult | None, at: int, count: int) -> Chart:
    bounded = _percentile(search)
    name, bound = bounded or ("p95", None)
    title = f"{name} of response time over the rate offered"
    title += f", instance {at + 1}" if count > 1 else ""
    traces = []
    if sweep is not None and sweep.points:
        rates = np.array([point.rate_per_s for point in sweep.points])
        for which, role in (("p50", "p50"), (name, "p99")):
            y = np.array([_at(point.latency.response, which) for point in sweep.points])
            traces.append(Trace(f"sweep, {which}", role, y, x=rates, mode="lines+markers"))
    for outcome, role, symbol in (
        ("met", "fast", "circle"),
        ("unmet", "slow", "x"),
        ("generator", "bound", "triangle-up"),
    ):
        chosen = [probe for probe in search.probes if probe.outcome == outcome]
        if chosen:
            y = np.array([_at(probe.response, name) for probe in chosen])
            x = np.array([probe.rate_per_s for probe in chosen])
            label = f"probes: objective {_OUTCOMES[outcome][0]}"
            traces.append(Trace(label, role, y, x=x, mode="markers", symbol=symbol))
    marks = [] if bound is None else [Mark("y", bound, f"objective: {name} ≤ {fmt.quantity(bound, 'ns')}")]
    interval = search.interval
    band = None
    if interval is not None and interval.low_per_s is not None and interval.high_per_s is not None:
        band = (interval.low_per_s, interval.high_per_s)
    if search.estimate_per_s is not None:
        marks.append(Mark("x", search.estimate_per_s, f"{fmt.significant(search.estimate_per_s)}/s"))
    return Chart(
        f"curve-{at}",
        title,
        kind="curve",
        unit="ns",
        x=traces[0].x if traces and traces[0].x is not None else np.array([]),
        traces=tuple(traces),
        log=True,
        x_title="requests/s offered",
        marks=tuple(marks),
        band=band,
        note="The shaded range is the interval, the line in it the best estimate."
        if band is not None
        else "",
    )


def _sentence(search: CapacityResult) -> str:
    interval = search.interval
    words = f"Objective: {search.slo}. "
    if search.answer == "interval" and interval is not None:
        low, high = fmt.significant(interval.low_per_s or 0.0), fmt.significant(interval.high_per_s or 0.0)
        words += (
            f"It is met at {low} requests/s and not at {high},"
            f" with {fmt.quantity(interval.confidence, 'ratio')} confidence. "
        )
    return f"{words}{search.ended[:1].upper()}{search.ended[1:]}"


def _probes(search: CapacityResult) -> Table:
    bounded = _percentile(search)
    name = bounded[0] if bounded else "p95"
    return Table(
        ("probe", "requests/s", "answered/s", name, "errors", "generator", "objective", "purpose"),
        tuple(_probe(number, probe, name) for number, probe in enumerate(search.probes, start=1)),
        caption=f"Every probe of the search, in order; {len(search.probes)} in all.",
    )


def _probe(number: int, probe: CapacityProbe, name: str) -> tuple[Cell, ...]:
    latency = _at(probe.response, name)
    word, level = _OUTCOMES.get(probe.outcome, (probe.outcome, "incomplete"))
    known = None if np.isnan(latency) else latency
    return (
        Cell(str(number)),
        Cell(fmt.significant(probe.rate_per_s), repr(probe.rate_per_s)),
        Cell(fmt.significant(probe.throughput_per_s), repr(probe.throughput_per_s)),
        Cell(fmt.quantity(known, "ns"), fmt.raw(known, "ns")),
        Cell(fmt.count(probe.requests.errors)),
        Cell(fmt.quantity(probe.busy_ratio, "ratio"), repr(probe.busy_ratio)),
        Cell(word, f"probability {probe.met_probability:.3f}", level=level),
        Cell(_PURPOSES.get(probe.purpose, probe.purpose), words=True),
    )


def _stages(data: ReportData) -> list[Table]:
    if data.measure is None or data.measure.end_ns is None:
        return []
    span = (data.measure.begin_ns, data.measure.end_ns)
    tables = []
    for role, caption in (
        ("root", "Root: one request"),
        ("leaf", "Leaf: one of the calls that a root makes"),
    ):
        servers = [_lines(path) for path in sorted(data.folder.glob(f"{role}-stats*.jsonl"))]
        wall = stage_gains(servers, span, "wall_ns_total")
        cpu = stage_gains(servers, span, "cpu_ns_total")
        requests = sum(requests_of(stats, span) for stats in servers)
        if not wall or not requests:
            continue
        tables.append(_stage_table(caption, wall, cpu, requests))
    return tables


def _lines(path: Path) -> list[RankStats]:
    try:
        return list(read_lines(RankStats, path))
    except SteelyardError:
        return []


def _stage_table(caption: str, wall: dict[str, float], cpu: dict[str, float], requests: int) -> Table:
    wall_whole, cpu_whole = sum(wall.values()), sum(cpu.values())

    def cells(ns: float, whole: float) -> tuple[Cell, Cell]:
        mean = ns / requests
        share = ns / whole if whole else None
        return Cell(fmt.quantity(mean, "ns"), fmt.raw(mean, "ns")), Cell(fmt.quantity(share, "ratio"))

    rows = [
        (Cell(name.replace("_", " ")), *cells(ns, wall_whole), *cells(cpu.get(name, 0.0), cpu_whole))
        for name, ns in wall.items()
    ]
    rows.append((Cell("all"), *cells(wall_whole, wall_whole), *cells(cpu_whole, cpu_whole)))
    return Table(
        ("stage", "time, mean", "share", "CPU time, mean", "share"),
        tuple(rows),
        caption=f"{caption}; {fmt.count(requests)} of them.",
    )


def _instances(searches: Sequence[CapacityResult]) -> Table:
    rows = []
    for number, search in enumerate(searches, start=1):
        interval = search.interval
        low = interval.low_per_s if interval is not None else None
        high = interval.high_per_s if interval is not None else None
        rows.append(
            (
                Cell(str(number)),
                Cell(fmt.quantity(search.estimate_per_s, "1/s"), fmt.raw(search.estimate_per_s, "1/s")),
                Cell(fmt.quantity(low, "1/s"), fmt.raw(low, "1/s")),
                Cell(fmt.quantity(high, "1/s"), fmt.raw(high, "1/s")),
            )
        )
    return Table(("instance", "requests/s at the objective", "from", "to"), tuple(rows))
