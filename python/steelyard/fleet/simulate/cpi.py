"""The CPI of every task of a block in each window of a day.

    CPI = GEV draw of job and platform * SMT and frequency * load * NUMA * neighbours * episode

In: the plan, a block, a day, its load, locality and episodes. Out: CPI (reference cycles per instruction) by
task and window, float32.

The GEV is the published one for a web-search leaf job (FACTS: CPI2), others are like it. Reference cycles
tick at the nominal frequency, so that a lower effective frequency makes more of them per instruction. With
SMT, a thread whose sibling is busy runs at (1 + uplift) / 2 of its speed (the Industry document's CPI of 0.50
and 0.87).

Invariants: a task's draws depend on its block, day and window only, not on what else happens.
"""

from __future__ import annotations

import numpy as np

from steelyard.fleet.simulate.episodes import Episode
from steelyard.fleet.simulate.load import Load
from steelyard.fleet.simulate.locality import Locality
from steelyard.fleet.simulate.plan import Block, Floats, Plan, stream

_TINY_CPU = 0.25
"""Below this use (CPU-s/s) CPI becomes erratic; CPI2 leaves such samples out."""
LOAD_PIVOT = 0.42
"""The busy share at which ``load_effect`` changes nothing."""


def smt_factor(load: Load, smt_uplift_ratio: float) -> Floats:
    """Return by how much SMT stretches CPI: busy threads over what they get done."""
    if smt_uplift_ratio == 0.0:
        return np.ones_like(load.cpu_ratio)
    # Of cores: busy at all, and of these with both threads busy. Shares are of logical CPUs, two a core.
    both = np.maximum(2 * load.cpu_ratio - load.core_busy_ratio, 0)
    done = load.core_busy_ratio + np.float32(smt_uplift_ratio) * both
    return np.asarray((load.core_busy_ratio + both) / done, np.float32)


def gev_parameters(plan: Plan, platform: int) -> Floats:
    """Return location, scale and shape of every job's intrinsic CPI on a platform, one row a job."""
    rows = [
        (job.cpi.location * factor, job.cpi.scale * factor, job.cpi.shape)
        for job, factor in zip(plan.jobs, plan.cpi_factor[:, platform], strict=True)
    ]
    return np.array(rows, np.float32)


def neighbour_factor(plan: Plan, block: Block, machine_tasks: np.ndarray) -> Floats:
    """Return what a task's CPI is multiplied by for the jobs beside it."""
    tasks = slice(block.first_task, block.end_task)
    task_jobs = plan.task_job[tasks]
    present = np.zeros((len(block.machines), len(plan.jobs)), np.float32)
    present[machine_tasks, task_jobs] = 1.0
    stretch = np.log(plan.pair_factor)
    return np.asarray(np.exp((present[machine_tasks] * stretch[task_jobs]).sum(axis=1)), np.float32)


def add_episodes(cpi: Floats, block: Block, load: Load, episodes: list[Episode]) -> None:
    """Let victims' CPI rise in proportion to the antagonist's use; without one, by a pattern."""
    for episode in episodes:
        span = slice(episode.first, episode.end)
        shape = episode.pattern
        if episode.antagonist is not None:
            shape = load.cpu[episode.antagonist - block.first_task, span] / np.float32(episode.peak_cpu)
        for victim, slowdown in episode.victims:
            cpi[victim - block.first_task, span] *= 1 + np.float32(slowdown) * shape


def make_cpi(
    plan: Plan, block: Block, day: int, load: Load, locality: Locality, episodes: list[Episode]
) -> Floats:
    """Return the CPI of each task and window."""
    random = stream(plan.settings, "cpi", day, block.number)
    task_jobs = plan.task_job[block.first_task : block.end_task]
    jobs, platform = plan.jobs, plan.platforms[block.platform]
    location, scale, shape = (column[task_jobs][:, None] for column in gev_parameters(plan, block.platform).T)
    # X = location + scale * (1 - E^c) / c with E exponential is GEV(location, scale, c).
    cpi = random.standard_exponential(load.cpu.shape, np.float32)
    np.maximum(cpi, np.float32(1e-20), out=cpi)
    np.power(cpi, shape, out=cpi)
    np.subtract(np.float32(1.0), cpi, out=cpi)
    cpi *= scale / shape
    cpi += location

    def of_jobs(values: list[float]) -> Floats:
        return np.array(values, np.float32)[task_jobs][:, None]

    shared = smt_factor(load, platform.smt_uplift_ratio) / load.frequency_ratio
    effect = of_jobs([job.machine_effect for job in jobs])
    cpi *= 1 + effect * (shared - 1)[load.machine_tasks]
    effect = of_jobs([job.load_effect for job in jobs])
    cpi *= 1 + effect * (load.cpu_ratio - np.float32(LOAD_PIVOT))[load.machine_tasks]
    if platform.nodes > 1:
        effect = of_jobs([job.numa_effect for job in jobs])
        stretch = np.repeat(1 + effect * (1 - locality.score), plan.settings.slot_windows, axis=1)
        cpi *= stretch[:, : cpi.shape[1]]
    cpi *= neighbour_factor(plan, block, load.machine_tasks)[:, None]
    add_episodes(cpi, block, load, episodes)
    little = np.maximum(np.float32(_TINY_CPU) - load.cpu, 0) / np.float32(_TINY_CPU)
    tiny = np.nonzero(little)
    cpi[tiny] *= 1 + np.abs(random.standard_normal(len(tiny[0]), np.float32)) * little[tiny]
    return np.maximum(cpi, np.float32(0.15))
