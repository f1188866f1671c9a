"""What a page and a document show of vmstat's columns: how often each value was seen, not only its mean.

In: `ReportData` with histograms. Out: a `Section` with a table whose rows end in a small histogram, and
plain values. Not here: counting (``analyze.pressure.vmstat_histograms``).
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from markupsafe import Markup

from steelyard.analyze.pressure.vmstat_histograms import Histogram
from steelyard.report import format as fmt
from steelyard.report.answer import Fragment, Section
from steelyard.report.model import ReportData

_WORDS = {
    "runnable": "run queue (running and waiting tasks)",
    "blocked": "tasks waiting for a disk",
    "interrupts": "interrupts",
    "context_switches": "context switches",
    "user": "user time",
    "system": "system time",
    "wait": "time waiting for a disk",
    "idle": "idle time",
    "steal": "stolen time",
}
_HEIGHT = 26
_BAR, _GAP = 6, 1
_LOWEST = 1.5
"""A value that was seen at all has a bar that can be seen."""


def vmstat_sections(data: ReportData) -> list[Section]:
    """Return the section, none where nothing of it was recorded."""
    if not any(each.counts for each in data.histograms):
        return []
    intro = (
        "Distribution of the values that vmstat prints; each sample or interval counts once. A mean of 4"
        " may be 4 all the time, or 40 for a tenth of the time."
    )
    counted = [each for each in data.histograms if each.counts]
    missing = tuple(
        (_WORDS.get(each.name, each.name), each.missing or "") for each in data.histograms if not each.counts
    )
    return [
        Section("vmstat", "Activity by value", (Fragment(lambda _: _table(counted)),), intro, missing=missing)
    ]


def vmstat_document(data: ReportData) -> list[dict[str, Any]]:
    """Return the histograms as ``--json`` shows them."""
    return [asdict(each) for each in data.histograms]


def _table(histograms: Sequence[Histogram]) -> str:
    heads = ("what", "mean", "p50", "p95", "p99", "highest", "readings by value")
    head = Markup("").join(
        Markup('<th scope="col"{}>{}</th>').format(Markup(' class="text"') if name == heads[-1] else "", name)
        for name in heads
    )
    rows = Markup("").join(_row(each) for each in histograms)
    return Markup(
        '<div class="scroll card"><table><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>'
    ).format(head, rows)


def _row(histogram: Histogram) -> Markup:
    name = _WORDS.get(histogram.name, histogram.name)
    figures = Markup("").join(
        Markup('<td title="{}">{}</td>').format(
            fmt.raw(value, histogram.unit), fmt.quantity(value, histogram.unit)
        )
        for value in (histogram.mean, histogram.p50, histogram.p95, histogram.p99, histogram.high)
    )
    return Markup('<tr><th scope="row">{}</th>{}<td class="text">{}</td></tr>').format(
        name, figures, _bars(histogram, name)
    )


def _bars(histogram: Histogram, name: str) -> Markup:
    """Draw the bins from the lowest to the highest; a bin's title says its bounds and its readings."""
    most = max(histogram.counts)
    edges = [fmt.quantity(edge, histogram.unit) for edge in histogram.edges]
    low, high = edges[0], edges[-1]
    bars = []
    for at, count in enumerate(histogram.counts):
        height = max(_LOWEST, _HEIGHT * count / most) if count else 0.0
        bounds = f"{edges[at]} to {edges[at + 1]}"
        bars.append(
            Markup(
                "<g><title>{}: {} of {} readings</title>"
                '<rect class="bin" x="{}" y="0" width="{}" height="{}"/>'
                '<rect x="{}" y="{:.1f}" width="{}" height="{:.1f}"/></g>'
            ).format(
                fmt.plain(bounds),
                count,
                histogram.readings,
                at * (_BAR + _GAP),
                _BAR + _GAP,
                _HEIGHT,
                at * (_BAR + _GAP),
                _HEIGHT - height,
                _BAR,
                height,
            )
        )
    width = len(histogram.counts) * (_BAR + _GAP)
    return Markup(
        '<span class="bins"><span>{low}</span><svg role="img" aria-label="{label}" width="{width}"'
        ' height="{height}">{bars}</svg><span>{high}</span></span>'
    ).format(
        low=low,
        label=f"{name}: {histogram.readings} readings from {fmt.plain(low)} to {fmt.plain(high)}",
        width=width,
        height=_HEIGHT,
        bars=Markup("").join(bars),
        high=high,
    )
