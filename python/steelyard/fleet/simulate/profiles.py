"""Rows of ``profiles``: machine-minutes chosen at random, with the stacks that were sampled in them.

In: a block's day and the functions of jobs. Out: an Arrow table, sorted as compacted files are.

Each machine chooses its minutes alone, each with the same probability, as GWP's agents do. The samples of a
task in a minute are Poisson about rate times CPU time. How they fall on functions varies from minute to
minute: a function's share of a task-minute is its true share times a gamma variate of mean 1 and variance
1/`STEADINESS`. The variance of an estimated share is then known: that of the Poisson counts plus that of the
gamma factors, over machine-minutes.

Invariants: the expected share of a function is its true share of all CPU time of the fleet.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from steelyard.fleet.simulate.functions import JobFunctions
from steelyard.fleet.simulate.plan import stream
from steelyard.fleet.simulate.tasks import BlockDay
from steelyard.fleet.store.schema import TABLES

HZ = 99.0
EVENT = "cycles"
STEADINESS = 20.0


def profile_table(day: BlockDay, functions: list[JobFunctions]) -> tuple[pa.Table, np.ndarray]:
    """Return the rows of a block's day and the machine (of the block) of each."""
    plan, block, load = day.plan, day.block, day.load
    settings, platform = plan.settings, plan.platforms[block.platform]
    random = stream(settings, "profiles", day.day, block.number)
    chosen = random.random(load.cpu_ratio.shape) < settings.profiled_ratio
    task_jobs = plan.task_job[block.first_task : block.end_task]
    build = int(day.day >= settings.days / 2)
    parts: list[tuple[np.ndarray, ...]] = []
    stacks: list[str] = []
    names = plan.job_names(day.day)
    for job in sorted(range(len(names)), key=names.__getitem__):
        tasks = np.flatnonzero(task_jobs == job)
        row, window = np.nonzero(chosen[load.machine_tasks[tasks]])
        if not len(row):
            continue
        order = np.lexsort((row, window))
        task, window = tasks[row[order]], window[order]
        expected = HZ * settings.step_s * load.cpu[task, window].astype(np.float64)
        share = functions[job].share
        jitter = random.gamma(STEADINESS, 1 / STEADINESS, (len(task), len(share)))
        counts = random.poisson(expected[:, None] * share * jitter)
        event, function = np.nonzero(counts)
        parts.append((task[event], window[event], function + len(stacks), counts[event, function]))
        stacks += functions[job].stacks[build]
    empty = np.zeros(0, np.int64)
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)] if parts else [empty] * 4
    task, window, function, count = columns
    machine = load.machine_tasks[task]
    frequency = load.frequency_ratio[machine, window].astype(np.float64) * platform.nominal_hz
    rows = len(task)
    tasks = np.arange(block.first_task, block.end_task)

    def words(names: list[str], index: np.ndarray) -> pa.DictionaryArray:
        return pa.DictionaryArray.from_arrays(pa.array(index.astype(np.int32)), pa.array(names, pa.string()))

    table = {
        "machine": words([plan.machine_name(m) for m in block.machines.tolist()], machine),
        "platform": words([platform.name], np.zeros(rows)),
        "job": words(names, task_jobs[task]),
        "task": words([plan.task_name(t) for t in tasks.tolist()], task),
        "window_start_unix_s": pa.array(
            settings.day_start_s(day.day) + window.astype(np.int64) * settings.step_s
        ),
        "window_s": pa.array(np.full(rows, float(settings.step_s))),
        "event": words([EVENT], np.zeros(rows)),
        "hz": pa.array(np.full(rows, HZ)),
        "stack": words(stacks, function),
        "samples": pa.array(count.astype(np.int64)),
        "weight": pa.array(count * frequency / HZ),
        "sampled_ratio": pa.array(np.full(rows, settings.profiled_ratio)),
    }
    columns_in_order = TABLES["profiles"].arrow.names
    return pa.table([table[name] for name in columns_in_order], names=columns_in_order), machine
