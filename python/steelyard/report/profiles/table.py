"""A profile, or the difference of two, in the terminal.

In: what was counted. Out: renderables for a `rich` console. Every text from outside is a `Text`, never
markup, and loses its control characters.

Not here: printing, the page (``page``).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from steelyard.analyze.profiles.diff import OWN, RUNS, ProfileDiff, Table
from steelyard.analyze.profiles.names import short_function
from steelyard.analyze.profiles.profile import Profile
from steelyard.analyze.profiles.tax_map import TaxMap
from steelyard.report import format as fmt
from steelyard.report.profiles.page import (
    FunctionRow,
    cautions_of,
    count_of,
    facts_of,
    heading_of,
    points,
    sides_of,
    word_of,
)
from steelyard.report.terminal import report_line, safe

_BAR = 12
_DIFFERENCES = 12
_NAME = 60


def profile_summary(
    profile: Profile, tax: TaxMap, functions: Sequence[FunctionRow], *, report_path: Path | None = None
) -> RenderableType:
    """Return a profile: how it was taken, where the time goes, the top functions, where the page is."""
    facts = " · ".join(f"{name} {value}" for name, value in facts_of(profile, tax))
    parts: list[RenderableType] = [safe(facts)]
    parts += [
        Text("! ", style="bold yellow").append(safe(caution).plain, style="not bold")
        for caution in cautions_of(profile)
    ]
    if not tax.samples:
        parts.append(Text("all samples are from idle processors: nothing to show"))
    else:
        parts += [Text(), _tax(tax, profile.measured), Text(), _functions(functions, tax.samples)]
    return Group(*parts, *_report(report_path))


def _report(path: Path | None) -> list[RenderableType]:
    if path is None:
        return []
    return [Text(), report_line(path)]


def _grid(title: str | Text) -> Grid:
    return Grid(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        expand=True,
        title=title,
        title_justify="left",
        title_style="bold",
    )


def _tax(tax: TaxMap, measured: str) -> Grid:
    grid = _grid(safe(f"{measured} by category"))
    grid.add_column("category", no_wrap=True)
    grid.add_column("share", justify="right", no_wrap=True)
    grid.add_column("", no_wrap=True)
    grid.add_column("largest functions, of all", no_wrap=True, overflow="ellipsis", ratio=1)
    most = max(category.share_ratio for category in tax.categories)
    for category in tax.categories:
        bar = "█" * round(_BAR * category.share_ratio / most) or "▏"
        style = (
            "yellow"
            if category.id == "unclassified"
            else "blue"
            if category.group == "application"
            else "green"
        )
        names = [
            f"{short_function(function.function)[:_NAME]} {_ratio(function.share_ratio)}"
            for function in category.functions[:2]
        ]
        functions = ", ".join(safe(name).plain for name in names)
        grid.add_row(
            Text(category.title),
            _ratio(category.share_ratio),
            Text(bar, style=style),
            Text(functions, style="dim"),
        )
    return grid


def _functions(functions: Sequence[FunctionRow], total: int) -> Grid:
    grid = _grid("Functions")
    grid.add_column("own", justify="right", no_wrap=True)
    grid.add_column("total", justify="right", no_wrap=True)
    grid.add_column("function", no_wrap=True, overflow="ellipsis", ratio=3)
    grid.add_column("module", no_wrap=True, overflow="ellipsis", ratio=1)
    for row in functions:
        grid.add_row(
            _ratio(row.own / total),
            _ratio(row.total / total),
            safe(short_function(row.function)[:200]),
            safe(row.module[:40]),
        )
    return grid


def _ratio(value: float) -> str:
    return fmt.plain(fmt.quantity(value, "ratio"))


def diff_summary(
    result: ProfileDiff, names: tuple[str, str], *, count: int = _DIFFERENCES, report_path: Path | None = None
) -> RenderableType:
    """Return a comparison: the change that matters most, then tables by function, category and module."""
    parts: list[RenderableType] = [
        safe(heading_of(result)),
        safe(sides_of(result, names)),
    ]
    parts[0].stylize("bold")  # type: ignore[union-attr]
    parts += [
        Text("! ", style="bold yellow").append(safe(caution).plain, style="not bold")
        for caution in result.cautions
    ]
    for by, title in (
        ("function", "Functions by own samples"),
        ("category", "Tax map"),
        ("module", "Modules"),
    ):
        parts += [Text(), _differences(result.table(by, OWN), title, names, count, result)]
    if result.basis == RUNS:
        parts.append(
            Text(
                f"intervals {result.confidence:.0%}, each row alone, from what {result.runs[0]} and"
                f" {result.runs[1]} runs differ by; changes hold over all tables at {result.alpha:.0%}",
                style="dim",
            )
        )
    return Group(*parts, *_report(report_path))


def _differences(
    table: Table, title: str, names: tuple[str, str], count: int, result: ProfileDiff
) -> RenderableType:
    shown = table.rows[: max(count, 0)]
    judged = "" if result.reason else f": {count_of(table, result)} in {len(table.rows)} rows"
    grid = _grid(title + judged)
    for name in names:
        grid.add_column(safe(name[-12:]), justify="right", no_wrap=True)
    grid.add_column("points", justify="right", no_wrap=True)
    grid.add_column("interval" if result.basis == RUNS else "", justify="right", no_wrap=True)
    grid.add_column(table.by, no_wrap=True, overflow="ellipsis", ratio=1)
    grid.add_column("", no_wrap=True)
    for row in shown:
        interval = ""
        if row.low_ratio is not None and row.high_ratio is not None:
            interval = f"{points(row.low_ratio)} to {points(row.high_ratio)}"
        style = "bold" if row.stands_out else "dim" if row.stands_out is False else ""
        grid.add_row(
            _ratio(row.a_ratio),
            _ratio(row.b_ratio),
            points(row.difference_ratio),
            interval,
            safe(row.name[:200]),
            word_of(row),
            style=style,
        )
    return grid
