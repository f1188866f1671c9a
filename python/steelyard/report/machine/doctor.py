"""``steelyard doctor`` in a terminal. In: capabilities. Out: a rich renderable. Not here: finding them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from steelyard.machine import Capability, Status

_MARKS = {
    Status.YES: Text("yes", style="green"),
    Status.PARTLY: Text("partly", style="yellow"),
    Status.NO: Text("no", style="red"),
}

_NAME_WIDTH = 21

_TITLES = {
    "telemetry": "Telemetry of steelyard-probe",
    "counters": "Counters and profiles",
    "running": "Running a benchmark",
    "conditions": "Conditions now",
}


def render(capabilities: Sequence[Capability]) -> RenderableType:
    """Return a table for each area, in order, and a line that counts them."""
    order = list(_TITLES)
    known = sorted(
        capabilities,
        key=lambda capability: order.index(capability.area) if capability.area in order else len(order),
    )
    parts: list[RenderableType] = []
    for area, members in groupby(known, key=lambda capability: capability.area):
        table = Table(title=_TITLES.get(area, area), title_justify="left", expand=True, box=None)
        # The longest name fits, so that a narrow terminal cuts none of them.
        table.add_column("", width=_NAME_WIDTH, no_wrap=True)
        table.add_column("", width=6)
        table.add_column("result", ratio=6, overflow="fold")
        table.add_column("how to enable", ratio=4, overflow="fold")
        for capability in members:
            # Names and reasons come from the kernel and from files: none of it is markup.
            table.add_row(
                escape(capability.name),
                _MARKS[capability.status],
                escape(capability.finding),
                escape(capability.enable or ""),
            )
        parts += [table, Text()]
    counts = {status: sum(capability.status is status for capability in capabilities) for status in Status}
    parts.append(Text(", ".join(f"{count} {status}" for status, count in counts.items())))
    return Group(*parts)
