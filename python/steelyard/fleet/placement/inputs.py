"""What the placement program is made of: work, cycles and tasks of each job on each platform, and capacities.

In: task samples and machine samples. Out: Ibis expressions (`loads`, `capacities`), and their answers as
matrices of platforms by jobs, in units a second (`Fleet`).

CPI is cycles over instructions, or, where asked for, another cost over another work: CPU-s for instructions
or operations. Samples count windows, 10 s of each minute say; how much time one window stands for is measured
from tasks that have several.

Invariants: a job that was never seen on a platform has no CPI there. Samples without both figures are work
that is there but cannot be placed: it is counted by its CPU time, and keeps its room.

Not here: the program (``program``), its result (``plan``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard._base import EnvironmentLacksError, ResultSaysNoError, UsageError
from steelyard.fleet.store.row_checks import BEYOND
from steelyard.telemetry.engine import fetch_rows

Floats = NDArray[np.float64]

COSTS = ("cycles", "cpu-s")
WORK = ("instructions", "operations")
CAPACITIES = ("used", "machines")
HALF_S = 3600
"""Hours alternate between the halves on which a plan is made and tried."""


@dataclass(frozen=True)
class PlaceSettings:
    """What is placed, how full platforms may get, what moves cost."""

    cost: str = "cycles"
    work: str = "instructions"
    capacity: str = "used"
    """``used``: what each platform does now; ``machines``: what its machines can do at that utilisation."""
    utilisation_ratio: float = 0.7
    scale: dict[str, float] = field(default_factory=dict)
    """A factor on the capacity of some platforms: 0 closes one."""
    move_cost_cpu_s: float = 60.0
    """CPU time that moving one task costs: stopping, starting, warming up."""
    horizon_days: float = 7.0
    """The time in which a move is to pay."""
    least_samples: int = 100
    """Fewer samples on a platform do not make it a target: its CPI is not known well."""
    assume_worst_ratio: float | None = None
    """Allow pairs never seen, at this factor of the job's worst CPI anywhere; None allows none."""
    jobs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for noun, value, known in (
            ("cost", self.cost, COSTS),
            ("work", self.work, WORK),
            ("capacity", self.capacity, CAPACITIES),
        ):
            if value not in known:
                raise UsageError(f"{value!r} is no {noun}", hint=", ".join(known))
        if not 0 < self.utilisation_ratio <= 1:
            raise UsageError("the utilisation is a ratio above 0, 1 at most")
        if self.move_cost_cpu_s < 0 or self.horizon_days <= 0 or self.least_samples < 1:
            raise UsageError("a move costs 0 or more, its horizon and the least samples are positive")
        if any(not 0 <= factor < 1e6 for factor in self.scale.values()):
            raise UsageError("a platform's capacity is scaled by 0 or more")
        if self.assume_worst_ratio is not None and not 0 < self.assume_worst_ratio < 1e3:
            raise UsageError("an assumed CPI is a positive factor of the worst one seen")


def loads(tasks: Any, settings: PlaceSettings) -> Any:
    """Return work, cost, CPU time, tasks and samples of each job on each platform, in all and by halves.

    Tasks are summed first, because how often a task was looked at tells what one window stands for.
    """
    rows = tasks
    if settings.jobs:
        rows = rows.filter(rows.job.isin(list(settings.jobs)))
    work = rows[settings.work].cast("float64")
    cost = rows.reference_cycles.cast("float64") if settings.cost == "cycles" else rows.cpu_s
    known = ((work > 0) & (cost > 0) & (work < 1e300) & (cost < 1e300)).fill_null(False)
    half = (rows.window_start_unix_s // HALF_S) % 2
    by_task = rows.group_by(["job", "platform", "cluster", "machine", "task"]).agg(
        rows=rows.count(),
        counted=rows.count(where=known),
        window_s=rows.window_s.sum(),
        first=rows.window_start_unix_s.min(),
        last=rows.window_start_unix_s.max(),
        last_end=(rows.window_start_unix_s + rows.window_s).max(),
        cpu_s=rows.cpu_s.sum(),
        counted_cpu_s=rows.cpu_s.sum(where=known),
        work=work.sum(where=known),
        cost=cost.sum(where=known),
        work_0=work.sum(where=known & (half == 0)),
        cost_0=cost.sum(where=known & (half == 0)),
        work_1=work.sum(where=known & (half == 1)),
        cost_1=cost.sum(where=known & (half == 1)),
    )
    sums = {
        # Sums of whole numbers are of a wider type on some engines, which is no number in Python.
        name: by_task[name].cast("float64").sum()
        for name in (
            "rows", "counted", "window_s", "cpu_s", "counted_cpu_s",
            "work", "cost", "work_0", "cost_0", "work_1", "cost_1",
        )
    }  # fmt: skip
    return (
        by_task.group_by(["job", "platform"])
        .agg(
            **sums,
            tasks=by_task.count(where=by_task.counted > 0),
            again=(by_task.rows - 1).cast("float64").sum(),
            between_s=(by_task["last"] - by_task["first"]).cast("float64").sum(),
            first=by_task["first"].min(),
            last_end=by_task.last_end.max(),
        )
        .order_by(["job", "platform"])
    )


def capacities(machine_samples: Any) -> Any:
    """Return machines, and threads of a machine on average, of each platform."""
    by_machine = machine_samples.group_by(["platform", "cluster", "machine"]).agg(
        thread_s=(machine_samples.threads * machine_samples.window_s).sum(),
        window_s=machine_samples.window_s.sum(),
    )
    return (
        by_machine.group_by("platform")
        .agg(machines=by_machine.count(), threads=(by_machine.thread_s / by_machine.window_s).sum())
        .order_by("platform")
    )


@dataclass(frozen=True)
class Fleet:
    """Rates by platform (rows) and job (columns); ``cpi`` is NaN where a job was never seen."""

    platforms: tuple[str, ...]
    jobs: tuple[str, ...]
    work_per_s: Floats
    cost_per_s: Floats
    cpi: Floats
    halves: tuple[Floats, Floats]
    """CPI in alternate hours, NaN where there is none."""
    tasks: Floats
    samples: Floats
    cpu_rate: Floats
    """CPU-s a second, of the samples that count."""
    unplaced_cpu_rate: Floats
    """CPU-s a second on each platform of samples without both figures."""
    cost_per_cpu_s: Floats
    """Cost of one CPU-s on each platform: its frequency for cycles, 1 for CPU-s."""
    machines: Floats
    """Machines of each platform, NaN where no machine samples tell."""
    threads: Floats
    window_stands_for: float
    """Seconds that a second of a window stands for."""
    span_s: float


def observe(tasks: Any, machine_samples: Any, settings: PlaceSettings) -> Fleet:
    """Run both expressions.

    Raises ResultSaysNoError where there is nothing to place, EnvironmentLacksError where the capacity asked
    for is not known.
    """
    rows = fetch_rows(loads(tasks, settings))
    counted = [row for row in rows if row["counted"] and _is_plausible(row)]
    if not counted:
        raise ResultSaysNoError(
            f"no task sample has both {settings.work} and {settings.cost}",
            hint="where there are no counters: --work operations --cost cpu-s",
        )
    platforms = tuple(sorted({row["platform"] for row in rows}))
    jobs = tuple(sorted({row["job"] for row in counted}))
    span = max(row["last_end"] for row in rows) - min(row["first"] for row in rows)
    stands_for = _stands_for(rows)
    # Sums of windows, times what a window stands for, over the time that passed, are rates.
    per_s = stands_for / span

    def matrix(name: str) -> Floats:
        cells = np.zeros((len(platforms), len(jobs)))
        for row in counted:
            cells[platforms.index(row["platform"]), jobs.index(row["job"])] = row[name] or 0.0
        return cells

    work, cost, cpu = matrix("work"), matrix("cost"), matrix("counted_cpu_s")
    unplaced = np.zeros(len(platforms))
    for row in rows:
        unplaced[platforms.index(row["platform"])] += (row["cpu_s"] - (row["counted_cpu_s"] or 0.0)) * per_s
    each = cost.sum(axis=1) / np.maximum(cpu.sum(axis=1), 1e-300)
    capacity = {row["platform"]: row for row in fetch_rows(capacities(machine_samples))}
    if settings.capacity == "machines":
        lacking = [name for name in platforms if name not in capacity]
        if lacking:
            raise EnvironmentLacksError(
                f"machine samples lack the capacity of {', '.join(lacking[:5])}",
                hint="--capacity used takes each platform's present work",
            )
    unknown = [name for name in settings.scale if name not in platforms]
    if unknown:
        raise UsageError(f"no task ran on a platform {unknown[0]!r}", hint=", ".join(platforms[:12]))
    return Fleet(
        platforms=platforms,
        jobs=jobs,
        work_per_s=work * per_s,
        cost_per_s=cost * per_s,
        cpi=_quotient(cost, work),
        halves=(
            _quotient(matrix("cost_0"), matrix("work_0")),
            _quotient(matrix("cost_1"), matrix("work_1")),
        ),
        tasks=matrix("tasks"),
        samples=matrix("counted"),
        cpu_rate=cpu * per_s,
        unplaced_cpu_rate=unplaced,
        cost_per_cpu_s=np.where(cpu.sum(axis=1) > 0, each, np.nan),
        machines=np.array([float(capacity[p]["machines"]) if p in capacity else np.nan for p in platforms]),
        threads=np.array([float(capacity[p]["threads"]) if p in capacity else np.nan for p in platforms]),
        window_stands_for=stands_for,
        span_s=float(span),
    )


def _is_plausible(row: dict[str, Any]) -> bool:
    """Return whether a job's work and cost on a platform can be sums of counts: no overflow, no speck."""
    sums = ("work", "cost", "work_0", "cost_0", "work_1", "cost_1")
    return all(not row[name] or 1 / BEYOND < row[name] < BEYOND for name in sums)


def _stands_for(rows: list[dict[str, Any]]) -> float:
    """Return the time from one window's start to the next over a window's length; 1 where no task tells."""
    again = sum(row["again"] for row in rows)
    between = sum(row["between_s"] for row in rows)
    window = sum(row["window_s"] for row in rows) / sum(row["rows"] for row in rows)
    return float(max(1.0, between / again / window)) if again and window > 0 else 1.0


def _quotient(cost: Floats, work: Floats) -> Floats:
    known = (work > 0) & (cost > 0)
    return np.asarray(np.where(known, cost / np.where(known, work, 1.0), np.nan), dtype=np.float64)
