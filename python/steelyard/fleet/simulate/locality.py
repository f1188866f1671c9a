"""Where a block's tasks run and where their memory lies: shares of CPU time and pages per NUMA node, and the
score.

In: the plan, a block, a day, its load. Out: `Locality`, by task and slot of 5 minutes.

Memory is placed by one of three policies: at home (where the task runs), interleaved, or left behind on
another node after a restart. How many tasks have which drifts over days, as in Figure 2 of the NUMA paper,
where within weeks all samples of a job went from remote to local and back. Tasks of jobs that ``migrate``
have their pages moved home while the machine is busy. That ties their score to load, which raises CPI too:
the raw correlation then hides most of the effect, and strata of load bring it out.

Score = sum_ij C[i] * M[j] * D(i,i) / D(i,j) (NUMA paper, equation 1).

Invariants: shares of CPU time and of pages sum to 1 over nodes; a machine of one node has score 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steelyard.fleet.simulate.load import Load
from steelyard.fleet.simulate.plan import Block, Floats, Plan, stream

DRIFT_DAYS = 14
"""Days in which placement goes from mostly remote to mostly local and back."""
_MIGRATION_FROM, _MIGRATION_SLOPE = 0.25, 2.2


@dataclass(frozen=True)
class Locality:
    """Shares per task, slot and node, and the score per task and slot."""

    cpu_share: Floats
    page_share: Floats
    score: Floats


def local_ratio(plan: Plan, cluster: int, day: int) -> float:
    """Return the share of a cluster's tasks whose memory is placed at home on that day."""
    phase = 2 * np.pi * (day + 3.0 + 2.0 * cluster) / DRIFT_DAYS
    return float(0.5 - 0.42 * np.cos(phase))


def numa_score(cpu_share: Floats, page_share: Floats, distances: tuple[tuple[int, ...], ...]) -> Floats:
    """Return the CPU-memory locality score over the last axis (equation 1)."""
    score = np.zeros(cpu_share.shape[:-1], np.float32)
    for i, row in enumerate(distances):
        for j, distance in enumerate(row):
            score += cpu_share[..., i] * page_share[..., j] * np.float32(row[i] / distance)
    return score


def _homes(
    random: np.random.Generator, count: int, nodes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    home = random.integers(0, nodes, count)
    away = (home + random.integers(1, nodes, count)) % nodes
    return home, away


def make_locality(plan: Plan, block: Block, day: int, load: Load) -> Locality:
    """Return where a block's tasks and their pages are on a day."""
    settings = plan.settings
    platform = plan.platforms[block.platform]
    nodes, count = platform.nodes, block.end_task - block.first_task
    slots = -(-settings.windows // settings.slot_windows)
    if nodes == 1:
        ones = np.ones((count, slots, 1), np.float32)
        return Locality(ones, ones, np.ones((count, slots), np.float32))
    # Homes stay for the whole simulation; what a restart changes is drawn for the day.
    home, away = _homes(stream(settings, "locality", block.number), count, nodes)
    random = stream(settings, "days", day, block.number)
    policy = random.random(count)
    local = local_ratio(plan, block.cluster, day)
    left_behind = policy > local + (1 - local) * 0.45
    spread = (policy > local) & ~left_behind
    eye = np.eye(nodes, dtype=np.float32)
    even = np.float32(1.0 / nodes)

    # Threads stay mostly at home; how much, varies by task and over the day.
    stays = np.clip(random.normal(0.86, 0.10, (count, 1)) + random.normal(0, 0.04, (count, slots)), 0.4, 1.0)
    kept = stays.astype(np.float32)[..., None]
    cpu_share = np.asarray(kept * eye[home][:, None, :] + (1 - kept) * even, np.float32)
    placed = np.where(left_behind[:, None], eye[away], eye[home]).astype(np.float32)
    placed[spread] = even
    loose = random.uniform(0.0, 0.25, count).astype(np.float32)[:, None]
    placed = np.asarray((1 - loose) * placed + loose * even, np.float32)

    busy = load.cpu_ratio[:, :: settings.slot_windows][load.machine_tasks]
    migrates = np.array([job.migrates for job in plan.jobs])[plan.task_job[block.first_task : block.end_task]]
    moved = np.clip(_MIGRATION_SLOPE * (busy - _MIGRATION_FROM), 0.0, 0.95) * migrates[:, None]
    moved = moved.astype(np.float32)[..., None]
    page_share = np.asarray((1 - moved) * placed[:, None, :] + moved * eye[home][:, None, :], np.float32)
    return Locality(cpu_share, page_share, numa_score(cpu_share, page_share, platform.distances))
