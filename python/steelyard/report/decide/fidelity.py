"""The answer of ``steelyard fidelity A B``: distances by metric and group, and both workloads side by side.

In: a `Fidelity`. Out: an `Answer`. Charts have the shape of DCPerf's Figures 4 to 12: stacked bars for shares
of a whole, bars of A beside those of B for everything else.

Not here: distances (``decide.fidelity``), calibrations (``calibration``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from steelyard.analyze.profiles.tax_rules import shipped_rules
from steelyard.decide.fidelity.catalogue import CATALOGUE, TAX, WHOLES, Kind
from steelyard.decide.fidelity.comparison import Fidelity, GroupDistance, MetricDistance
from steelyard.report import format as fmt
from steelyard.report.answer import (
    Answer,
    Block,
    Cell,
    Chart,
    Column,
    Figure,
    Notes,
    Section,
    Series,
    Table,
    table,
    written,
)

_ROWS = 60
_FUNCTIONS = 12
_ROLES = ("blue", "orange", "green", "red", "purple", "sky", "yellow", "ink")
_SEEN = 50
"""A bar that is so many times shorter than another is not seen beside it."""
_SMALL = 0.095
"""Distance of a magnitude below which it is said in per cent."""


def answer(found: Fidelity, *, command: str = "", source: str = "") -> Answer:
    """Return the answer; ``source`` says where the two are from."""
    compared = [each for each in found.metrics if each.distance is not None]
    alone = [each for each in found.metrics if each.distance is None]
    sections = [
        Section("metrics", "Metrics, farthest first", (_distances(compared), _metrics(found, compared))),
        Section("groups", "Groups, farthest first", (_groups(found.groups),)),
        Section("parts", "Shares by name", tuple(_parts(compared)), on_terminal=False),
        Section(
            "figures",
            "Side by side",
            tuple(side_by_side(found.metrics, found.a, found.b)),
            grid=True,
            on_terminal=False,
        ),
        Section("one-sided", "Not compared", tuple(_alone(alone))),
        Section("not-measured", "Measured on neither side", tuple(_neither(found)), on_terminal=False),
    ]
    return Answer(
        "Fidelity",
        heading(found),
        [section for section in sections if section.blocks],
        lines=list(_lines(found)),
        cautions=found.cautions,
        rows=_ROWS,
        eyebrow="two workloads",
        command=command,
        source=source or f"{found.a} and {found.b}",
    )


def heading(found: Fidelity) -> str:
    """Return the answer in one line."""
    near = [group for group in found.groups if group.distance is not None]
    far = found.metrics[0]
    whole = found.overall
    said = f"overall distance {interval(whole.distance, whole.low, whole.high)}"
    said += f" over {whole.compared} of {whole.known} metrics"
    if whole.distance == 0:
        return f"{found.a} and {found.b} are the same in all metrics that both have; {said}"
    if len(near) == 1:
        return f"{found.a} and {found.b} can be compared in {near[0].name} only; {said}"
    closest = near[-1]
    return (
        f"{found.a} is closest to {found.b} in {closest.name} ({_of_group(closest)}) and furthest in"
        f" {far.title} ({apart(far)}); {said}"
    )


def interval(value: float, low: float | None, high: float | None) -> str:
    """Return a distance with the ends of its interval.

    >>> interval(0.3141, 0.27, 0.36), interval(0.3141, None, None)
    ('0.31 (0.27 to 0.36)', '0.31')
    """
    ends = "" if low is None or high is None else f" ({_number(low)} to {_number(high)})"
    return f"{_number(value)}{ends}"


def _number(value: float) -> str:
    return "0" if value == 0 else "<0.01" if value < 0.005 else f"{value:.2f}"


def apart(one: MetricDistance) -> str:
    """Return a distance in the field's words: points of a share, or how many times as much."""
    distance = one.distance
    if distance is None:
        return fmt.MISSING
    if one.kind is not Kind.MAGNITUDE:
        return f"{distance * 100:.2g} points"
    return _times(distance)


def _times(distance: float) -> str:
    """Return a distance of magnitudes in words.

    >>> fmt.plain(_times(0.04)), _times(0.833)
    ('4.1 %', '2.3x')
    """
    return f"{math.expm1(distance) * 100:.2g} %" if distance < _SMALL else f"{_factor(math.exp(distance))}x"


def _factor(ratio: float) -> str:
    """Return a ratio with two digits, and never with an exponent.

    >>> _factor(0.0283), _factor(2.34), _factor(356.7)
    ('0.028', '2.3', '357')
    """
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.2g}" if ratio >= 1e-3 else f"1/{1 / ratio:,.0f}"


def _of_group(group: GroupDistance) -> str:
    if group.distance is None:
        return fmt.MISSING
    return f"{group.distance * 100:.2g} points" if group.name in WHOLES else _times(group.distance)


def _lines(found: Fidelity) -> Iterator[str]:
    whole = found.overall
    if whole.low is None:
        yield f"No interval: {whole.no_interval}. Give repeats (--repeat 5) or windows."
    elif whole.low == 0:
        yield "The two are not distinguishable: the interval holds 0."
    elif whole.noise is not None:
        yield (
            f"Two measurements of one workload, as noisy as these, are up to {_number(whole.noise)} apart."
        )
    same = [each.title for each in found.metrics if each.is_distinguishable is False]
    if same:
        yield f"Not distinguishable from noise: {fmt.listed(same, 6)}."
    yield from _without_interval(found)
    yield (
        "Distance: |ln(A/B)| of magnitudes, difference of shares, total variation of shares by name; mean by"
        " group, and over groups."
    )


def _without_interval(found: Fidelity) -> Iterator[str]:
    """Yield a sentence for each reason why metrics have no interval."""
    by_reason: dict[str, list[str]] = {}
    for each in found.metrics:
        if each.no_interval:
            by_reason.setdefault(each.no_interval, []).append(each.title)
    for reason, titles in by_reason.items():
        yield f"No interval of {fmt.listed(titles, 6)}: {reason}."


def _metrics(found: Fidelity, compared: Sequence[MetricDistance]) -> Table:
    columns = (
        Column("metric", is_text=True),
        Column("group", is_text=True, rank=3),
        Column("A"),
        Column("B"),
        Column("A against B", is_text=True),
        Column("distance", is_answer=True),
        Column("beyond noise", is_text=True, rank=1),
        Column("moved by", is_text=True, rank=2),
    )
    rows = [
        [
            each.title,
            each.group,
            Figure(each.a, unit=each.unit) if each.a is not None else fmt.MISSING,
            Figure(each.b, unit=each.unit) if each.b is not None else fmt.MISSING,
            _against(each),
            _distance(each.distance, each.low, each.high),
            _beyond(each),
            each.moved_by,
        ]
        for each in compared
    ]
    return table(columns, rows, caption=f"A is {found.a}, B is {found.b}.")


def _against(one: MetricDistance) -> str:
    """Return A as people put it against B: a difference in points, a small one in per cent, a ratio."""
    if one.a is None or one.b is None or one.distance is None:
        return apart(one)
    if 0 in (one.a, one.b) and one.a != one.b and one.kind is Kind.MAGNITUDE:
        return f"0 in {'A' if one.a == 0 else 'B'}"
    side = "" if one.a == one.b else " more" if one.a > one.b else " less"
    if one.kind is not Kind.MAGNITUDE or one.distance < _SMALL:
        return f"{apart(one)}{side}"
    return f"{_factor(math.exp(math.copysign(one.distance, one.a - one.b)))}x"


def _distance(value: float | None, low: float | None, high: float | None) -> Cell | None:
    if value is None:
        return None
    return written(interval(value, low, high), value, low, high)


def _beyond(one: MetricDistance) -> Cell:
    if one.is_distinguishable is None:
        return Cell("no interval", raw=one.no_interval or "", is_text=True)
    return Cell("yes" if one.is_distinguishable else "no", is_text=True)


def _groups(groups: Sequence[GroupDistance]) -> Table:
    columns = (
        Column("group", is_text=True, is_whole=True),
        Column("distance", is_answer=True),
        Column("compared", is_text=True),
    )
    rows = [
        [
            group.name,
            _distance(group.distance, group.low, group.high) or Figure(missing=group.missing or ""),
            f"{group.compared} of {group.known}",
        ]
        for group in groups
    ]
    return table(columns, rows)


def _alone(alone: Sequence[MetricDistance]) -> Iterator[Block]:
    if not alone:
        return
    columns = (
        Column("metric", is_text=True),
        Column("A"),
        Column("B"),
        Column("reason", is_text=True),
    )
    yield table(
        columns,
        [
            [each.title, Figure(each.a, unit=each.unit), Figure(each.b, unit=each.unit), each.missing or ""]
            for each in alone
        ],
    )


def _neither(found: Fidelity) -> Iterator[Block]:
    if found.not_measured:
        yield Notes(tuple(f"{each.title}: {each.missing}" for each in found.not_measured))


def _distances(compared: Sequence[MetricDistance]) -> Chart:
    shown = compared
    series = Series(
        "distance",
        [each.title for each in shown],
        [each.distance for each in shown],
        kind="bar",
        low=[each.distance if each.low is None else each.low for each in shown],
        high=[each.distance if each.high is None else each.high for each in shown],
    )
    return Chart(
        "distances",
        "Distance by metric",
        (series,),
        x_kind="name",
        horizontal=True,
        from_zero=True,
        y_title="distance (0.05 is 5 % or 5 points)",
        height=110 + 24 * len(shown),
        wide=True,
        missing="" if shown else "nothing can be compared",
    )


def _parts(compared: Sequence[MetricDistance]) -> Iterator[Block]:
    """Yield a table of each mix: functions and categories of the tax, largest difference first."""
    for each in compared:
        if each.kind is Kind.MIX:
            columns = (
                Column("name", is_text=True),
                Column("A", "ratio"),
                Column("B", "ratio"),
                Column("difference", "ratio"),
            )
            titles = _part_titles(each)
            rows = [
                [titles.get(part.name, part.name), part.a_ratio, part.b_ratio, part.a_ratio - part.b_ratio]
                for part in each.parts
            ]
            yield table(columns, rows, title=each.title.capitalize())


def _part_titles(one: MetricDistance) -> dict[str, str]:
    """Return what categories of the tax are called; functions have their own names."""
    if one.name != TAX:
        return {}
    return {category.id: category.title for category in shipped_rules().categories}


def side_by_side(metrics: Sequence[MetricDistance], a: str, b: str) -> Iterator[Chart]:
    """Yield the charts of two workloads; what only one has is drawn, too."""
    groups: dict[tuple[str, str], list[MetricDistance]] = {}
    for each in metrics:
        if each.kind is Kind.MIX:
            yield _mix(each, a, b)
        elif each.a is not None or each.b is not None:
            groups.setdefault((each.group, each.unit), []).append(each)
    for (group, unit), members in groups.items():
        if group in WHOLES:
            yield _stacked(group, members, a, b)
        else:
            for alike in _of_one_size(members):
                yield _beside(group, unit, alike, a, b)


def _of_one_size(members: Sequence[MetricDistance]) -> Iterator[list[MetricDistance]]:
    """Yield metrics that can be seen on one axis, in the order of the catalogue."""
    order = list(CATALOGUE)
    sizes = {each.name: max(each.a or 0.0, each.b or 0.0) for each in members}
    ranked = sorted(members, key=lambda each: -sizes[each.name])
    while ranked:
        largest = sizes[ranked[0].name]
        seen = [each for each in ranked if sizes[each.name] * _SEEN >= largest]
        ranked = [each for each in ranked if each not in seen]
        yield sorted(seen, key=lambda each: order.index(each.name) if each.name in order else len(order))


def _names(a: str, b: str) -> tuple[str, str]:
    short = tuple(name if len(name) <= 40 else f"{name[:39]}…" for name in (a, b))
    return (short[0], short[1]) if short[0] != short[1] else (f"{short[0]} (A)", f"{short[1]} (B)")


def _stacked(group: str, members: Sequence[MetricDistance], a: str, b: str) -> Chart:
    series = tuple(
        Series(each.title, list(_names(a, b)), [each.a, each.b], kind="bar", role=_ROLES[at % len(_ROLES)])
        for at, each in enumerate(sorted(members, key=lambda one: -(one.a or 0.0)))
    )
    return Chart(
        _anchor(group),
        group[0].upper() + group[1:],
        series,
        x_kind="name",
        y_unit="ratio",
        y_range=(0.0, 1.0),
        horizontal=True,
        stacked=True,
        has_named_parts=True,
        height=160,
        wide=True,
    )


def _mix(one: MetricDistance, a: str, b: str) -> Chart:
    """Return categories as stacked bars, and functions beside each other."""
    names = _names(a, b)
    if one.name == TAX:
        parts = sorted(one.parts, key=lambda part: -part.a_ratio)
        titles = _part_titles(one)
        series = tuple(
            Series(
                titles.get(part.name, part.name),
                list(names),
                [part.a_ratio, part.b_ratio],
                kind="bar",
                role=f"tax-{part.name}" if part.name in titles else "ink",
            )
            for part in parts
        )
        return Chart(
            "tax",
            "Datacenter tax",
            series,
            x_kind="name",
            y_unit="ratio",
            y_range=(0.0, 1.0),
            horizontal=True,
            stacked=True,
            has_named_parts=True,
            height=160,
            wide=True,
            missing="" if parts else (one.missing or ""),
        )
    parts = list(one.parts[:_FUNCTIONS])
    series = tuple(
        Series(
            name,
            [part.name for part in parts],
            [getattr(part, side) for part in parts],
            kind="bar",
            role=role,
        )
        for name, side, role in zip(names, ("a_ratio", "b_ratio"), ("blue", "orange"), strict=True)
    )
    return Chart(
        "functions",
        "Functions that differ most",
        series,
        x_kind="name",
        y_unit="ratio",
        horizontal=True,
        from_zero=True,
        height=120 + 34 * len(parts),
        wide=True,
        missing="" if parts else (one.missing or ""),
    )


def _beside(group: str, unit: str, members: Sequence[MetricDistance], a: str, b: str) -> Chart:
    titles = [each.title for each in members]
    series = tuple(
        Series(name, titles, [getattr(each, side) for each in members], kind="bar", role=role)
        for name, side, role in zip(_names(a, b), ("a", "b"), ("blue", "orange"), strict=True)
    )
    title = members[0].title if len(members) == 1 else group
    return Chart(
        _anchor(f"{group}-{members[0].name}"),
        title[0].upper() + title[1:],
        series,
        x_kind="name",
        y_unit="1" if unit == "count" else unit,
        from_zero=True,
        height=260,
    )


def _anchor(text: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in text.lower())
