"""The answer of ``steelyard health``. In: a check and its comparison. Out: an `Answer`."""

from __future__ import annotations

from itertools import groupby

from steelyard.analyze.health import figures
from steelyard.analyze.health.comparison import Compared, Comparison, quantity, tolerated
from steelyard.records import HealthResult
from steelyard.report import format as fmt
from steelyard.report.answer import Answer, Cell, Column, Figure, Notes, Section, table, written

_TITLES = {
    "latency": "Memory latency",
    "bandwidth": "Memory bandwidth",
    "core-to-core": "Core to core",
    "disk": "Disk",
    "loopback": "Loopback network",
}
_STATES = {
    "ok": ("as before", "valid"),
    "worse": ("worse", "invalid"),
    "better": ("better", "valid"),
    "noisy": ("noisy", "suspect"),
    "new": ("first", "incomplete"),
    "gone": ("gone", "invalid"),
    "missing": ("not measured", "incomplete"),
}


# How the reason of a part that nobody requested begins, also in records of earlier versions.
NOT_REQUESTED = ("not requested", "not asked for")


def _expected(row: Compared) -> str:
    if row.expected is None or row.tolerance_ratio is None:
        return quantity(row.expected, row.figure.unit) if row.expected is not None else ""
    return f"{quantity(row.expected, row.figure.unit)} {tolerated(row)}"


def spread(figure: figures.Figure) -> str:
    """Return a figure's interval, its unit once where both ends have the same.

    >>> spread(figures.Figure("x", "x", "bandwidth", "bytes/s", "higher", 2e9, 1.9e9, 2.1e9))
    '1.9–2.1 GB/s'
    """
    low, high = quantity(figure.low, figure.unit), quantity(figure.high, figure.unit)
    first, second = low.partition(" "), high.partition(" ")
    return f"{first[0]}–{high}" if first[2] == second[2] else f"{low} – {high}"


def _interval(row: Compared) -> str:
    figure = row.figure
    if figure.low is None or figure.high is None:
        return figure.reason or ""
    return spread(figure)


def answer(result: HealthResult, comparison: Comparison) -> Answer:
    """Return a table for each part, with alerts, notes, and what is missing."""
    columns = (
        Column("what", is_text=True),
        Column("median"),
        Column("interval", rank=2),
        Column("expected", rank=1),
        Column("change"),
        Column("answer", is_text=True, is_answer=True),
    )
    sections = []
    for key, members in groupby(comparison.rows, key=lambda row: row.figure.family.partition("-")[0]):
        title = _TITLES.get(key, _TITLES["core-to-core"])
        sections.append(Section(key, title, (table(columns, [_row(row) for row in members]),)))
    missing = {name: why for name, why in result.missing.items() if not why.startswith(NOT_REQUESTED)}
    absent = Notes(tuple(f"{name}: {why}" for name, why in missing.items()))
    if absent.items:
        sections.append(Section("absent", "Not measured", (absent,)))
    return Answer(
        "Health check",
        verdict(comparison),
        sections,
        lines=[f"note: {note}" for note in comparison.notes],
        cautions=[f"{alert.claim}; may mean: {alert.meaning}" for alert in comparison.alerts],
        rows=len(comparison.rows),
        eyebrow="health check",
        source="health.json",
    )


def _row(row: Compared) -> tuple[object, ...]:
    figure = row.figure
    ends = Figure(figure.value, figure.low, figure.high, figure.reason or "", figure.unit)
    value = quantity(figure.value, figure.unit) if figure.value is not None else fmt.MISSING
    word, level = _STATES[row.state]
    return (
        _short(row),
        Cell(value, figure=ends),
        Cell(_interval(row)),
        Cell(_expected(row), figure=Figure(row.expected, unit=figure.unit)),
        "" if row.change_ratio is None else written(f"{row.change_ratio:+.1%}", row.change_ratio),
        Cell(word, level=level, is_text=True),
    )


def _short(row: Compared) -> str:
    """Return the figure's name without what the table's title says.

    >>> name = "read bandwidth, CPUs of node 0, memory of node 1"
    >>> _short(Compared(figures.Figure("x", name, "bandwidth", "1", "", 1, 1, 1), None, 0, None, None, "new"))
    'read, node 0 to memory of 1'
    """
    name = row.figure.name.replace(" bandwidth, CPUs of", ",").replace(", memory of node", " to memory of")
    name = name.replace(" in base pages", ", base pages").replace(" in huge pages", ", huge pages")
    for start in ("latency of ", "core to core, ", "disk ", "loopback TCP "):
        name = name.removeprefix(start)
    return name


def verdict(comparison: Comparison) -> str:
    """Return the conclusion in one line."""
    if comparison.alerts:
        count = len(comparison.alerts)
        return f"{count} alert{'s' if count > 1 else ''}, against {comparison.against}"
    if not comparison.is_quiet:
        return "disturbed: other work had the machine meanwhile; repeat the check when it is idle"
    if any(row.earlier for row in comparison.rows):
        return f"healthy, against {comparison.against}"
    what, _, reason = comparison.against.partition(": ")
    if what == "nothing":
        return f"first check here, nothing to compare with: {reason}"
    return f"measured, with nothing in {comparison.against} to compare with"
