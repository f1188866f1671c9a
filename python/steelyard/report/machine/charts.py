"""Charts of the machine: CPU by mode, run queue, pressure, memory, network, disks, frequency, power.

In: `ReportData` with its recording. Out: `Timeline`s. Up to `PANELS_AT_MOST` CPUs get a panel each; more are
the rows of a heat map. Network and disk charts leave out idle devices and say how many.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from steelyard.analyze.facts.cpus import MODES, CpuSetUse, CpuUse
from steelyard.analyze.pressure.panels import mode_shares
from steelyard.analyze.values import Quantity
from steelyard.report.answer import Floats, Timeline, Trace, absent
from steelyard.report.format import quantity
from steelyard.report.model import ReportData
from steelyard.report.workload_charts import seconds, window_of
from steelyard.telemetry import EntitySeries, Series

PANELS_AT_MOST = 16
_UNKNOWN = Quantity(None, "1")
_LINES_AT_MOST = 4
_MODE_WORDS = {"iowait": "idle, waiting for I/O"}
_DRAWN_MODES = tuple(mode for mode in MODES if mode != "idle")


def _series(data: ReportData, source: str, columns: Sequence[str] | None = None, points: int = 240) -> Series:
    if data.recording is None:
        reason = next(
            (lack.reason for lack in data.lacking if lack.name == "telemetry"), "there is no telemetry"
        )
        return Series(source, data.begin_ns, data.end_ns, 1, missing=reason)
    return data.recording.series(source, data.begin_ns, data.end_ns, columns, points)


def cpu_charts(data: ReportData) -> tuple[list[Timeline], list[Timeline]]:
    """Return the charts of CPU sets, and the panels (or heat maps) of single CPUs."""
    # The kernel counts modes in ticks of 10 ms or less: over a second they are shares in steps of 1 %.
    points = int(min(200, max(10, (data.end_ns - data.begin_ns) / 1e9)))
    series = _series(data, "cpu", [f"{mode}_ns" for mode in MODES], points)
    if series.missing is not None or not series.entities:
        return [absent("cpu-all", "CPU", series.missing)], []
    times_ns, shares = mode_shares(series)
    x = seconds(data, times_ns.tolist())
    cpus = [int(entity.entity["cpu"]) for entity in series.entities]
    sets = _sets(data)
    charts = [
        _cpu_set(
            data, f"cpu-{each.name}", _set_title(each, data.run.cpus.load is not None), x, shares, cpus, each
        )
        for each in sets
    ]
    if len(cpus) == 1 or (len(cpus) == len(sets) and all(len(each.cpus) == 1 for each in sets)):
        # The charts of the sets are those of the CPUs.
        return charts, []
    if len(cpus) <= PANELS_AT_MOST:
        panels = [
            _stacked(
                data,
                f"cpu-{cpu}",
                f"CPU {cpu}",
                x,
                {mode: shares[mode][row] for mode in MODES},
                "panel",
                data.conditions.cpus.by_cpu.get(cpu),
            )
            for row, cpu in enumerate(cpus)
        ]
        return charts, panels
    busy = 1 - shares["idle"] - np.nan_to_num(shares["iowait"])
    kernel = sum((np.nan_to_num(shares[mode]) for mode in ("irq", "softirq")), shares["system"])
    heats = [
        _heat(data, "cpu-heat", "Busy share of every CPU", x, busy, cpus),
        _heat(data, "cpu-heat-kernel", "Kernel share of every CPU", x, kernel, cpus),
    ]
    return charts, heats


def _sets(data: ReportData) -> list[CpuSetUse]:
    """Return the sets to draw: the two sides, or all CPUs once where the sides share them."""
    server, load = data.conditions.cpus.server, data.conditions.cpus.load
    if server.cpus and load.cpus and set(server.cpus) != set(load.cpus):
        return [server, load]
    return [data.conditions.cpus.all]


def _set_title(each: CpuSetUse, shared: bool) -> str:
    names = {"server": "Server's CPUs", "load": "Load's CPUs", "all": "All CPUs"}
    title = names[each.name]
    if each.name == "all" and shared:
        title += " (server and load share them)"
    if each.name == "all" or not each.cpus:
        return title
    listed = _ranges(each.cpus)
    return f"{title} ({listed if len(listed) <= 24 else len(each.cpus)})"


def _ranges(cpus: Sequence[int]) -> str:
    """Return CPUs in the kernel's notation.

    >>> _ranges([0, 1, 2, 5])
    '0-2,5'
    """
    parts: list[list[int]] = []
    for cpu in sorted(cpus):
        if parts and parts[-1][1] == cpu - 1:
            parts[-1][1] = cpu
        else:
            parts.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def _cpu_set(
    data: ReportData,
    chart_id: str,
    title: str,
    x: Floats,
    shares: dict[str, Floats],
    cpus: Sequence[int],
    each: CpuSetUse,
) -> Timeline:
    rows = [row for row, cpu in enumerate(cpus) if cpu in each.cpus or not each.cpus]
    if not rows:
        return absent(chart_id, title, "none of these CPUs was read")
    means = {mode: _mean(shares[mode][rows]) for mode in MODES}
    return _stacked(data, chart_id, title, x, means, "normal", each.use)


def _mean(values: Floats) -> Floats:
    """Mean over CPUs, NaN only where none is known."""
    known = np.isfinite(values)
    count = known.sum(axis=0)
    total = np.where(known, values, 0.0).sum(axis=0)
    mean: Floats = np.divide(total, count, out=np.full(values.shape[1], np.nan), where=count > 0)
    return mean


def _stacked(
    data: ReportData,
    chart_id: str,
    title: str,
    x: Floats,
    shares: dict[str, Floats],
    size: str,
    whole: CpuUse | None,
) -> Timeline:
    """Return shares of modes over time; ``whole`` are those of the measure phase."""
    # A mode that never reached half a percent is a line of no height and a word in the legend.
    modes = [
        mode
        for mode in _DRAWN_MODES
        if mode in ("user", "system") or np.nanmax(np.nan_to_num(shares[mode]), initial=0.0) >= 0.005
    ]
    return Timeline(
        chart_id,
        title,
        unit="ratio",
        x=x,
        traces=tuple(
            Trace(
                _MODE_WORDS.get(mode, mode),
                mode,
                shares[mode],
                stack=True,
                mean=None if whole is None else whole.modes.get(mode),
            )
            for mode in modes
        ),
        y_range=(0.0, 1.0),
        window=window_of(data),
        size=size,
    )


def _heat(
    data: ReportData, chart_id: str, title: str, x: Floats, values: Floats, cpus: Sequence[int]
) -> Timeline:
    rows = tuple(str(cpu) for cpu in cpus)
    traces = tuple(Trace(row, "heat", values[index]) for index, row in enumerate(rows))
    return Timeline(
        chart_id, title, kind="heat", unit="ratio", x=x, traces=traces, rows=rows, y_title="CPU",
        window=window_of(data), y_range=(0.0, 1.0), size="tall" if len(rows) > 64 else "normal",
    )  # fmt: skip


def machine_charts(data: ReportData) -> list[Timeline]:
    """Return the charts of everything but the CPUs' modes."""
    makers: tuple[Callable[[ReportData], Timeline], ...] = (
        _memory, _network, _run_queue, _switches, _pressure, _disk, _frequency, _power, _thermal,
    )  # fmt: skip
    return [make(data) for make in makers]


def _lines(
    data: ReportData,
    chart_id: str,
    title: str,
    source: str,
    columns: Sequence[tuple[str, str, str]],
    unit: str,
    scale: float = 1.0,
    note: str = "",
    mean: float | None = None,
) -> Timeline:
    """Return a chart of columns (column, name, role) of a source without labels.

    ``mean`` is that of the measure phase, of a single column.
    """
    series = _series(data, source, [column for column, _, _ in columns])
    if series.missing is not None or not series.entities:
        return absent(chart_id, title, series.missing)
    entity = series.entities[0]
    traces = tuple(_band(entity, column, name, role, scale) for column, name, role in columns)
    known = tuple(replace(trace, mean=mean) for trace in traces if np.isfinite(trace.y).any())
    if not known:
        return absent(chart_id, title, "no reading succeeded")
    return Timeline(
        chart_id, title, unit=unit, x=seconds(data, entity.time_ns.tolist()), traces=known,
        window=window_of(data), note=note,
    )  # fmt: skip


def _band(entity: EntitySeries, column: str, name: str, role: str, scale: float) -> Trace:
    band = entity.bands[column]
    return Trace(name, role, band.mean * scale, band.low * scale, band.high * scale)


def _memory(data: ReportData) -> Timeline:
    title = "Memory"
    series = _series(
        data,
        "memory",
        ["total_bytes", "available_bytes", "cached_bytes", "anonymous_bytes", "swap_free_bytes"],
    )
    if series.missing is not None or not series.entities:
        return absent("memory", title, series.missing)
    entity = series.entities[0]
    used = entity.bands["total_bytes"].mean - entity.bands["available_bytes"].mean
    total = quantity(float(np.nanmax(entity.bands["total_bytes"].mean)), "bytes")
    traces = [
        Trace("used (total less available)", "total", used),
        Trace("page cache", "service", entity.bands["cached_bytes"].mean, dash="dot"),
    ]
    for index, lines in enumerate(data.cache_stats[:_LINES_AT_MOST]):
        resident = [np.nan if line.rss_bytes is None else float(line.rss_bytes) for line in lines]
        name = "server resident" if len(data.cache_stats) == 1 else f"server {index} resident"
        times = seconds(data, [line.monotonic_ns for line in lines])
        traces.append(Trace(name, "fast", np.array(resident), x=times))
    return Timeline(
        "memory", title, unit="bytes", x=seconds(data, entity.time_ns.tolist()), traces=tuple(traces),
        window=window_of(data), note=f"The machine has {total}.",
    )  # fmt: skip


def _busiest(series: Series, columns: Sequence[str]) -> tuple[list[EntitySeries], int]:
    """Return the entities with the most in ``columns``, busiest first, and how many were left out."""

    def weight(entity: EntitySeries) -> float:
        return sum(float(np.nansum(entity.bands[column].mean)) for column in columns)

    ranked = sorted(series.entities, key=weight, reverse=True)
    most = weight(ranked[0]) if ranked else 0.0
    shown = [entity for entity in ranked if weight(entity) > 0.01 * most][:_LINES_AT_MOST]
    return shown, len(ranked) - len(shown)


def _pairs(
    data: ReportData,
    chart_id: str,
    title: str,
    source: str,
    label: str,
    sides: Sequence[tuple[str, str, str]],
    means: Mapping[tuple[str, str], Quantity],
) -> Timeline:
    """Return a chart of two directions per entity; ``sides`` are (column, word, dash).

    ``means`` are those of the measure phase, by entity and column.
    """
    columns = [column for column, _, _ in sides]
    series = _series(data, source, columns)
    if series.missing is not None or not series.entities:
        return absent(chart_id, title, series.missing)
    shown, hidden = _busiest(series, columns)
    if not shown:
        return absent(chart_id, title, f"nothing was moved on any {label}")
    traces = []
    for index, entity in enumerate(shown):
        # What loopback sends it receives: the second line would hide the first.
        alike = source == "network" and entity.entity[label] == "lo"
        for column, word, dash in sides[:1] if alike else sides:
            role = f"line{index * len(sides) + (0 if dash == '' else 1)}"
            band = entity.bands[column]
            name = "lo (sent = received)" if alike else f"{entity.entity[label]} {word}"
            x = seconds(data, entity.time_ns.tolist())
            mean = means.get((str(entity.entity[label]), column), _UNKNOWN).value
            traces.append(
                Trace(name, role, band.mean, band.low, band.high, x=x, dash=dash or None, mean=mean)
            )
    note = f"Not shown: {hidden} that moved less."
    note = note if hidden else ""
    return Timeline(
        chart_id, title, unit="bytes/s", x=seconds(data, shown[0].time_ns.tolist()), traces=tuple(traces),
        window=window_of(data), note=note,
    )  # fmt: skip


def _network(data: ReportData) -> Timeline:
    sides = (("received_bytes", "received", ""), ("sent_bytes", "sent", "dot"))
    means = {}
    for use in data.conditions.network:
        means[use.interface, "received_bytes"] = use.received_bytes_per_s
        means[use.interface, "sent_bytes"] = use.sent_bytes_per_s
    return _pairs(data, "network", "Network", "network", "interface", sides, means)


def _disk(data: ReportData) -> Timeline:
    sides = (("read_bytes", "read", ""), ("written_bytes", "written", "dot"))
    means = {}
    for use in data.conditions.disks:
        means[use.device, "read_bytes"] = use.read_bytes_per_s
        means[use.device, "written_bytes"] = use.written_bytes_per_s
    return _pairs(data, "disk", "Disks", "disk", "device", sides, means)


def _run_queue(data: ReportData) -> Timeline:
    note = "Tasks that run or wait for a CPU, at the moment of each reading: the reader is one of them."
    columns = (("runnable", "runnable", "total"), ("blocked", "blocked on I/O", "slow"))
    return _lines(data, "run-queue", "Run queue", "scheduler", columns, "1", note=note)


def _switches(data: ReportData) -> Timeline:
    columns = (("context_switches", "context switches", "total"),)
    return _lines(
        data,
        "switches",
        "Context switches",
        "scheduler",
        columns,
        "1/s",
        mean=data.conditions.scheduler.context_switches_per_s.value,
    )


def _pressure(data: ReportData) -> Timeline:
    title = "Pressure (PSI, some)"
    series = _series(data, "pressure", ["some_ns"])
    if series.missing is not None or not series.entities:
        return absent("pressure", title, series.missing)
    roles = {"cpu": "total", "memory": "fast", "io": "slow", "irq": "p999"}
    traces = tuple(
        Trace(
            str(entity.entity["resource"]),
            roles.get(str(entity.entity["resource"]), "line3"),
            np.clip(entity.bands["some_ns"].mean / 1e9, 0, 1),
            x=seconds(data, entity.time_ns.tolist()),
        )
        for entity in series.entities
    )
    return Timeline(
        "pressure", title, unit="ratio", x=seconds(data, series.entities[0].time_ns.tolist()), traces=traces,
        window=window_of(data), y_range=(0.0, 1.0),
        note="Share of time in which some task waited for it, as the kernel averages it over the CPUs.",
    )  # fmt: skip


def _over_entities(
    data: ReportData, chart_id: str, title: str, source: str, column: str, unit: str, scale: float, name: str
) -> Timeline:
    """Return the mean of a column over all entities, with the extremes as a band."""
    series = _series(data, source, [column])
    if series.missing is not None or not series.entities:
        return absent(chart_id, title, series.missing)
    middles, values = series.grid(column)
    known = np.isfinite(values).any(axis=0)
    if not known.any():
        return absent(chart_id, title, "no reading succeeded")
    seen = values[:, known] * scale
    return Timeline(
        chart_id, title, unit=unit, x=seconds(data, middles[known].tolist()), window=window_of(data),
        traces=(Trace(name, "total", _mean(seen), np.nanmin(seen, axis=0), np.nanmax(seen, axis=0)),),
        note="The band spans the lowest to the highest.",
    )  # fmt: skip


def _frequency(data: ReportData) -> Timeline:
    title = "CPU frequency"
    return _over_entities(data, "frequency", title, "cpufreq", "frequency_hz", "hz", 1.0, "mean of all CPUs")


def _power(data: ReportData) -> Timeline:
    title = "Power"
    series = _series(data, "power", ["energy_uj", "power_uw"])
    if series.missing is not None or not series.entities:
        return absent("power", title, series.missing)
    traces = []
    for index, entity in enumerate(series.entities[:6]):
        counted, read = entity.bands["energy_uj"].mean / 1e6, entity.bands["power_uw"].mean / 1e6
        y = counted if np.isfinite(counted).any() else read
        if np.isfinite(y).any():
            x = seconds(data, entity.time_ns.tolist())
            traces.append(Trace(str(entity.entity["domain"]), f"line{index}", y, x=x))
    if not traces:
        return absent("power", title, "no domain could be read")
    x = traces[0].x if traces[0].x is not None else np.array([])
    return Timeline("power", title, unit="w", x=x, traces=tuple(traces), window=window_of(data))


def _thermal(data: ReportData) -> Timeline:
    title = "Temperature"
    return _over_entities(
        data, "temperature", title, "thermal", "temperature_mc", "celsius", 1e-3, "mean of all zones"
    )
