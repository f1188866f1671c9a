"""``steelyard health`` in a terminal. In: a check and its comparison. Out: a rich renderable."""

from __future__ import annotations

from itertools import groupby

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from steelyard.analyze.health.comparison import Compared, Comparison, quantity, tolerated
from steelyard.analyze.health.figures import Figure
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


# How the reason of a part that nobody requested begins, also in records of earlier versions.
NOT_REQUESTED = ("not requested", "not asked for")


def _expected(row: Compared) -> str:
    if row.expected is None or row.tolerance_ratio is None:
        return quantity(row.expected, row.figure.unit) if row.expected is not None else ""
    return f"{quantity(row.expected, row.figure.unit)} {tolerated(row)}"


def spread(figure: Figure) -> str:
    """Return a figure's interval, its unit once where both ends have the same.

    >>> spread(Figure("x", "x", "bandwidth", "bytes/s", "higher", 2e9, 1.9e9, 2.1e9))
    '1.9–2.1 GB/s'
    """
    low, high = quantity(figure.low, figure.unit), quantity(figure.high, figure.unit)
    first, second = low.partition(" "), high.partition(" ")
    return f"{first[0]}–{high}" if first[2] == second[2] else f"{low} – {high}"


def _interval(row: Compared) -> str:
    figure = row.figure
    if figure.low is None or figure.high is None:
        return escape(figure.reason or "")
    return spread(figure)


def render(result: HealthResult, comparison: Comparison) -> RenderableType:
    """Return a table for each part, then alerts, notes, and what is missing."""
    parts: list[RenderableType] = []
    for key, members in groupby(comparison.rows, key=lambda row: row.figure.family.partition("-")[0]):
        title = _TITLES.get(key, _TITLES["core-to-core"])
        table = Table(title=title, title_justify="left", box=None, pad_edge=False)
        table.add_column("", width=23, overflow="fold")
        table.add_column("median", justify="right", width=10, no_wrap=True)
        table.add_column("interval", width=14, overflow="fold")
        table.add_column("expected", width=12, overflow="fold")
        table.add_column("change", justify="right", width=7)
        table.add_column("", width=9)
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
    missing = {name: why for name, why in result.missing.items() if not why.startswith(NOT_REQUESTED)}
    parts += [Text.assemble(("absent ", "yellow"), f"{name}: {why}") for name, why in missing.items()]
    parts.append(Text(verdict(comparison), style="bold"))
    return Group(*parts)


def _short(row: Compared) -> str:
    """Return the figure's name without what the table's title says.

    >>> name = "read bandwidth, CPUs of node 0, memory of node 1"
    >>> _short(Compared(Figure("x", name, "bandwidth", "1", "", 1, 1, 1), None, 0, None, None, "new"))
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
