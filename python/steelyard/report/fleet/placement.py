"""What ``steelyard fleet place`` says: sections for its page and its terminal.

In: `PlaceResult`. Out: an `Answer`. Not here: figures (``fleet.placement.plan``).
"""

from __future__ import annotations

from steelyard.fleet.placement.plan import PlaceResult
from steelyard.report import format as fmt
from steelyard.report.answer import (
    Answer,
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

_DAY_NS = 86_400e9
MOVES_AT_MOST = 30
"""Moves that are drawn; the table has all of them."""


def place(result: PlaceResult) -> Answer:
    """Return everything that ``fleet place`` says; no where the work does not fit."""
    return Answer(
        "Placement",
        _heading(result),
        _sections(result),
        result,
        (_subline(result),),
        _cautions(result),
        says_no=not result.is_feasible or result.planned is None,
    )


def _unit(result: PlaceResult) -> str:
    """Return the unit of costs a second."""
    return "cycles/s" if result.cost == "cycles" else "CPUs"


def _figure(value: float, result: PlaceResult) -> str:
    return fmt.plain(fmt.quantity(value, _unit(result)))


def _heading(result: PlaceResult) -> str:
    """Return the answer in one line."""
    if not result.is_feasible:
        lack = sum(row.shortfall for row in result.platforms)
        return f"The work does not fit: at least {_figure(lack, result)} of capacity are missing."
    if result.planned is None:
        return "No placement keeps every platform within its capacity."
    saved = result.present - result.planned
    if not result.moves:
        return "No move saves more than it costs: keep the present placement."
    tasks = sum(row.tasks for row in result.moves)
    if saved <= 0:
        return f"Move {tasks:,.0f} tasks to fit the capacities, at {_figure(-saved, result)} more than now."
    return (
        f"Move {tasks:,.0f} tasks to save {saved / result.present * 100:.1f} % of all"
        f" {'cycles' if result.cost == 'cycles' else 'CPU time'} ({_figure(saved, result)})."
    )


def _subline(result: PlaceResult) -> str:
    """Return what was solved."""
    best = (
        ""
        if result.best is None
        else f" At best, moving fractions freely, {(1 - result.best / result.present) * 100:.1f} % is saved."
    )
    return (
        f"{result.cost} for {result.work}, by job and platform; now {_figure(result.present, result)}.{best}"
    )


def _cautions(result: PlaceResult) -> list[str]:
    """Return the warnings of the page."""
    cautions = []
    held = result.held_out
    if held is not None and held.promised_ratio > 0 and held.kept_ratio < 0.5 * held.promised_ratio:
        cautions.append(
            f"Plans made on every other hour promise {held.promised_ratio * 100:.2f} % and keep"
            f" {held.kept_ratio * 100:.2f} % on the hours between: most of the saving is noise."
        )
    return cautions


def _sections(result: PlaceResult) -> list[Section]:
    """Return everything that the page and the terminal show."""
    sections = [Section("platforms", "Platforms", (_platforms(result), _room(result)))]
    if result.moves:
        sections.append(Section("moves", "Moves", (_moves(result), _chart(result), _paid(result))))
    notes = list(result.notes)
    if result.few_samples:
        notes.append(f"{result.few_samples} pairs have too few samples to be a target.")
    held = result.held_out
    if held is not None:
        notes.append(
            f"Plans made on every other hour and tried on the hours between promise"
            f" {held.promised_ratio * 100:.2f} % and keep {held.kept_ratio * 100:.2f} %."
        )
    return [*sections, Section("notes", "Assumptions", (Notes(tuple(notes)),))]


def _platforms(result: PlaceResult) -> Table:
    each = _unit(result)
    columns: list[Column | str] = [
        "platform",
        Column("machines", rank=1),
        Column("capacity", each, rank=1),
        Column("now", "ratio"),
        Column("after", "ratio"),
        Column("price"),
        Column("a machine more saves", each),
    ]
    if not result.is_feasible:
        columns.append(Column("lacking", each))
    rows: list[list[object]] = []
    for row in result.platforms:
        machines = Figure(missing="no machine samples") if row.machines is None else row.machines
        price: object = Figure(missing="the program was not solved")
        if row.price is not None:
            price = written(f"{row.price:.3f}", row.price)
        now = _part(row.used, row.capacity)
        after = None if row.after is None else _part(row.after, row.capacity)
        cells = [row.platform, machines, row.capacity, now, after, price, row.machine_price]
        rows.append(cells if result.is_feasible else [*cells, row.shortfall])
    return table(
        columns,
        rows,
        caption="Now and after are shares of the capacity. The price is what one more unit of capacity would"
        " save, at the program's optimum: 0 where there is room.",
    )


def _tasks(tasks: float, there: float) -> Cell:
    return Cell(f"{tasks:,.3g} of {there:,.0f}", f"{tasks!r} of {there!r}", figure=Figure(tasks))


def _part(used: float, capacity: float) -> float | Figure:
    return used / capacity if capacity > 0 else Figure(missing="it is closed")


def _room(result: PlaceResult) -> Chart:
    names = [row.platform for row in result.platforms]
    series = [
        Series("now", names, [row.used for row in result.platforms], kind="bar", role="sky"),
        Series("capacity", names, [row.capacity for row in result.platforms], kind="bar", role="ink"),
    ]
    if result.planned is not None:
        series.insert(
            1, Series("after", names, [row.after for row in result.platforms], kind="bar", role="green")
        )
    return Chart(
        "platforms",
        "Use and capacity by platform",
        tuple(series),
        x_kind="name",
        y_unit=_unit(result),
        from_zero=True,
        missing="" if names else "no platform",
    )


def _moves(result: PlaceResult) -> Table:
    rows: list[list[object]] = []
    for row in result.moves:
        ends = (_cpi(row.source_cpi, result), _cpi(row.target_cpi, result))
        saved = row.saved / result.present
        rows.append(
            [
                row.job,
                f"{row.source} to {row.target}",
                _tasks(row.tasks, row.tasks_there),
                Cell(f"{ends[0]} to {ends[1]}", f"{row.source_cpi!r} to {row.target_cpi!r}", is_text=True),
                Cell(fmt.quantity(saved, "ratio"), fmt.raw(row.saved, _unit(result)), figure=Figure(saved)),
                row.moved_cpu_rate,
                row.machines,
            ]
        )
    return table(
        [
            "job",
            "from, to",
            Column("tasks"),
            Column("CPI", rank=1),
            Column("saved"),
            Column("CPUs"),
            Column("machines"),
        ],
        rows,
        caption=f"CPI is {result.cost} for {result.work}; saved is a share of all; CPUs leave the source,"
        " and are worth that many of its machines. A move without a saving makes room for another.",
    )


def _cpi(value: float, result: PlaceResult) -> str:
    return fmt.quantity(value, "s") if result.cost == "cpu-s" else fmt.significant(value)


def _chart(result: PlaceResult) -> Chart:
    # The largest either way: moves that cost something to make room are as much part of the plan.
    largest = sorted(result.moves, key=lambda row: -abs(row.saved))[:MOVES_AT_MOST]
    shown = sorted(largest, key=lambda row: -row.saved)
    return Chart(
        "moves",
        "Savings by move",
        (
            Series(
                "saved",
                [f"{row.job}: {row.source} to {row.target}" for row in shown],
                [row.saved for row in shown],
                kind="bar",
                role="green",
            ),
        ),
        x_kind="name",
        y_unit=_unit(result),
        horizontal=True,
        height=120 + 26 * len(shown),
    )


def _paid(result: PlaceResult) -> Notes:
    items = []
    if result.saved_cpu_rate is not None:
        word = "frees" if result.saved_cpu_rate >= 0 else "takes"
        items.append(f"All moves together: {word} {abs(result.saved_cpu_rate):.3g} CPUs.")
    if result.payback_days is not None:
        items.append(f"They pay off after {fmt.plain(fmt.duration(result.payback_days * _DAY_NS))}.")
    return Notes(tuple(items))
