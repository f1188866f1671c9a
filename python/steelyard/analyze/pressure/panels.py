"""How hard a run pressed on CPU, memory, disk and network over time: the four panels of published figures.

In: a run with telemetry, and limits. Out: `Panels`: curves in base units over seconds from the begin of the
measure phase, the steps of that phase, and the limits that the curves are held against.

Awasthi et al. (ICPE 2015) show these four for each workload, of the whole machine. Of disks and interfaces
the busiest one is shown, because limits are those of one.

Not here: ratios and pressure points (``intensities``), drawing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from steelyard import telemetry
from steelyard._base import SteelyardError
from steelyard.analyze.conditions import Conditions, observe
from steelyard.analyze.facts.cpus import MODES
from steelyard.analyze.pressure import limits as limits_of
from steelyard.analyze.pressure.disk_limits import COLUMNS, GroupLimit, group_path
from steelyard.analyze.pressure.limits import Limit, Limits
from steelyard.records import HealthResult, Machine, Run
from steelyard.telemetry import EntitySeries, Recording, Series

Floats = NDArray[np.float64]

POINTS = 200
_BEFORE_NS = 3_000_000_000
"""How much of what came before the measure phase is shown: servers that idle, a load that begins."""


@dataclass(frozen=True)
class Curve:
    """One line over time."""

    name: str
    seconds: Floats
    values: Floats


@dataclass(frozen=True)
class Panel:
    """One resource over time. Without curves ``missing`` says why."""

    resource: str
    title: str
    unit: str
    curves: tuple[Curve, ...] = ()
    limit: Limit | None = None
    missing: str | None = None


@dataclass(frozen=True)
class Panels:
    """The four panels of a run, and its steps: name, begin and end in seconds."""

    panels: tuple[Panel, ...] = ()
    steps: tuple[tuple[str, float, float], ...] = ()
    missing: str | None = None
    """Why there is none, None where there are."""
    span_s: tuple[float, float] = field(default=(0.0, 0.0))


def panels_of(
    folder: Path,
    run: Run,
    machine: Machine | None,
    *,
    health: HealthResult | None = None,
    limits: Limits | None = None,
) -> Panels:
    """Return the four panels of a run."""
    measured = next(
        (each for each in reversed(run.phases) if each.name == "measure" and each.end_ns is not None), None
    )
    if measured is None or measured.end_ns is None:
        return Panels(missing="it has no measure phase")
    zero_ns, end_ns = measured.begin_ns, measured.end_ns
    begin_ns = max(zero_ns - _BEFORE_NS, run.clock.monotonic_ns)
    spans = [(step.name, step.begin_ns, step.end_ns) for step in run.steps if step.end_ns is not None]
    steps = spans or [("measure", zero_ns, end_ns)]
    try:
        with telemetry.open(folder) as recording:
            conditions = observe(recording, zero_ns, end_ns, run=run, machine=machine, whole=False)
            reader = _Reader(recording, zero_ns, begin_ns, end_ns)
            panels = (
                _cpu(reader),
                _memory(reader),
                _disk(reader, conditions, limits or Limits(), health),
                _network(reader, conditions, limits or Limits(), health),
            )
    except SteelyardError as error:
        return Panels(missing=error.message)
    named = tuple((name, (begin - zero_ns) / 1e9, (end - zero_ns) / 1e9) for name, begin, end in steps)
    return Panels(panels, named, span_s=((begin_ns - zero_ns) / 1e9, (end_ns - zero_ns) / 1e9))


class _Reader:
    """Reads sources of one recording around the measure phase."""

    def __init__(self, recording: Recording, zero_ns: int, begin_ns: int, end_ns: int) -> None:
        self._recording = recording
        self._zero_ns, self._begin_ns, self._end_ns = zero_ns, begin_ns, end_ns

    def series(self, source: str, columns: Sequence[str]) -> Series:
        return self._recording.series(source, self._begin_ns, self._end_ns, list(columns), points=POINTS)

    def seconds(self, times_ns: NDArray[np.int64]) -> Floats:
        return (times_ns.astype(np.float64) - float(self._zero_ns)) / 1e9


def mode_shares(series: Series) -> tuple[NDArray[np.int64], dict[str, Floats]]:
    """Return the middles of the buckets and each mode's share of each CPU's time: one row a CPU."""
    by_mode = {mode: series.grid(f"{mode}_ns")[1] for mode in MODES}
    whole = np.nansum(np.stack(list(by_mode.values())), axis=0)
    shares = {
        mode: np.divide(values, whole, out=np.full(values.shape, np.nan), where=whole > 0)
        for mode, values in by_mode.items()
    }
    return series.grid("user_ns")[0], shares


_CPU_CURVES = (
    ("user", ("user", "nice")),
    ("system", ("system", "irq", "softirq")),
    ("stolen by the hypervisor", ("steal",)),
    ("idle, waiting for disks", ("iowait",)),
)


def _cpu(reader: _Reader) -> Panel:
    series = reader.series("cpu", [f"{mode}_ns" for mode in MODES])
    if series.missing is not None or not series.entities:
        return Panel("cpu", "CPU", "ratio", missing=series.missing or "no CPU was read")
    times_ns, shares = mode_shares(series)
    seconds = reader.seconds(times_ns)
    curves = []
    for name, modes in _CPU_CURVES:
        summed = sum((np.nan_to_num(shares[mode]) for mode in modes), np.zeros_like(shares["user"]))
        known = np.isfinite(shares["user"])
        total = np.where(known, summed, 0.0).sum(axis=0)
        count = known.sum(axis=0)
        values = np.divide(total, count, out=np.full(len(seconds), np.nan), where=count > 0)
        # A mode that never reached half a percent is a word in the legend and nothing to see.
        if name in ("user", "system") or np.nanmax(np.nan_to_num(values), initial=0.0) >= 0.005:
            curves.append(Curve(name, seconds, values))
    title = f"CPU, {len(series.entities)} CPUs"
    return Panel("cpu", title, "ratio", tuple(curves), Limit(1.0, f"{len(series.entities)} logical CPUs"))


def _memory(reader: _Reader) -> Panel:
    series = reader.series("memory", ["total_bytes", "available_bytes", "cached_bytes"])
    if series.missing is not None or not series.entities:
        return Panel("dram", "Memory", "bytes", missing=series.missing or "memory was not read")
    entity = series.entities[0]
    seconds, bands = reader.seconds(entity.time_ns), entity.bands
    used = bands["total_bytes"].mean - bands["available_bytes"].mean
    curves = (
        Curve("not reclaimable", seconds, used),
        Curve("page cache", seconds, bands["cached_bytes"].mean),
    )
    total = float(np.nanmax(bands["total_bytes"].mean))
    return Panel("dram", "Memory", "bytes", curves, Limit(total, "memory size"))


def _busiest(series: Series, columns: Sequence[str]) -> EntitySeries | None:
    def moved(entity: EntitySeries) -> float:
        return sum(float(np.nansum(entity.bands[column].mean)) for column in columns)

    return max(series.entities, key=moved, default=None)


def _disk(reader: _Reader, conditions: Conditions, stated: Limits, health: HealthResult | None) -> Panel:
    for limited in conditions.limited_disks:
        if (panel := _limited_disk(reader, limited.limit)) is not None:
            return panel
    columns = ("read_bytes", "written_bytes")
    series = reader.series("disk", columns)
    entity = _busiest(series, columns)
    if entity is None:
        return Panel("disk", "Disk", "bytes/s", missing=series.missing or "no disk was read")
    device = str(entity.entity["device"])
    use = next((each for each in conditions.disks if each.device == device), None)
    # A disk that reads at its limit has nothing left to write.
    limit = limits_of.disk_bandwidth(use, stated, health)[0] if use is not None else None
    seconds = reader.seconds(entity.time_ns)
    curves = (
        Curve("read", seconds, entity.bands["read_bytes"].mean),
        Curve("written", seconds, entity.bands["written_bytes"].mean),
    )
    return Panel("disk", f"Disk {device}", "bytes/s", curves, limit)


def _limited_disk(reader: _Reader, limit: GroupLimit) -> Panel | None:
    """Return what the processes did that a limit held for, None where it was not recorded."""
    series = reader.series("cgroup", COLUMNS)
    path = group_path(limit.group, [str(entity.entity["path"]) for entity in series.entities])
    if path is None:
        return None
    entity = next(each for each in series.entities if each.entity["path"] == path)
    seconds = reader.seconds(entity.time_ns)
    curves = tuple(
        Curve(name, seconds, entity.bands[column].mean)
        for name, column in zip(("read", "written"), COLUMNS, strict=True)
    )
    held = Limit(limit.rate_bytes_per_s, limit.source)
    return Panel("disk", f"Disk {limit.device}, the run's processes", "bytes/s", curves, held)


def _network(reader: _Reader, conditions: Conditions, stated: Limits, health: HealthResult | None) -> Panel:
    columns = ("received_bytes", "sent_bytes")
    series = reader.series("network", columns)
    entity = _busiest(series, columns)
    if entity is None:
        return Panel("network", "Network", "bytes/s", missing=series.missing or "no interface was read")
    interface = str(entity.entity["interface"])
    use = next((each for each in conditions.network if each.interface == interface), None)
    limit = limits_of.network(use, stated, health) if use is not None else None
    seconds = reader.seconds(entity.time_ns)
    sent = Curve("sent", seconds, entity.bands["sent_bytes"].mean)
    received = Curve("received", seconds, entity.bands["received_bytes"].mean)
    # What loopback sends it receives: the second line would hide the first.
    curves = (Curve("sent = received", seconds, sent.values),) if interface == "lo" else (received, sent)
    return Panel("network", f"Network {interface}", "bytes/s", curves, limit)
