"""The comparable figures of a health check, each with a stable name.

In: a `HealthResult`. Out: `Figure` rows: one for each working set, node pair and kernel, class of CPU
pairs, disk pattern and loopback value. Core-to-core pairs are compared by class (same core, same cache,
...), because a matrix has thousands of cells and a check that asks thousands of questions answers some of
them wrongly.

Not here: what a figure should be (`analyze.health.comparison`).
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from steelyard.records import CoreToCore, Estimate, HealthCache, HealthCpu, HealthResult


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value of a health check, in base units."""

    id: str
    """Stable name, such as ``latency.huge.134217728``."""
    name: str
    """In words."""
    family: str
    """What it tells of: ``latency-core``, ``latency-shared``, ``latency-memory``, ``bandwidth``,
    ``core-to-core``, ``disk``, ``loopback``."""
    unit: str
    """``ns``, ``bytes/s`` or ``1/s``."""
    better: str
    """``lower`` or ``higher``."""
    value: float | None
    """Median, ``None`` with a reason."""
    low: float | None
    """Lower end of its interval."""
    high: float | None
    """Upper end of its interval."""
    reason: str | None = None
    """Why there is no value."""


PAIR_CLASSES = ("same core", "same cache", "same node", "same socket", "other socket", "unplaced")
"""How near two CPUs are, nearest first; ``unplaced`` where the kernel does not report it."""


def size(count: int) -> str:
    """Return bytes as caches are reported.

    >>> size(4096), size(48 << 20), size(1536)
    ('4 KiB', '48 MiB', '1.5 KiB')
    """
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count >= 1 << shift:
            return f"{count / (1 << shift):g} {unit}"
    return f"{count} B"


def pair_class(cpu: HealthCpu, other: HealthCpu) -> str:
    """Return how near two CPUs are."""

    def same(field: str) -> bool:
        value = getattr(cpu, field)
        return value is not None and value == getattr(other, field)

    for field, name in (
        ("core", "same core"),
        ("last_level_cache", "same cache"),
        ("node", "same node"),
        ("socket", "same socket"),
    ):
        if same(field):
            return name
    known = cpu.socket is not None and other.socket is not None
    return "other socket" if known else "unplaced"


def pairs_by_class(part: CoreToCore, cpus: Sequence[HealthCpu]) -> dict[str, list[tuple[int, int]]]:
    """Return (row, column) of each measured pair by class, nearest class first."""
    places = {cpu.id: cpu for cpu in cpus}
    by_class: dict[str, list[tuple[int, int]]] = {name: [] for name in PAIR_CLASSES}
    for row, cpu in enumerate(part.cpus):
        for column in range(row + 1, len(part.cpus)):
            other = part.cpus[column]
            nowhere = cpu not in places or other not in places
            name = "unplaced" if nowhere else pair_class(places[cpu], places[other])
            if part.median_ns[row][column] is not None:
                by_class[name].append((row, column))
    return {name: pairs for name, pairs in by_class.items() if pairs}


def cache_level(working_set_bytes: int, caches: Sequence[HealthCache]) -> str:
    """Return the smallest cache that holds a working set, such as ``L2``, or ``memory``."""
    for cache in sorted(caches, key=lambda cache: cache.level):
        if working_set_bytes <= cache.size_bytes:
            return f"L{cache.level}"
    return "memory"


def figures(result: HealthResult) -> list[Figure]:
    """Return every figure of ``result``, those that could not be measured with their reason."""
    return [
        *_latency(result),
        *_bandwidth(result),
        *_core_to_core(result),
        *_disk(result),
        *_loopback(result),
    ]


def _figure(
    name: tuple[str, str], family: str, unit: str, estimate: Estimate | None, reason: str | None = None
) -> Figure:
    return Figure(
        id=name[0],
        name=name[1],
        family=family,
        unit=unit,
        better="lower" if unit == "ns" else "higher",
        value=None if estimate is None else estimate.median,
        low=None if estimate is None else estimate.low,
        high=None if estimate is None else estimate.high,
        reason=reason if estimate is None else None,
    )


def _latency(result: HealthResult) -> Iterator[Figure]:
    caches = result.machine.caches
    last = max((cache.level for cache in caches), default=0)
    for point in result.memory_latency.points if result.memory_latency else []:
        level = cache_level(point.working_set_bytes, caches)
        # Sets that just leave the last level are partly served by it, as the last level is by what shares it.
        family = {"memory": "latency-memory", f"L{last}": "latency-shared"}.get(level, "latency-core")
        name = f"latency of {size(point.working_set_bytes)} in {point.pages} pages ({level})"
        yield _figure(
            (f"latency.{point.pages}.{point.working_set_bytes}", name), family, "ns", point.latency_ns
        )


def _bandwidth(result: HealthResult) -> Iterator[Figure]:
    for row in result.memory_bandwidth.rows if result.memory_bandwidth else []:
        kernel = row.kernel.replace("_", " ")
        name = f"{kernel} bandwidth, CPUs of node {row.cpu_node}, memory of node {row.memory_node}"
        key = f"bandwidth.{row.kernel}.{row.cpu_node}.{row.memory_node}"
        yield _figure((key, name), "bandwidth", "bytes/s", row.rate_bytes_per_s, row.missing)


def _core_to_core(result: HealthResult) -> Iterator[Figure]:
    part = result.core_to_core
    if part is None:
        return
    for name, pairs in pairs_by_class(part, result.machine.cpus).items():

        def middle(matrix: list[list[float | None]], pairs: list[tuple[int, int]] = pairs) -> float:
            return statistics.median(
                value for row, column in pairs if (value := matrix[row][column]) is not None
            )

        yield Figure(
            id=f"core-to-core.{name.replace(' ', '-')}",
            name=f"core to core, {name} (median of {len(pairs)} pair{'s' if len(pairs) != 1 else ''})",
            family="core-to-core",
            unit="ns",
            better="lower",
            value=middle(part.median_ns),
            low=middle(part.low_ns),
            high=middle(part.high_ns),
        )


def _disk(result: HealthResult) -> Iterator[Figure]:
    part = result.disk
    if part is None:
        return
    # Figures of two engines are not alike: fio's version may change, what it does must not.
    engine = part.engine.partition("-")[0]
    for row in part.rows:
        key = f"disk.{engine}.{row.pattern}.{row.depth}"
        words = f"disk {row.pattern.replace('_', ' ')}, {size(row.block_bytes)}, depth {row.depth}"
        if row.pattern.startswith("sequential"):
            yield _figure((key, words), "disk", "bytes/s", row.rate_bytes_per_s, row.missing)
        elif row.depth == 1:
            yield _figure((f"{key}.p50", f"{words}, p50"), "disk", "ns", row.latency_p50_ns, row.missing)
        else:
            yield _figure((key, words), "disk", "1/s", row.operations_per_s, row.missing)


def _loopback(result: HealthResult) -> Iterator[Figure]:
    part = result.loopback
    if part is None:
        return
    yield _figure(("loopback.rate", "loopback TCP throughput"), "loopback", "bytes/s", part.rate_bytes_per_s)
    yield _figure(("loopback.p50", "loopback TCP round trip, p50"), "loopback", "ns", part.round_trip_p50_ns)
