"""The answer of ``steelyard health``. In: a check and its comparison. Out: an `Answer`."""

from __future__ import annotations

from itertools import groupby

from steelyard._base import command_text
from steelyard.analyze.health import figures
from steelyard.analyze.health.comparison import Compared, Comparison, quantity, tolerated
from steelyard.analyze.health.figures import size
from steelyard.records import HealthResult
from steelyard.report import format as fmt
from steelyard.report.answer import (
    Answer,
    Block,
    Cell,
    Chart,
    Column,
    Figure,
    Heat,
    Notes,
    Section,
    table,
    written,
)
from steelyard.report.health.charts import bandwidth, core_to_core, latency
from steelyard.report.health.words import busy, groups, intro, tiles

_TITLES = {
    "latency": "Memory latency",
    "bandwidth": "Memory bandwidth",
    "core-to-core": "Core to core",
    "disk": "Disk",
    "loopback": "Loopback network",
}
_PARTS = {"latency": "memory_latency", "bandwidth": "memory_bandwidth", "core-to-core": "core_to_core"}
"""Name in the record of a section whose anchor is another."""
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


def _interval(row: Compared) -> Cell:
    figure = row.figure
    if figure.low is None or figure.high is None:
        return Cell(figure.reason or "")
    return Cell(spread(figure), figure=Figure(None, figure.low, figure.high, unit=figure.unit))


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
    rows = {
        key: [_row(row) for row in members]
        for key, members in groupby(comparison.figures, key=lambda row: row.figure.family.partition("-")[0])
    }
    charts: dict[str, list[Chart] | list[Heat]] = {
        "latency": latency(result),
        "bandwidth": bandwidth(result),
        "core-to-core": core_to_core(result),
    }
    sections = []
    for anchor, title in _TITLES.items():
        part = _PARTS.get(anchor, anchor)
        missing = {name: why for name, why in result.missing.items() if name.partition(".")[0] == part}
        blocks: list[Block] = [*charts.get(anchor, [])]
        if anchor == "core-to-core":
            blocks.append(Notes(tuple(groups(result))))
        if found := rows.get(anchor.partition("-")[0]):
            blocks.append(table(columns, found))
        absent = tuple((name, why) for name, why in missing.items() if not why.startswith(NOT_REQUESTED))
        blocks += [Notes(tuple(f"{name}: {why}" for name, why in absent))] if absent else []
        said = " ".join(filter(None, (intro(anchor, result), busy(part, result))))
        sections.append(Section(anchor, title, tuple(blocks), said, grid=len(charts.get(anchor, [])) > 1))
    level, word = _judged(comparison)
    machine = result.machine
    words = [machine.cpu_model or "unknown processor", f"CPUs {machine.usable_cpus}"]
    words.append(fmt.several(len(machine.nodes), "NUMA node"))
    words += [f"L{cache.level} {size(cache.size_bytes)}" for cache in machine.caches]
    took = fmt.duration(result.end_ns - result.begin_ns)
    return Answer(
        "Health check",
        verdict(comparison),
        sections,
        lines=[
            " · ".join(words),
            f"{fmt.moment(result.clock.realtime_ns)}, {result.settings.mode}, took {took}",
            *(f"note: {note}" for note in comparison.notes),
        ],
        cautions=[f"{alert.claim}; may mean: {alert.meaning}" for alert in comparison.alerts],
        tiles=tiles(comparison),
        rows=len(comparison.figures),
        level=level,
        verdict=word,
        eyebrow="machine",
        command=command_text(result.command),
        command_title="Measured by",
        source="health.json in this folder",
        says_no=not comparison.is_ok,
    )


def _judged(comparison: Comparison) -> tuple[str, str]:
    """Return level and word of the verdict."""
    if comparison.alerts:
        return "invalid", "alert"
    if not comparison.is_quiet:
        return "suspect", "disturbed"
    return (
        ("valid", "healthy") if any(row.earlier for row in comparison.figures) else ("incomplete", "measured")
    )


def _row(row: Compared) -> tuple[object, ...]:
    figure = row.figure
    ends = Figure(figure.value, figure.low, figure.high, figure.reason or "", figure.unit)
    value = quantity(figure.value, figure.unit) if figure.value is not None else fmt.MISSING
    word, level = _STATES[row.state]
    return (
        _short(row),
        Cell(value, figure=ends),
        _interval(row),
        Cell(_expected(row), figure=Figure(row.expected, unit=figure.unit)),
        ""
        if row.change_ratio is None
        else written(f"{row.change_ratio:+.1%}", row.change_ratio, unit="ratio"),
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
    if any(row.earlier for row in comparison.figures):
        return f"healthy, against {comparison.against}"
    what, _, reason = comparison.against.partition(": ")
    if what == "nothing":
        return f"first check here, nothing to compare with: {reason}"
    return f"measured, with nothing in {comparison.against} to compare with"
