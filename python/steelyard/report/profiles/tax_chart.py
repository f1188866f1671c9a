"""The tax map as DCPerf draws it in its Figure 12: stacked bars of where the cycles go.

In: tax maps. Out: a `Chart`, one stacked bar a profile, or one a command.

Not here: placing samples (``analyze.profiles.tax_map``).
"""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.analyze.profiles.tax_map import TaxMap
from steelyard.analyze.profiles.tax_rules import Rules, shipped_rules
from steelyard.report.answer import Chart, Series

_COMMANDS = 8
_NOTE = (
    "Blue: application logic; green to yellow: libraries of the datacenter tax; red: kernel; violet:"
    " language runtimes; grey: unclassified."
)
_FEWEST = 0.01
"""A command below this share of the busy samples gets no bar."""


def tax_chart(
    maps: Sequence[tuple[str, TaxMap]],
    rules: Rules | None = None,
    *,
    chart_id: str = "tax-map",
    measured: str = "CPU time",
) -> Chart:
    """Return one stacked bar for each named tax map; ``measured`` says of what its shares are."""
    bars = [
        (name, {category.id: category.samples for category in tax.categories}, tax.samples)
        for name, tax in maps
        if tax.samples
    ]
    return _chart(bars, rules, chart_id, f"{measured} by category", _NOTE)


def command_chart(tax: TaxMap, rules: Rules | None = None, *, chart_id: str = "tax-commands") -> Chart:
    """Return one stacked bar for each command with a notable share, the busiest first."""
    bars = [
        (f"{command.command} · {command.samples / tax.samples:.0%}", command.by_category, command.samples)
        for command in tax.commands[:_COMMANDS]
        if command.samples >= _FEWEST * tax.samples
    ]
    return _chart(bars, rules, chart_id, "By command, with its share of busy samples", "")


def _chart(
    bars: Sequence[tuple[str, dict[str, int], int]], rules: Rules | None, chart_id: str, title: str, note: str
) -> Chart:
    if not bars:
        return Chart(chart_id, title, (), missing="the profile has no samples of busy processors")
    used = [
        category
        for category in (rules or shipped_rules()).categories
        if any(counts.get(category.id) for _, counts, _ in bars)
    ]
    # Two commands may have one name once it is shortened for the axis; bars of one name would lie on each
    # other.
    names: list[str] = []
    for name, _, _ in bars:
        short = name if len(name) <= 40 else f"{name[:39]}…"
        names.append(short if short not in names else f"{short} ({len(names) + 1})")
    return Chart(
        chart_id,
        title,
        tuple(
            Series(
                category.title,
                names,
                [counts.get(category.id, 0) / samples for _, counts, samples in bars],
                kind="bar",
                role=f"tax-{category.id}",
            )
            for category in used
        ),
        x_kind="name",
        y_unit="ratio",
        y_range=(0.0, 1.0),
        horizontal=True,
        stacked=True,
        has_named_parts=True,
        note=note,
        height=70 + 44 * len(names),
        wide=True,
    )
