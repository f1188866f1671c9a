"""Rank machines by the geometric mean of their results over a baseline.

In: a `MachineTable` and a `ScoreRequest`. Out: a `Ranking`.

Invariants: a machine that lacks a result has no overall score, and the result is named; intervals and
probabilities are those of ``choice.order``; a machine under two names is noted and never in order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

from steelyard._base import UsageError
from steelyard.decide.baseline import Baseline, difference
from steelyard.decide.choice.order import order_of
from steelyard.decide.choice.request import number_of, share_in
from steelyard.decide.choice.results import Order, Workload
from steelyard.decide.choice.scores import performance_of, weighted_mean
from steelyard.decide.ranking.request import ScoreRequest
from steelyard.decide.score import series_of
from steelyard.decide.tables.model import (
    MachineTable,
    MeasuredMachine,
    Measurement,
    ResultColumn,
)
from steelyard.decide.tables.reading import twins
from steelyard.stats.intervals import RATIO_COUNT

PAIRS = 50
"""Neighbours whose order is judged, from the first."""


@dataclass(frozen=True, slots=True)
class MemberScore:
    """One result of one machine over the baseline's."""

    name: str
    """The result."""
    ratio: float | None
    """Times the baseline's, above 1 is better; null where it is missing."""
    low: float | None
    """Lower end of the 95 % interval, null without one."""
    high: float | None
    """Upper end of it."""
    missing: str | None = None
    """Why there is no score."""
    reservation: str | None = None
    """Why the result is suspect."""


@dataclass(frozen=True, slots=True)
class RankedMachine:
    """One machine."""

    name: str
    """The machine."""
    rank: int | None
    """Place, from 1; null without an overall score."""
    ratio: float | None
    """Overall score: weighted geometric mean of the members; null where one is missing."""
    low: float | None
    """Lower end of the 95 % interval for the overall score, null without one."""
    high: float | None
    """Upper end of it."""
    better_than_next: float | None
    """Probability that it is better than the machine on the next place, null where nothing tells."""
    no_interval: str | None
    """Why there is no interval."""
    withheld: str | None
    """Why there is no overall score."""
    members: tuple[MemberScore, ...]
    """Score of each result."""


@dataclass(frozen=True)
class Ranking:
    """What ``steelyard score`` answers of several machines."""

    KIND: ClassVar[str] = "ranking"
    VERSION: ClassVar[str] = "1.0"

    baseline: str
    """The machine that scores are over."""
    weights: Mapping[str, float]
    """Share of each result in the overall score."""
    units: Mapping[str, str]
    """Unit of each result."""
    conditions: Mapping[str, str]
    """Tier and version of each result that names them."""
    machines: tuple[RankedMachine, ...]
    """Machines, the best first; those without an overall score last."""
    orders: tuple[Order, ...]
    """Neighbours, with the probability of their order."""
    notes: tuple[str, ...]
    """What to know of the data."""


def rank(table: MachineTable, request: ScoreRequest, baseline: Baseline | None = None) -> Ranking:
    """Return the ranking; ``baseline`` is one of Steelyard's.

    Raises UsageError for what cannot be compared.
    """
    if not table.results:
        why = f": {table.notes[0].rstrip('.')}" if table.notes else ""
        raise UsageError(f"no machine has a result{why}", hint="give valid runs, or a table with numbers")
    if baseline is not None:
        table = with_baseline(table, baseline)
    if len(table.machines) < 2:
        raise UsageError(
            f"one machine only ({table.names[0]}): there is nothing to compare it with",
            hint="give another machine, or --baseline NAME",
        )
    workloads = _workloads(table, request)
    named = baseline.name if baseline is not None else request.baseline
    base = table.machine(named) if named is not None else _first_whole(table, workloads)
    _check_base(base, workloads)
    noise = None if request.noise is None else share_in(request.noise, "--noise", most=1.0)
    scored = [_scored(machine, base, workloads, noise or None) for machine in table.machines]
    known = sorted((one for one in scored if one.ratio is not None), key=lambda one: -(one.ratio or 0.0))
    orders = _orders(table, known, workloads, noise or None)
    chances = {order.first: order.probability for order in orders}
    ranked = [
        replace(one, rank=place, better_than_next=chances.get(one.name)) for place, one in enumerate(known, 1)
    ]
    return Ranking(
        base.name,
        {each.name: each.weight for each in workloads},
        {each.name: each.unit for each in workloads},
        {each.name: each.conditions for each in workloads if each.conditions},
        (*ranked, *(one for one in scored if one.ratio is None)),
        tuple(orders),
        table.notes,
    )


def with_baseline(table: MachineTable, baseline: Baseline) -> MachineTable:
    """Return the table with a baseline of Steelyard as its first machine.

    Raises UsageError where its results are not of the tier, version or parameters of the table's.
    """
    found, missing = {}, {}
    for column in table.results:
        fitting = [one for one in baseline.results if one.benchmark == column.name]
        version = ".".join(series_of(baseline.steelyard_version))
        same = next(
            (one for one in fitting if f"tier {one.tier}, Steelyard {version}" == column.conditions), None
        )
        if same is None:
            tiers = ", ".join(f"tier {one.tier}, Steelyard {version}" for one in fitting)
            missing[column.name] = f"the baseline has it in {tiers} only" if tiers else "not in the baseline"
            continue
        if (same.unit, same.better) != (column.unit, column.better):
            raise UsageError(f"{column.name} is in {column.unit}, the baseline's in {same.unit}")
        different = difference(column.parameters, same.parameters) if column.parameters else None
        if different is not None:
            missing[column.name] = f"its parameters differ: {different}"
            continue
        found[column.name] = Measurement((tuple(same.values),))
    if not found:
        name, why = next(iter(missing.items()))
        raise UsageError(f"baseline {baseline.name} has none of the results: {name}: {why}")
    machine = MeasuredMachine(baseline.name, {}, found, missing)
    if baseline.name in table.names:
        raise UsageError(f"a machine is called {baseline.name!r}, as the baseline is")
    return replace(table, machines=(machine, *table.machines))


def _first_whole(table: MachineTable, workloads: Sequence[Workload]) -> MeasuredMachine:
    """Return the first machine that has every result that counts, else the first."""
    counted = [each.name for each in workloads if each.weight > 0]
    whole = (one for one in table.machines if all(name in one.results for name in counted))
    return next(whole, table.machines[0])


def _check_base(base: MeasuredMachine, workloads: Sequence[Workload]) -> None:
    if all(each.name not in base.results for each in workloads):
        raise UsageError(
            f"the baseline {base.name} has no result: {workloads[0].name}:"
            f" {base.why_missing(workloads[0].name)}",
            hint="name another with --baseline",
        )


def _workloads(table: MachineTable, request: ScoreRequest) -> list[Workload]:
    asked = dict.fromkeys(request.result)
    columns: list[ResultColumn] = [table.column(name) for name in asked] or list(table.results)
    for name in request.weight:
        if name not in {column.name for column in columns}:
            table.column(name)
            raise UsageError(f"--weight {name}: it does not count", hint="name it with --result, too")
    raw = {column.name: _weight(request.weight.get(column.name, "1")) for column in columns}
    total = math.fsum(raw.values())
    if total <= 0:
        raise UsageError("all weights are 0", hint="give one result a weight")
    return [
        Workload(column.name, column.unit, column.better, raw[column.name] / total, column.conditions)
        for column in columns
    ]


def _weight(text: str) -> float:
    """Return a weight; 0 shows a result that does not count."""
    return max(number_of(text, "--weight", least=-1e-12), 0.0)


def _scored(
    machine: MeasuredMachine, base: MeasuredMachine, workloads: Sequence[Workload], noise: float | None
) -> RankedMachine:
    members = tuple(_member(machine, base, each, noise) for each in workloads)
    ratios = {one.name: one.ratio for one in members}
    counted = [each for each in workloads if each.weight > 0]
    lacking = [one for one in members if one.ratio is None and one.name in {each.name for each in counted}]
    if lacking:
        more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
        withheld = f"{lacking[0].name}{more}: {lacking[0].missing}"
        return RankedMachine(machine.name, None, None, None, None, None, None, withheld, members)
    ratio = weighted_mean({each.name: each.weight for each in counted}, ratios)
    order = _against(machine, base, counted, ratio, noise)
    return RankedMachine(
        machine.name, None, ratio, order.low, order.high, None, order.no_interval, None, members
    )


def _member(
    machine: MeasuredMachine, base: MeasuredMachine, workload: Workload, noise: float | None
) -> MemberScore:
    own, theirs = performance_of(machine, workload), performance_of(base, workload)
    if own is None or theirs is None:
        side, word = (machine, "") if own is None else (base, "baseline: ")
        return MemberScore(workload.name, None, None, None, f"{word}{side.why_missing(workload.name)}")
    reservation = machine.results[workload.name].reservation or None
    if noise is None and _has_few(machine, base, workload):
        return MemberScore(workload.name, own / theirs, None, None, None, reservation)
    order = _against(machine, base, [replace(workload, weight=1.0)], own / theirs, noise)
    return MemberScore(workload.name, own / theirs, order.low, order.high, None, reservation)


def _against(
    machine: MeasuredMachine,
    base: MeasuredMachine,
    workloads: Sequence[Workload],
    ratio: float,
    noise: float | None,
) -> Order:
    if machine is base:
        return Order(machine.name, base.name, 1.0, None, None, None, "it is the baseline")
    if noise is None:
        # Where one result has too few repeats there is no interval, whatever the others have.
        few = [each for each in workloads if _has_few(machine, base, each)]
        workloads = few[:1] or workloads
    return order_of(machine, base, workloads, ratio, noise)


def _has_few(machine: MeasuredMachine, base: MeasuredMachine, workload: Workload) -> bool:
    """Whether either machine has too few repeats of a result for an interval."""
    for one in (machine, base):
        sessions = one.results[workload.name].sessions
        if (len(sessions) if len(sessions) > 1 else len(sessions[0])) < RATIO_COUNT:
            return True
    return False


def _orders(
    table: MachineTable, known: Sequence[RankedMachine], workloads: Sequence[Workload], noise: float | None
) -> list[Order]:
    first_of = {other: first for first, other in twins(table)}
    counted = [each for each in workloads if each.weight > 0]
    found = []
    for first, second in pairwise(known[: PAIRS + 1]):
        ratio = (first.ratio or math.nan) / (second.ratio or math.nan)
        if first_of.get(first.name, first.name) == first_of.get(second.name, second.name):
            reason = "their results are the same to the last digit: one machine under two names?"
            found.append(Order(first.name, second.name, ratio, None, None, None, reason))
            continue
        one, other = table.machine(first.name), table.machine(second.name)
        found.append(order_of(one, other, counted, ratio, noise))
    return found
