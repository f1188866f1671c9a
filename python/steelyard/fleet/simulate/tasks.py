"""Rows of ``task_samples``: what agents would have written of a block's day.

In: everything computed of the block (`BlockDay`), and in which order its tasks stand. Out: an Arrow table
with the store's columns, sorted as the store asks (by machine and window for raw files, by job and window for
compacted ones), and where each group of tasks begins in it.

Invariants: ``cpi`` is ``reference_cycles`` over ``instructions`` exactly; both orders have the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from steelyard.fleet.simulate.activity import Activity
from steelyard.fleet.simulate.load import Load
from steelyard.fleet.simulate.locality import Locality
from steelyard.fleet.simulate.plan import Block, Floats, Ints, Plan
from steelyard.fleet.simulate.rollouts import GROUP_LABEL, LABEL, VALUES, Assignment, by_window, rollout_of
from steelyard.fleet.simulate.settings import COUNTING_WINDOW_S
from steelyard.fleet.store.schema import TABLES

CPI_SOURCE = "cycles/instructions"


@dataclass(frozen=True)
class Counted:
    """Counts of a 10 s window, by task and window: seconds, reference cycles, instructions."""

    cpu_s: NDArray[np.float64]
    cycles: NDArray[np.int64]
    instructions: NDArray[np.int64]


@dataclass(frozen=True)
class BlockDay:
    """A block's day, computed."""

    plan: Plan
    block: Block
    day: int
    load: Load
    locality: Locality
    assignment: Assignment
    cpi: Floats
    counted: Counted
    activity: Activity


class Rows:
    """Lays arrays by task and window out as columns, groups of tasks (of the block) one by one."""

    def __init__(self, groups: list[Ints], windows: int) -> None:
        self.groups = groups
        self.windows = windows
        self.task = np.concatenate([np.tile(group, windows) for group in groups])
        self.window = np.concatenate([np.repeat(np.arange(windows), len(group)) for group in groups])
        self.starts = np.cumsum([0, *(len(group) * windows for group in groups)])

    def lay(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return an array by task and window, or by task and slot, as one column."""
        if values.shape[1] != self.windows:
            values = np.repeat(values, -(-self.windows // values.shape[1]), axis=1)[:, : self.windows]
        return np.concatenate([values[group].T.ravel() for group in self.groups])

    def lay_nodes(self, values: NDArray[Any]) -> pa.ListArray:
        """Return an array by task, window and node as a column of lists."""
        nodes = values.shape[2]
        flat = np.concatenate([values[group].transpose(1, 0, 2).ravel() for group in self.groups])
        offsets = np.arange(0, len(flat) + 1, nodes, dtype=np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(flat))

    def words(self, names: list[str], of_task: NDArray[Any]) -> pa.DictionaryArray:
        """Return a word of each task as a column."""
        return pa.DictionaryArray.from_arrays(pa.array(of_task[self.task].astype(np.int32)), pa.array(names))


def _nullable(values: NDArray[Any]) -> pa.Array:
    """Return doubles, with null for NaN."""
    wide = values.astype(np.float64)
    return pa.array(wide, mask=np.isnan(wide))


def _labels(day: BlockDay, rows: Rows) -> pa.MapArray:
    """Return the labels of every row: two for a task with a rollout, none for others."""
    plan = day.plan
    task_jobs = plan.task_job[day.block.first_task : day.block.end_task]
    values = np.full_like(day.assignment.cell, -1)
    words: list[str] = []
    for number, job in enumerate(plan.jobs):
        rollout, chosen = rollout_of(job), task_jobs == number
        if rollout is None:
            continue
        values[chosen] = day.assignment.cell[chosen] + len(words) // 2
        for cell in rollout.cells:
            words += [VALUES[cell.value], cell.group]
    served = rows.lay(by_window(values, rows.windows))
    here = np.flatnonzero(served >= 0)
    offsets = np.concatenate([[0], np.cumsum(2 * (served >= 0))]).astype(np.int32)
    indices = np.empty(2 * len(here), np.int64)
    indices[0::2], indices[1::2] = 2 * served[here], 2 * served[here] + 1
    keys = pa.array([LABEL, GROUP_LABEL]).take(pa.array(np.tile([0, 1], len(here))))
    items = pa.array(words, pa.string()).take(pa.array(indices))
    return pa.MapArray.from_arrays(pa.array(offsets), keys, items)


def task_table(day: BlockDay, groups: list[Ints]) -> tuple[pa.Table, Ints]:
    """Return the rows of a block's day, its groups one after the other, and where each begins."""
    plan, block, load = day.plan, day.block, day.load
    rows = Rows(groups, plan.settings.windows)
    tasks = np.arange(block.first_task, block.end_task)
    task_jobs = plan.task_job[tasks]
    classes = sorted({job.job_class for job in plan.jobs})
    class_of = np.array([classes.index(job.job_class) for job in plan.jobs])
    count = len(rows.task)
    zeros = np.zeros(len(tasks), np.int64)
    cpu_s = day.counted.cpu_s
    share = np.repeat(day.locality.cpu_share, plan.settings.slot_windows, axis=1)[:, : cpu_s.shape[1]]
    pages = np.repeat(day.activity.pages, plan.settings.slot_windows, axis=1)[:, : cpu_s.shape[1]]
    cycles, instructions = rows.lay(day.counted.cycles), rows.lay(day.counted.instructions)
    times = plan.settings.day_start_s(day.day) + rows.window * plan.settings.step_s
    columns = {
        "machine": rows.words([plan.machine_name(m) for m in block.machines.tolist()], load.machine_tasks),
        "platform": rows.words([plan.platforms[block.platform].name], zeros),
        "job": rows.words(plan.job_names(day.day), task_jobs),
        "task": rows.words([plan.task_name(task) for task in tasks.tolist()], tasks - block.first_task),
        "job_class": rows.words(classes, class_of[task_jobs]),
        "window_start_unix_s": pa.array(times.astype(np.int64)),
        "window_s": pa.array(np.full(count, COUNTING_WINDOW_S)),
        "cpu_s": pa.array(rows.lay(cpu_s)),
        "reference_cycles": pa.array(cycles),
        "instructions": pa.array(instructions),
        "cpi": pa.array(cycles / instructions),
        "cpi_source": rows.words([CPI_SOURCE], zeros),
        "llc_misses": pa.array(rows.lay(day.activity.llc_misses)),
        "context_switches": pa.array(rows.lay(day.activity.context_switches)),
        "page_faults": pa.array(rows.lay(day.activity.page_faults)),
        "memory_bytes": pa.array(rows.lay(day.activity.memory).astype(np.float64)),
        "storage_bytes": pa.array(rows.lay(day.activity.storage).astype(np.float64)),
        "network_bytes": pa.array(rows.lay(day.activity.network).astype(np.float64)),
        "cpu_s_per_node": rows.lay_nodes(cpu_s[..., None] * share),
        "pages_per_node": rows.lay_nodes(pages),
        "numa_score": pa.array(rows.lay(day.locality.score).astype(np.float64)),
        "operations": _nullable(rows.lay(day.activity.operations)),
        "latency_mean_s": _nullable(rows.lay(day.activity.latency_mean)),
        "latency_p99_s": _nullable(rows.lay(day.activity.latency_p99)),
        "machine_cpu_ratio": pa.array(rows.lay(load.cpu_ratio[load.machine_tasks]).astype(np.float64)),
        "labels": _labels(day, rows),
    }
    names = [column.name for column in TABLES["task_samples"].columns]
    return pa.table([columns[name] for name in names], names=names), rows.starts
