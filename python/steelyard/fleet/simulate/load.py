"""How much CPU every task of a block uses in each window of a day, and what machines do under it.

In: the plan, a block, a day, the day's episodes. Out: `Load`: CPU use per task and window in CPU-s/s, and per
machine and window the busy share, the busy share of cores, and the frequency.

Latency-sensitive tasks follow the day and the week, out of phase between clusters, with slow noise of their
own; batch tasks switch between phases, so that innocent suspects come and go too. During an episode an
antagonist's use is its on-and-off pattern.

Invariants: a machine never uses more than 98 % of its logical CPUs; all arrays are float32 (task or machine,
window).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steelyard.fleet.simulate.catalog import LATENCY_SENSITIVE
from steelyard.fleet.simulate.episodes import Episode
from steelyard.fleet.simulate.plan import Block, Floats, Ints, Plan, stream

_FULL = 0.98
SYSTEM_CPU_RATIO = 0.01
"""CPU use outside of every task, as a share of the machine."""
HOT_HOURS = (12, 18)
"""Hours of a cluster's own day in which capped machines reach their power limit."""
CAPPED_FREQUENCY_RATIO = 0.80
"""Frequency under the power cap, as a share of the nominal one."""


@dataclass(frozen=True)
class Load:
    """CPU use of tasks (CPU-s/s), and per machine and window: busy share, cores, frequency over nominal."""

    cpu: Floats
    machine_tasks: Ints
    cpu_ratio: Floats
    core_busy_ratio: Floats
    frequency_ratio: Floats
    uncapped_frequency_ratio: Floats
    demand: Floats
    """The cluster's demand in each window around 1: what the world asks for."""


def hours(plan: Plan, block: Block, day: int) -> Floats:
    """Return the cluster's own time of day in hours, and so its phase, for each window."""
    windows = plan.settings.windows
    shift = 24.0 * block.cluster / max(1, len(plan.clusters)) * 0.4
    return np.asarray((np.arange(windows) * 24.0 / windows + shift) % 24.0, np.float32)


def demand(plan: Plan, block: Block, day: int) -> Floats:
    """Return what users ask for, around 1: highest at 15 h, less on the weekend."""
    week = 0.8 if plan.settings.date(day).weekday() >= 5 else 1.0
    return np.asarray(week * (1.0 + np.cos(2 * np.pi * (hours(plan, block, day) - 15.0) / 24.0)), np.float32)


def smooth_noise(random: np.random.Generator, rows: int, windows: int, knots: int) -> Floats:
    """Return standard normal knots joined by straight lines: slow noise, one row a task."""
    length = -(-windows // knots)
    values = random.standard_normal((rows, knots + 1), np.float32)
    slope = np.arange(length, dtype=np.float32) / np.float32(length)
    lines = values[:, :-1, None] * (1 - slope) + values[:, 1:, None] * slope
    return np.ascontiguousarray(lines.reshape(rows, knots * length)[:, :windows])


def _usage(plan: Plan, block: Block, day: int, demanded: Floats, random: np.random.Generator) -> Floats:
    tasks = slice(block.first_task, block.end_task)
    windows, count = plan.settings.windows, block.end_task - block.first_task
    task_jobs = plan.task_job[tasks]
    amplitude = np.array([job.diurnal for job in plan.jobs], np.float32)[task_jobs][:, None]
    steady = np.array([job.job_class == LATENCY_SENSITIVE for job in plan.jobs])[task_jobs]
    usage = 1.0 + amplitude * (demanded[None, :] - 1.0)
    usage *= np.exp(0.12 * smooth_noise(random, count, windows, 48))
    phases = smooth_noise(random, count, windows, 144)
    phases[steady] = 0.0
    # A batch task is in a busy phase or in a lean one; 10 minutes are between two of its knots.
    usage *= np.where(
        steady[:, None], np.float32(1.0), np.where(phases > 0, np.float32(1.55), np.float32(0.45))
    )
    usage *= 1.0 + 0.05 * random.standard_normal((count, windows), np.float32)
    usage *= plan.task_cpu[tasks][:, None]
    return np.maximum(usage, np.float32(0.004))


def core_busy(cpu_ratio: Floats, threads_per_core: int) -> Floats:
    """Return the share of cores with a busy thread: mostly, the scheduler fills idle cores first."""
    if threads_per_core == 1:
        return cpu_ratio
    at_best = np.minimum(np.float32(1.0), 2 * cpu_ratio)
    at_random = 1 - (1 - cpu_ratio) ** 2
    return np.asarray(0.85 * at_best + 0.15 * at_random, np.float32)


def make_load(
    plan: Plan, block: Block, day: int, episodes: list[Episode], caps: Floats | None = None
) -> Load:
    """Return the load of a block on a day. ``caps``: CPU-s/s that a guard allows, where it does."""
    platform = plan.platforms[block.platform]
    demanded = demand(plan, block, day)
    cpu = _usage(plan, block, day, demanded, stream(plan.settings, "load", day, block.number))
    for episode in episodes:
        if episode.antagonist is not None:
            row = episode.antagonist - block.first_task
            cpu[row, episode.first : episode.end] = episode.pattern * np.float32(episode.peak_cpu)
        if episode.bystander is not None:
            own = plan.task_cpu[episode.bystander]
            late = np.roll(episode.pattern, episode.lag)
            cpu[episode.bystander - block.first_task, episode.first : episode.end] = (0.3 + 1.5 * late) * own
    if caps is not None:
        np.minimum(cpu, caps, out=cpu)
    machine_tasks = plan.task_machine[block.first_task : block.end_task] - block.machines[0]
    starts = np.searchsorted(machine_tasks, np.arange(len(block.machines)))
    total = np.add.reduceat(cpu, starts, axis=0)
    room = np.float32((_FULL - SYSTEM_CPU_RATIO) * platform.threads)
    squeezed = np.minimum(np.float32(1.0), room / total)
    cpu *= squeezed[machine_tasks]
    ratio = np.asarray(total * squeezed / platform.threads + np.float32(SYSTEM_CPU_RATIO), np.float32)
    turbo = np.float32(platform.max_hz / platform.nominal_hz - 1.0)
    free = np.asarray(1.0 + turbo * (1.0 - ratio), np.float32)
    own = hours(plan, block, day)
    hot = (own >= HOT_HOURS[0]) & (own < HOT_HOURS[1])
    held = plan.machine_capped[block.machines][:, None] & hot[None, :]
    return Load(
        cpu=cpu,
        machine_tasks=machine_tasks,
        cpu_ratio=ratio,
        core_busy_ratio=core_busy(ratio, platform.threads_per_core),
        frequency_ratio=np.where(held, np.float32(CAPPED_FREQUENCY_RATIO), free).astype(np.float32),
        uncapped_frequency_ratio=free,
        demand=demanded,
    )
