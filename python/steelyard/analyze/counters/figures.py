"""Single figures from what counters say: IPC over time, traffic of memory controllers, the kernel's share.

In: `CounterUse`. Out: figures, or why there is none.
"""

from __future__ import annotations

import re

from steelyard.analyze.counters.events import CYCLES, INSTRUCTIONS, counts_of
from steelyard.analyze.counters.use import NOTHING, CounterUse
from steelyard.analyze.values import Quantity


def series_of_ipc(use: CounterUse) -> list[tuple[float, float]]:
    """Return the end of each window, s, and its IPC, where both counts are known; none for a total."""
    series = use.series
    if series is None or len(series.time_ns) < 2:
        return []
    points = []
    for begin_ns, end_ns in zip([series.begin_ns or 0, *series.time_ns[:-1]], series.time_ns, strict=True):
        counts = counts_of(series, begin_ns, end_ns)
        instructions, cycles = counts.first(INSTRUCTIONS)[1].value, counts.first(CYCLES)[1].value
        if instructions is not None and cycles:
            points.append((end_ns / 1e9, instructions / cycles))
    return points


_DRAM = re.compile(r"cas_count|uncore_imc|umc_data_slot|amd_df.*dram|unc_m_", re.IGNORECASE)
_READS = re.compile(r"\.rd|read|_rd", re.IGNORECASE)
_WRITES = re.compile(r"\.wr|write|_wr", re.IGNORECASE)


def dram_bytes_per_s(use: CounterUse) -> Quantity:
    """Return what memory controllers read and wrote, where both were counted and scaled (MiB) by perf."""
    series = use.series
    if series is None or not use.duration_s:
        return Quantity(None, "bytes/s", use.missing or "the time of the counts is not known")
    scaled = {
        name: sum(value or 0.0 for value in event.count) * (1 << 20)
        for name, event in series.events.items()
        if event.unit == "MiB" and _DRAM.search(name) and None not in event.count
    }
    reads = [value for name, value in scaled.items() if _READS.search(name)]
    writes = [value for name, value in scaled.items() if _WRITES.search(name)]
    if not reads or not writes:
        return Quantity(None, "bytes/s", "memory controllers' reads and writes were not both counted")
    return Quantity((sum(reads) + sum(writes)) / use.duration_s, "bytes/s")


def kernel_ratio(use: CounterUse) -> Quantity:
    """Return the kernel's share of the instructions, where they were counted by mode."""
    series = use.series
    if series is None:
        return Quantity(None, "ratio", use.missing or NOTHING)
    by_mode: dict[str, float] = {}
    for event, counted in series.events.items():
        name, _, mode = event.partition(":")
        if name.casefold() in INSTRUCTIONS and mode in ("", "u", "k") and None not in counted.count:
            by_mode[mode] = sum(value or 0.0 for value in counted.count)
    kernel, whole = by_mode.get("k"), by_mode.get("")
    if kernel is None and whole is not None and "u" in by_mode:
        kernel = max(0.0, whole - by_mode["u"])
    if whole is None and kernel is not None and "u" in by_mode:
        whole = kernel + by_mode["u"]
    if kernel is None or not whole:
        return Quantity(None, "ratio", "instructions were not counted by mode (instructions:k)")
    return Quantity(min(1.0, kernel / whole), "ratio")


def memory_traffic(use: CounterUse | None) -> Quantity | None:
    """Return bytes a second of the memory controllers, by formulas or as perf scaled them.

    None without counts.
    """
    if use is None or use.source is None:
        return None
    metric = use.metrics.get("memory_bytes_per_s")
    if metric is not None and metric.value is not None:
        return Quantity(metric.value, "bytes/s")
    return dram_bytes_per_s(use)
