"""Rows of ``machines`` and ``machine_samples``: the machines of a block, and what each did in every minute.

In: the plan and a block's day. Out: Arrow tables in the order of compacted files (by machine, then window).

A machine's window is the whole step, a task's the 10 s that are counted in it: use is taken to be the same in
both. Power grows with busy cores and their frequency; where it would pass the cap, frequency is lower,
and the time is reported as throttled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from steelyard.fleet.simulate.plan import Block, Floats, Plan, stream
from steelyard.fleet.simulate.settings import COUNTING_WINDOW_S
from steelyard.fleet.simulate.tasks import BlockDay
from steelyard.fleet.store.schema import TABLES

KERNEL = "6.1.0-21-amd64"
SYSTEM_CPI = 1.6
_CACHE_LINE_BYTES = 64
_WRITE_BACK_FACTOR = 1.35
_POWER_EXPONENT = 1.5
GUARDS = ("dry-run", "cap")


def machine_labels(plan: Plan, machine: int) -> list[tuple[str, str]]:
    """Return what a machine's agent is configured to do."""
    return [("guard", GUARDS[int(plan.machine_guard[machine])])]


def _in_order(table: str, columns: dict[str, Any]) -> pa.Table:
    schema = TABLES[table].arrow
    arrays = []
    for name in schema.names:
        column = columns[name]
        if not isinstance(column, pa.Array):
            column = pa.array(column, schema.field(name).type)
        arrays.append(column)
    return pa.table(arrays, names=schema.names)


def machine_table(plan: Plan, block: Block) -> pa.Table:
    """Return a row for each machine of a block."""
    platform, count = plan.platforms[block.platform], len(block.machines)
    same: dict[str, Any] = {
        "platform": platform.name,
        "seen_unix_s": plan.settings.day_start_s(0),
        "vendor": platform.vendor,
        "cpu_model": platform.cpu_model,
        "sockets": platform.sockets,
        "cores": platform.cores,
        "threads": platform.threads,
        "numa_nodes": platform.nodes,
        "smt_on": platform.threads_per_core > 1,
        "memory_bytes": platform.memory_bytes,
        "nominal_frequency_hz": platform.nominal_hz,
        "max_frequency_hz": platform.max_hz,
        "memory_bandwidth_limit_bytes_per_s": platform.memory_bandwidth_bytes_per_s,
        "disk_limit_bytes_per_s": platform.disk_bytes_per_s,
        "network_limit_bytes_per_s": platform.network_bytes_per_s,
        "node_distances": [float(d) for row in platform.distances for d in row],
        "kernel": KERNEL,
    }
    columns: dict[str, Any] = {name: [value] * count for name, value in same.items()}
    columns["machine"] = [plan.machine_name(machine) for machine in block.machines.tolist()]
    columns["labels"] = [machine_labels(plan, machine) for machine in block.machines.tolist()]
    return _in_order("machines", columns)


def _sum_tasks(day: BlockDay, values: Any) -> Floats:
    starts = np.searchsorted(day.load.machine_tasks, np.arange(len(day.block.machines)))
    return np.add.reduceat(np.asarray(values, np.float64), starts, axis=0)


def sample_table(day: BlockDay) -> pa.Table:
    """Return the rows of ``machine_samples`` of a block's day."""
    plan, block, load = day.plan, day.block, day.load
    settings, platform = plan.settings, plan.platforms[block.platform]
    random = stream(settings, "machines", day.day, block.number)
    count, windows = load.cpu_ratio.shape
    stretch = settings.step_s / COUNTING_WINDOW_S
    window_s = float(settings.step_s)
    cpu_s = np.round(load.cpu_ratio.astype(np.float64) * platform.threads * window_s, 6)
    system_s = np.maximum(cpu_s - stretch * _sum_tasks(day, day.counted.cpu_s), 0)
    frequency = load.frequency_ratio.astype(np.float64) * platform.nominal_hz
    throttled = load.frequency_ratio < load.uncapped_frequency_ratio
    instructions = (
        stretch * _sum_tasks(day, day.counted.instructions) + system_s * platform.nominal_hz / SYSTEM_CPI
    )
    busy_cores = load.core_busy_ratio.astype(np.float64)
    dynamic = (platform.peak_w - platform.idle_w) * (0.85 * busy_cores + 0.15 * load.cpu_ratio)
    power = platform.idle_w + dynamic * load.frequency_ratio.astype(np.float64) ** _POWER_EXPONENT
    power = np.minimum(power, platform.peak_w) * (1 + 0.01 * random.standard_normal(power.shape))
    capped = plan.machine_capped[block.machines]
    cap = platform.idle_w + 0.62 * (platform.peak_w - platform.idle_w)
    used = np.minimum(_sum_tasks(day, day.activity.memory), 0.93 * platform.memory_bytes)
    misses = _sum_tasks(day, day.activity.llc_misses) / COUNTING_WINDOW_S
    bandwidth = np.minimum(
        misses * _CACHE_LINE_BYTES * _WRITE_BACK_FACTOR, 0.95 * platform.memory_bandwidth_bytes_per_s
    )
    storage = _sum_tasks(day, day.activity.storage) / COUNTING_WINDOW_S
    disk_ratio = np.minimum(storage / platform.disk_bytes_per_s, 0.99)
    network = _sum_tasks(day, day.activity.network) / COUNTING_WINDOW_S
    waiting = (1 - load.cpu_ratio.astype(np.float64)) * platform.threads * window_s * 0.3 * disk_ratio**2
    rows = count * windows
    machines = np.repeat(np.arange(count, dtype=np.int32), windows)
    labels = pa.array(
        [machine_labels(plan, m) for m in block.machines.tolist()], pa.map_(pa.string(), pa.string())
    )
    names = pa.array([plan.machine_name(m) for m in block.machines.tolist()])
    slot = np.repeat(used, settings.slot_windows, axis=1)[:, :windows]
    columns: dict[str, Any] = {
        "machine": pa.DictionaryArray.from_arrays(pa.array(machines), names),
        "platform": pa.DictionaryArray.from_arrays(
            pa.array(np.zeros(rows, np.int32)), pa.array([platform.name])
        ),
        "window_start_unix_s": settings.day_start_s(day.day)
        + np.tile(np.arange(windows) * settings.step_s, count),
        "window_s": np.full(rows, window_s),
        "threads": np.full(rows, platform.threads),
        "cores": np.full(rows, platform.cores),
        "cpu_s": cpu_s.ravel(),
        "core_busy_s": np.round(busy_cores * platform.cores * window_s, 6).ravel(),
        "core_cycles": (cpu_s * frequency).astype(np.int64).ravel(),
        "reference_cycles": (cpu_s * platform.nominal_hz).astype(np.int64).ravel(),
        "instructions": instructions.astype(np.int64).ravel(),
        "frequency_hz": frequency.ravel(),
        "power_w": np.round(np.where(throttled, np.minimum(power, cap), power), 2).ravel(),
        "power_cap_w": pa.array(np.full(rows, cap), mask=np.repeat(~capped, windows)),
        "throttled_s": np.where(throttled, window_s, 0.0).ravel(),
        "steal_s": np.zeros(rows),
        "memory_used_bytes": slot.astype(np.int64).ravel(),
        "memory_bandwidth_bytes_per_s": np.rint(bandwidth).ravel(),
        "disk_busy_s": np.round(disk_ratio * window_s, 3).ravel(),
        "disk_read_bytes": (0.6 * storage * window_s).astype(np.int64).ravel(),
        "disk_write_bytes": (0.4 * storage * window_s).astype(np.int64).ravel(),
        "io_wait_s": np.round(waiting, 3).ravel(),
        "network_receive_bytes": (0.5 * network * window_s).astype(np.int64).ravel(),
        "network_send_bytes": (0.5 * network * window_s).astype(np.int64).ravel(),
        "labels": labels.take(pa.array(machines)),
    }
    return _in_order("machine_samples", columns)
