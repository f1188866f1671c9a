"""The page of a health check: ``report.html`` in its folder.

In: a check and its comparison. Out: the page's path. The page needs no network; names from outside are
escaped by the template and, inside the data, as JSON whose ``<`` cannot end a script.

Not here: the charts' data (``charts``), measuring, judging.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from steelyard._base import format_cpu_list
from steelyard.analyze.health.comparison import Compared, Comparison, quantity, tolerated
from steelyard.analyze.health.figures import size
from steelyard.records import HealthResult
from steelyard.report import format as fmt
from steelyard.report.health import charts as health_charts
from steelyard.report.health.answer import spread, verdict
from steelyard.report.template import PAGE, publish, template

_SECTIONS = (
    ("latency", "Memory latency"),
    ("bandwidth", "Memory bandwidth"),
    ("core-to-core", "Core to core"),
    ("disk", "Disk"),
    ("loopback", "Loopback network"),
)
_STATES = {
    "ok": ("valid", "as before"),
    "worse": ("invalid", "worse"),
    "better": ("valid", "better"),
    "noisy": ("suspect", "noisy"),
    "new": ("incomplete", "first"),
    "gone": ("invalid", "gone"),
    "missing": ("incomplete", "not measured"),
}
_CPUS_LISTED = 24
_ROWS_OPEN = 8
"""Up to this many rows a table beside a chart is open."""


def write(folder: Path, result: HealthResult, comparison: Comparison) -> Path:
    """Write the page into ``folder``. Raises WorkloadFailedError when it cannot be written."""
    return publish(folder / PAGE, render(result, comparison, folder))


def render(result: HealthResult, comparison: Comparison, folder: Path | None = None) -> str:
    """Return the page's text, to be written into ``folder``."""
    charts = _charts(result)
    return template(
        "health.html.j2",
        _content(result, comparison, charts),
        {"charts": charts},
        folder=folder,
        styles=("health.css",),
        scripts=("health.js",),
    )


def _charts(result: HealthResult) -> list[dict[str, Any]]:
    charts = [health_charts.latency(result)]
    # One cell is no map: the table says it better.
    if len(result.machine.nodes) > 1:
        charts += health_charts.bandwidth(result)
    if result.core_to_core is not None and len(result.core_to_core.cpus) > 2:
        charts.append(health_charts.core_to_core(result))
    return [chart for chart in charts if chart is not None]


def _content(result: HealthResult, comparison: Comparison, charts: list[dict[str, Any]]) -> dict[str, Any]:
    machine = result.machine
    took_s = (result.end_ns - result.begin_ns) / 1e9
    words = [machine.cpu_model or "unknown processor", f"CPUs {machine.usable_cpus}"]
    nodes = len(machine.nodes)
    words.append(f"{nodes} NUMA node{'s' if nodes != 1 else ''}")
    words += [f"L{cache.level} {size(cache.size_bytes)}" for cache in machine.caches]
    sections = []
    for anchor, title in _SECTIONS:
        rows = [row for row in comparison.rows if row.figure.id.partition(".")[0] == anchor]
        part = {"latency": "memory_latency", "bandwidth": "memory_bandwidth"}.get(anchor, anchor)
        part = part.replace("-", "_")
        absent = {name: why for name, why in result.missing.items() if name.partition(".")[0] == part}
        sections.append(
            {
                "anchor": anchor,
                "title": title,
                "intro": _intro(anchor, result),
                "charts": [chart for chart in charts if chart["id"].startswith(anchor)],
                "rows": [_row(row) for row in rows],
                "alarming": [_row(row) for row in rows if row.state in ("worse", "gone")],
                "groups": _groups(result) if anchor == "core-to-core" else [],
                "absent": absent,
                # A chart says what a long table says, and better.
                "folded": len(rows) > _ROWS_OPEN and any(c["id"].startswith(anchor) for c in charts),
                "busy": _busy(part, result),
            }
        )
    compared = any(row.earlier for row in comparison.rows)
    heading, level = ("Healthy", "valid") if compared else ("Measured", "incomplete")
    if comparison.alerts:
        heading, level = "Alert", "invalid"
    elif not comparison.is_quiet:
        heading, level = "Disturbed", "suspect"
    return {
        "title": f"health · {fmt.moment(result.clock.realtime_ns)}",
        "when": fmt.moment(result.clock.realtime_ns),
        "took": fmt.duration(took_s * 1e9),
        "mode": result.settings.mode,
        "heading": heading,
        "level": level,
        "verdict": verdict(comparison),
        "alerts": comparison.alerts,
        "notes": comparison.notes,
        "machine_line": " · ".join(words),
        "tiles": _tiles(comparison),
        "sections": sections,
        "command": shlex.join(result.command),
    }


def _tiles(comparison: Comparison) -> list[dict[str, str]]:
    """Return the figures that say most, one a part."""
    chosen = []
    largest = [row for row in comparison.rows if row.figure.family == "latency-memory" and row.figure.value]
    huge = [row for row in largest if ".huge." in row.figure.id] or largest
    if huge:
        chosen.append(("Memory latency", max(huge, key=lambda row: int(row.figure.id.rpartition(".")[2]))))
    for name, start in (
        ("Read bandwidth, node 0", "bandwidth.read.0.0"),
        ("Core to core, nearest", "core-to-core."),
        ("Disk, sequential read", "disk.fio.sequential_read"),
        ("Disk, sequential read", "disk.built.sequential_read"),
        ("Loopback round trip", "loopback.p50"),
    ):
        row = next((row for row in comparison.rows if row.figure.id.startswith(start)), None)
        if row is not None and row.figure.value is not None:
            chosen.append((name, row))
    return [
        {
            "name": name,
            "value": quantity(row.figure.value, row.figure.unit),
            "raw": f"{row.figure.id} = {row.figure.value!r} {row.figure.unit}",
            "note": "" if row.change_ratio is None else f"{row.change_ratio:+.1%} from expected",
        }
        for name, row in chosen[:4]
    ]


def _intro(anchor: str, result: HealthResult) -> str:
    latency, bandwidth, lines = result.memory_latency, result.memory_bandwidth, result.core_to_core
    disk, loopback = result.disk, result.loopback
    if anchor == "latency" and latency is not None:
        return (
            f"Time of one dependent load on CPU {latency.cpu}, by the size of what a chase over one random"
            f" cycle of {latency.stride_bytes}-byte lines touches."
        )
    if anchor == "bandwidth" and bandwidth is not None:
        nodes = "Rows are the nodes of the CPUs, columns the nodes of the memory. "
        return (nodes if len(result.machine.nodes) > 1 else "") + f"Counted: {bandwidth.counting}."
    if anchor == "core-to-core" and lines is not None:
        sample = f" Sample: {lines.sample}." if lines.sample else ""
        return (
            "Half a round trip of one cache line between two pinned threads; median of"
            f" {lines.repeats} repeats.{sample}"
        )
    if anchor == "disk" and disk is not None:
        where = ", ".join(filter(None, (disk.file_system, disk.device))) or "unknown device"
        return (
            f"A file of {size(disk.file_bytes)} without a name in {disk.directory} ({where}), past the page"
            f" cache, by {disk.engine}."
        )
    if anchor == "loopback" and loopback is not None:
        return (
            f"One TCP connection over 127.0.0.1 between CPUs {loopback.client_cpu} and"
            f" {loopback.server_cpu}: the kernel's network stack and the copy between two CPUs, no hardware"
            " of the network."
        )
    return ""


def _row(row: Compared) -> dict[str, str]:
    figure = row.figure
    level, word = _STATES[row.state]
    interval = ""
    if figure.low is not None and figure.high is not None:
        interval = spread(figure)
    expected = "" if row.expected is None else quantity(row.expected, figure.unit)
    return {
        "name": figure.name,
        "value": fmt.MISSING if figure.value is None else quantity(figure.value, figure.unit),
        "raw": f"{figure.id} = {figure.value!r} {figure.unit}",
        "interval": interval or figure.reason or "",
        "expected": expected,
        "tolerance": tolerated(row),
        "change": "" if row.change_ratio is None else f"{row.change_ratio:+.1%}",
        "level": level,
        "word": word,
    }


def _groups(result: HealthResult) -> list[str]:
    """Return what the matrix tells of groups, a sentence a level."""
    part = result.core_to_core
    if part is None:
        return []
    sentences = []
    for level in health_charts.grouped(part).levels:
        members = [format_cpu_list([part.cpus[position] for position in group]) for group in level.groups]
        listed = " | ".join(members)
        if len(part.cpus) > _CPUS_LISTED and len(level.groups) > 4:
            listed = " | ".join(members[:4]) + " | ..."
        sentences.append(
            f"{len(level.groups)} groups, within {level.within_ns:.0f} ns, {level.between_ns:.0f} ns apart:"
            f" {listed}"
        )
    return sentences


def _busy(part: str, result: HealthResult) -> str:
    conditions = result.conditions.get(part)
    if conditions is None or conditions.foreign_busy_ratio is None:
        return ""
    stolen = conditions.steal_ratio or 0.0
    text = f"Other processes used {conditions.foreign_busy_ratio:.1%} of the CPU time meanwhile"
    return text + (f", the hypervisor took {stolen:.1%}." if stolen > 0.001 else ".")
