"""Rollouts of a configuration: a misleading one, an honest one, and one whose samples do not arrive as
planned.

In: the plan, a block, a day. Out: per task and turn (10 minutes) which configuration and group it serves
(`Assignment`), and by how much that stretches its path length and memory.

The misleading one has the groups of FACTS section 2 (Industry document): their resource usage effectiveness,
and their shares of each configuration's work. The candidate is worse in every group, and better in total,
because it mostly serves the cheap ones. Only its share of all work is not the published 1 %, which a small
fleet cannot show.

Invariants: each task's shares of a day are the rollout's but for rounding; CPI takes no part, since all of it
is path length, so that specs of CPI stay what they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.fleet.simulate.catalog import Job
from steelyard.fleet.simulate.plan import Block, Floats, Plan, stream

LABEL, GROUP_LABEL = "config", "tenant"
VALUES = ("stock", "candidate")


@dataclass(frozen=True)
class Cell:
    """A configuration (0 stock, 1 candidate) and group: its share of all work, and cost of an operation."""

    value: int
    group: str
    work_ratio: float
    path_factor: float
    memory_factor: float = 1.0


@dataclass(frozen=True)
class Rollout:
    """What kind it is, its cells, and the share of candidate samples that was intended."""

    kind: str
    cells: tuple[Cell, ...]
    intended_ratio: float
    lost_ratio: float = 0.0
    """Share of candidate samples that fall back to stock in busy hours, at the busiest."""


_CANDIDATE = 0.2
_REFERENCE_RUE = 428.0


def _published(value: int, total: float, rows: tuple[tuple[str, float, float], ...]) -> tuple[Cell, ...]:
    shares = sum(share for _, share, _ in rows)
    return tuple(
        Cell(value, group, total * share / shares, rue / _REFERENCE_RUE) for group, share, rue in rows
    )


def _even(kind: str, speedup: float, *, memory: float = 1.0, lost: float = 0.0) -> Rollout:
    groups = (("small", 0.5, 1.0), ("medium", 0.3, 1.4), ("large", 0.2, 2.5))
    cells = tuple(
        Cell(
            value,
            group,
            0.5 * share,
            path / (speedup if value else 1.0),
            memory if value else 1.0,
        )
        for value in (0, 1)
        for group, share, path in groups
    )
    return Rollout(kind, cells, 0.5, lost)


ROLLOUTS = {
    "misleading": Rollout(
        "misleading",
        _published(0, 1 - _CANDIDATE, (("large", 50.10, 1289), ("small", 31.50, 428), ("medium", 17.40, 550)))
        + _published(1, _CANDIDATE, (("large", 0.30, 1484), ("small", 0.40, 434), ("medium", 0.30, 655))),
        _CANDIDATE,
    ),
    "honest": _even("honest", 1.08, memory=0.95),
    "sample-ratio-mismatch": _even("sample-ratio-mismatch", 1.0, lost=0.6),
}


@dataclass(frozen=True)
class Assignment:
    """The cell of each task of a block in each turn (-1: none), and what it stretches."""

    cell: NDArray[np.int64]
    path_factor: Floats
    memory_factor: Floats


def row_shares(rollout: Rollout) -> NDArray[np.float64]:
    """Return each cell's share of CPU time, which is its share of rows: work times cost."""
    cost = np.array([cell.work_ratio * cell.path_factor for cell in rollout.cells])
    return np.asarray(cost / cost.sum())


def rollout_of(job: Job) -> Rollout | None:
    """Return the job's rollout, if it has one."""
    return ROLLOUTS[job.rollout] if job.rollout else None


def turns(windows: int) -> int:
    """Return how many turns a day has: one every 10 minutes where windows allow it."""
    return 144 if windows % 144 == 0 else 24


def _draw(
    random: np.random.Generator, shares: NDArray[np.float64], rows: int, count: int
) -> NDArray[np.int64]:
    """Return cells for each row's turns in random order: each row has its shares as nearly as it can."""
    places = (np.arange(count) + random.random((rows, 1))) / count
    cells = np.minimum(np.searchsorted(np.cumsum(shares), places), len(shares) - 1)
    return np.take_along_axis(cells, np.argsort(random.random((rows, count)), axis=1), axis=1)


def assign(plan: Plan, block: Block, day: int, demand: Floats) -> Assignment:
    """Return who serves what in each turn of a block's day."""
    random = stream(plan.settings, "rollouts", day, block.number)
    count = turns(plan.settings.windows)
    task_jobs = plan.task_job[block.first_task : block.end_task]
    cell = np.full((len(task_jobs), count), -1, np.int64)
    path = np.ones((len(task_jobs), count), np.float32)
    memory = np.ones((len(task_jobs), count), np.float32)
    busy = demand.reshape(count, -1).mean(axis=1)
    for number, job in enumerate(plan.jobs):
        rollout, rows = rollout_of(job), np.flatnonzero(task_jobs == number)
        if rollout is None or not len(rows):
            continue
        chosen = _draw(random, row_shares(rollout), len(rows), count)
        values = np.array([item.value for item in rollout.cells])
        falls = random.random(chosen.shape) < rollout.lost_ratio * np.clip(busy - 0.5, 0, 1)
        # The same group's stock stands half the list before its candidate.
        chosen = np.where(falls & (values[chosen] == 1), chosen - len(values) // 2, chosen)
        cell[rows] = chosen
        path[rows] = np.array([item.path_factor for item in rollout.cells], np.float32)[chosen]
        memory[rows] = np.array([item.memory_factor for item in rollout.cells], np.float32)[chosen]
    return Assignment(cell, path, memory)


def by_window(values: NDArray[Any], windows: int) -> NDArray[Any]:
    """Return values of turns for each window of the day."""
    return np.repeat(values, windows // values.shape[1], axis=1)
