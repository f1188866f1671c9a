"""The answer of ``steelyard score`` of several machines: their order, members, and how sure it is.

In: a `Ranking`. Out: an `Answer`.
"""

from __future__ import annotations

from steelyard.decide.choice.results import Order
from steelyard.decide.ranking.ranking import MemberScore, RankedMachine, Ranking
from steelyard.report import format as fmt
from steelyard.report.answer import (
    Answer,
    Block,
    Chart,
    Column,
    Figure,
    Notes,
    Section,
    Series,
    Table,
    table,
)

_BARS_AT_MOST = 20
_MEMBERS_AT_MOST = 12
_BESIDE_AT_MOST = 4
"""Machines that stand in columns, where there are more results."""
_NOTES_AT_MOST = 20
_SURE = 0.95


def answer(found: Ranking, command: str, source: str) -> Answer:
    """Return the answer."""
    sections = [
        Section("order", "Order", (_overall(found), _order(found))),
        Section("members", "Scores by result", tuple(_members(found))),
        Section("withheld", "Without a score", tuple(_withheld(found))),
        Section("data", "Data", tuple(_data(found))),
    ]
    return Answer(
        "Scores",
        heading(found),
        [section for section in sections if section.blocks],
        lines=_sentences(found),
        cautions=_cautions(found),
        says_no=all(machine.ratio is None for machine in found.machines),
        eyebrow="machines",
        command=command,
        source=source,
    )


def heading(found: Ranking) -> str:
    """Return the answer in one line."""
    known = [machine for machine in found.machines if machine.ratio is not None]
    if not known:
        return "No machine has an overall score."
    first = known[0]
    if first.name == found.baseline:
        return f"{first.name}, the baseline, is first"
    return f"{first.name} is first: {_times(first, found.baseline)}"


def _times(machine: RankedMachine, baseline: str) -> str:
    if machine.low is None or machine.high is None:
        return f"{machine.ratio:.3g}x {baseline}"
    return f"{machine.ratio:.3g}x {baseline} ({machine.low:.3g} to {machine.high:.3g})"


def _ahead(order: Order) -> str:
    """Return how far the first is ahead of the second, and how sure that is."""
    said = f"{fmt.quantity(order.ratio - 1, 'ratio')} ahead of {order.second}"
    if order.probability is None:
        return f"{said}."
    return f"{said}; probability of this order {fmt.quantity(order.probability, 'ratio')}."


def _sentences(found: Ranking) -> list[str]:
    counted = [name for name, weight in found.weights.items() if weight > 0]
    equal = len(set(found.weights.values())) == 1
    how = "" if equal else ", weighted"
    ahead = [f"{found.orders[0].first} is {_ahead(found.orders[0])}"] if found.orders else []
    return [*ahead, f"Geometric mean of {fmt.several(len(counted), 'result')}{how}, over {found.baseline}."]


def _cautions(found: Ranking) -> list[str]:
    said = []
    unsure = [one for one in found.orders if one.probability is not None and one.probability < _SURE]
    if unsure:
        pairs = [f"{one.first} and {one.second}" for one in unsure]
        said.append(f"Order not sure: {fmt.listed(pairs)}.")
    unknown = [one for one in found.orders if one.probability is None]
    if unknown:
        said.append(f"No probability of the order: {unknown[0].no_interval}.")
    suspect = [
        f"{member.name} on {machine.name}"
        for machine in found.machines
        for member in machine.members
        if member.reservation
    ]
    if suspect:
        said.append(f"Suspect results: {fmt.listed(suspect)}.")
    return said


def _overall(found: Ranking) -> Chart:
    known = [machine for machine in found.machines if machine.ratio is not None][:_BARS_AT_MOST]
    has_spans = any(machine.low is not None for machine in known)
    return Chart(
        "scores",
        f"Overall score over {found.baseline}",
        (
            Series(
                "score",
                [machine.name for machine in known],
                [machine.ratio for machine in known],
                kind="bar",
                low=[machine.low for machine in known] if has_spans else None,
                high=[machine.high for machine in known] if has_spans else None,
            ),
        ),
        x_kind="name",
        horizontal=True,
        from_zero=True,
        height=max(220, 24 * len(known) + 90),
        missing="" if known else "no machine has an overall score",
        wide=True,
    )


def _order(found: Ranking) -> Table:
    known = [machine for machine in found.machines if machine.ratio is not None]
    has_spans = [machine.low is not None for machine in known if machine.name != found.baseline]
    columns = [
        Column("machine", is_text=True, is_whole=True),
        Column("rank", "count"),
        Column(f"score over {found.baseline}", is_answer=True),
    ]
    rows: list[list[object]] = [
        [machine.name, machine.rank, Figure(machine.ratio, machine.low, machine.high)] for machine in known
    ]
    if any(machine.better_than_next is not None for machine in known):
        columns.append(Column("better than the next", "ratio"))
        for row, machine in zip(rows, known, strict=True):
            row.append(machine.better_than_next)
    if any(has_spans) and not all(has_spans):
        columns.append(Column("no interval since", is_text=True, rank=3))
        for row, machine in zip(rows, known, strict=True):
            row.append("" if machine.name == found.baseline else machine.no_interval or "")
    return table(columns, rows)


def _members(found: Ranking) -> list[Block]:
    names = list(found.weights)
    if len(names) < 2:
        return []
    if len(found.machines) <= _BESIDE_AT_MOST and len(names) >= len(found.machines):
        return [_by_result(found)]
    if len(names) <= _MEMBERS_AT_MOST:
        equal = len(set(found.weights.values())) == 1
        columns = [Column("machine", is_text=True, is_whole=True)]
        columns += [
            Column(name if equal else f"{name} ({fmt.plain(fmt.quantity(found.weights[name], 'ratio'))})")
            for name in names
        ]
        rows = [
            (machine.name, *(_figure(member) for member in machine.members)) for machine in found.machines
        ]
        return [table(columns, rows)]
    columns = [
        Column("machine", is_text=True, is_whole=True),
        Column("lowest"),
        Column("highest"),
        Column("lowest result", is_text=True),
        Column("highest result", is_text=True),
    ]
    rows = []
    for machine in found.machines:
        known = sorted(
            (one for one in machine.members if one.ratio is not None), key=lambda one: one.ratio or 0
        )
        if known:
            rows.append((machine.name, _figure(known[0]), _figure(known[-1]), known[0].name, known[-1].name))
    return [table(columns, rows)]


def _by_result(found: Ranking) -> Table:
    """Return the scores with a row a result: few machines beside each other."""
    equal = len(set(found.weights.values())) == 1
    columns = [Column("result", is_text=True, is_whole=True)]
    if not equal:
        columns.append(Column("weight", "ratio"))
    # The baseline's own scores are 1.
    others = [machine for machine in found.machines if machine.name != found.baseline]
    columns += [Column(machine.name) for machine in others]
    rows: list[list[object]] = []
    for at, (name, weight) in enumerate(found.weights.items()):
        rows.append([name, *([] if equal else [weight])])
        rows[-1] += [_figure(machine.members[at]) for machine in others]
    return table(columns, rows)


def _figure(member: MemberScore) -> Figure:
    return Figure(member.ratio, member.low, member.high, missing=member.missing or "")


def _withheld(found: Ranking) -> list[Block]:
    rows = [(machine.name, machine.withheld) for machine in found.machines if machine.ratio is None]
    columns = [Column("machine", is_text=True, is_whole=True), Column("reason", is_text=True)]
    return [table(columns, rows)] if rows else []


def _data(found: Ranking) -> list[Block]:
    items = [*(f"{name}: {text}." for name, text in found.conditions.items()), *found.notes]
    if len(items) > _NOTES_AT_MOST:
        items = [*items[:_NOTES_AT_MOST], f"{len(items) - _NOTES_AT_MOST:,} more notes: --json has all."]
    return [Notes(tuple(items))] if items else []
