"""What a choice says, in sentences.

In: a `Choice`. Out: the heading, the lines below it, and the words of break-evens.

Not here: tables and charts (``choose``).
"""

from __future__ import annotations

from collections.abc import Iterator

from steelyard.decide.choice.results import (
    BreakEven,
    Choice,
    Criterion,
    HiddenMembers,
    WeighedMachine,
)
from steelyard.report import format as fmt

LABELS = {
    Criterion.PERFORMANCE: "Perf",
    Criterion.PER_WATT: "Perf/W",
    Criterion.PER_COST: "Perf/$",
}
_PARAMETERS = {
    "power_price": "price of power per kWh",
    "pue": "PUE",
    "years": "years",
    "price": "price of",
    "price_per_hour": "price per hour of",
    "weight": "weight of",
}
_NAMED = 3
"""Machines with hidden members that have a line of their own."""
_MEMBERS = 3
_FARTHEST = 4.0
"""A parameter that would have to be so many times as large or small is no caution in a heading."""
_WHOLE = 0.9
"""A weight that leaves hardly any other workload is none either."""


def times(value: float) -> str:
    """Return a score, or a ratio of two.

    >>> times(1.254), times(0.0432), times(12.34)
    ('1.25x', '0.043x', '12.3x')
    """
    return f"{value:.2f}x" if 0.1 <= value < 10 else f"{fmt.significant(value, 2 if value < 1 else 3)}x"


def change(value: float) -> str:
    """Return a score as a change from the baseline.

    >>> fmt.plain(change(1.25)), fmt.plain(change(0.15))
    ('+25 %', '-85 %')
    """
    return f"{(value - 1) * 100:+.0f}\u202f%".replace("+-", "-") if value < 3 else times(value)


def money(value: float, currency: str) -> str:
    """Return an amount of money.

    >>> fmt.plain(money(12345.6, "USD")), fmt.plain(money(3_210_000, ""))
    ('12,346 USD', '3.21 M')
    """
    text = fmt.quantity(value, "1") if value >= 1e6 else f"{value:,.0f}" if value >= 100 else f"{value:,.2f}"
    return f"{text}\u202f{currency}" if currency else text


def heading(choice: Choice) -> str:
    """Return the answer in one line."""
    criterion = Criterion(choice.criterion)
    if choice.demand is not None:
        return _demand_heading(choice)
    first = choice.machines[0]
    label = LABELS[criterion]
    said = f"{first.name} is first by {label}"
    overall = first.scores[criterion].overall
    if first.name == choice.baseline:
        second = choice.machines[1]
        return f"{said}: {second.name}, the next one, has {_change_of(second, criterion)}"
    return f"{said}: {change(overall or 1)} over {choice.baseline}{_probability(choice)}"


def _change_of(one: WeighedMachine, criterion: Criterion) -> str:
    return change(one.scores[criterion].overall or 1)


def _probability(choice: Choice) -> str:
    first = next(iter(choice.orders), None)
    if first is None or first.probability is None:
        return ""
    chance = ">99.9" if first.probability > 0.9995 else f"{first.probability * 100:.3g}"
    return f"; it is ahead of {first.second} with a probability of {chance}\u202f%"


def _demand_heading(choice: Choice) -> str:
    demand = choice.demand
    assert demand is not None
    best = demand.choices[0]
    if not demand.is_met:
        why = best.refused or best.missing
        return f"No machine type meets the demand within the limits: {best.machine}: {why}"
    parts = [f"{best.servers or 0:,} servers"]
    if best.racks is not None:
        parts.append(fmt.several(best.racks, "rack"))
    if best.megawatts is not None:
        parts.append(f"{best.megawatts:.3g} MW")
    if best.cost is not None:
        parts.append(f"{money(best.cost, choice.currency)} over {choice.economics.years:g} years")
    return f"{best.machine} meets the demand for the least: {', '.join(parts)}"


def lines(choice: Choice) -> Iterator[str]:
    """Yield what stands below the heading, what misleads first."""
    criterion = Criterion(choice.criterion)
    if choice.demand is not None and not choice.demand.is_met:
        yield "Raise the limit (--site-mw, --rack-kw), lower the demand, or add other machine types."
    for one in choice.contradictions[:_NAMED]:
        mix = (
            ""
            if one.same_mix is None
            else f"; at the shares of {choice.baseline} it is {change(one.same_mix)}"
        )
        members = f"all its {len(one.members)} members say" if len(one.members) > 1 else "its member says"
        yield (
            f"{one.aggregate} is refused: it says {change(one.score)} of {one.machine}, and {members} the"
            f" opposite{mix}."
        )
    if len(choice.contradictions) > _NAMED:
        yield f"{len(choice.contradictions) - _NAMED:,} more aggregates are refused."
    yield from _hidden(choice)
    # By one criterion: the table has the others.
    wrong = [each for each in choice.disagreements if each.criterion == criterion] or choice.disagreements
    for each in wrong[:_NAMED]:
        yield (
            f"{each.suite} misleads: it says {times(each.says)} {LABELS[Criterion(each.criterion)]} of"
            f" {each.machine}, {choice.suites[0].suite} says {times(each.decides)}."
        )
    yield from _order(choice)
    flips = [one for one in choice.break_evens if _is_near(one)]
    for flip in flips[:3]:
        yield (
            f"The order of {flip.first} and {flip.second} flips if {_condition(flip)}"
            f" (now {value_of(flip, flip.now)})."
        )
    for name, reason in choice.not_answered.items():
        yield f"No {LABELS[Criterion(name)]}: {reason}."
    known = [one.name for one in choice.machines if one.is_on_front]
    if known and len(known) < len(choice.machines):
        parts = ["performance"]
        parts += ["cost"] if any(one.cost for one in choice.machines) else []
        parts += ["power"] if any(one.power.watts for one in choice.machines) else []
        together = " together" if len(parts) > 1 else ""
        yield f"Not beaten in {fmt.listed(parts)}{together}: {fmt.listed(known, 5)}."
    weights = {each.weight for each in choice.workloads}
    if len(weights) > 1:
        said = ", ".join(f"{each.name} {fmt.quantity(each.weight, 'ratio')}" for each in choice.workloads[:6])
        yield f"Weights: {said}."
    without = [one for one in choice.machines if one.rank is None]
    if without:
        why = without[0].scores[criterion].missing
        count = fmt.several(len(without), "machine")
        yield f"{count} without {LABELS[criterion]}: {without[0].name}: {why}."


def _hidden(choice: Choice) -> Iterator[str]:
    for one in choice.hidden[:_NAMED]:
        yield hidden_sentence(one)
    if len(choice.hidden) > _NAMED:
        yield f"{len(choice.hidden) - _NAMED:,} more machines are far below {choice.baseline} in a workload."


def hidden_sentence(one: HiddenMembers) -> str:
    """Return in which workloads a machine is far below the baseline."""
    label = LABELS[Criterion(one.criterion)]
    members = ", ".join(f"{change(each.score)} on {each.workload}" for each in one.members[:_MEMBERS])
    more = f" and {len(one.members) - _MEMBERS} more" if len(one.members) > _MEMBERS else ""
    return f"{one.machine}: {label} {change(one.overall)} overall, {members}{more}."


def _order(choice: Choice) -> Iterator[str]:
    first = next(iter(choice.orders), None)
    if first is None:
        return
    if first.no_interval is not None:
        yield f"No probability that {first.first} is ahead of {first.second}: {first.no_interval}."
    elif first.probability is not None and first.probability < 0.95:
        yield (
            f"The order of {first.first} and {first.second} is open: {first.first} is ahead with a"
            f" probability of {first.probability * 100:.0f}\u202f%."
        )


def _is_near(one: BreakEven) -> bool:
    if one.parameter == "weight":
        return one.at < _WHOLE
    return one.now > 0 and 1 / _FARTHEST < one.at / one.now < _FARTHEST


def figure(value: float) -> str:
    """Return a parameter: a price, a weight, years.

    >>> figure(0.1234), figure(9987.6), figure(0.333333)
    ('0.123', '9,988', '0.333')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def value_of(one: BreakEven, value: float) -> str:
    """Return the text of a parameter's value; a weight is a share of all."""
    return fmt.quantity(value, "ratio") if one.parameter == "weight" else figure(value)


def break_even_sentence(one: BreakEven) -> str:
    """Return what happens beyond a break-even."""
    return f"{one.second} is better than {one.first}"


def _condition(one: BreakEven) -> str:
    word = "more" if one.at > one.now else "less"
    if one.parameter == "power_price":
        return f"power costs {word} than {figure(one.at)} per kWh"
    if one.parameter == "weight":
        return f"the weight of {one.workload} is {word} than {value_of(one, one.at)} of all weights"
    if one.parameter in ("price", "price_per_hour"):
        return f"the {_PARAMETERS[one.parameter]} {one.first} is {word} than {figure(one.at)}"
    name = "the PUE is" if one.parameter == "pue" else "machines are used"
    unit = " years" if one.parameter == "years" else ""
    return f"{name} {word} than {figure(one.at)}{unit}"


def parameter_text(one: BreakEven) -> str:
    """Return the name of a parameter, with what it is of."""
    name = _PARAMETERS[one.parameter]
    if one.parameter == "weight":
        return f"{name} {one.workload}"
    return f"{name} {one.first}" if one.parameter in ("price", "price_per_hour") else name
