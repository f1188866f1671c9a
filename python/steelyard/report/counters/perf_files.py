"""Files of ``perf stat``: the counts of one, or two beside each other.

In: `FileCounts`, `FileComparison`. Out: `Answer`s. Not here: what differs (``analyze``).
"""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.analyze.counters.perf_files import Difference, EventCount, FileComparison, FileCounts
from steelyard.report import format as fmt
from steelyard.report.answer import Answer, Cell, Column, Figure, Section, Table, table

_WORDS = {None: "", True: "differs", False: "within noise"}


def answer(counts: FileCounts) -> Answer:
    """Return the counts of one file, rates, and what follows from them."""
    head = f"{counts.path}: {counts.target}" if counts.target else counts.path
    length = (
        "" if counts.duration_s is None else f", {fmt.plain(fmt.quantity(counts.duration_s, 's'))} elapsed"
    )
    columns = (
        Column("event", is_text=True, is_whole=True),
        Column("count", is_answer=True),
        Column("per second", "1/s"),
        Column("counted", "ratio"),
        Column("+-", "ratio"),
    )
    sections = [Section("events", "Events", (table(columns, [_event(event) for event in counts.events]),))]
    if counts.metrics:
        rows = [
            (name, Figure(each.value, missing=each.missing or "", unit=each.unit))
            for name, each in counts.metrics.items()
        ]
        sections.append(Section("metrics", "Metrics", (_values("metric", rows),)))
    if counts.perf_metrics and not counts.events:
        own = [
            (metric.name, Cell(f"{fmt.significant(metric.value)} {metric.unit}".strip()))
            for metric in counts.perf_metrics
        ]
        sections = [Section("own", "perf's own metrics", (_values("metric", own),))]
    most = max(len(section.tables[0].rows) for section in sections)
    return Answer(
        "perf stat",
        f"{head}{length}",
        sections,
        cautions=counts.cautions,
        rows=max(1, most),
        eyebrow="counters",
    )


def _values(name: str, rows: Sequence[Sequence[object]]) -> Table:
    return table((Column(name, is_text=True), Column("value", is_answer=True)), rows)


def _event(event: EventCount) -> tuple[object, ...]:
    if event.count is None:
        reason = event.missing or fmt.MISSING
        return event.name, Cell(reason, figure=Figure(None, missing=reason)), "", "", ""
    unit = event.unit or "1"
    return (
        event.name,
        Figure(event.count, unit=unit),
        "" if event.per_s is None else Figure(event.per_s),
        "" if event.coverage_ratio is None else Figure(event.coverage_ratio),
        "" if event.variation_ratio is None else Figure(event.variation_ratio),
    )


def comparison_answer(comparison: FileComparison) -> Answer:
    """Return two files beside each other."""
    sides = zip("AB", (comparison.a, comparison.b), strict=True)
    groups = (
        ("event", "Events", comparison.events),
        ("per second", "Rates", comparison.rates),
        ("metric", "Metrics", comparison.metrics),
    )
    sections = []
    for name, title, rows in groups:
        columns = (
            Column(name, is_text=True),
            Column("A", is_answer=True),
            Column("B", is_answer=True),
            Column("B over A"),
            Column("", is_text=True),
        )
        if rows:
            sections.append(Section(title.lower(), title, (table(columns, [_beside(row) for row in rows]),)))
    most = max((len(section.tables[0].rows) for section in sections), default=1)
    return Answer(
        "perf stat, compared",
        "  ".join(f"{letter} {side.path}" for letter, side in sides),
        sections,
        cautions=comparison.cautions,
        rows=most,
        eyebrow="counters",
    )


def _beside(row: Difference) -> tuple[object, ...]:
    ratio = "" if row.ratio is None else Cell(f"{row.ratio:.3f}", figure=Figure(row.ratio))
    sides = (Figure(row.a, unit=row.unit), Figure(row.b, unit=row.unit))
    return (row.name, *sides, ratio, row.missing or _WORDS[row.beyond_noise])
