"""Files of ``perf stat`` on a terminal: the counts of one, or two beside each other.

In: `FileCounts`, `FileComparison`. Out: renderables for a `rich` console. Not here: what differs
(``analyze``).
"""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from steelyard.analyze.counters.perf_files import Difference, EventCount, FileComparison, FileCounts
from steelyard.report import format as fmt
from steelyard.report.terminal import safe


def file_summary(counts: FileCounts) -> RenderableType:
    """Return the counts of one file, rates, and what follows from them."""
    head = f"{counts.path}: {counts.target}" if counts.target else counts.path
    length = (
        "" if counts.duration_s is None else f", {fmt.plain(fmt.quantity(counts.duration_s, 's'))} elapsed"
    )
    parts: list[RenderableType] = [safe(head + length)]
    parts += [safe(f"!  {caution}") for caution in counts.cautions]
    table = Table("event", "count", "per second", "counted", "+-", box=box.SIMPLE_HEAD, pad_edge=False)
    for event in counts.events:
        table.add_row(safe(event.name), *(safe(text) for text in _cells(event)))
    parts += [Text(), table]
    if counts.metrics:
        metrics = Table("metric", "value", box=box.SIMPLE_HEAD, pad_edge=False)
        for name, each in counts.metrics.items():
            metrics.add_row(safe(name), safe(fmt.quantity(each.value, each.unit)))
        parts += [metrics]
    if counts.perf_metrics and not counts.events:
        own = Table("perf's own metric", "value", box=box.SIMPLE_HEAD, pad_edge=False)
        for metric in counts.perf_metrics:
            own.add_row(safe(metric.name), safe(f"{fmt.significant(metric.value)} {metric.unit}".strip()))
        parts.append(own)
    return Group(*parts)


def _cells(event: EventCount) -> tuple[str, str, str, str]:
    if event.count is None:
        return event.missing or fmt.MISSING, "", "", ""
    covered = "" if event.coverage_ratio is None else fmt.quantity(event.coverage_ratio, "ratio")
    spread = "" if event.variation_ratio is None else fmt.quantity(event.variation_ratio, "ratio")
    rate = "" if event.per_s is None else fmt.quantity(event.per_s, "1/s")
    return fmt.quantity(event.count, event.unit or "1"), rate, covered, spread


def comparison_summary(comparison: FileComparison) -> RenderableType:
    """Return two files beside each other."""
    parts: list[RenderableType] = [
        safe(f"{letter}  {side.path}")
        for letter, side in zip("AB", (comparison.a, comparison.b), strict=True)
    ]
    parts += [safe(f"!  {caution}") for caution in comparison.cautions]
    for title, rows in (
        ("event", comparison.events),
        ("per second", comparison.rates),
        ("metric", comparison.metrics),
    ):
        if rows:
            table = Table(title, "A", "B", "B over A", "", box=box.SIMPLE_HEAD, pad_edge=False)
            for row in rows:
                table.add_row(safe(row.name), *(safe(text) for text in _beside(row)))
            parts += [Text(), table]
    return Group(*parts)


def _beside(row: Difference) -> tuple[str, str, str, str]:
    words = {None: "", True: "differs", False: "within noise"}[row.beyond_noise]
    ratio = "" if row.ratio is None else f"{row.ratio:.3f}"
    values = (fmt.quantity(row.a, row.unit), fmt.quantity(row.b, row.unit))
    return (*values, ratio, row.missing or words)
