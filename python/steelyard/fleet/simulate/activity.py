"""What tasks did besides using CPU: operations, latency, misses, switches, faults, memory, storage, network.

In: the plan, a block, a day, CPI and instructions. Out: `Activity`: arrays by task and window (memory and
pages by slot). NaN stands for what a job does not export.

Operations are instructions over path length for most jobs, with a little noise: throughput per CPU-second
then follows 1/CPI with a correlation near the published 0.97 (CPI2). Jobs that do not follow wait and spin:
their operations are what users ask for, whatever their instructions. Latency grows with CPI and with the
machine's load, under wide noise, as in Figures 7 and 8 of the NUMA paper.

Not here: rows and files (``tasks``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steelyard.fleet.simulate.load import Load, smooth_noise
from steelyard.fleet.simulate.locality import Locality
from steelyard.fleet.simulate.plan import Block, Floats, Plan
from steelyard.fleet.simulate.rollouts import Assignment, by_window
from steelyard.fleet.simulate.settings import COUNTING_WINDOW_S

PAGE_BYTES = 4096
_OPERATION_NOISE = 0.022
"""Beside a coefficient of variation of CPI near 0.09 this gives a correlation near 0.97."""


@dataclass(frozen=True)
class Activity:
    """Arrays by task and window; ``memory`` and ``pages`` by task and slot of 5 minutes."""

    operations: Floats
    latency_mean: Floats
    latency_p99: Floats
    llc_misses: NDArray[np.int64]
    context_switches: NDArray[np.int64]
    page_faults: NDArray[np.int64]
    storage: Floats
    network: Floats
    memory: Floats
    pages: NDArray[np.int64]


def _about(random: np.random.Generator, values: Floats, sd: float) -> Floats:
    """Return values with normal noise of a relative ``sd``, never below a tenth of them."""
    noise = random.standard_normal(values.shape, np.float32)
    noise *= np.float32(sd)
    noise += 1
    np.maximum(noise, np.float32(0.1), out=noise)
    noise *= values
    return noise


def _operations(
    plan: Plan,
    load: Load,
    instructions: Floats,
    jobs: NDArray[np.int64],
    path: Floats,
    random: np.random.Generator,
) -> Floats:
    windows = instructions.shape[1]
    length = np.array([job.path_length for job in plan.jobs])[jobs]
    operations = _about(random, instructions / path, _OPERATION_NOISE)
    operations /= length.astype(np.float32)[:, None]
    spread = np.array([job.mix_sd for job in plan.jobs], np.float32)[jobs]
    mixed = np.flatnonzero(spread)
    if len(mixed):
        noise = smooth_noise(random, len(mixed), windows, 48)
        operations[mixed] /= np.exp(spread[mixed][:, None] * noise)
    alone = np.flatnonzero(~np.array([job.follows_throughput for job in plan.jobs])[jobs])
    if len(alone):
        mean = operations[alone].mean(axis=1, keepdims=True) * load.demand
        operations[alone] = mean * np.exp(np.float32(0.3) * random.standard_normal(mean.shape, np.float32))
    np.rint(operations, out=operations)
    operations[~np.array([job.exports_operations for job in plan.jobs])[jobs]] = np.nan
    return operations


def _latency(
    plan: Plan, load: Load, cpi: Floats, jobs: NDArray[np.int64], random: np.random.Generator
) -> tuple[Floats, Floats]:
    windows = cpi.shape[1]
    service = np.array([np.nan if job.service_s is None else job.service_s for job in plan.jobs], np.float32)[
        jobs
    ]
    stretched = cpi / cpi.mean(axis=1, keepdims=True)
    alone = ~np.array([job.follows_throughput for job in plan.jobs])[jobs]
    stretched[alone] = 1.0
    queue = 1 / (1 - np.float32(0.75) * load.cpu_ratio)
    mean = stretched * queue[load.machine_tasks]
    mean *= np.exp(np.float32(0.25) * smooth_noise(random, len(jobs), windows, 48))
    mean = _about(random, mean, 0.12)
    mean *= service[:, None]
    return mean, _about(random, np.float32(3.2) * mean, 0.15)


def make_activity(
    plan: Plan,
    block: Block,
    load: Load,
    locality: Locality,
    assignment: Assignment,
    cpi: Floats,
    instructions: Floats,
    random: np.random.Generator,
) -> Activity:
    """Return what a block's tasks did on a day."""
    jobs = plan.task_job[block.first_task : block.end_task]
    windows = cpi.shape[1]

    def each(name: str) -> Floats:
        return np.array([getattr(job, name) for job in plan.jobs], np.float32)[jobs][:, None]

    path = by_window(assignment.path_factor, windows)
    operations = _operations(plan, load, instructions, jobs, path, random)
    latency_mean, latency_p99 = _latency(plan, load, cpi, jobs, random)
    cpu_s = np.asarray(load.cpu * np.float32(COUNTING_WINDOW_S), np.float32)
    slots = locality.score.shape[1]
    size = np.exp(0.2 * random.standard_normal((len(jobs), 1))).astype(np.float32)
    memory = (
        each("memory_bytes") * size * np.exp(np.float32(0.04) * smooth_noise(random, len(jobs), slots, 24))
    )
    turn_of_slot = np.arange(slots) * assignment.memory_factor.shape[1] // slots
    memory *= assignment.memory_factor[:, turn_of_slot]
    # Servers wait for requests, batch jobs for little.
    switches = np.where(each("diurnal") > 0, 2400, 250).astype(np.float32)
    return Activity(
        operations=operations,
        latency_mean=latency_mean,
        latency_p99=latency_p99,
        llc_misses=_about(random, instructions * (each("mpki") / np.float32(1000)), 0.12).astype(np.int64),
        context_switches=_about(random, cpu_s * switches, 0.2).astype(np.int64),
        page_faults=_about(random, cpu_s * np.float32(40), 0.4).astype(np.int64),
        storage=np.rint(_about(random, cpu_s * each("storage_bytes_per_cpu_s"), 0.25)),
        network=np.rint(_about(random, cpu_s * each("network_bytes_per_cpu_s"), 0.2)),
        memory=memory,
        pages=(memory[..., None] * locality.page_share / PAGE_BYTES).astype(np.int64),
    )
