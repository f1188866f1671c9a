"""The placement program: which job on which platform, by linear programming (HiGHS).

    minimise    sum_ij CPI_ij * Load_ij
    subject to  sum_i Load_ij = TotalLoad_j        every job's work is done
                sum_j CPI_ij * Load_ij <= Capacity_i    no platform does more than it can

(G. Ren et al., "Google-Wide Profiling", IEEE Micro 30(4), 2010.) In: CPI, loads and capacities. Out: loads,
the objective and both sets of dual prices; moves of whole tasks.

A CPI of NaN says that the job may not go there: it was never seen there, and a figure is not made up. Prices
are what one more unit of a capacity saves (never negative) and what one more unit of a job's load costs.

Invariants: a solution is optimal or says that it is not feasible and by how much; nothing is rounded.

Not here: what the coefficients are (``inputs``), what it means (``plan``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard._base import ResultSaysNoError, WorkloadFailedError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

SECONDS_AT_MOST = 20.0
"""How long whole tasks may be sought for; the best found until then is taken."""
GAP = 1e-3
"""Whole tasks within this share of the best are good enough: the coefficients are not known better."""


@dataclass(frozen=True)
class Program:
    """The program's data: platforms are rows, jobs columns."""

    cpi: Floats
    load: Floats
    capacity: Floats
    most: Floats | None = None
    """The greatest load of each job on each platform, infinite where there is none; None for none at all."""

    def __post_init__(self) -> None:
        if self.cpi.shape != (len(self.capacity), len(self.load)):
            raise ValueError(f"CPI of shape {self.cpi.shape} does not fit")
        if np.isnan(self.cpi).all(axis=0).any():
            raise ValueError("a job may go nowhere")
        known = self.cpi[~np.isnan(self.cpi)]
        if (known <= 0).any() or (self.load < 0).any() or (self.capacity < 0).any():
            raise ValueError("CPI must be positive, loads and capacities not negative")


@dataclass(frozen=True)
class Solution:
    """The best placement; without one, ``load`` is None and ``shortfall`` says what is lacking."""

    load: Floats | None
    """Load of each job on each platform."""
    objective: float | None
    """Cycles of all."""
    capacity_price: Floats | None
    """Cycles that one more cycle of each platform's capacity would save."""
    load_price: Floats | None
    """Cycles that one more instruction of each job would cost."""
    shortfall: Floats
    """Capacity that each platform lacks, where the total lack is smallest; zeros with a solution."""


def solve(program: Program) -> Solution:
    """Return the best placement, its prices, or what is lacking."""
    from scipy.optimize import linprog

    scaled = _scaled(program)
    result = linprog(
        scaled.cost,
        A_ub=scaled.upper,
        b_ub=scaled.room,
        A_eq=scaled.equal,
        b_eq=np.ones(len(program.load)),
        bounds=scaled.bounds,
        method="highs",
    )
    if result.status == 2:
        return Solution(None, None, None, None, _shortfall(program, scaled))
    if not result.success:
        raise WorkloadFailedError(f"the placement program was not solved: {result.message}")
    load = np.zeros_like(program.cpi)
    load[scaled.rows, scaled.columns] = result.x * program.load[scaled.columns]
    return Solution(
        load=load,
        objective=float(np.nansum(program.cpi * load)),
        capacity_price=np.asarray(-result.ineqlin.marginals * scaled.total / scaled.units),
        load_price=np.asarray(result.eqlin.marginals * scaled.total / scaled.loads),
        shortfall=np.zeros(len(program.capacity)),
    )


@dataclass(frozen=True)
class _Scaled:
    """The program in shares: of each job's load, of each platform's capacity, of all cycles.

    The solver's tolerances are absolute: in instructions, a small job beside a large one would be lost in
    them.
    """

    rows: Integers
    columns: Integers
    cost: Floats
    upper: Any
    equal: Any
    room: Floats
    bounds: Floats
    units: Floats
    loads: Floats
    total: float


def _check_range(*costs: Floats) -> None:
    """Raise ResultSaysNoError where sums of a store's figures have left the range of numbers."""
    if not all(np.isfinite(cost).all() for cost in costs):
        raise ResultSaysNoError(
            "the figures of the store are too large or too small to place jobs by",
            hint="`steelyard fleet check` names rows with figures that cannot be counts",
        )


def _scaled(program: Program) -> _Scaled:
    from scipy.sparse import csr_array

    rows, columns = (np.asarray(indices, dtype=np.int64) for indices in np.nonzero(~np.isnan(program.cpi)))
    loads = np.where(program.load > 0, program.load, 1.0)
    cycles = program.cpi[rows, columns] * program.load[columns]
    total = max(float((np.nanmean(program.cpi, axis=0) * program.load).sum()), 1e-300)
    units = np.where(program.capacity > 0, program.capacity, total)
    at = np.arange(len(rows))
    platforms, jobs = program.cpi.shape
    most = np.full(len(rows), np.inf)
    if program.most is not None:
        most = program.most[rows, columns] / loads[columns]
    with np.errstate(over="ignore"):
        _check_range(cycles / total, cycles / units[rows])
    return _Scaled(
        rows=rows,
        columns=columns,
        cost=cycles / total,
        upper=csr_array((cycles / units[rows], (rows, at)), shape=(platforms, len(rows))),
        equal=csr_array((np.ones(len(rows)), (columns, at)), shape=(jobs, len(rows))),
        room=program.capacity / units,
        bounds=np.stack([np.zeros(len(rows)), most], axis=1),
        units=units,
        loads=loads,
        total=total,
    )


def _shortfall(program: Program, scaled: _Scaled) -> Floats:
    """Return the capacity to add to each platform so that all work can be done, least in all."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, diags_array, hstack

    platforms, jobs = program.cpi.shape
    added = diags_array(-scaled.total / scaled.units)
    result = linprog(
        np.concatenate([np.zeros(len(scaled.rows)), np.ones(platforms)]),
        A_ub=hstack([scaled.upper, added]),
        b_ub=scaled.room,
        A_eq=hstack([scaled.equal, csr_array((jobs, platforms))]),
        b_eq=np.ones(jobs),
        bounds=np.vstack([scaled.bounds, [[0, np.inf]] * platforms]),
        method="highs",
    )
    if not result.success:
        raise WorkloadFailedError(f"the placement program was not solved: {result.message}")
    return np.asarray(result.x[len(scaled.rows) :] * scaled.total, dtype=np.float64)


@dataclass(frozen=True)
class Present:
    """What lies where now: load and tasks of each job on each platform, and what moving one task costs.

    ``move_cost`` is in cycles (per second, spread over the time that a move is to pay in) for one task of
    each job on each platform.
    """

    cpi: Floats
    """CPI of what is there, also where the program allows no more of it."""
    load: Floats
    tasks: Floats
    move_cost: Floats
    may_grow: NDArray[np.bool_] | None = None
    """Where tasks may go to; None wherever the program has a CPI."""


@dataclass(frozen=True)
class Moves:
    """Tasks to move: arrays of one element a move."""

    job: Integers
    source: Integers
    target: Integers
    tasks: Floats
    """Whole numbers where ``whole``."""
    load: Floats
    """Load that goes with them."""
    whole: bool


def plan_moves(program: Program, present: Present, *, whole: bool = True) -> Moves | None:
    """Return the moves that save most cycles after their own cost; None where no moves keep the capacities.

    A move is taken only where it, or the room it makes for another, saves more than it costs. With ``whole``,
    tasks are moved whole: among the moves that fractions of tasks would make.
    """
    from scipy.optimize import linprog

    job, source, target = _possible(program, present)
    cost, matrices, limits = _move_program(program, present, job, source, target)
    upper, once = matrices
    _check_range(cost)
    if not len(job):
        none = np.zeros(0)
        return Moves(job, source, target, none, none, True) if (limits[0] >= 0).all() else None
    result = linprog(
        cost, A_ub=_stacked(upper, once), b_ub=np.concatenate(limits), bounds=(0, None), method="highs"
    )
    if result.status == 2:
        return None
    if not result.success:
        raise WorkloadFailedError(f"the moves were not found: {result.message}")
    tasks = np.asarray(result.x, dtype=np.float64)
    if whole:
        repaired = _whole_tasks(cost, matrices, limits, tasks)
        if repaired is None:
            whole = False
        else:
            tasks = repaired
    keep = tasks > 1e-6
    each = present.load[source, job] / present.tasks[source, job]
    return Moves(job[keep], source[keep], target[keep], tasks[keep], (tasks * each)[keep], whole)


def _possible(program: Program, present: Present) -> tuple[Integers, Integers, Integers]:
    """Return job, source and target of every move that there could be."""
    source, job = np.nonzero((present.load > 0) & (present.tasks > 0))
    allowed = ~np.isnan(program.cpi)
    if present.may_grow is not None:
        allowed &= present.may_grow
    pairs = [
        (one_job, one_source, target)
        for one_job, one_source in zip(job.tolist(), source.tolist(), strict=True)
        for target in np.nonzero(allowed[:, one_job])[0].tolist()
        if target != one_source
    ]
    triples = np.array(pairs, dtype=np.int64).reshape(-1, 3)
    return triples[:, 0], triples[:, 1], triples[:, 2]


def _move_program(
    program: Program, present: Present, job: Integers, source: Integers, target: Integers
) -> tuple[Floats, tuple[object, object], tuple[Floats, Floats]]:
    """Return cost, matrices and limits in numbers of tasks moved.

    Capacities count what is there now, less what leaves and more what comes; no more tasks leave a platform
    than are there.
    """
    from scipy.sparse import csr_array

    each = present.load[source, job] / present.tasks[source, job]
    freed, taken = present.cpi[source, job] * each, program.cpi[target, job] * each
    scale = max(float(np.max(np.concatenate([freed, taken]), initial=0.0)), 1e-300)
    moves = np.arange(len(job))
    platforms = len(program.capacity)
    upper = csr_array(
        (
            np.concatenate([taken, -freed]) / scale,
            (np.concatenate([target, source]), np.concatenate([moves, moves])),
        ),
        shape=(platforms, len(job)),
    )
    keys = source * len(program.load) + job
    unique, at = np.unique(keys, return_inverse=True)
    once = csr_array((np.ones(len(job)), (at.reshape(-1), moves)), shape=(len(unique), len(job)))
    used = np.nansum(np.where(present.load > 0, present.cpi * present.load, 0.0), axis=1)
    room = (program.capacity - used) / scale
    # What rounding alone puts above a capacity that is used in full must not make moves impossible.
    room = np.where(np.abs(room) * scale < 1e-9 * np.maximum(used, 1e-300), 0.0, room)
    there = present.tasks.reshape(-1)[unique]
    cost = (taken - freed + present.move_cost[source, job]) / scale
    return np.asarray(cost), (upper, once), (np.asarray(room), np.asarray(there))


def _stacked(upper: object, once: object) -> object:
    from scipy.sparse import vstack

    return vstack([upper, once]).tocsr()


def _whole_tasks(
    cost: Floats, matrices: tuple[object, object], limits: tuple[Floats, Floats], fractions: Floats
) -> Floats | None:
    """Return whole tasks for the moves that have a fraction; None where none were found in time."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    most = np.where(fractions > 1e-6, np.ceil(fractions - 1e-9), 0.0)
    if not most.any():
        return np.zeros_like(fractions)
    result = milp(
        cost,
        constraints=LinearConstraint(_stacked(*matrices), -np.inf, np.concatenate(limits)),
        bounds=Bounds(0, most),
        integrality=np.ones(len(cost)),
        options={"time_limit": SECONDS_AT_MOST, "mip_rel_gap": GAP},
    )
    return None if result.x is None else np.rint(np.asarray(result.x, dtype=np.float64)).astype(np.float64)
