"""A choice from a table and what was requested.

In: a `MachineTable` and a `ChooseRequest`. Out: a `Choice`, or the `Savings` of an improvement.

Invariants: what the data do not answer is said with its reason, and the rest is answered; machines that are
one under two names count once in no probability.

Not here: reading the table (``cli.decide.sources``), words (``report.decide``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from steelyard._base import UsageError
from steelyard.decide.choice import demand as demands
from steelyard.decide.choice import scores
from steelyard.decide.choice.economics import (
    DESIGN,
    Cost,
    Power,
    check_bounds,
    cost_of,
    currency_of,
    planned_power,
)
from steelyard.decide.choice.order import order_of
from steelyard.decide.choice.request import FLEETS, ChooseRequest, number_of, share_in, span_in
from steelyard.decide.choice.results import (
    BreakEven,
    Choice,
    Criterion,
    Demand,
    Order,
    Scored,
    WeighedMachine,
    Workload,
)
from steelyard.decide.choice.savings import Savings, savings_of
from steelyard.decide.choice.sensitivity import cost_break_evens, weight_break_evens
from steelyard.decide.tables.model import MachineTable, MeasuredMachine
from steelyard.decide.tables.reading import twins

ORDERS = 20
"""Neighbours in the order, from the first on, whose order has a probability."""
CHALLENGERS = 5
"""Machines after the first whose break-evens are computed."""
_BY_PREFERENCE = (Criterion.PER_COST, Criterion.PER_WATT, Criterion.PERFORMANCE)


@dataclass(frozen=True)
class _Weighed:
    """Power, cost and scores of all machines."""

    powers: Mapping[str, Power]
    costs: Mapping[str, Cost | None]
    why_no_cost: Mapping[str, str]
    by_suite: Mapping[str, Mapping[str, Mapping[str, Scored]]]
    """By suite, machine and criterion; the deciding suite is the first."""

    @property
    def deciding(self) -> Mapping[str, Mapping[str, Scored]]:
        """Return the scores of the suite that decides."""
        return next(iter(self.by_suite.values()))


def choose(table: MachineTable, request: ChooseRequest) -> Choice:
    """Return what the table says of its machines. Raises UsageError for what cannot be compared."""
    _check(table)
    suites = _suites(table, request)
    workloads = next(iter(suites.values()))
    baseline = _baseline(table, workloads, request.baseline)
    found = _weigh(table, suites, baseline, request)
    criterion, not_answered = _criterion(found.deciding, baseline, request.by)
    machines = _ranked(table, found, workloads, criterion)
    first_ones = [each for each in machines if each.rank is not None]
    noise = None if request.noise is None else share_in(request.noise, "--noise", most=1.0)
    if noise == 0:
        raise UsageError("--noise 0: a result without noise does not exist", hint="as 2%")
    suites_shown, disagreements = (
        scores.suites_beside(suites, found.by_suite, baseline.name) if len(suites) > 1 else ([], [])
    )
    contradictions = [
        one
        for aggregate, members in _aggregates(table, request).items()
        for machine in table.names
        if machine != baseline.name
        and (one := scores.contradiction(table, aggregate, members, machine, baseline.name)) is not None
    ]
    return Choice(
        criterion=criterion,
        baseline=baseline.name,
        currency=currency_of(table.machines),
        economics=request.economics,
        workloads=tuple(workloads),
        machines=tuple(machines),
        orders=tuple(_orders(table, first_ones, workloads, criterion, baseline.name, noise)),
        break_evens=tuple(_break_evens(table, first_ones, workloads, criterion, request)),
        hidden=tuple(
            scores.hidden_members(machines, criterion, baseline.name, share_in(request.floor, "--shortfall"))
        ),
        suites=tuple(suites_shown),
        disagreements=tuple(disagreements),
        contradictions=tuple(contradictions),
        demand=_demand(table, found, request),
        not_answered=not_answered,
        cautions=tuple(_cautions(table, found, request, noise)),
        notes=table.notes,
    )


def _check(table: MachineTable) -> None:
    check_bounds(table.machines)
    currency_of(table.machines)
    if not table.machines:
        raise UsageError("the table has no machine with a figure", hint="give a column with numbers, or runs")
    if len(table.machines) < 2:
        raise UsageError(
            f"one machine only ({table.names[0]}): there is nothing to choose",
            hint="give another machine's results; --improvement needs one machine at most",
        )
    if not table.results:
        lost = [
            f"{name} of {machine.name}: {why}"
            for machine in table.machines
            for name, why in machine.missing.items()
        ]
        said = f": {lost[0]}" if lost else ""
        raise UsageError(f"no machine has a result{said}", hint="give a column with numbers, or valid runs")


def _suites(table: MachineTable, request: ChooseRequest) -> dict[str, list[Workload]]:
    """Return the workloads of each suite, the deciding one first."""
    aggregates = _aggregates(table, request)
    if request.suites and request.workloads:
        raise UsageError("--suite and --workload both name what counts", hint="give one of them")
    if request.suites:
        named = {suite: [word.strip() for word in text.split(",")] for suite, text in request.suites.items()}
    else:
        all_results = [
            column.name
            for column in table.results
            if column.name not in aggregates and not column.name.endswith(scores.SHARE)
        ]
        named = {"all": list(dict.fromkeys(request.workloads)) or all_results}
    if not next(iter(named.values())):
        raise UsageError("no result counts", hint="name one with --workload")
    found: dict[str, list[Workload]] = {}
    for number, (suite, names) in enumerate(named.items()):
        found[suite] = _weighted(table, names, request.weights if number == 0 else {})
    return found


def _weighted(table: MachineTable, names: Sequence[str], asked: Mapping[str, str]) -> list[Workload]:
    for name in asked:
        if name not in names:
            table.column(name)
            raise UsageError(f"--weight {name}: it does not count", hint="name it with --workload, too")
    raw = {name: number_of(asked[name], "--weight", least=-1e-12) if name in asked else 1.0 for name in names}
    total = math.fsum(raw.values())
    if total <= 0:
        raise UsageError("all weights are 0", hint="give one workload a weight")
    found = []
    for name in names:
        column = table.column(name)
        weight = max(0.0, raw[name] / total)
        found.append(Workload(name, column.unit, column.better, weight, column.conditions))
    return found


def _aggregates(table: MachineTable, request: ChooseRequest) -> dict[str, list[str]]:
    found = {}
    for name, text in request.aggregates.items():
        members = [word.strip() for word in text.split(",")]
        for one in (name, *members):
            table.column(one)
        found[name] = members
    return found


def _baseline(table: MachineTable, workloads: Sequence[Workload], named: str | None) -> MeasuredMachine:
    if named is not None:
        machine = table.machine(named)
        lacking = next((each.name for each in workloads if each.name not in machine.results), None)
        if lacking is not None:
            raise UsageError(
                f"the baseline {named} has no {lacking}: {machine.why_missing(lacking)}",
                hint="name another baseline, or what counts with --workload",
            )
        return machine
    has_all = [
        machine for machine in table.machines if all(each.name in machine.results for each in workloads)
    ]
    if not has_all:
        raise UsageError(
            f"no machine has all {len(workloads)} results", hint="name those that count with --workload"
        )

    def lacks(machine: MeasuredMachine) -> int:
        has_power = planned_power(machine, [each.name for each in workloads]).watts is not None
        has_price = any(machine.number(name) is not None for name in ("price", "price_per_hour"))
        return (not has_power) + (not has_price)

    return min(has_all, key=lacks)


def _weigh(
    table: MachineTable,
    suites: Mapping[str, Sequence[Workload]],
    baseline: MeasuredMachine,
    request: ChooseRequest,
) -> _Weighed:
    names = [each.name for each in next(iter(suites.values()))]
    powers = {machine.name: planned_power(machine, names) for machine in table.machines}
    costs: dict[str, Cost | None] = {}
    reasons: dict[str, str] = {}
    for machine in table.machines:
        costs[machine.name], reasons[machine.name] = cost_of(machine, powers[machine.name], request.economics)
    by_suite = {
        suite: {
            machine.name: scores.scores_of(machine, baseline, workloads, costs, reasons)
            for machine in table.machines
        }
        for suite, workloads in suites.items()
    }
    return _Weighed(powers, costs, reasons, by_suite)


def _criterion(
    found: Mapping[str, Mapping[str, Scored]], baseline: MeasuredMachine, asked: str | None
) -> tuple[Criterion, dict[str, str]]:
    """Return what the order is by, and why other criteria are not answered."""
    missing = {}
    for criterion in _BY_PREFERENCE:
        known = [name for name, by in found.items() if by[criterion].overall is not None]
        if len(known) < 2:
            reasons = [
                reason
                for name, by in found.items()
                if (reason := by[criterion].missing) is not None and name != baseline.name
            ]
            missing[criterion.value] = reasons[0] if reasons else "only the baseline has it"
    if asked is None:
        usable = [criterion for criterion in _BY_PREFERENCE if criterion not in missing]
        if not usable:
            raise UsageError(
                f"no two machines have all results: {missing[Criterion.PERFORMANCE]}",
                hint="name those that count with --workload",
            )
        return usable[0], missing
    try:
        criterion = Criterion(asked)
    except ValueError:
        names = ", ".join(Criterion)
        raise UsageError(f"--order-by {asked!r} is none of {names}") from None
    if criterion in missing:
        answered = [each.value for each in _BY_PREFERENCE if each not in missing]
        raise UsageError(
            f"--order-by {asked}: {missing[criterion]}",
            hint=f"what is known: {', '.join(answered) or 'nothing for two machines'}",
        )
    return criterion, missing


def _ranked(
    table: MachineTable, found: _Weighed, workloads: Sequence[Workload], criterion: Criterion
) -> list[WeighedMachine]:
    names = list(table.names)
    by = found.deciding
    overall = [by[name][criterion].overall for name in names]
    costs, powers = [found.costs[name] for name in names], [found.powers[name] for name in names]
    known = scores.front(
        np.array([_or_nan(by[name][Criterion.PERFORMANCE].overall) for name in names]),
        np.array([math.nan if cost is None else cost.total for cost in costs]),
        np.array([_or_nan(power.watts) for power in powers]),
    )
    has_cost, has_power = any(costs), any(power.watts is not None for power in powers)
    order = sorted(range(len(names)), key=lambda at: -(overall[at] or -math.inf))
    ranks = {at: rank for rank, at in enumerate(order, 1) if overall[at] is not None}
    made = []
    for at in order:
        name, machine = names[at], table.machines[at]
        comparable = (
            by[name][Criterion.PERFORMANCE].overall is not None
            and (costs[at] is not None or not has_cost)
            and (powers[at].watts is not None or not has_power)
        )
        beaten = known[at]
        measured = {each.name: machine.results.get(each.name) for each in workloads}
        made.append(
            WeighedMachine(
                name,
                ranks.get(at),
                by[name],
                {key: None if result is None else result.value for key, result in measured.items()},
                powers[at],
                costs[at],
                found.why_no_cost[name] or None,
                (beaten is None) if comparable else None,
                None if beaten is None else names[beaten],
            )
        )
    return made


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def _orders(
    table: MachineTable,
    machines: Sequence[WeighedMachine],
    workloads: Sequence[Workload],
    criterion: Criterion,
    baseline: str,
    noise: float | None,
) -> list[Order]:
    same = {frozenset(pair) for pair in twins(table)}
    found = []
    pairs = list(pairwise(machines))[:ORDERS]
    if (rank := next((at for at, one in enumerate(machines) if one.name == baseline), 0)) > 1:
        pairs.insert(1, (machines[0], machines[rank]))
    for first, second in pairs:
        ratio = (first.scores[criterion].overall or math.nan) / (second.scores[criterion].overall or math.nan)
        if frozenset((first.name, second.name)) in same:
            reason = "their results are the same to the last digit: one machine under two names?"
            found.append(Order(first.name, second.name, ratio, None, None, None, reason))
            continue
        one, other = table.machine(first.name), table.machine(second.name)
        found.append(order_of(one, other, workloads, ratio, noise))
    return found


def _break_evens(
    table: MachineTable,
    machines: Sequence[WeighedMachine],
    workloads: Sequence[Workload],
    criterion: Criterion,
    request: ChooseRequest,
) -> list[BreakEven]:
    if len(machines) < 2:
        return []
    first = machines[0]
    found: list[BreakEven] = []
    for other in machines[1 : CHALLENGERS + 1]:
        if criterion is Criterion.PER_COST:
            plain = Criterion.PERFORMANCE
            ratio = (first.scores[plain].overall or math.nan) / (other.scores[plain].overall or math.nan)
            pair = table.machine(first.name), table.machine(other.name)
            found += cost_break_evens(*pair, (first.power, other.power), ratio, request.economics)
        ones, others = (each.scores[criterion].by_workload for each in (first, other))
        counted = [each for each in workloads if ones[each.name] and others[each.name]]
        ratios = {each.name: (ones[each.name] or 1) / (others[each.name] or 1) for each in counted}
        if len(counted) == len(workloads):
            found += weight_break_evens(first.name, other.name, workloads, ratios)
    return found


def _demand(table: MachineTable, found: _Weighed, request: ChooseRequest) -> Demand | None:
    if not request.demands:
        return None
    rates = {name: number_of(text, f"--demand {name}=", least=0) for name, text in request.demands.items()}
    limits = demands.Limits(
        request.rack_units,
        None if request.rack_kw is None else request.rack_kw * 1e3,
        None if request.site_mw is None else request.site_mw * 1e6,
    )
    headroom = share_in(request.headroom, "--headroom", most=10.0)
    return demands.demand_of(table, rates, headroom, found.powers, found.costs, request.economics, limits)


def _cautions(table: MachineTable, found: _Weighed, request: ChooseRequest, noise: float | None) -> list[str]:
    said = []
    designed = [name for name, power in found.powers.items() if power.source == DESIGN]
    if designed:
        more = f" and {len(designed) - 3} more" if len(designed) > 3 else ""
        said.append(
            f"The power of {', '.join(designed[:3])}{more} is TDP, which is not what a server draws: give"
            " budgeted_power_w or a measured power."
        )
    sources = {power.source for power in found.powers.values() if power.watts is not None}
    if len(sources) > 1:
        said.append(f"Powers are of different kinds: {' and '.join(sorted(sources))}.")
    paid = ("price", "price_per_hour")
    if all(any(machine.number(name) is not None for machine in table.machines) for name in paid):
        said.append(
            "Some machines are bought and some rented: a price per hour holds power and room, a purchase"
            " does not."
        )
    suspect = [m.name for m in table.machines for r in m.results.values() if r.reservation]
    if suspect:
        said.append(f"Results of {', '.join(dict.fromkeys(suspect))} are suspect.")
    columns = {column.name for column in table.results}
    known = {name for machine in table.machines for name in machine.attributes}
    lost = {
        name: why
        for machine in table.machines
        for name, why in machine.missing.items()
        if name not in columns and name not in known
    }
    said += [f"{name} has a value on no machine: {why}." for name, why in list(lost.items())[:5]]
    measured = [result for machine in table.machines for result in machine.results.values()]
    if any(len(each.values) > 1 for each in measured) and all(len(each.sessions) == 1 for each in measured):
        said.append("Runs are of one session: how much sessions differ is not in the probability.")
    if noise is not None:
        said.append(f"Noise of {noise * 100:g} % as stated, for machines with fewer than three repeats.")
    if request.power_price == 0:
        said.append("Power costs nothing, as stated.")
    return said


def improve(table: MachineTable | None, request: ChooseRequest) -> Savings:
    """Return what an improvement is worth, by power and cost of the baseline or of the first machine."""
    assert request.improvement is not None
    improvement = share_in(request.improvement, "--improvement", least=-0.9, most=100.0)
    interval = None if request.interval is None else span_in(request.interval, "--interval")
    if interval is not None and not interval[0] <= improvement <= interval[1]:
        raise UsageError(f"--interval {request.interval} does not hold --improvement {request.improvement}")
    fleets = sorted(
        {int(number_of(text, "--fleet", least=0.5, most=1e9)) for text in request.fleets or FLEETS}
    )
    watts = cost = machine = None
    missing, currency = ["no machine was named: servers only"], ""
    if table is not None:
        check_bounds(table.machines)
        currency = currency_of(table.machines)
        one = table.machines[0] if request.baseline is None else table.machine(request.baseline)
        power = planned_power(one, [column.name for column in table.results])
        found, reason = cost_of(one, power, request.economics)
        machine, watts, cost = one.name, power.watts, None if found is None else found.total
        missing = [power.missing or ""] if watts is None else []
        missing += [] if found is not None else [reason]
        if power.source == DESIGN:
            missing.append(f"The power of {one.name} is TDP, which is not what a server draws.")
    return savings_of(
        improvement,
        interval,
        fleets,
        request.save,
        machine=machine,
        currency=currency,
        economics=request.economics,
        watts=watts,
        cost=cost,
        missing=missing,
    )
