"""What is said of a health check beside its tables: how it was measured, groups of CPUs, main figures."""

from __future__ import annotations

from steelyard._base import format_cpu_list
from steelyard.analyze.health.comparison import Comparison, quantity
from steelyard.analyze.health.figures import size
from steelyard.records import HealthResult
from steelyard.report.answer import Tile
from steelyard.report.health.charts import grouped

_CPUS_LISTED = 24


def tiles(comparison: Comparison) -> list[Tile]:
    """Return the figures that say most, one a part."""
    chosen = []
    largest = [
        row for row in comparison.figures if row.figure.family == "latency-memory" and row.figure.value
    ]
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
        row = next((row for row in comparison.figures if row.figure.id.startswith(start)), None)
        if row is not None and row.figure.value is not None:
            chosen.append((name, row))
    return [
        Tile(
            name,
            quantity(row.figure.value, row.figure.unit),
            f"{row.figure.id} = {row.figure.value!r} {row.figure.unit}",
            "" if row.change_ratio is None else f"{row.change_ratio:+.1%} from expected",
        )
        for name, row in chosen[:4]
    ]


def intro(anchor: str, result: HealthResult) -> str:
    """Return how a part was measured, empty where it was not."""
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


def groups(result: HealthResult) -> list[str]:
    """Return what the matrix tells of groups, a sentence a level."""
    part = result.core_to_core
    if part is None:
        return []
    sentences = []
    for level in grouped(part).levels:
        members = [format_cpu_list([part.cpus[position] for position in group]) for group in level.groups]
        listed = " | ".join(members)
        if len(part.cpus) > _CPUS_LISTED and len(level.groups) > 4:
            listed = " | ".join(members[:4]) + " | ..."
        sentences.append(
            f"{len(level.groups)} groups, within {level.within_ns:.0f} ns, {level.between_ns:.0f} ns apart:"
            f" {listed}"
        )
    return sentences


def busy(part: str, result: HealthResult) -> str:
    """Return what others did meanwhile, empty where that is not known."""
    conditions = result.conditions.get(part)
    if conditions is None or conditions.foreign_busy_ratio is None:
        return ""
    stolen = conditions.steal_ratio or 0.0
    text = f"Other processes used {conditions.foreign_busy_ratio:.1%} of the CPU time meanwhile"
    return text + (f", the hypervisor took {stolen:.1%}." if stolen > 0.001 else ".")
