"""Results of ``fleet diff`` as sections of a page and of the terminal.

In: `FleetDiff`. Out: heading, cautions and `Section`s: a table, a chart, a flame graph of both.

Not here: finding it (``fleet.profiles.diff``), writing the page (``page``).
"""

from __future__ import annotations

from steelyard.analyze.profiles.tax_rules import Rules
from steelyard.fleet.profiles.diff import ALPHA, DiffRow, FleetDiff
from steelyard.report import format as fmt
from steelyard.report.answer import (
    Answer,
    Cell,
    Chart,
    Column,
    Fragment,
    Section,
    Series,
    Table,
    span,
    table,
    written,
)
from steelyard.report.fleet.profiles import percent, plural
from steelyard.report.profiles.flame import diff_flame_html
from steelyard.report.profiles.words import points
from steelyard.stats.shares import LEAST_HOLDERS

_BARS = 20
_ROWS = 60
_OTHER_JOBS = 0.1
"""Distance of the mixes of jobs from which a comparison is of other jobs."""


def diff(diff: FleetDiff, *, rules: Rules | None = None) -> Answer:
    """Return everything that ``fleet diff`` says; the flame graph's colours are by ``rules``."""
    subline = fmt.plain(
        f"A, {diff.names[0]}: {diff.samples[0]:,} samples in {diff.machine_minutes[0]:,} machine-minutes of"
        f" {diff.machines[0]:,} machines; B, {diff.names[1]}: {diff.samples[1]:,} in"
        f" {diff.machine_minutes[1]:,} of {diff.machines[1]:,}."
        f" {diff.changes} of {len(diff.rows):,} {plural(diff.by)} changed."
    )
    return Answer(
        f"Differences by {diff.by}",
        _heading(diff),
        _sections(diff, rules=rules),
        diff,
        (subline,),
        _cautions(diff),
    )


def _heading(diff: FleetDiff) -> str:
    """Return the comparison in one line."""
    if diff.changes:
        row = diff.changed[0]
        return f"{row.key}: {percent(row.a_ratio)} → {percent(row.b_ratio)}"
    if diff.are_same_samples:
        return "A and B are the same samples"
    if diff.is_same:
        return "No difference: A and B have the same shares"
    if all(row.is_change is None for row in diff.rows):
        return "Differences not tested: too few machines"
    return "No change beyond the noise of sampling"


def _cautions(diff: FleetDiff) -> list[str]:
    """Return the warnings of the page."""
    few = [
        f"{name} has samples of {count} machine{'s' if count > 1 else ''}"
        for name, count in zip(diff.names, diff.machines, strict=True)
        if count < LEAST_HOLDERS
    ]
    mixed = _mixed(diff)
    if diff.is_same or any(row.is_change is not None for row in diff.rows):
        return [*mixed, *([f"{'; '.join(few)}: other machines may differ."] if few else [])]
    why = "; ".join(few) or f"every row has samples of fewer than {LEAST_HOLDERS:g} machines in effect"
    return [*mixed, f"Differences are not tested: {why}; a test needs at least {LEAST_HOLDERS:g}."]


def _mixed(diff: FleetDiff) -> list[str]:
    """Return that A and B run another mix of jobs: functions then differ without any having changed."""
    if diff.mix_distance < _OTHER_JOBS or diff.by == "job":
        return []
    first = diff.jobs[0]
    return [
        f"A and B run another mix of jobs ({percent(diff.mix_distance)} of the cycles; {first.job} has"
        f" {percent(first.a_ratio)} of A and {percent(first.b_ratio)} of B), which alone makes shares differ:"
        f" compare one job at a time, job={first.job}."
    ]


def _sections(diff: FleetDiff, *, rules: Rules | None = None) -> list[Section]:
    """Return the page of two selections."""
    flame = Fragment(
        lambda assets: diff_flame_html(
            *diff.profiles,
            "Widths of B, colours by the change from A",
            names=("A", "B"),
            assets=assets,
            rules=rules,
            functions=_changed_functions(diff),
            is_judged=diff.is_same or any(row.is_change is not None for row in diff.rows),
        )
    )
    intro = (
        f"Shares are of A's and of B's own {diff.unit}. A row is a change when the t-test of its difference,"
        f" with machines as samples ({_pairing(diff)}), is below {ALPHA:.0%} after Holm's correction over all"
        f" tested rows; a row of fewer than {LEAST_HOLDERS:g} machines in effect is not tested."
        " Intervals are for each row alone."
    )
    if diff.by == "function":
        intro += " A row adds up the functions of one name in all programs of the selected jobs."
    return [
        Section("changes", "Changes", (_table(diff), _bars(diff)), intro=intro),
        Section("graph", "Flame graph", (flame,)),
    ]


def _changed_functions(diff: FleetDiff) -> list[str] | None:
    """Return the functions that changed; None where rows are no functions and some changed."""
    is_by_function = diff.by == "function"
    return [row.key for row in diff.changed] if is_by_function or not diff.changes else None


def _pairing(diff: FleetDiff) -> str:
    if not diff.both_machines:
        return "A and B have none in common"
    return f"{diff.both_machines:,} in A and in B are compared with themselves"


def _table(diff: FleetDiff) -> Table:
    count = max(_ROWS // 3, min(_ROWS, diff.changes))
    columns = (
        Column(diff.by),
        Column("A", "ratio"),
        Column("B", "ratio"),
        Column("difference, points", "ratio", exported="difference of shares"),
        Column("interval", "ratio", exported="interval of the difference of shares"),
        Column("p, corrected"),
        Column("machines", rank=1),
        Column("verdict", is_text=True, is_answer=True),
    )
    rows = [
        (
            row.key,
            row.a_ratio,
            row.b_ratio,
            written(points(row.difference_ratio), row.difference_ratio),
            _ends_text(row),
            None if row.p_value is None else written(f"{row.p_value:.2g}", row.p_value, unit="1"),
            row.machines,
            _verdict(row),
        )
        for row in diff.rows[:count]
    ]
    caption = f"{len(diff.rows):,} rows in all; --json has them." if len(rows) < len(diff.rows) else ""
    return table(columns, rows, caption=caption)


def _ends_text(row: DiffRow) -> Cell | None:
    if row.low_ratio is None or row.high_ratio is None:
        return None
    text = f"{points(row.low_ratio)} to {points(row.high_ratio)}"
    return span(text, row.low_ratio, row.high_ratio, "ratio")


def _verdict(row: DiffRow) -> Cell:
    if row.is_change is None:
        return Cell("too few machines", is_text=True)
    return (
        Cell("change", level="suspect", is_text=True) if row.is_change else Cell("may be noise", is_text=True)
    )


def _bars(diff: FleetDiff) -> Chart:
    rows = [row for row in diff.rows if row.low_ratio is not None][:_BARS]
    names: list[str] = []
    for row in rows:
        name = row.key if len(row.key) <= 60 else f"{row.key[:59]}…"
        names.append(name if name not in names else f"{name} ({len(names) + 1})")

    def series(label: str, role: str, is_change: bool) -> Series:
        chosen = [(name, row) for name, row in zip(names, rows, strict=True) if row.is_change is is_change]
        return Series(
            label,
            [name for name, _ in chosen],
            [row.difference_ratio for _, row in chosen],
            "bar",
            role,
            low=[row.low_ratio for _, row in chosen],
            high=[row.high_ratio for _, row in chosen],
        )

    both = (series("change", "red", True), series("may be noise", "sky", False))
    return Chart(
        "differences",
        "Differences of shares, B less A",
        tuple(bars for bars in both if bars.x),
        y_unit="ratio",
        x_kind="name",
        horizontal=True,
        stacked=True,
        height=100 + 24 * len(rows),
        missing="" if rows else "no row is judged",
    )
