"""What truly was, added up while it is generated: per job and platform, per rollout cell, per job's CPU time.

In: block days, in any order of completion but merged in the order of days and blocks. Out: `Tally`, whose
sums the truth document is written from.

Invariants: merging in a fixed order gives the same figures to the last bit, whatever thread was first. Faults
are put in afterwards and take no part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from steelyard.fleet.simulate.rollouts import by_window, rollout_of
from steelyard.fleet.simulate.settings import COUNTING_WINDOW_S
from steelyard.fleet.simulate.tasks import BlockDay

LEAST_CPU = 0.25
"""CPI2 leaves out samples of less CPU use than this (CPU-s/s)."""


@dataclass
class Moments:
    """Count, mean and sum of squared deviations, which merge without loss (Chan, Golub and LeVeque)."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Moments:
        """Return the moments of values."""
        if not len(values):
            return cls()
        mean = float(values.mean())
        return cls(len(values), mean, float(((values - mean) ** 2).sum()))

    def add(self, other: Moments) -> None:
        """Take in the values of another."""
        count = self.count + other.count
        if not other.count:
            return
        step = other.mean - self.mean
        self.squares += other.squares + step * step * self.count * other.count / count
        self.mean += step * other.count / count
        self.count = count

    @property
    def sd(self) -> float | None:
        """The sample standard deviation, None below two values."""
        return float(np.sqrt(self.squares / (self.count - 1))) if self.count > 1 else None


@dataclass
class Correlation:
    """Sums from which the correlation of two series follows."""

    sums: NDArray[np.float64] = field(default_factory=lambda: np.zeros(6))

    def add(self, x: NDArray[np.float64], y: NDArray[np.float64]) -> None:
        """Take in pairs."""
        self.sums += [len(x), x.sum(), y.sum(), (x * x).sum(), (y * y).sum(), (x * y).sum()]

    @property
    def value(self) -> float | None:
        """Pearson's correlation, None where a series does not vary."""
        n, x, y, xx, yy, xy = self.sums
        spread = (n * xx - x * x) * (n * yy - y * y)
        return float((n * xy - x * y) / np.sqrt(spread)) if n > 1 and spread > 0 else None


@dataclass
class JobTally:
    """Sums of one job on one platform. ``days``: moments of usable CPI, one a day.

    ``day_cpu``: CPU-s/s of usable samples, summed; ``day_tasks``: tasks with 100 of them.
    """

    cpi: Moments = field(default_factory=Moments)
    usable: Moments = field(default_factory=Moments)
    days: dict[int, Moments] = field(default_factory=dict)
    day_cpu: dict[int, float] = field(default_factory=dict)
    day_tasks: dict[int, int] = field(default_factory=dict)
    cpu_s: float = 0.0
    cycles: float = 0.0
    throughput: Correlation = field(default_factory=Correlation)
    rates: Correlation = field(default_factory=Correlation)


CELL_SUMS = ("cpu_s", "operations", "memory_bytes_s", "storage_bytes", "network_bytes", "rows")


@dataclass
class Tally:
    """Sums by (job, platform) and by (job, cell)."""

    jobs: dict[tuple[int, int], JobTally] = field(default_factory=dict)
    cells: dict[tuple[int, int], NDArray[np.float64]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)

    def written(self, table: str, rows: int, size_bytes: int) -> None:
        """Count a file."""
        self.rows[table] = self.rows.get(table, 0) + rows
        self.bytes[table] = self.bytes.get(table, 0) + size_bytes
        self.files[table] = self.files.get(table, 0) + 1


def job_rows(day: BlockDay) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield each job of a block with its tasks (of the block)."""
    task_jobs = day.plan.task_job[day.block.first_task : day.block.end_task]
    for job in range(len(day.plan.jobs)):
        tasks = np.flatnonzero(task_jobs == job)
        if len(tasks):
            yield job, tasks


def add_block(tally: Tally, day: BlockDay) -> None:
    """Add a block's day. One thread at a time, in the order of days and blocks."""
    step = day.plan.settings.step_s
    nominal = day.plan.platforms[day.block.platform].nominal_hz
    for job, tasks in job_rows(day):
        item = tally.jobs.setdefault((job, day.block.platform), JobTally())
        cpu = day.counted.cpu_s[tasks]
        cpi = day.counted.cycles[tasks] / day.counted.instructions[tasks]
        usable = cpu >= LEAST_CPU * COUNTING_WINDOW_S
        item.cpi.add(Moments.of(cpi.ravel()))
        today = Moments.of(cpi[usable])
        item.usable.add(today)
        item.days.setdefault(day.day, Moments()).add(today)
        used = float(cpu[usable].sum()) / COUNTING_WINDOW_S
        item.day_cpu[day.day] = item.day_cpu.get(day.day, 0.0) + used
        item.day_tasks[day.day] = item.day_tasks.get(day.day, 0) + int((usable.sum(axis=1) >= 100).sum())
        frequency = day.load.frequency_ratio[day.load.machine_tasks[tasks]].astype(np.float64) * nominal
        scale = step / COUNTING_WINDOW_S
        item.cpu_s += float(cpu.sum()) * scale
        item.cycles += float((cpu * frequency).sum()) * scale
        operations = day.activity.operations[tasks].astype(np.float64)
        if np.isfinite(operations[0, 0]):
            item.throughput.add((1 / cpi).ravel(), (operations / cpu).ravel())
            item.rates.add((day.counted.instructions[tasks] / 1e9).ravel(), operations.ravel())
        if rollout_of(day.plan.jobs[job]) is not None:
            _add_cells(tally, day, job, tasks, cpu, operations)


def _add_cells(
    tally: Tally,
    day: BlockDay,
    job: int,
    tasks: NDArray[np.int64],
    cpu: NDArray[np.float64],
    operations: NDArray[np.float64],
) -> None:
    windows = cpu.shape[1]
    cell = by_window(day.assignment.cell[tasks], windows)
    memory = np.repeat(day.activity.memory[tasks], day.plan.settings.slot_windows, axis=1)[:, :windows]
    figures = (
        cpu,
        operations,
        memory.astype(np.float64) * COUNTING_WINDOW_S,
        day.activity.storage[tasks].astype(np.float64),
        day.activity.network[tasks].astype(np.float64),
        np.ones_like(cpu),
    )
    for number in np.unique(cell).tolist():
        inside = cell == number
        sums = np.array([float(values[inside].sum()) for values in figures])
        tally.cells[(job, number)] = tally.cells.get((job, number), np.zeros(len(sums))) + sums
