"""What the placement program says about a fleet: what could be saved, what capacity is worth, what to move.

In: a store's task and machine samples. Out: `PlaceResult`.

Two programs are solved. The first is the published one and bounds what any placement can save. The second
moves whole tasks from where they are, each at a cost, so that moves which do not pay are left out. CPI is
taken to stay as it was measured when a job's neighbours change; that is an assumption, and stands in the
answer. A plan picks what looked cheap, some of it by luck: so plans are also made on every other hour and
tried on the hours between.

Invariants: a pair never seen has no CPI and gets no load, unless an assumption was asked for; what cannot be
done is said with what is lacking.

Not here: coefficients (``inputs``), solving (``program``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from steelyard._base import UsageError
from steelyard.fleet.placement.inputs import Fleet, PlaceSettings, observe
from steelyard.fleet.placement.program import Moves, Present, Program, Solution, plan_moves, solve

Floats = NDArray[np.float64]

DAY_S = 86_400.0
LEAST_CAPACITY_PRICE = 1e-6
"""Prices below this are the solver's rounding."""


@dataclass(frozen=True)
class PlatformRow:
    """One platform. Figures are in cost a second: cycles, or CPU-s."""

    platform: str
    """Which platform."""
    machines: float | None
    """Its machines, None where they are not known."""
    used: float
    """Used now."""
    capacity: float
    """What it may do."""
    after: float | None
    """Used after the moves."""
    price: float | None
    """Cost that one more unit of capacity would save, at the program's optimum."""
    machine_price: float | None
    """Cost a second that one more machine would save."""
    machine_capacity: float | None
    """Capacity of one machine, as this program counts it."""
    shortfall: float
    """What is lacking, where the program cannot be solved."""
    unplaced_cpu_rate: float
    """CPU-s a second of samples that cannot be placed; their room is kept."""


@dataclass(frozen=True)
class MoveRow:
    """Tasks of one job from one platform to another."""

    job: str
    """Which job."""
    source: str
    """Platform that it leaves."""
    target: str
    """Platform that it goes to."""
    tasks: float
    """Tasks that leave."""
    tasks_there: float
    """Tasks that do the same work there."""
    source_cpi: float
    """Its CPI before."""
    target_cpi: float
    """Its CPI after."""
    saved: float
    """Cost a second, before what the move itself costs; negative where it only makes room."""
    moved_cpu_rate: float
    """CPU-s a second that leave the source."""
    machines: float | None
    """Machines' worth of the source's capacity that it frees."""
    move_cost_cpu_s: float
    """CPU time that the move costs."""


@dataclass(frozen=True)
class HeldOut:
    """A plan made on every other hour and tried on the hours between, both ways."""

    promised_ratio: float
    """Saving that the plan promises."""
    kept_ratio: float
    """Saving that it keeps in the other hours."""


@dataclass(frozen=True)
class PlaceResult:
    """Everything that ``steelyard fleet place`` answers. Costs are cycles a second, or CPU-s a second."""

    KIND: ClassVar[str] = "fleet_place"

    cost: str
    """What is minimised: `cycles` or `cpu-s`."""
    work: str
    """Unit of work."""
    capacity: str
    """Which capacity of platforms counts."""
    is_feasible: bool
    """Whether there is a placement."""
    present: float
    """Cost of the present placement."""
    best: float | None
    """Cost of the published program's optimum, which splits loads and moves them for free."""
    planned: float | None
    """Cost after the moves."""
    saved_cpu_rate: float | None
    """CPUs that the moves free: CPU-s a second, at the present mix of platforms."""
    payback_days: float | None
    """Days in which the moves pay off, None where they never do."""
    held_out: HeldOut | None
    """What a plan of half of the hours keeps in the others, None where that is not known."""
    platforms: tuple[PlatformRow, ...]
    """Each platform."""
    moves: tuple[MoveRow, ...]
    """What to move."""
    whole_tasks: bool
    """Whether tasks are moved whole."""
    never_seen: int
    """Pairs of job and platform without a CPI."""
    few_samples: int
    """Pairs that are no target for want of samples."""
    notes: tuple[str, ...]
    """What to know before believing it."""


def place(tasks: Any, machine_samples: Any, settings: PlaceSettings) -> PlaceResult:
    """Solve both programs over task samples and machine samples, both Ibis tables."""
    fleet = observe(tasks, machine_samples, settings)
    capacity = _capacity(fleet, settings)
    few = (fleet.samples < settings.least_samples) & ~np.isnan(fleet.cpi)
    # A CPI of few samples may be low by luck: what is there may stay, no more may come.
    most = np.where(few, fleet.work_per_s, np.inf)
    program = Program(_targets(fleet, settings), fleet.work_per_s.sum(axis=0), capacity, most)
    best = solve(program)
    present = _present(fleet, settings)
    moves = None if best.load is None else plan_moves(program, present)
    return _answer(fleet, settings, program, best, present, moves)


def _capacity(fleet: Fleet, settings: PlaceSettings) -> Floats:
    """Return what each platform may do, in cost a second, less what cannot be placed."""
    used = fleet.cost_per_s.sum(axis=1)
    if settings.capacity == "machines":
        each = np.where(
            np.isnan(fleet.cost_per_cpu_s), np.nanmean(fleet.cost_per_cpu_s), fleet.cost_per_cpu_s
        )
        free = fleet.threads * settings.utilisation_ratio - fleet.unplaced_cpu_rate
        used = np.maximum(free, 0.0) * each
    scale = np.array([settings.scale.get(name, 1.0) for name in fleet.platforms])
    return np.asarray(used * scale, dtype=np.float64)


def _targets(fleet: Fleet, settings: PlaceSettings) -> Floats:
    """Return CPI where a job may go: it stays where it is, and goes where it is known well or assumed."""
    cpi = fleet.cpi.copy()
    closed = np.array([settings.scale.get(name, 1.0) == 0 for name in fleet.platforms])
    if settings.assume_worst_ratio is not None:
        worst = np.nanmax(fleet.cpi, axis=0) * settings.assume_worst_ratio
        cpi = np.where(np.isnan(cpi), worst, cpi)
    cpi[closed] = np.nan
    homeless = np.isnan(cpi).all(axis=0)
    if homeless.any():
        names = [fleet.jobs[at] for at in np.nonzero(homeless)[0][:3]]
        raise UsageError(
            f"{', '.join(names)} was only ever seen on a platform that is closed",
            hint="--assume-worst 1.2 lets it go elsewhere at 1.2 times its worst CPI",
        )
    return np.asarray(cpi, dtype=np.float64)


def _present(fleet: Fleet, settings: PlaceSettings) -> Present:
    horizon_s = settings.horizon_days * DAY_S
    each = np.where(np.isnan(fleet.cost_per_cpu_s), 0.0, fleet.cost_per_cpu_s)
    cost = settings.move_cost_cpu_s * each[:, None] / horizon_s
    known = (fleet.samples >= settings.least_samples) | np.isnan(fleet.cpi)
    return Present(fleet.cpi, fleet.work_per_s, fleet.tasks, np.broadcast_to(cost, fleet.cpi.shape), known)


def _answer(
    fleet: Fleet,
    settings: PlaceSettings,
    program: Program,
    best: Solution,
    present: Present,
    moves: Moves | None,
) -> PlaceResult:
    now = float(fleet.cost_per_s.sum())
    rows = () if moves is None else _move_rows(fleet, settings, program, moves)
    saved = sum(row.saved for row in rows)
    after = _after(fleet, program, moves)
    return PlaceResult(
        cost=settings.cost,
        work=settings.work,
        capacity=settings.capacity,
        is_feasible=best.load is not None,
        present=now,
        best=best.objective,
        planned=None if moves is None else now - saved,
        saved_cpu_rate=None if moves is None else _saved_cpus(fleet, after),
        payback_days=_payback(fleet, rows, saved),
        held_out=None if best.load is None else _held_out(fleet, settings),
        platforms=_platform_rows(fleet, settings, program, best, after),
        moves=rows,
        whole_tasks=moves is None or moves.whole,
        never_seen=int(np.isnan(fleet.cpi).sum()),
        few_samples=int(((fleet.samples < settings.least_samples) & (fleet.samples > 0)).sum()),
        notes=_notes(fleet, settings, moves, best),
    )


def _move_rows(fleet: Fleet, settings: PlaceSettings, program: Program, moves: Moves) -> tuple[MoveRow, ...]:
    rows = []
    capacity = _machine_capacity(fleet, settings)
    for job, source, target, tasks, load in zip(
        moves.job.tolist(),
        moves.source.tolist(),
        moves.target.tolist(),
        moves.tasks.tolist(),
        moves.load.tolist(),
        strict=True,
    ):
        there = fleet.tasks[source, job]
        freed = load * fleet.cpi[source, job]
        machine = capacity[source]
        rows.append(
            MoveRow(
                job=fleet.jobs[job],
                source=fleet.platforms[source],
                target=fleet.platforms[target],
                tasks=tasks,
                tasks_there=float(there),
                source_cpi=float(fleet.cpi[source, job]),
                target_cpi=float(program.cpi[target, job]),
                saved=float(load * (fleet.cpi[source, job] - program.cpi[target, job])),
                moved_cpu_rate=float(fleet.cpu_rate[source, job] * tasks / there),
                machines=None if math.isnan(machine) or machine <= 0 else float(freed / machine),
                move_cost_cpu_s=settings.move_cost_cpu_s * tasks,
            )
        )
    return tuple(sorted(rows, key=lambda row: -row.saved))


def _after(fleet: Fleet, program: Program, moves: Moves | None) -> Floats | None:
    """Return the cost a second of each platform after the moves."""
    if moves is None:
        return None
    after = fleet.cost_per_s.sum(axis=1)
    np.subtract.at(after, moves.source, moves.load * fleet.cpi[moves.source, moves.job])
    np.add.at(after, moves.target, moves.load * program.cpi[moves.target, moves.job])
    # What rounding leaves of a platform that was emptied is nothing.
    return np.where(np.abs(after) < 1e-9 * after.sum(), 0.0, after)


def _saved_cpus(fleet: Fleet, after: Floats | None) -> float | None:
    """Return the CPU-s a second that are freed, each platform's cost turned into its CPU-s."""
    if after is None:
        return None
    before = fleet.cost_per_s.sum(axis=1)
    each = fleet.cost_per_cpu_s
    known = ~np.isnan(each)
    if (np.abs(after - before)[~known] > 0).any():
        return None
    return float(((before - after)[known] / each[known]).sum())


def _payback(fleet: Fleet, rows: tuple[MoveRow, ...], saved: float) -> float | None:
    """Return after how many days the moves have saved what they cost; None without moves."""
    if not rows or saved <= 0:
        return None
    each = dict(zip(fleet.platforms, fleet.cost_per_cpu_s.tolist(), strict=True))
    spent = sum(row.move_cost_cpu_s * each[row.source] for row in rows)
    return float(spent / saved / DAY_S)


def _machine_capacity(fleet: Fleet, settings: PlaceSettings) -> Floats:
    """Return what one machine of each platform adds, in cost a second; NaN where machines are not known."""
    if settings.capacity == "machines":
        return np.asarray(fleet.threads / fleet.machines * settings.utilisation_ratio * fleet.cost_per_cpu_s)
    return np.asarray(fleet.cost_per_s.sum(axis=1) / fleet.machines)


def _platform_rows(
    fleet: Fleet, settings: PlaceSettings, program: Program, best: Solution, after: Floats | None
) -> tuple[PlatformRow, ...]:
    used = fleet.cost_per_s.sum(axis=1)
    machine = _machine_capacity(fleet, settings)
    rows = []
    for at, name in enumerate(fleet.platforms):
        price = None if best.capacity_price is None else float(max(0.0, best.capacity_price[at]))
        if price is not None and price < LEAST_CAPACITY_PRICE:
            price = 0.0
        known = not math.isnan(machine[at])
        rows.append(
            PlatformRow(
                platform=name,
                machines=None if math.isnan(fleet.machines[at]) else float(fleet.machines[at]),
                used=float(used[at]),
                capacity=float(program.capacity[at]),
                after=None if after is None else float(after[at]),
                price=price,
                machine_price=None if price is None or not known else float(price * machine[at]),
                machine_capacity=float(machine[at]) if known else None,
                shortfall=float(best.shortfall[at]),
                unplaced_cpu_rate=float(fleet.unplaced_cpu_rate[at]),
            )
        )
    return tuple(rows)


def _held_out(fleet: Fleet, settings: PlaceSettings) -> HeldOut | None:
    """Return what the program promises and keeps, over both halves; None where a half lacks a pair.

    Loads of one half's program are priced with the other half's CPI, and held against the present placement
    priced alike.
    """
    both = ~np.isnan(fleet.halves[0]) & ~np.isnan(fleet.halves[1])
    if (fleet.work_per_s[~both] > 0).any() or not both.any():
        return None
    closed = np.array([settings.scale.get(name, 1.0) == 0 for name in fleet.platforms])
    if closed.any() or settings.assume_worst_ratio is not None:
        return None
    promised, kept = [], []
    for made, tried in ((0, 1), (1, 0)):
        cpi = np.where(both, fleet.halves[made], np.nan)
        now = float(np.nansum(cpi * fleet.work_per_s))
        used = np.nansum(np.where(both, cpi * fleet.work_per_s, 0.0), axis=1)
        # The room is the half's own: its CPI, and with it what the present placement uses, differ a little.
        capacity = _capacity(fleet, settings) * used / np.maximum(fleet.cost_per_s.sum(axis=1), 1e-300)
        plan = solve(Program(cpi, fleet.work_per_s.sum(axis=0), capacity))
        if plan.load is None or plan.objective is None:
            return None
        other = np.where(both, fleet.halves[tried], 0.0)
        promised.append(1 - plan.objective / now)
        kept.append(1 - float((other * plan.load).sum()) / float((other * fleet.work_per_s).sum()))
    return HeldOut(float(np.mean(promised)), float(np.mean(kept)))


def _notes(fleet: Fleet, settings: PlaceSettings, moves: Moves | None, best: Solution) -> tuple[str, ...]:
    notes = ["A job's CPI on a platform is assumed not to depend on its new neighbours."]
    if settings.capacity == "used":
        notes.append("Capacity is each platform's present work: none gets more.")
    else:
        notes.append(
            f"Capacity is {settings.utilisation_ratio * 100:g} % of the time of all threads; with SMT a"
            " thread's time is worth less when its neighbour is busy."
        )
    missing = int(np.isnan(fleet.cpi).sum())
    if missing and settings.assume_worst_ratio is None:
        notes.append(f"{missing} pairs of job and platform were never seen and get no load.")
    elif missing:
        notes.append(
            f"{missing} pairs were never seen: their CPI is assumed to be {settings.assume_worst_ratio:g}"
            " times the job's worst."
        )
    if fleet.unplaced_cpu_rate.sum() > 0:
        notes.append(
            f"{fleet.unplaced_cpu_rate.sum():.3g} CPUs of work have no {settings.work} and stay where they"
            " are."
        )
    if moves is not None and not moves.whole:
        notes.append("No whole tasks were found in time: moves are fractions of tasks.")
    if best.load is not None and moves is None:
        notes.append("The present placement exceeds a capacity, and no moves of tasks can fix it.")
    if settings.cost == "cycles":
        notes.append(
            "Cycles are reference cycles: on platforms of other frequency they take other times (--cost"
            " cpu-s)."
        )
    return tuple(notes)
