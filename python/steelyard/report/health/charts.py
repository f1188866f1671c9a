"""The charts of a health check.

In: a check. Out: a latency curve with the caches marked, a map a bandwidth kernel, and the core-to-core
matrix in an order in which near CPUs stand together.
"""

from __future__ import annotations

import numpy as np

from steelyard.analyze.health.core_clusters import Clusters, clusters
from steelyard.analyze.health.figures import size
from steelyard.records import CoreToCore, HealthResult
from steelyard.report.answer import Chart, Heat, Mark, Series

_KERNELS = {
    "read": "Read",
    "write": "Write",
    "write_nontemporal": "Write past caches",
    "copy": "Copy",
    "triad": "Triad",
}
_CELLS_WITH_TEXT = 16
"""Up to this many rows a map's cells have room for their figure."""
_ROW_PIXELS, _LEAST_PIXELS, _MOST_PIXELS = 14, 320, 860


def latency(result: HealthResult) -> list[Chart]:
    """Return the latency curve."""
    part = result.memory_latency
    if part is None:
        return []
    lines = []
    for pages, role in (("base", "blue"), ("huge", "green")):
        points = [point for point in part.points if point.pages == pages]
        if points:
            lines.append(
                Series(
                    f"{pages} pages",
                    [point.working_set_bytes for point in points],
                    [point.latency_ns.median for point in points],
                    role=role,
                    low=[point.latency_ns.low for point in points],
                    high=[point.latency_ns.high for point in points],
                    labels=[size(point.working_set_bytes) for point in points],
                )
            )
    marks = [
        Mark("x", cache.size_bytes, f"L{cache.level} {size(cache.size_bytes)}")
        for cache in result.machine.caches
    ]
    return [
        Chart(
            "latency",
            "Latency by working set",
            tuple(lines),
            x_title="working set",
            y_title="latency",
            x_unit="bytes",
            y_unit="ns",
            x_log=True,
            y_log=True,
            marks=tuple(marks),
            height=400,
            wide=True,
        )
    ]


def bandwidth(result: HealthResult) -> list[Heat]:
    """Return a map for each kernel that has a value, on one scale; none of a single node.

    One cell is no map: the table says it better.
    """
    part = result.memory_bandwidth
    if part is None or len(result.machine.nodes) < 2:
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
            (row.cpu_node, row.memory_node): row.rate_bytes_per_s.median if row.rate_bytes_per_s else None
            for row in rows
        }
        values = [[cells.get((cpu, memory)) for memory in memory_nodes] for cpu in cpu_nodes]
        maps.append(
            Heat(
                f"bandwidth-{kernel}",
                title,
                [f"node {node}" for node in memory_nodes],
                [f"node {node}" for node in cpu_nodes],
                values,
                unit="bytes/s",
                low=0.0,
                high=max(rates),
                cells=[["" if rate is None else f"{rate / 1e9:.3g}" for rate in row] for row in values]
                if len(memory_nodes) <= _CELLS_WITH_TEXT
                else None,
                x_title="memory",
                y_title="CPUs",
            )
        )
    return maps


def core_to_core(result: HealthResult) -> list[Heat]:
    """Return the matrix in clustered order; none of fewer than three CPUs, which are one pair."""
    part = result.core_to_core
    if part is None or len(part.cpus) < 3:
        return []
    grouping = grouped(part)
    order = grouping.order
    cells = [[part.median_ns[row][column] for column in order] for row in order]
    values = np.array([cell for row in cells for cell in row if cell is not None])
    # One pair that the scheduler held back must not wash out all others; its figure is still in the cell.
    low, high = float(values.min()), float(np.quantile(values, 0.99))
    names = [str(part.cpus[position]) for position in order]
    return [
        Heat(
            "core-to-core",
            "Core to core",
            names,
            names,
            cells,
            unit="ns",
            low=0.0 if high < 1.3 * low else low,
            high=high,
            cells=[["" if cell is None else f"{cell:.0f}" for cell in row] for row in cells]
            if len(order) <= _CELLS_WITH_TEXT
            else None,
            labels=[[f"CPU {row} and CPU {column}" for column in names] for row in names],
            x_title="CPU, near ones together",
            y_title="CPU, near ones together",
            borders=_borders(grouping),
            cells_high=min(_MOST_PIXELS, max(_LEAST_PIXELS, 110 + _ROW_PIXELS * len(names))),
            wide=True,
        )
    ]


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
