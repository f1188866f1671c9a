"""The answer of ``steelyard size``: tables and charts of a `Sizing`.

In: a `Sizing`. Out: an `Answer`. Not here: sizing (``decide.sizing``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from steelyard.decide.sizing.curves import Throughput
from steelyard.decide.sizing.results import Edge, Size, Sizing
from steelyard.report import format as fmt
from steelyard.report.answer import (
    Answer,
    Block,
    Chart,
    Column,
    Figure,
    Mark,
    Notes,
    Section,
    Series,
    Table,
    table,
    written,
)
from steelyard.report.decide.choose_words import money
from steelyard.stats.scaling.choice import Figure as Parameter

_ROWS = 20
_LINES = 8
_SAME = 0.0005
_ROLES = ("blue", "orange", "green", "purple", "red", "sky", "yellow", "ink")


def answer(found: Sizing, *, command: str = "", source: str = "") -> Answer:
    """Return the answer."""
    sections = [
        Section("sizes", "Sizes", tuple(_sizes(found))),
        Section("curves", "Throughput by CPUs", tuple(_curves(found)), on_terminal=False),
        Section("sweeps", "Throughput by memory and load", tuple(_sweeps(found)), on_terminal=False),
        Section("edges", "Where more is worth less", tuple(_edges(found))),
        Section("notes", "Data", (Notes(found.notes),) if found.notes else ()),
    ]
    return Answer(
        "Sizing",
        heading(found),
        [section for section in sections if section.blocks],
        lines=list(_lines(found)),
        cautions=found.cautions,
        says_no=found.recommended is None,
        rows=_ROWS,
        eyebrow="how many of what",
        command=command,
        source=source,
    )


def name_of(one: Size) -> str:
    """Return a size in words."""
    if one.cpus is None:
        return one.machine
    return f"{_cpus(one.cpus)} of {one.machine}" if one.is_part else f"{one.machine} ({_cpus(one.cpus)})"


def _cpus(count: int) -> str:
    return fmt.several(count, "CPU")


def heading(found: Sizing) -> str:
    """Return the answer in one line."""
    best = found.recommended
    if best is None:
        # What was measured says more than what was not.
        order = sorted(found.sizes, key=lambda one: one.throughput.ops_per_s is None)
        nearest = order[0] if order else None
        why = "" if nearest is None else f": {name_of(nearest)}: {nearest.refused}"
        return f"No size serves the workload{why}"
    if best.count is None:
        worth = "" if best.cost_per_million is None else f": {_per_million(best, found)}"
        return (
            f"{name_of(best)} does most for its cost{worth}"
            if worth
            else f"{name_of(best)} does most per {'CPU' if best.reserved_cpus else 'machine'}"
        )
    price = ""
    if best.cost is not None:
        price = f", {money(best.cost, found.currency)} over {found.economics.years:g} years"
    machines = f"{best.count:,} x {name_of(best)}"
    return f"{machines} serve {fmt.quantity(found.demand_per_s, '1/s')}{_margin(best)}{price}"


def _margin(one: Size) -> str:
    if one.margin_ratio is None:
        return ""
    return f" with {_percent(one.margin_ratio)} to spare at the lower end of the 95\u202f% interval"


def _percent(ratio: float) -> str:
    """Return a share, a small one with one digit.

    >>> fmt.plain(_percent(0.0312)), fmt.plain(_percent(0.25))
    ('3.1 %', '25 %')
    """
    return f"{ratio * 100:.2g}\u202f%" if ratio < 1 else f"{ratio * 100:.0f}\u202f%"


def _per_million(one: Size, found: Sizing) -> str:
    return f"{one.cost_per_million or 0:.3g} {found.currency or 'money'} for a million operations"


def _lines(found: Sizing) -> Iterator[str]:
    best, second = found.recommended, found.second
    if best is None:
        yield "Lower the rate or the limits, or add other machine types."
        order = sorted(found.sizes, key=lambda one: one.throughput.ops_per_s is None)
        reasons = dict.fromkeys(f"{name_of(one)}: {one.refused}" for one in order[1:] if one.refused)
        yield from (f"Also: {reason}." for reason in list(reasons)[:3])
        return
    if best.count is not None and best.expected_margin_ratio is not None:
        expected = _percent(best.expected_margin_ratio)
        yield f"At the predicted throughput {expected} is to spare; total {_total(best)}."
    if second is not None:
        yield f"Second best: {_second(best, second, found)}."
    if found.memory_bytes is not None:
        yield f"Memory needed: {fmt.quantity(round(found.memory_bytes), 'bytes')}, {found.memory_source}."
    if found.latency_limit_ns is not None and best.latency_ns is not None:
        worst, limit = fmt.duration(best.latency_ns), fmt.duration(found.latency_limit_ns)
        yield f"{found.latency} latency {worst} at the recommended size, limit {limit}."
    yield from (f"{edge_sentence(edge)}." for edge in found.edges[:3] if edge.machine == best.machine)


def _total(one: Size) -> str:
    parts = []
    if one.reserved_cpus is not None and one.count is not None:
        parts.append(f"{round(one.reserved_cpus * one.count):,} CPUs")
    if one.memory_bytes is not None and one.count is not None:
        parts.append(f"{fmt.quantity(round(one.memory_bytes * one.count), 'bytes')} of memory")
    return " and ".join(parts) or f"{one.count:,} machines"


def _second(best: Size, second: Size, found: Sizing) -> str:
    if second.count is None:
        million = "" if second.cost_per_million is None else f", {_per_million(second, found)}"
        return f"{name_of(second)}{million}"
    said = f"{second.count:,} x {name_of(second)}"
    if best.cost and second.cost:
        return f"{said}, {_more(second.cost / best.cost - 1, 'cost')}"
    if best.cpus and second.cpus and best.count:
        more = second.count * (second.reserved_cpus or 0) / (best.count * (best.reserved_cpus or 1)) - 1
        return f"{said}, {_more(more, 'CPUs')}"
    return said


def _more(ratio: float, noun: str) -> str:
    """Return how much more the second best takes; it may take a little less, with more machines."""
    if abs(ratio) < _SAME:
        return f"the same {noun}"
    less = "less" if noun == "cost" else "fewer"
    return f"{_percent(abs(ratio))} {'more' if ratio > 0 else less} {noun}"


def _sizes(found: Sizing) -> Iterator[Block]:
    yield _table(found, [one for one in found.sizes if one.refused is None], "")
    refused = [one for one in found.sizes if one.refused is not None]
    if refused:
        yield _table(found, refused, "Refused")
    known = [one for one in found.sizes if one.refused is None and one.cost is not None][:_ROWS]
    if known:
        yield Chart(
            "cost",
            "Cost over the years" if found.demand_per_s is not None else "Cost of one",
            (Series("cost", [name_of(one) for one in known], [one.cost for one in known], kind="bar"),),
            x_kind="name",
            horizontal=True,
            from_zero=True,
            y_title=found.currency or "money",
            height=110 + 26 * len(known),
            wide=True,
        )


def _table(found: Sizing, sizes: Sequence[Size], title: str) -> Table:
    has_demand = found.demand_per_s is not None
    is_refused = title != ""
    columns = [
        Column("machine", is_text=True),
        Column("CPUs", rank=0),
        Column("throughput of one", rank=1),
        Column(found.latency, "ns", rank=3),
        *(
            [Column("machines", is_answer=not is_refused), Column("margin", "ratio", rank=2)]
            if has_demand
            else []
        ),
        Column("cost", rank=1, is_answer=not has_demand and not is_refused),
        Column("per million", rank=4),
        Column("reason" if is_refused else "remark", is_text=True, rank=0 if is_refused else 5),
    ]
    rows = []
    for one in sizes:
        needed: list[object] = []
        if has_demand:
            count = None if one.count is None else written(f"{one.count:,}", one.count, unit="1")
            needed = [count, Figure(one.margin_ratio, missing=one.throughput.no_interval or "")]
        cost = None if one.cost is None else written(money(one.cost, found.currency), one.cost)
        million = one.cost_per_million
        rows.append(
            [
                one.machine,
                None if one.cpus is None else written(f"{one.cpus:,}", one.cpus, unit="1"),
                _rate(one.throughput),
                _latency(one.latency_ns),
                *needed,
                cost,
                None if million is None else written(f"{million:.3g}", million),
                one.refused or _remark(one),
            ]
        )
    return table(columns, rows, title=title)


def _rate(rate: Throughput) -> Figure:
    if rate.ops_per_s is None:
        return Figure(missing=rate.reason or "")
    return Figure(rate.ops_per_s, rate.low, rate.high, unit="1/s")


def _latency(value: float | None) -> Figure:
    return Figure(value, missing="not measured" if value is None else "")


def _remark(one: Size) -> str:
    if not one.is_assured:
        return one.throughput.no_interval or ""
    return "part of a machine" if one.is_part else ""


def _curves(found: Sizing) -> Iterator[Block]:
    """Yield throughput and latency by CPUs of the machines with curves, the best first."""
    order = list(dict.fromkeys(one.machine for one in found.sizes))
    several = {
        name: points
        for name in order
        if len(points := [one for one in found.points if one.machine == name]) > 1
    }
    if not several:
        return
    shown = list(several.items())[:_LINES]
    series = [
        Series(
            name,
            [one.cpus for one in points],
            [one.throughput.ops_per_s for one in points],
            low=[one.throughput.low for one in points],
            high=[one.throughput.high for one in points],
            role=_ROLES[at],
        )
        for at, (name, points) in enumerate(shown)
    ]
    best = found.recommended
    edges = [edge for edge in found.edges if best is not None and edge.machine == best.machine]
    yield Chart(
        "throughput",
        "Throughput by CPUs, with the interval of a trial",
        tuple(series),
        x_title="CPUs",
        y_title="operations per second",
        y_unit="1/s",
        from_zero=True,
        marks=tuple(Mark("x", edge.at.value, edge.kind) for edge in edges if edge.kind != "memory"),
        wide=True,
    )
    if any(one.latency_ns is not None for one in found.points):
        yield Chart(
            "latency",
            f"Latency by CPUs, {found.latency}, the largest of the blocks",
            tuple(
                Series(
                    name, [one.cpus for one in points], [one.latency_ns for one in points], role=_ROLES[at]
                )
                for at, (name, points) in enumerate(shown)
            ),
            x_title="CPUs",
            y_title=f"{found.latency} latency",
            y_unit="ns",
            from_zero=True,
            marks=() if found.latency_limit_ns is None else (Mark("y", found.latency_limit_ns, "limit"),),
            wide=True,
        )
    rows = [
        [name, one.cpus, _rate(one.throughput), _latency(one.latency_ns)]
        for name, points in shown
        for one in points
    ]
    columns = [
        Column("machine", is_text=True),
        Column("CPUs"),
        Column("throughput"),
        Column(found.latency, "ns"),
    ]
    yield table(columns, rows, title="Figures", closed=True)


def _sweeps(found: Sizing) -> Iterator[Block]:
    """Yield throughput by memory and by load, and latency by load."""
    for axis, unit, title in (("memory", "bytes", "memory"), ("load", "1", "load")):
        points = [one for one in found.sweeps if one.axis == axis]
        machines = list(dict.fromkeys(one.machine for one in points))
        marks = [edge for edge in found.edges if edge.kind == axis]
        for figure, named, shown in (("ops_per_s", "throughput", "1/s"), ("latency_ns", "latency", "ns")):
            if not any(getattr(one, figure) is not None for one in points):
                continue
            series = tuple(
                Series(
                    machine,
                    [one.level for one in points if one.machine == machine],
                    [getattr(one, figure) for one in points if one.machine == machine],
                    role=_ROLES[at % len(_ROLES)],
                )
                for at, machine in enumerate(machines)
            )
            yield Chart(
                f"{axis}-{named}",
                f"{named.capitalize()} by {title}",
                series,
                x_title=title,
                x_unit=unit,
                y_title=f"{found.latency} latency" if figure == "latency_ns" else "operations per second",
                y_unit=shown,
                x_log=axis == "memory",
                from_zero=True,
                marks=tuple(Mark("x", edge.at.value, "edge") for edge in marks),
            )


def edge_sentence(one: Edge) -> str:
    """Return where an edge is and what it costs."""
    if one.kind == "memory":
        at = fmt.quantity(round(one.at.value), "bytes")
        return f"{one.machine}: more memory than {at} gains nothing"
    at = f"{one.at.value:.3g} CPUs"
    worth = "" if one.worth_ratio is None else f" is worth {_worth(one.worth_ratio)} of one before"
    match one.kind:
        case "siblings":
            return f"{one.machine}: cores end at {at}; each sibling beyond{worth}"
        case "ceiling":
            return f"{one.machine}: throughput has a ceiling from {at} on"
        case "node" if one.is_level and one.worth_ratio is not None:
            cost = _worth(one.worth_ratio)
            return f"{one.machine}: beyond {at}, on another NUMA node, throughput is {cost} of what it was"
        case "node":
            return f"{one.machine}: a NUMA node ends at {at}; each CPU beyond{worth}"
    return f"{one.machine}: the curve bends at {at}; each CPU beyond{worth}"


def _worth(one: Parameter) -> str:
    if one.low is None or one.high is None or one.low == one.high:
        return f"{one.value:.2f}"
    return f"{one.value:.2f} ({one.low:.2f} to {one.high:.2f})"


def _parameter(one: Parameter, unit: str | None) -> Figure:
    """Return a parameter; of one that the machine sets, without an interval."""
    if one.low == one.high:
        return Figure(one.value, unit=unit)
    return Figure(one.value, one.low, one.high, unit=unit)


def _edges(found: Sizing) -> Iterator[Block]:
    if found.edges:
        rows = []
        for one in found.edges:
            unit = "bytes" if one.kind == "memory" else None
            worth = one.worth_ratio
            rows.append(
                [
                    one.machine,
                    one.kind,
                    _parameter(one.at, unit),
                    None if worth is None else _parameter(worth, None),
                    edge_sentence(one).partition(": ")[2],
                ]
            )
        columns = [
            Column("machine", is_text=True),
            Column("edge", is_text=True),
            Column("at"),
            Column("worth beyond", rank=1),
            Column("meaning", is_text=True, rank=2),
        ]
        yield table(columns, rows)
    if found.without_edge:
        items = [f"{name}: {why}" for name, why in list(found.without_edge.items())[:_LINES]]
        yield Notes(tuple(items), "Without an edge")
