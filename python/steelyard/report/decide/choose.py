"""The answer of ``steelyard choose``: tables and charts of a `Choice`.

In: a `Choice`. Out: an `Answer`. Sentences are in ``choose_words``.

Not here: computing (``decide.choice``), the worth of an improvement (``savings``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from steelyard.decide.choice.results import Choice, Criterion, Servers, WeighedMachine
from steelyard.report import format as fmt
from steelyard.report.answer import (
    Answer,
    Block,
    Cell,
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
from steelyard.report.decide.choose_words import (
    LABELS,
    break_even_sentence,
    heading,
    lines,
    money,
    parameter_text,
    times,
    value_of,
)

_ROWS = 20
_BARS = 8
"""Machines in charts of bars: the first ones of the order."""
_ROLES = ("blue", "orange", "green", "purple", "red", "sky", "yellow", "ink")


def answer(choice: Choice, *, command: str = "", source: str = "") -> Answer:
    """Return the answer."""
    demand = choice.demand
    sections = [
        Section("machines", "Machines", (_machines(choice),)),
        Section("workloads", "By workload", tuple(_by_workload(choice))),
        Section("suites", "Suites beside each other", tuple(_suites(choice))),
        Section("aggregates", "Refused aggregates", tuple(_contradictions(choice))),
        Section("cost", "Total cost of ownership", tuple(_costs(choice))),
        Section("front", "Performance against cost and power", tuple(_front(choice)), on_terminal=False),
        Section("demand", "Servers for the demand", tuple(_demand(choice))),
        Section("order", "Probability of the order", tuple(_orders(choice))),
        Section("break-evens", "What the order depends on", tuple(_break_evens(choice))),
        Section("notes", "Data", (Notes(choice.notes),) if choice.notes else ()),
    ]
    return Answer(
        "Choice",
        heading(choice),
        [section for section in sections if section.blocks],
        lines=list(lines(choice)),
        cautions=choice.cautions,
        says_no=demand is not None and not demand.is_met,
        rows=_ROWS,
        eyebrow="which machine",
        command=command,
        source=source,
    )


def _machines(choice: Choice) -> Table:
    has_power = any(one.power.watts is not None for one in choice.machines)
    has_cost = any(one.cost is not None for one in choice.machines)
    columns = [
        Column("machine", is_text=True),
        *(
            Column(LABELS[criterion], is_answer=criterion == choice.criterion)
            for criterion in Criterion
            if criterion not in choice.not_answered
        ),
        *([Column("power", "W", rank=2)] if has_power else []),
        *([Column("TCO", rank=1)] if has_cost else []),
        Column("front", is_text=True, rank=3),
        Column("remark", is_text=True, rank=4),
    ]
    rows = []
    for one in choice.machines:
        scores = [
            _score(one.scores[criterion].overall, one.scores[criterion].missing)
            for criterion in Criterion
            if criterion not in choice.not_answered
        ]
        cost = Figure(missing=one.cost_missing or "") if one.cost is None else _money(one.cost.total, choice)
        power = Figure(one.power.watts, missing=one.power.missing or "")
        known = [*([power] if has_power else []), *([cost] if has_cost else [])]
        rows.append([one.name, *scores, *known, _on_front(one), _remark(one, choice)])
    caption = f"Scores over {choice.baseline}; more is better. Overall: weighted geometric mean of"
    caption += f" {fmt.several(len(choice.workloads), 'workload')}."
    if has_cost:
        caption += f" TCO: of one machine over {choice.economics.years:g} years"
        caption += f", in {choice.currency}." if choice.currency else "."
    return table(columns, rows, caption=caption)


def _score(value: float | None, missing: str | None = None) -> Cell | Figure:
    return Figure(missing=missing or "") if value is None else written(times(value), value, unit="ratio")


def _money(value: float | None, choice: Choice) -> Cell | None:
    return None if value is None else written(money(value, choice.currency), value)


def _on_front(one: WeighedMachine) -> str:
    return fmt.MISSING if one.is_on_front is None else "yes" if one.is_on_front else "no"


def _remark(one: WeighedMachine, choice: Choice) -> str:
    scored = one.scores[choice.criterion]
    if scored.missing:
        return scored.missing
    if one.name == choice.baseline:
        return "baseline"
    if one.beaten_by is None:
        return ""
    has_cost = any(each.cost is not None for each in choice.machines)
    has_power = any(each.power.watts is not None for each in choice.machines)
    compared = ["overall Perf", *["cost"] * has_cost, *["power"] * has_power]
    return f"{one.beaten_by} is better in {fmt.listed(compared)}"


def _by_workload(choice: Choice) -> Iterator[Block]:
    """Yield a table of scores by workload for each criterion, and its chart."""
    shown = [one for one in choice.machines if one.rank is not None]
    for criterion in Criterion:
        if criterion in choice.not_answered:
            continue
        is_main = criterion == choice.criterion
        if is_main:
            yield _score_table(choice, criterion, shown)
        yield _bars(choice, criterion, shown[:_BARS])
        if not is_main:
            yield _score_table(choice, criterion, shown, closed=True)


def _score_table(
    choice: Choice, criterion: Criterion, machines: Sequence[WeighedMachine], *, closed: bool = False
) -> Table:
    columns = [
        Column("workload", is_text=True),
        Column("weight", "ratio", is_answer=True),
        *(Column(one.name, rank=at) for at, one in enumerate(machines[:_BARS])),
    ]
    low = {(one.machine, each.workload) for one in choice.hidden for each in one.members}
    rows: list[list[object]] = []
    for workload in choice.workloads:
        cells: list[object] = []
        for one in machines[:_BARS]:
            value = one.scores[criterion].by_workload[workload.name]
            cell = _score(value)
            if isinstance(cell, Cell) and (one.name, workload.name) in low and criterion == choice.criterion:
                cell = Cell(cell.text, cell.raw, level="invalid", figure=cell.figure)
            cells.append(cell)
        rows.append([workload.name, workload.weight, *cells])
    if len(choice.workloads) == 1:
        return table(columns, rows, title=LABELS[criterion], closed=closed)
    total = ["overall", sum(each.weight for each in choice.workloads)]
    rows.append([*total, *(_score(one.scores[criterion].overall) for one in machines[:_BARS])])
    caption = "" if len(machines) <= _BARS else f"The first {_BARS} machines of the order."
    return table(columns, rows, title=LABELS[criterion], caption=caption, closed=closed)


def _bars(choice: Choice, criterion: Criterion, machines: Sequence[WeighedMachine]) -> Chart:
    names = [each.name for each in choice.workloads]
    counted = [*names, "overall"] if len(names) > 1 else names
    series = tuple(
        Series(
            one.name,
            counted,
            [*(scored.by_workload[name] for name in names), scored.overall][: len(counted)],
            kind="bar",
            role=_ROLES[at % len(_ROLES)],
        )
        for at, one in enumerate(machines)
        for scored in (one.scores[criterion],)
    )
    return Chart(
        criterion.value,
        f"{LABELS[criterion]} over {choice.baseline}",
        series,
        x_kind="name",
        horizontal=True,
        from_zero=True,
        y_title=f"{LABELS[criterion]}, times {choice.baseline}",
        height=110 + (12 * len(machines) + 14) * len(counted),
        wide=True,
    )


def _suites(choice: Choice) -> Iterator[Block]:
    if not choice.suites:
        return
    machines = [one.name for one in choice.machines]
    columns = [
        Column("suite", is_text=True),
        Column("by", is_text=True),
        *(Column(name, rank=at) for at, name in enumerate(machines[:_BARS])),
    ]
    rows = [
        [
            suite.suite,
            LABELS[criterion],
            *(_score(suite.overall[criterion][name]) for name in machines[:_BARS]),
        ]
        for criterion in Criterion
        for suite in choice.suites
        if any(suite.overall[criterion][name] is not None for name in machines)
    ]
    yield table(columns, rows, caption=f"{choice.suites[0].suite} decides.")
    if choice.disagreements:
        wrong = [
            [one.machine, LABELS[Criterion(one.criterion)], one.suite, times(one.says), times(one.decides)]
            for one in choice.disagreements
        ]
        yield table(["machine", "by", "misleading suite", "it says", f"{choice.suites[0].suite} says"], wrong)


def _contradictions(choice: Choice) -> Iterator[Block]:
    if not choice.contradictions:
        return
    rows = [
        [
            one.aggregate,
            one.machine,
            times(one.score),
            ", ".join(f"{name} {times(value)}" for name, value in one.members.items()),
            fmt.MISSING if one.same_mix is None else times(one.same_mix),
        ]
        for one in choice.contradictions
    ]
    columns = ["aggregate", "machine", "it says", "its members say", f"with the shares of {choice.baseline}"]
    yield table(columns, rows)


def _costs(choice: Choice) -> Iterator[Block]:
    known = [one for one in choice.machines if one.cost is not None]
    if not known:
        return
    parts = (("capex", "capex"), ("rent", "hours"), ("energy", "energy"), ("maintenance", "maintenance"))
    used = [(name, title) for name, title in parts if any(getattr(one.cost, name) for one in known)]
    columns = [
        Column("machine", is_text=True),
        *(Column(title, rank=at) for at, (_, title) in enumerate(used)),
        Column("total", is_answer=True),
    ]
    rows = [
        [
            one.name,
            *(_money(getattr(one.cost, name), choice) for name, _ in used),
            _money(one.cost.total, choice) if one.cost else None,
        ]
        for one in known
    ]
    yield table(columns, rows, caption=_prices(choice))
    series = tuple(
        Series(
            title,
            [one.name for one in known[:_ROWS]],
            [getattr(one.cost, name) for one in known[:_ROWS]],
            kind="bar",
            role=_ROLES[at],
        )
        for at, (name, title) in enumerate(used)
    )
    yield Chart(
        "tco",
        "Total cost of a machine",
        series,
        x_kind="name",
        horizontal=True,
        stacked=True,
        from_zero=True,
        y_title=f"{choice.currency or 'money'} over {choice.economics.years:g} years",
        height=110 + 26 * len(known[:_ROWS]),
        wide=True,
    )


def _prices(choice: Choice) -> str:
    prices = choice.economics
    power = (
        "" if prices.power_price is None else f", {prices.power_price:g} per kWh at a PUE of {prices.pue:g}"
    )
    return f"Over {prices.years:g} years{power}; power as planned: budgeted, else the largest measured."


def _front(choice: Choice) -> Iterator[Block]:
    for name, title, unit, of in (
        ("cost", f"TCO of a machine, {choice.currency or 'money'}", "1", _cost_of),
        ("power", "power of a machine", "W", lambda one: one.power.watts),
    ):
        known = [
            (one, x, one.scores[Criterion.PERFORMANCE].overall)
            for one in choice.machines
            if (x := of(one)) is not None and one.scores[Criterion.PERFORMANCE].overall is not None
        ]
        if len(known) <= _BARS:
            # So few have names of their own in the legend.
            series = [_points(one.name, [(one, x, y)], at) for at, (one, x, y) in enumerate(known)]
        else:
            parts = [[each for each in known if bool(each[0].is_on_front) is on] for on in (False, True)]
            series = [_points("others", parts[0], 0), _points("on the front", parts[1], 1)]
        if known:
            yield Chart(
                f"front-{name}",
                f"Performance against {name}",
                tuple(each for each in series if each.x),
                x_title=title,
                x_unit=unit,
                y_title=f"performance, times {choice.baseline}",
                from_zero=True,
                note="Diamonds are on the front.",
            )


def _points(name: str, points: Sequence[tuple[WeighedMachine, float, float | None]], role: int) -> Series:
    """Return machines as points; those on the front are diamonds."""
    on_front = any(one.is_on_front for one, _, _ in points)
    return Series(
        name,
        [x for _, x, _ in points],
        [y for _, _, y in points],
        kind="points",
        role=_ROLES[role],
        size=11 if on_front else 7,
        symbol="diamond" if on_front else "circle",
        labels=[one.name for one, _, _ in points],
    )


def _cost_of(one: WeighedMachine) -> float | None:
    return None if one.cost is None else one.cost.total


def _demand(choice: Choice) -> Iterator[Block]:
    demand = choice.demand
    if demand is None:
        return
    columns = (
        Column("machine", is_text=True),
        Column("servers", is_answer=True),
        Column("racks", rank=1),
        Column("MW"),
        Column("cost", rank=2),
        Column("remark", is_text=True, rank=3),
    )
    rows = [
        [
            one.machine,
            None if one.servers is None else written(f"{one.servers:,}", one.servers, unit="1"),
            None if one.racks is None else written(f"{one.racks:,}", one.racks, unit="1"),
            None if one.megawatts is None else written(f"{one.megawatts:.3g}", one.megawatts),
            _money(one.cost, choice),
            _why(one),
        ]
        for one in demand.choices
    ]
    rates = ", ".join(f"{name} {fmt.quantity(rate, '1/s')}" for name, rate in demand.rates.items())
    room = f" and {fmt.quantity(demand.headroom_ratio, 'ratio')} on top" if demand.headroom_ratio else ""
    yield table(columns, rows, caption=f"{rates}{room}; power with that of the site.")


def _why(one: Servers) -> str:
    return f"refused: {one.refused}" if one.refused else one.missing or ""


def _orders(choice: Choice) -> Iterator[Block]:
    known = [one for one in choice.orders if one.probability is not None]
    if not choice.orders:
        return
    columns = (
        Column("first", is_text=True),
        Column("second", is_text=True),
        Column("ratio", rank=1),
        Column("probability", is_answer=True),
        Column("remark", is_text=True, rank=2),
    )
    rows = []
    for one in choice.orders:
        ends = "" if one.low is None or one.high is None else f" ({times(one.low)} to {times(one.high)})"
        probability = (
            Figure(missing=one.no_interval or "")
            if one.probability is None
            else written(_probability(one.probability), one.probability, unit="ratio")
        )
        ratio = written(f"{times(one.ratio)}{ends}", one.ratio, one.low, one.high, unit="ratio")
        rows.append([one.first, one.second, ratio, probability, one.no_interval or ""])
    caption = f"{LABELS[Criterion(choice.criterion)]} of the first over the second, with its 95 % interval."
    caption += "" if known else " No probability without repeats."
    yield table(columns, rows, caption=caption)


def _probability(value: float) -> str:
    if value > 0.9995:
        return ">99.9\u202f%"
    return f"{value * 100:.3g}\u202f%"


def _break_evens(choice: Choice) -> Iterator[Block]:
    if not choice.break_evens:
        return
    columns = (
        Column("parameter", is_text=True),
        Column("now"),
        Column("equal at", is_answer=True),
        Column("beyond it", is_text=True),
    )
    rows = [
        [
            parameter_text(one),
            written(value_of(one, one.now), one.now),
            written(value_of(one, one.at), one.at),
            break_even_sentence(one),
        ]
        for one in choice.break_evens
    ]
    yield table(columns, rows, caption="Solved exactly, with everything else as it is.")
    yield from _lines_over_power_price(choice)


def _lines_over_power_price(choice: Choice) -> Iterator[Chart]:
    """Yield performance for the cost of the first machines over the price of power: where lines cross."""
    price = choice.economics.power_price
    ends = [one.at for one in choice.break_evens if one.parameter == "power_price"]
    known = [one for one in choice.machines if one.cost is not None and one.rank is not None][:5]
    if price is None or not price or len(known) < 2 or choice.criterion != Criterion.PER_COST:
        return
    near = [at for at in ends if at < 5 * price]
    last = 1.3 * max([price * 1.5, *near])
    prices = [last * step / 40 for step in range(41)]
    series = []
    for at, one in enumerate(known):
        assert one.cost is not None
        performance = one.scores[Criterion.PERFORMANCE].overall or 0.0
        fixed = one.cost.total - one.cost.energy
        costs = [fixed + one.cost.energy * each / price for each in prices]
        base = choice.machine(choice.baseline)
        if base.cost is None:
            return
        series.append(
            Series(
                one.name, prices, [performance * base.cost.total / cost for cost in costs], role=_ROLES[at]
            )
        )
    yield Chart(
        "over-power-price",
        "Performance for the cost, by the price of power",
        tuple(series),
        x_title=f"{choice.currency or 'money'} per kWh",
        y_title=f"Perf/$, times {choice.baseline} as it is",
        from_zero=True,
        marks=(_mark(price, "now"), *(_mark(at, "equal") for at in near)),
        wide=True,
    )


def _mark(value: float, label: str) -> Mark:
    return Mark("x", value, label)
