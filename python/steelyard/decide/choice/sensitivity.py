"""At which price, PUE, years or weight two machines change places: solved, not searched.

In: two machines' performance and cost. Out: `BreakEven`s.

With performance ratio r of the first over the second and costs T, the order by performance for its cost flips
where T_first = r T_second. T is linear in the price of power, in PUE and in the years, so that each has one
solution at most. The logarithm of an overall score is linear in a workload's weight w, the others keeping
their proportions:

    log ratio(w) = w * own + (1 - w) * rest = 0   at   w = -rest / (own - rest)

Not here: which pairs are asked about (``making``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from steelyard.decide.choice.economics import HOURS_PER_YEAR, Economics, Power, cost_of
from steelyard.decide.choice.results import BreakEven, Workload
from steelyard.decide.tables.model import MeasuredMachine

POWER_PRICE, PUE, YEARS, PRICE, WEIGHT = "power_price", "pue", "years", "price", "weight"
_SPAN = {POWER_PRICE: (0.0, 100.0), PUE: (1.0, 10.0), YEARS: (0.0, 100.0)}
"""Where a break-even means something."""


def cost_break_evens(
    first: MeasuredMachine,
    second: MeasuredMachine,
    powers: tuple[Power, Power],
    performance_ratio: float,
    economics: Economics,
) -> list[BreakEven]:
    """Return where prices, PUE and years make the second the better one for its cost."""
    found = []
    now = {POWER_PRICE: economics.power_price, PUE: economics.pue, YEARS: economics.years}
    for parameter, value in now.items():
        if value is None:
            continue
        at = _root(
            lambda x, name=parameter: _difference(  # type: ignore[misc]
                first, second, powers, performance_ratio, economics, {name: x}
            ),
            value,
        )
        if at is not None and _SPAN[parameter][0] < at < _SPAN[parameter][1] and not math.isclose(at, value):
            found.append(BreakEven(parameter, first.name, second.name, value, at))
    price = _price(first, second, powers, performance_ratio, economics)
    return found if price is None else [*found, price]


def _difference(
    first: MeasuredMachine,
    second: MeasuredMachine,
    powers: tuple[Power, Power],
    ratio: float,
    economics: Economics,
    change: Mapping[str, float],
) -> float:
    """Return T_first - r T_second with a parameter changed: below 0 the first is the better one."""
    changed = replace(economics, **change)
    costs = [cost_of(each, power, changed)[0] for each, power in zip((first, second), powers, strict=True)]
    assert costs[0] is not None
    assert costs[1] is not None
    return costs[0].total - ratio * costs[1].total


def _root(of: Callable[[float], float], now: float) -> float | None:
    """Return where a linear function is 0, None for one that is level."""
    here, there = of(now), of(2 * now + 1)
    slope = (there - here) / (now + 1)
    if abs(slope) <= 1e-12 * max(abs(here), abs(there), 1e-300):
        return None
    return float(now - here / slope)


def _price(
    first: MeasuredMachine,
    second: MeasuredMachine,
    powers: tuple[Power, Power],
    ratio: float,
    economics: Economics,
) -> BreakEven | None:
    """Return the price of the first machine at which the second is as good."""
    costs = [cost_of(each, power, economics)[0] for each, power in zip((first, second), powers, strict=True)]
    name = "price" if first.number("price") is not None else "price_per_hour"
    now = first.number(name)
    if costs[0] is None or costs[1] is None or now is None:
        return None
    hours = 1.0 if name == "price" else HOURS_PER_YEAR * economics.years
    at = now + (ratio * costs[1].total - costs[0].total) / hours
    return BreakEven(name, first.name, second.name, now, at) if at > 0 else None


def weight_break_evens(
    first: str,
    second: str,
    workloads: Sequence[Workload],
    ratios: Mapping[str, float],
) -> list[BreakEven]:
    """Return at which weight of a workload the second machine is the better one.

    ``ratios`` are scores of the first over those of the second, by workload.
    """
    total = math.fsum(each.weight for each in workloads)
    found = []
    for each in workloads:
        now = each.weight / total
        others = [(one.weight, math.log(ratios[one.name])) for one in workloads if one is not each]
        outer = math.fsum(weight for weight, _ in others)
        if not outer:
            continue
        rest = math.fsum(weight * value for weight, value in others) / outer
        own = math.log(ratios[each.name])
        if own * rest >= 0:
            continue
        at = -rest / (own - rest)
        if not math.isclose(at, now):
            found.append(BreakEven(WEIGHT, first, second, now, at, each.name))
    return found
