"""The parts of a measure phase side by side: what each pressed on, and the load of each.

In: `ReportData` of a run with steps. Out: `Section`s, with one row or one curve a step; none for other runs.

Not here: the intensities themselves (``analyze.pressure``).
"""

import numpy as np

from steelyard._base import SteelyardError
from steelyard.analyze.conditions import Conditions
from steelyard.analyze.pressure.intensities import Intensities, intensities
from steelyard.bench.load.merge import merged
from steelyard.records import IntervalRow, LoadResult, read
from steelyard.report.answer import (
    Cell,
    Chart,
    Floats,
    Section,
    Series,
    Timeline,
    Trace,
    absent,
    grid,
    measured,
)
from steelyard.report.characterize.table import PART_WORDS
from steelyard.report.model import ReportData
from steelyard.report.workload_charts import PERCENTILES_NOTE, curve, percentiles, seconds, window_of

_ROLES = ("blue", "red", "green", "purple", "orange", "sky", "ink", "yellow")
"""Roles of the steps' curves, which give them their colours."""
_COLUMNS = (
    "step",
    "length",
    "CPU busy",
    "kernel",
    "waiting for disks",
    "disks",
    "network",
    "pressure points",
)


def steps_section(data: ReportData) -> list[Section]:
    """Return the section of steps."""
    if not data.steps:
        return []
    rows = []
    for phase, conditions in data.steps:
        parts = intensities(conditions, data.machine, health=data.conditions.health)
        rows.append(_row(phase.name, ((phase.end_ns or phase.begin_ns) - phase.begin_ns), conditions, parts))
    intro = "Figures are the machine's: servers, load and everything else together."
    return [Section("steps", "Steps of the measure phase", (grid(_COLUMNS, tuple(rows)),), intro)]


def _row(name: str, length_ns: int, conditions: Conditions, parts: Intensities) -> tuple[Cell, ...]:
    use = conditions.cpus.all.use
    disks = _sum([disk.read_bytes_per_s.value for disk in conditions.disks], conditions.disks)
    written = _sum([disk.written_bytes_per_s.value for disk in conditions.disks], conditions.disks)
    moved = [link.sent_bytes_per_s.value for link in conditions.network]
    pressing = [PART_WORDS[part.part] for part in parts.parts() if part.is_pressure_point]
    return (
        Cell(name),
        measured(length_ns, "ns"),
        _figure(use.busy_ratio if use else None, "ratio"),
        _figure(use.kernel_ratio if use else None, "ratio"),
        _figure(use.modes.get("iowait") if use else None, "ratio"),
        _figure(None if disks is None or written is None else disks + written, "bytes/s"),
        _figure(_sum(moved, conditions.network), "bytes/s"),
        Cell(", ".join(pressing) or "none", is_text=True),
    )


def _sum(values: "list[float | None]", devices: object) -> float | None:
    """Return the sum over the devices; None where there is no device or one has no value."""
    known = [value for value in values if value is not None]
    return sum(known) if devices and len(known) == len(values) else None


def _figure(value: float | None, unit: str) -> Cell:
    return measured(value, unit)


def load_sections_by_step(data: ReportData) -> list[Section]:
    """Return what loads that follow each other leave behind: throughput over time, and latency by step."""
    loads = [(step.name, _load_of(data, step.name)) for step in data.run.steps]
    known = [(name, load) for name, load in loads if load is not None]
    if not known:
        return [Section("time", "Over time", (absent("throughput", "Throughput", "no step had a load"),))]
    rows = tuple(_latency_row(name, load) for name, load in known)
    columns = ("step", "throughput", "p50", "p90", "p99", "p99.9", "errors")
    return [
        Section("time", "Over time", (_throughput(data, known),), "The shaded area is the measure phase."),
        Section(
            "percentiles",
            "Latency",
            (
                _percentiles(known),
                grid(columns, rows),
            ),
            "Response time, counted from the intended time of each request.",
        ),
    ]


def _load_of(data: ReportData, step: str) -> LoadResult | None:
    """Return the load of a step, all instances together; None where it left no result that can be read."""
    try:
        loads = [read(LoadResult, path) for path in sorted(data.folder.glob(f"load-{step}*.json"))]
    except SteelyardError:
        return None
    return (loads[0] if len(loads) == 1 else merged(loads)) if loads else None


def _throughput(data: ReportData, loads: list[tuple[str, LoadResult]]) -> Timeline:
    traces = []
    for at, (name, load) in enumerate(loads):
        rows = [row for row in load.series if row.phase == "measure" and row.end_ns > row.begin_ns]
        # The rate of an interval holds from its beginning to its end: short steps have a line as well.
        times = [moment for row in rows for moment in (row.begin_ns, row.end_ns)]
        rates: Floats = np.repeat([_rate(row) for row in rows], 2)
        traces.append(Trace(name, _ROLES[at % len(_ROLES)], rates, x=seconds(data, times)))
    return Timeline("throughput", "Throughput", unit="1/s", traces=tuple(traces), window=window_of(data))


def _rate(row: IntervalRow) -> float:
    return row.completed * 1e9 / (row.end_ns - row.begin_ns)


def _percentiles(loads: list[tuple[str, LoadResult]]) -> Chart:
    lines = []
    for at, (name, load) in enumerate(loads):
        x, y = curve([load.latency.response])
        if len(x):
            lines.append(Series(name, x.tolist(), y.tolist(), role=_ROLES[at % len(_ROLES)]))
    return percentiles(lines, PERCENTILES_NOTE, "no request was answered")


def _latency_row(name: str, load: LoadResult) -> tuple[Cell, ...]:
    response = load.latency.response
    return (
        Cell(name),
        _figure(load.throughput_per_s, "1/s"),
        _figure(response.p50_ns, "ns"),
        _figure(response.p90_ns, "ns"),
        _figure(response.p99_ns, "ns"),
        _figure(response.p999_ns, "ns"),
        _figure(load.requests.errors, "1"),
    )
