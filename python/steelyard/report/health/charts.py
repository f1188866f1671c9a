"""The charts of a health check, as data for the page's script.

In: a check. Out: plain values: a latency curve with the caches marked, a heat map a bandwidth kernel, and the
core-to-core matrix in an order in which near CPUs stand together. Not here: drawing (``health.js``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from steelyard.analyze.health.core_clusters import Clusters, clusters
from steelyard.analyze.health.figures import size
from steelyard.records import CoreToCore, HealthResult

_KERNELS = {
    "read": "Read",
    "write": "Write",
    "write_nontemporal": "Write past caches",
    "copy": "Copy",
    "triad": "Triad",
}
_CELLS_WITH_TEXT = 16
"""Up to this many rows a heat map's cells have room for their figure."""


def latency(result: HealthResult) -> dict[str, Any] | None:
    """Return the latency curve, ``None`` without one."""
    part = result.memory_latency
    if part is None:
        return None
    lines = []
    for pages, name, role in (("base", "base pages", "base"), ("huge", "huge pages", "huge")):
        points = [point for point in part.points if point.pages == pages]
        if points:
            lines.append(
                {
                    "name": name,
                    "role": role,
                    "x": [point.working_set_bytes for point in points],
                    "y": [point.latency_ns.median for point in points],
                    "low": [point.latency_ns.low for point in points],
                    "high": [point.latency_ns.high for point in points],
                    "labels": [size(point.working_set_bytes) for point in points],
                }
            )
    marks = [
        {"at": cache.size_bytes, "name": f"L{cache.level} {size(cache.size_bytes)}"}
        for cache in result.machine.caches
    ]
    return {"id": "latency", "kind": "latency", "lines": lines, "marks": marks}


def bandwidth(result: HealthResult) -> list[dict[str, Any]]:
    """Return a heat map for each kernel that has a value; all share one scale, to be compared."""
    part = result.memory_bandwidth
    if part is None:
        return []
    rates = [row.rate_bytes_per_s.median for row in part.rows if row.rate_bytes_per_s is not None]
    maps = []
    for kernel, title in _KERNELS.items():
        rows = [row for row in part.rows if row.kernel == kernel]
        if not any(row.rate_bytes_per_s for row in rows):
            continue
        cpu_nodes = sorted({row.cpu_node for row in rows})
        memory_nodes = sorted({row.memory_node for row in rows})
        cells = {
            (row.cpu_node, row.memory_node): row.rate_bytes_per_s.median / 1e9
            if row.rate_bytes_per_s
            else None
            for row in rows
        }
        maps.append(
            {
                "id": f"bandwidth-{kernel}",
                "kind": "bandwidth",
                "title": title,
                "x": [f"node {node}" for node in memory_nodes],
                "y": [f"node {node}" for node in cpu_nodes],
                "z": [[cells.get((cpu, memory)) for memory in memory_nodes] for cpu in cpu_nodes],
                "low": 0,
                "high": max(rates) / 1e9,
                "text": len(memory_nodes) <= _CELLS_WITH_TEXT,
            }
        )
    return maps


def core_to_core(result: HealthResult) -> dict[str, Any] | None:
    """Return the matrix in clustered order, ``None`` where there are fewer than two CPUs."""
    part = result.core_to_core
    if part is None or len(part.cpus) < 2:
        return None
    grouping = grouped(part)
    order = grouping.order
    cells = [[part.median_ns[row][column] for column in order] for row in order]
    values = np.array([cell for row in cells for cell in row if cell is not None])
    # One pair that the scheduler held back must not wash out all others; its figure is still in the cell.
    low, high = float(values.min()), float(np.quantile(values, 0.99))
    return {
        "id": "core-to-core",
        "kind": "matrix",
        "cpus": [part.cpus[position] for position in order],
        "z": cells,
        "low": 0 if high < 1.3 * low else low,
        "high": high,
        "text": len(order) <= _CELLS_WITH_TEXT,
        "borders": _borders(grouping),
    }


def grouped(part: CoreToCore) -> Clusters:
    """Return how the CPUs of a check group; in their own order where a pair is missing."""
    try:
        return clusters(part.median_ns)
    except ValueError:
        return Clusters(list(range(len(part.cpus))), [])


def _borders(grouping: Clusters) -> list[int]:
    """Return after how many rows a group of the coarsest level ends."""
    if not grouping.levels:
        return []
    group = {
        position: number for number, members in enumerate(grouping.levels[0].groups) for position in members
    }
    return [
        row
        for row in range(1, len(grouping.order))
        if group[grouping.order[row]] != group[grouping.order[row - 1]]
    ]
