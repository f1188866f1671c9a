"""``steelyard health`` in a terminal. In: a check and its comparison. Out: a rich renderable."""

from __future__ import annotations

from itertools import groupby

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from steelyard.analyze.health import Compared, Comparison, quantity
from steelyard.records import HealthResult

_TITLES = {
    "latency": "Memory latency",
    "bandwidth": "Memory bandwidth",
    "core-to-core": "Core to core",
    "disk": "Disk",
    "loopback": "Loopback network",
}
_STATES = {
    "ok": Text("as before", style="green"),
    "worse": Text("worse", style="bold red"),
    "better": Text("better", style="cyan"),
    "noisy": Text("noisy", style="yellow"),
    "new": Text("first", style="dim"),
    "gone": Text("gone", style="bold red"),
    "missing": Text("not measured", style="dim"),
}


def _expected(row: Compared) -> str:
    if row.expected is None or row.tolerance_ratio is None:
        return quantity(row.expected, row.figure.unit) if row.expected is not None else ""
    return f"{quantity(row.expected, row.figure.unit)} ±{row.tolerance_ratio:.0%}"


def _interval(row: Compared) -> str:
    figure = row.figure
    if figure.low is None or figure.high is None:
        return escape(figure.reason or "")
    return f"{quantity(figure.low, figure.unit)} to {quantity(figure.high, figure.unit)}"


def render(result: HealthResult, comparison: Comparison) -> RenderableType:
    """Return a table for each part, then alerts, notes, and what is missing."""
    parts: list[RenderableType] = []
    for key, members in groupby(comparison.rows, key=lambda row: row.figure.family.partition("-")[0]):
        title = _TITLES.get(key, _TITLES["core-to-core"])
        table = Table(title=title, title_justify="left", box=None, expand=True)
        table.add_column("", ratio=5, overflow="fold")
        table.add_column("median", justify="right", min_width=9, no_wrap=True)
        table.add_column("interval", ratio=3, overflow="fold")
        table.add_column("expected", ratio=2, overflow="fold")
        table.add_column("change", justify="right", min_width=6)
        table.add_column("", min_width=9, no_wrap=True)
        for row in members:
            value = "–" if row.figure.value is None else quantity(row.figure.value, row.figure.unit)
            change = "" if row.change_ratio is None else f"{row.change_ratio:+.1%}"
            table.add_row(
                escape(_short(row)), value, _interval(row), _expected(row), change, _STATES[row.state]
            )
        parts += [table, Text()]
    for alert in comparison.alerts:
        parts.append(Text.assemble(("alert  ", "bold red"), alert.claim))
        parts.append(Text(f"       may mean: {alert.meaning}", style="dim"))
    parts += [Text.assemble(("note   ", "yellow"), note) for note in comparison.notes]
    missing = {name: why for name, why in result.missing.items() if not why.startswith("not asked for")}
    parts += [Text.assemble(("absent ", "yellow"), f"{name}: {why}") for name, why in missing.items()]
    parts.append(Text(verdict(comparison), style="bold"))
    return Group(*parts)


def _short(row: Compared) -> str:
    """Return the figure's name without what the table's title says."""
    name = row.figure.name
    for start in ("latency of ", "core to core, ", "disk ", "loopback TCP "):
        name = name.removeprefix(start)
    return name


def verdict(comparison: Comparison) -> str:
    """Return the conclusion in one line."""
    if comparison.alerts:
        count = len(comparison.alerts)
        return f"{count} alert{'s' if count > 1 else ''}, against {comparison.against}"
    if any(row.earlier for row in comparison.rows):
        return f"healthy, against {comparison.against}"
    return f"measured; {comparison.against}"
