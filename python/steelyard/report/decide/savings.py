"""The answer of ``steelyard choose --improvement``: what a percent is worth, by fleet.

In: `Savings`. Out: an `Answer`. Not here: computing (``decide.choice.savings``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from steelyard.decide.choice.savings import FleetSaving, Savings
from steelyard.report.answer import Answer, Cell, Chart, Column, Mark, Section, Series, Table, table, written
from steelyard.report.decide.choose_words import money


def answer(found: Savings, *, command: str = "") -> Answer:
    """Return the answer."""
    return Answer(
        "Savings",
        heading(found),
        [Section("savings", "By size of the fleet", (_table(found), _chart(found)))],
        lines=list(_lines(found)),
        cautions=[reason[0].upper() + reason[1:].rstrip(".") + "." for reason in found.missing if reason],
        eyebrow="what a percent is worth",
        command=command,
        source="the improvement as stated" if found.machine is None else f"prices of {found.machine}",
    )


def percent(ratio: float) -> str:
    """Return a share of few digits.

    >>> percent(0.01).replace("\u202f", " "), percent(0.111).replace("\u202f", " ")
    ('1 %', '11.1 %')
    """
    return f"{ratio * 100:.3g}\u202f%"


def heading(found: Savings) -> str:
    """Return the answer in one line, for the fleet whose saving is nearest to the goal."""
    one = min(found.fleets, key=lambda each: abs(each.saved - found.goal))
    ends = _ends(one.saved_low, one.saved_high)
    return f"{percent(found.improvement_ratio)} is worth {one.saved:,} of {one.servers:,} servers{ends}"


def _ends(low: int | None, high: int | None) -> str:
    return "" if low is None or high is None else f" ({low:,} to {high:,})"


def _lines(found: Savings) -> Iterator[str]:
    needed = [
        f"{percent(one.needed_ratio)} of {one.servers:,}"
        for one in found.fleets
        if one.needed_ratio is not None
    ]
    if needed:
        yield f"To save {found.goal:,} servers takes {', '.join(needed)}."
    if found.improvement_low is None:
        yield "No interval: state that of the improvement with --interval."
    elif found.improvement_low <= 0:
        yield "The interval of the improvement holds 0: it may save nothing."
    yield "A fleet of N servers that do 1 + x times as much saves N (1 - 1 / (1 + x))."


def _table(found: Savings) -> Table:
    columns = [
        Column("fleet"),
        Column("saved servers", is_answer=True),
        Column("MW", rank=1),
        Column(f"saved, {found.currency or 'money'}", rank=2),
        Column(f"to save {found.goal:,}", rank=3),
    ]
    return table(columns, [_row(one) for one in found.fleets])


def _row(one: FleetSaving) -> list[object]:
    def with_ends(text: str, low: str, high: str, figures: tuple[float, float | None, float | None]) -> Cell:
        ends = "" if figures[1] is None else f" ({low} to {high})"
        return written(text + ends, *figures)

    saved = (float(one.saved), one.saved_low, one.saved_high)
    cells: list[object] = [
        written(f"{one.servers:,}", one.servers, unit="1"),
        with_ends(f"{one.saved:,}", f"{one.saved_low or 0:,}", f"{one.saved_high or 0:,}", saved),
    ]
    written_as: tuple[Callable[[float], str], ...] = (lambda x: f"{x:.3g}", lambda x: money(x, ""))
    figures = (
        (one.megawatts, one.megawatts_low, one.megawatts_high),
        (one.cost, one.cost_low, one.cost_high),
    )
    for (value, low, high), text in zip(figures, written_as, strict=True):
        if value is None:
            cells.append(None)
        else:
            cells.append(with_ends(text(value), text(low or 0), text(high or 0), (value, low, high)))
    needed = one.needed_ratio
    cells.append(written("not possible", 0.0) if needed is None else written(percent(needed), needed))
    return cells


def _chart(found: Savings) -> Chart:
    """Return saved servers by improvement for each fleet, on logarithmic axes."""
    ratios = [0.001 * 10 ** (step / 10) for step in range(26)]
    roles = ("blue", "green", "purple", "orange", "sky", "red")
    series = tuple(
        Series(
            f"{one.servers:,} servers",
            ratios,
            [one.servers * (1 - 1 / (1 + ratio)) for ratio in ratios],
            role=roles[at % len(roles)],
        )
        for at, one in enumerate(found.fleets)
    )
    return Chart(
        "savings",
        "Saved servers by improvement",
        series,
        x_title="improvement of throughput",
        x_unit="ratio",
        y_title="saved servers",
        x_log=True,
        y_log=True,
        marks=(
            Mark("x", found.improvement_ratio, percent(found.improvement_ratio))
            if found.improvement_ratio > 0
            else Mark("y", found.goal, ""),
            Mark("y", found.goal, f"{found.goal:,} servers"),
        ),
        wide=True,
    )
