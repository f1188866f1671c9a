"""FeedSim's part of a report: the search with its fitted curve and interval, latency, stages of a request.

In: `ReportData` of a run of ``feed``. Out: `Section`s; what cannot be read is left out.

Not here: searching, and metrics of the run (``bench.feed.metrics``).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from steelyard._base import SteelyardError
from steelyard.analyze.stages import requests_of, stage_gains
from steelyard.records import CapacityProbe, CapacityResult, RankStats, Record, SweepResult, read, read_lines
from steelyard.report import format as fmt
from steelyard.report.answer import (
    Band,
    Cell,
    Chart,
    Mark,
    Section,
    Series,
    Table,
    Timeline,
    absent,
    grid,
    measured,
)
from steelyard.report.model import ReportData
from steelyard.report.sections import load_sections

R = TypeVar("R", bound=Record)
_OUTCOMES = {"met": ("met", "valid"), "unmet": ("not met", "invalid"), "generator": ("generator", "suspect")}
_SYMBOLS = (("met", "green", "circle"), ("unmet", "red", "x"), ("generator", "ink", "triangle-up"))
"""Outcomes of probes with the role and the symbol that charts give them."""
_PURPOSES = {
    "unloaded": "without a queue",
    "bracket": "find the range",
    "narrow": "narrow it",
    "confirm-low": "confirm the lower end",
    "confirm-high": "confirm the upper end",
}


def sections(data: ReportData) -> list[Section]:
    """Return the sections of FeedSim: capacity, stages, instances, and load in the measure phase."""
    searches = _all(CapacityResult, data.folder, "capacity")
    sweeps = _all(SweepResult, data.folder, "sweep")
    curves = tuple(
        chart
        for at, search in enumerate(searches)
        for chart in (
            *_fits(search, at, len(searches)),
            _curve(search, sweeps[at] if at < len(sweeps) else None, at, len(searches)),
        )
    ) or (absent("curve", "Latency over throughput", "the search gave no result"),)
    intro = " ".join(_sentence(search) for search in searches[:1])
    shown = [
        Section(
            "slo",
            "Capacity",
            (
                *curves,
                *tuple(_probes(search) for search in searches),
            ),
            intro,
        ),
    ]
    stages = _stages(data)
    if stages:
        shown.append(
            Section(
                "stages",
                "Stages",
                (*stages,),
                "Time of a request by stage in the measure phase. It includes time in queues and waits for"
                " leaves; CPU time is that of its thread.",
            )
        )
    if len(searches) > 1:
        shown.append(Section("instances", "Instances", (_instances(searches),)))
    return [*shown, *(_without_cache(section) for section in load_sections(data))]


def _without_cache(section: Section) -> Section:
    """Return the section without the charts that only a cache has."""
    kept = tuple(
        chart
        for chart in section.blocks
        if isinstance(chart, Chart | Timeline) and chart.id in ("throughput", "latency", "percentiles")
    )
    return Section(section.anchor, section.title, (*kept,), section.intro)


def _all(model: type[R], folder: Path, stem: str) -> list[R]:
    results = []
    for path in sorted(folder.glob(f"{stem}*.json")):
        try:
            results.append(read(model, path))
        except SteelyardError:
            continue
    return results


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
    lines = []
    if sweep is not None and sweep.points:
        rates = [point.rate_per_s for point in sweep.points]
        for which, role in (("p50", "blue"), (name, "red")):
            y = [_at(point.latency.response, which) for point in sweep.points]
            lines.append(Series(f"sweep, {which}", rates, y, role=role))
    lines += _outcomes(search, [_at(probe.response, name) for probe in search.probes])
    marks = [] if bound is None else [Mark("y", bound, f"objective: {name} ≤ {fmt.quantity(bound, 'ns')}")]
    bands = _bands(search)
    if search.estimate_per_s is not None:
        marks.append(Mark("x", search.estimate_per_s, f"{fmt.significant(search.estimate_per_s)}/s"))
    return Chart(
        f"curve-{at}",
        title,
        tuple(lines),
        x_title="requests/s offered",
        x_unit="1/s",
        y_unit="ns",
        y_log=True,
        marks=tuple(marks),
        bands=bands,
        note="The shaded range is the interval of the capacity; the line is the best estimate."
        if bands
        else "",
    )


def _outcomes(search: CapacityResult, values: Sequence[float]) -> list[Series]:
    """Return one series of points for each outcome of a probe; ``values`` has one for each probe."""
    made = []
    for outcome, role, symbol in _SYMBOLS:
        chosen = [
            (probe.rate_per_s, value)
            for probe, value in zip(search.probes, values, strict=True)
            if probe.outcome == outcome
        ]
        if chosen:
            xs, ys = zip(*chosen, strict=True)
            label = f"probes: objective {_OUTCOMES[outcome][0]}"
            made.append(Series(label, xs, ys, "points", role, size=9, symbol=symbol))
    return made


def _bands(search: CapacityResult) -> tuple[Band, ...]:
    interval = search.interval
    if interval is None or interval.low_per_s is None or interval.high_per_s is None:
        return ()
    return (Band(interval.low_per_s, interval.high_per_s, role="blue"),)


def _fits(search: CapacityResult, at: int, count: int) -> list[Chart]:
    """Return each probe's share of slow requests with the fitted curve; older records have none."""
    bounded = _percentile(search)
    if not search.curve or bounded is None:
        return []
    name, bound = bounded
    allowed = 1.0 - float(name[1:]) / 100
    shares = [
        next((criterion.ratio for criterion in probe.criteria if criterion.name == name), float("nan"))
        for probe in search.probes
    ]
    rates = [point.rate_per_s for point in search.curve]
    lines = [
        Series(label, rates, [getattr(point, field) for point in search.curve], dash=dash)
        for label, field, dash in (
            ("fitted curve", "ratio", None),
            ("5 % point of it", "low_ratio", "dot"),
            ("95 % point of it", "high_ratio", "dot"),
        )
    ]
    marks = [Mark("y", allowed, f"allowed: {fmt.quantity(allowed, 'ratio')}")]
    if search.estimate_per_s is not None:
        marks.append(Mark("x", search.estimate_per_s, f"{fmt.significant(search.estimate_per_s)}/s"))
    title = f"Share of requests slower than {fmt.quantity(bound, 'ns')} over the rate offered"
    return [
        Chart(
            f"fit-{at}",
            title + (f", instance {at + 1}" if count > 1 else ""),
            (*lines, *_outcomes(search, shares)),
            x_title="requests/s offered",
            x_unit="1/s",
            y_unit="ratio",
            marks=tuple(marks),
            bands=_bands(search),
            note="Points are measured probes. The curve is the model fitted to all of them; the shaded"
            " range is the interval of the rate at which it crosses the allowed share.",
        )
    ]


def _sentence(search: CapacityResult) -> str:
    """Say what was tried and, apart from it, what follows for the capacity."""
    interval = search.interval
    words = [f"Objective: {search.slo}."]
    tried = search.tried
    if tried is not None and tried.unloaded_met is False:
        words.append("The server does not meet it even at very low load.")
    if tried is not None and search.probes:
        met = "no rate" if tried.met_per_s is None else f"{fmt.significant(tried.met_per_s)} requests/s"
        unmet = "no rate" if tried.unmet_per_s is None else f"{fmt.significant(tried.unmet_per_s)} requests/s"
        words.append(
            f"Tried: {len(search.probes)} probes; the highest rate at which one met it is {met}, the lowest"
            f" at which one did not is {unmet}."
        )
    if search.answer == "interval" and interval is not None:
        low, high = fmt.significant(interval.low_per_s or 0.0), fmt.significant(interval.high_per_s or 0.0)
        words.append(
            f"Concluded: the rate at which the objective holds in the long run is between {low} and {high}"
            f" requests/s, with {fmt.quantity(interval.confidence, 'ratio')} confidence."
        )
    elif search.answer == "at-least" and interval is not None:
        words.append(f"Concluded: it is at least {fmt.significant(interval.low_per_s or 0.0)} requests/s.")
    words.append(f"{search.ended[:1].upper()}{search.ended[1:]}")
    return " ".join(words)


def _probes(search: CapacityResult) -> Table:
    bounded = _percentile(search)
    name = bounded[0] if bounded else "p95"
    return grid(
        (
            "probe",
            "requests/s",
            "due/s",
            "answered/s",
            "achieved",
            name,
            "errors",
            "generator",
            "objective",
            "length",
            "purpose",
        ),
        tuple(_probe(number, probe, name) for number, probe in enumerate(search.probes, start=1)),
        caption=f"Every probe of the search, in order; {len(search.probes)} in all.",
    )


def _probe(number: int, probe: CapacityProbe, name: str) -> tuple[Cell, ...]:
    latency = _at(probe.response, name)
    word, level = _OUTCOMES.get(probe.outcome, (probe.outcome, "incomplete"))
    known = None if np.isnan(latency) else latency
    # Arrivals are random: what came due in a short probe is not exactly its rate, and is what counts.
    achieved = next((each.value for each in probe.criteria if each.name == "achieved"), None)
    due = probe.throughput_per_s / achieved if achieved else None
    return (
        Cell(str(number)),
        measured(probe.rate_per_s, "1/s", text=fmt.significant(probe.rate_per_s)),
        measured(due, "1/s", text="" if due is None else fmt.significant(due)),
        measured(probe.throughput_per_s, "1/s", text=fmt.significant(probe.throughput_per_s)),
        measured(achieved, "ratio"),
        measured(known, "ns"),
        measured(probe.requests.errors, "1"),
        measured(probe.busy_ratio, "ratio"),
        Cell(word, f"probability {probe.met_probability:.3f}", level=level),
        measured(float(probe.end_ns - probe.begin_ns), "ns"),
        Cell(_PURPOSES.get(probe.purpose, probe.purpose), is_text=True),
    )


def _stages(data: ReportData) -> list[Table]:
    if data.measure is None or data.measure.end_ns is None:
        return []
    span = (data.measure.begin_ns, data.measure.end_ns)
    tables = []
    for role, caption in (
        ("root", "Root: one request"),
        ("leaf", "Leaf: one call of a root"),
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
        return measured(mean, "ns"), measured(share, "ratio")

    rows = [
        (Cell(name.replace("_", " ")), *cells(ns, wall_whole), *cells(cpu.get(name, 0.0), cpu_whole))
        for name, ns in wall.items()
    ]
    rows.append((Cell("all"), *cells(wall_whole, wall_whole), *cells(cpu_whole, cpu_whole)))
    return grid(
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
                measured(search.estimate_per_s, "1/s"),
                measured(low, "1/s"),
                measured(high, "1/s"),
            )
        )
    return grid(("instance", "requests/s at the objective", "from", "to"), tuple(rows))
