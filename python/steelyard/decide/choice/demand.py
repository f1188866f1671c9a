"""Servers, racks and megawatts for a demand.

In: performance, power and cost of machine types, rates of workloads, limits of racks and of the site. Out: a
`Demand`: machine types that fit, the cheapest first, and why the others do not.

A workload has servers of its own, as many as its rate with headroom needs, rounded up.

Not here: latency limits (``decide.sizing``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from steelyard._base import UsageError
from steelyard.decide.choice.economics import Cost, Economics, Power
from steelyard.decide.choice.results import Demand, Servers
from steelyard.decide.tables.model import MachineTable, MeasuredMachine

MOST = 1e12
"""Servers: more of them are no answer."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What racks and the site hold."""

    rack_units: float
    """Units of height of a rack."""
    rack_w: float | None
    """Power of a rack, None without a limit."""
    site_w: float | None
    """Power of the site with what it adds to its machines, None without a limit."""


def demand_of(
    table: MachineTable,
    rates: Mapping[str, float],
    headroom: float,
    powers: Mapping[str, Power],
    costs: Mapping[str, Cost | None],
    economics: Economics,
    limits: Limits,
) -> Demand:
    """Return how many servers of each machine type serve ``rates``. Raises UsageError for what is no rate."""
    for name in rates:
        column = table.column(name)
        if column.better == "lower" or column.unit == "s":
            raise UsageError(
                f"--demand {name}: less of it is better, so that servers do not add up",
                hint="name a rate, as requests per second",
            )
    found = [
        _servers(machine, rates, headroom, powers[machine.name], costs[machine.name], economics, limits)
        for machine in table.machines
    ]
    has_cost = any(one.cost is not None and one.refused is None for one in found)

    def key(one: Servers) -> tuple[bool, float, float]:
        worth = one.cost if has_cost else one.megawatts
        worst = one.servers is None or one.refused is not None
        return worst, math.inf if worth is None else worth, one.servers or math.inf

    found.sort(key=key)
    return Demand(rates, headroom, tuple(found), any(one.servers and one.refused is None for one in found))


def machines_for(rate: float, throughput: float) -> int | None:
    """Return how many machines serve a rate, None for more than there are.

    >>> machines_for(1000.0, 300.0), machines_for(1e12, 1e-300)
    (4, None)
    """
    needed = rate / throughput
    return math.ceil(needed - 1e-9) if needed < MOST else None


def _servers(
    machine: MeasuredMachine,
    rates: Mapping[str, float],
    headroom: float,
    power: Power,
    cost: Cost | None,
    economics: Economics,
    limits: Limits,
) -> Servers:
    lacking = [name for name in rates if name not in machine.results]
    if lacking:
        why = f"{lacking[0]}: {machine.why_missing(lacking[0])}"
        return Servers(machine.name, None, {}, None, None, None, None, missing=why)
    by_workload = {}
    for name, rate in rates.items():
        needed = machines_for(rate * (1 + headroom), machine.results[name].value)
        if needed is None:
            why = f"{name} needs more than {MOST:.0e} servers"
            return Servers(machine.name, None, {}, None, None, None, None, missing=why)
        by_workload[name] = needed
    count = sum(by_workload.values())
    per_rack = _per_rack(machine, power, limits)
    watts = None if power.watts is None else count * power.watts * economics.pue
    refused = None
    if per_rack == 0:
        refused = _too_much(machine, power, limits)
    elif limits.site_w is not None and watts is None:
        refused = f"its power is not known ({power.missing}), and the site has a limit"
    elif limits.site_w is not None and watts is not None and watts > limits.site_w:
        refused = f"{count:,} servers take {watts / 1e6:.3g} MW, the site has {limits.site_w / 1e6:g} MW"
    return Servers(
        machine.name,
        count,
        by_workload,
        math.ceil(count / per_rack) if per_rack else None,
        per_rack,
        None if watts is None else watts / 1e6,
        None if cost is None else count * cost.total,
        refused,
    )


def _per_rack(machine: MeasuredMachine, power: Power, limits: Limits) -> int | None:
    """Return how many servers a rack holds, None where neither height nor power is known."""
    bounds = []
    if (height := machine.number("rack_units")) is not None:
        bounds.append(limits.rack_units / height)
    if limits.rack_w is not None and power.watts is not None:
        bounds.append(limits.rack_w / power.watts)
    return math.floor(min(bounds) + 1e-9) if bounds else None


def _too_much(machine: MeasuredMachine, power: Power, limits: Limits) -> str:
    height = machine.number("rack_units")
    if height is not None and height > limits.rack_units:
        return f"a server has {height:g} rack units, a rack {limits.rack_units:g}"
    return f"a server takes {power.watts or 0:,.0f} W, a rack has {limits.rack_w or 0:,.0f} W"
