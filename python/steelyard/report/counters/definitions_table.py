"""``steelyard machine counters`` in a terminal: what can be counted on a machine, and why the rest cannot.

In: a `Choice`. Out: renderables that fit 80 columns. Not here: choosing (``analyze.counters.choice``).
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from steelyard.analyze.counters.choice import Choice, Wanted
from steelyard.report.terminal import safe

_NAME_WIDTH = 25


def render_choice(choice: Choice) -> RenderableType:
    """Return the definition, the metrics that can be had with their formulas, and why others cannot."""
    definition = choice.definition
    there = [each for each in choice.metrics if each.missing is None]
    parts: list[RenderableType] = [
        Text.assemble((definition.name, "bold"), f"  {definition.id}: ", safe(choice.reason)),
        Text(
            f"{len(there)} of {len(choice.metrics)} metrics, {len(choice.plan.events)} events, {choice.scope}"
        ),
        Text(),
    ]
    if there:
        parts += [Text("Metrics", style="bold"), _rows(map(_metric_row, there)), Text()]
    reasons: dict[str, list[str]] = {}
    for name, reason in choice.missing.items():
        reasons.setdefault(reason, []).append(name)
    if reasons:
        parts.append(Text("Not here, and why", style="bold"))
        for reason, names in reasons.items():
            parts.append(Text.assemble("  ", _styled(", ".join(names), "cyan")))
            parts.append(Text.assemble("    ", safe(reason)))
        parts.append(Text())
    if definition.sources:
        parts.append(Text("From", style="bold"))
        parts += [Text.assemble("  ", safe(source)) for source in definition.sources]
    return Group(*parts)


def _metric_row(metric: Wanted) -> tuple[str, Text]:
    unit = "" if metric.unit in ("", "1", "ratio") else f" ({metric.unit})"
    text = Text.assemble(safe(metric.meaning or metric.name), unit)
    if metric.formula:
        text.append("\n").append(_styled(metric.formula, "dim"))
    return metric.name, text


def _rows(rows: Iterable[tuple[str, Text]]) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(min_width=_NAME_WIDTH, no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(Text.assemble("  ", safe(name)), text)
    return table


def _styled(text: str, style: str) -> Text:
    styled = safe(text)
    styled.stylize(style)
    return styled
