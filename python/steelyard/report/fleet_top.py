"""What ``fleet top`` and ``fleet diff`` found, as sections of a page and of the terminal.

In: `Top`, `FleetDiff`. Out: headings and `Section`s: tables, charts by platform and over time, flame graphs.

Not here: finding it (``fleet.top``, ``fleet.top_diff``), writing the page (``fleet_page``).
"""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.analyze.tax_rules import Rules
from steelyard.fleet.top import CONFIDENCE, PRECISION, Apart, Top, TopRow
from steelyard.fleet.top_diff import ALPHA, DiffRow, FleetDiff
from steelyard.fleet.top_shares import RARE, Share
from steelyard.report import format as fmt
from steelyard.report.flame import diff_flame_html, flame_html
from steelyard.report.fleet_content import (
    Cell,
    Chart,
    Column,
    Fragment,
    Interval,
    Notes,
    Paragraph,
    Section,
    Series,
    Table,
    Tile,
    table,
)
from steelyard.report.profile_page import points

_ROLES = ("blue", "red", "green", "purple", "orange", "sky", "ink", "yellow")
_BARS = 20
_DIFF_ROWS = 60
_PLURALS = {"function": "functions", "binary": "binaries", "category": "categories"}


def plural(by: str) -> str:
    """Return what several of a key are called.

    >>> plural("binary"), plural("job")
    ('binaries', 'jobs')
    """
    return _PLURALS.get(by, f"{by}s")


def heading(top: Top) -> str:
    """Return the answer in one line."""
    first = top.rows[0]
    return f"{first.key}: {_percent(first.own.ratio)} of all {top.unit}"


def subline(top: Top) -> str:
    """Return what the answer stands on, in one line."""
    sample = top.sample
    unit = "s of CPU time" if top.unit == "ns" else top.unit
    weight = top.fleet / 1e9 if top.unit == "ns" else top.fleet
    return fmt.plain(
        f"{fmt.count(sample.samples)} samples of {top.event} in {fmt.count(sample.machine_minutes)}"
        f" machine-minutes of {fmt.count(sample.machines)} machines stand for {fmt.count(weight)} {unit}"
        f" of the fleet (weights over the share of machine-minutes that was profiled)."
    )


def cautions(top: Top) -> list[str]:
    """Return what a reader must know first."""
    said = []
    if top.sample.more_machine_minutes is None:
        said.append("Too few machine-minutes for intervals: the shares are those of the sample alone.")
    elif not top.sample.is_enough:
        said.append(
            f"The sample is not enough for every row shown: {top.sample.more_machine_minutes:,} more"
            f" machine-minutes bring each to ±{PRECISION:.0%} of its share."
        )
    unknown = sum(ratio for _, ratio in top.unknown)
    if unknown >= 0.001:
        said.append(f"{_percent(unknown)} of the {top.unit} are in modules without symbols in the store.")
    if top.rest_ratio >= 0.001 and top.by in ("function", "category"):
        said.append(f"{_percent(top.rest_ratio)} are in stacks too rare to be kept apart, and in no row.")
    if top.other_events:
        said.append(f"Samples of {', '.join(top.other_events)} are left out: --event shows them.")
    return said


def tiles(top: Top) -> list[Tile]:
    """Return the main figures of the page."""
    sample = top.sample
    distance = fmt.MISSING if sample.distance is None else fmt.significant(sample.distance)
    expected = fmt.MISSING if sample.expected_distance is None else fmt.significant(sample.expected_distance)
    tax = top.tax.tax_ratio
    return [
        Tile("machine-minutes", fmt.count(sample.machine_minutes), str(sample.machine_minutes)),
        Tile(
            "entropy of functions",
            f"{sample.entropy_bits:.2f} bits",
            note=f"as if spread evenly over {2**sample.entropy_bits:,.0f} of {sample.functions:,}",
        ),
        Tile("distance of two halves", distance, note=f"of 2 at most; chance alone makes {expected}"),
        Tile("datacenter tax", fmt.quantity(tax, "ratio"), note="of busy samples"),
    ]


def sections(top: Top, *, rules: Rules | None = None) -> list[Section]:
    """Return the page: the table, parts of the fleet, the tax map, the flame graph, the sample."""
    title = plural(top.by).capitalize()
    made = [
        Section(
            top.by,
            title,
            (_table(top), _bars(top)),
            intro=_intro(top),
        ),
        Section("apart", "By platform and time", tuple(_apart(top)), grid=True),
    ]
    flame = Fragment(lambda nonce: flame_html(top.profile, "The whole fleet", nonce=nonce, rules=rules))
    if top.by != "category":
        made.append(Section("tax", "Datacenter tax", (_tax(top),)))
    made.append(Section("graph", "Flame graph", (flame,)))
    made.append(Section("sample", "Is the sample enough", _sample(top)))
    return made


def _intro(top: Top) -> str:
    own = "Own is where the time was spent, total with what it calls. " if top.by == "function" else ""
    return (
        f"{own}Shares are of all {top.unit} of the selected part of the fleet. Intervals ({CONFIDENCE:.0%})"
        f" take a machine-minute as one draw, because the samples of one are not independent. More"
        f" needed: how many more machine-minutes would bring the interval to ±{PRECISION:.0%} of the share."
    )


def _interval(one: Share | None) -> Interval | None:
    return None if one is None else Interval(one.ratio, one.low, one.high)


def _table(top: Top) -> Table:
    is_function = top.by == "function"
    columns: list[Column | str] = [Column(top.by)]
    if is_function:
        columns.append(Column("module", is_text=True, rank=1))
    columns.append(Column("own" if is_function else "share", "ratio"))
    if is_function:
        columns.append(Column("total", "ratio"))
    columns += [
        Column(f"fleet {top.unit}", rank=1),
        Column("samples", rank=2),
        Column("machine-minutes", rank=2),
        Column("more needed", rank=1),
    ]
    rows = []
    for row in top.rows:
        cells: list[object] = [row.key]
        if is_function:
            cells.append(row.module)
        cells.append(_interval(row.own))
        if is_function:
            cells.append(_interval(row.total))
        rows.append([*cells, row.fleet, row.samples, row.clusters, row.more_clusters])
    caption = f"{len(top.rows)} of {top.keys:,} {plural(top.by)}." if top.keys > len(top.rows) else ""
    return table(columns, rows, caption=caption)


def _bars(top: Top) -> Chart:
    rows = top.rows[:_BARS]
    return Chart(
        "shares",
        f"The first {len(rows)} {plural(top.by)}",
        (
            Series(
                "own" if top.by == "function" else "share",
                _distinct(rows),
                [row.own.ratio for row in rows],
                "bar",
                low=[row.own.low for row in rows],
                high=[row.own.high for row in rows],
                labels=[row.key for row in rows],
            ),
        ),
        y_title=f"share of {top.unit}",
        y_unit="ratio",
        x_kind="name",
        horizontal=True,
        height=90 + 24 * len(rows),
    )


def _distinct(rows: Sequence[TopRow]) -> list[str]:
    """Return names that differ where keys do, however they are cut: equal ones would share a bar."""
    names: list[str] = []
    for row in rows:
        name = row.key if len(row.key) <= 60 else f"{row.key[:59]}…"
        names.append(name if name not in names else f"{name} ({len(names) + 1})")
    return names


def _apart(top: Top) -> list[Chart]:
    charts = []
    platforms = top.platforms
    if len(platforms.parts) > 1:
        charts.append(
            Chart(
                "platforms",
                "By platform",
                tuple(
                    Series(
                        key,
                        [str(part) for part in platforms.parts],
                        [None if one is None else one.ratio for one in row],
                        "bar",
                        _ROLES[at % len(_ROLES)],
                        low=_ends(row, "low"),
                        high=_ends(row, "high"),
                    )
                    for at, (key, row) in enumerate(zip(platforms.keys, platforms.shares, strict=True))
                ),
                y_title="share of the platform's own",
                y_unit="ratio",
                x_kind="name",
                note="Each platform's shares are of its own " + top.unit + ".",
                height=380,
            )
        )
    else:
        missing = (
            f"all samples are of one platform, {platforms.parts[0]}" if platforms.parts else "no samples"
        )
        charts.append(Chart("platforms", "By platform", (), missing=missing))
    charts.append(_over_time(top.times, top))
    return charts


def _over_time(times: Apart, top: Top) -> Chart:
    if len(times.parts) < 2:
        return Chart("times", "Over time", (), missing="all samples are of one stretch of time")
    middle = [int(part) + top.bucket_s / 2 for part in times.parts]
    return Chart(
        "times",
        f"Over time, by {_stretch(top.bucket_s)}",
        tuple(
            Series(
                key,
                middle,
                [None if one is None else one.ratio for one in row],
                "line",
                _ROLES[at % len(_ROLES)],
                low=_ends(row, "low"),
                high=_ends(row, "high"),
            )
            for at, (key, row) in enumerate(zip(times.keys, times.shares, strict=True))
        ),
        y_title=f"share of {top.unit}",
        y_unit="ratio",
        x_kind="time",
        from_zero=True,
        height=380,
    )


def _stretch(seconds: int) -> str:
    """Return a stretch of time in its largest whole unit.

    >>> _stretch(7200), _stretch(86_400), _stretch(300)
    ('2 h', '1 d', '5 min')
    """
    for length, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds % length == 0:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def _ends(row: Sequence[Share | None], end: str) -> list[float | None]:
    return [None if one is None else getattr(one, end) for one in row]


def _tax(top: Top) -> Chart:
    shown = [one for one in top.tax.categories if one.samples]
    return Chart(
        "tax",
        "Where the cycles go" if top.unit == "cycles" else "Where the time goes",
        tuple(
            Series(one.title, ["the fleet"], [one.share_ratio], "bar", f"tax-{one.id}", labels=[_behind(one)])
            for one in shown
        ),
        y_unit="ratio",
        x_kind="name",
        y_range=(0.0, 1.0),
        horizontal=True,
        stacked=True,
        note="`steelyard fleet top --by category` has the table with intervals.",
        height=150 + 20 * (len(shown) // 6),
    )


def _behind(category: object) -> str:
    functions = getattr(category, "functions", ())
    return ", ".join(one.function[:60] for one in functions[:3])


def _sample(top: Top) -> tuple[Table | Paragraph | Notes, ...]:
    sample = top.sample
    rows: list[tuple[object, ...]] = [
        ("machine-minutes with samples", sample.machine_minutes, "what chance chose; each is one draw"),
        ("machines", sample.machines, ""),
        ("samples", sample.samples, f"of {top.event}"),
        ("functions seen", sample.functions, ""),
        (
            "entropy, bits",
            sample.entropy_bits,
            f"as if spread evenly over {2**sample.entropy_bits:,.0f} functions; steady from day to day where"
            " the sample is enough",
        ),
        (
            "Manhattan distance of two halves",
            sample.distance,
            "sum of the differences of all shares, 0 to 2, of two halves drawn by lot",
        ),
        ("… expected of chance alone", sample.expected_distance, "from the intervals"),
        (
            f"machine-minutes until every row is within ±{PRECISION:.0%}",
            sample.more_machine_minutes,
            "more, of the same fleet",
        ),
    ]
    blocks: list[Table | Paragraph | Notes] = [
        table((Column("what"), Column("value"), Column("meaning", is_text=True)), rows)
    ]
    if sample.distance and sample.expected_distance and sample.distance > 2 * sample.expected_distance:
        blocks.append(
            Paragraph(
                "The halves differ by more than twice what chance makes of it: the fleet changed from minute"
                " to minute more than its samples tell. Look at the shares over time.",
                "suspect",
            )
        )
    if top.unknown:
        blocks.append(
            table(
                (
                    Column("module without symbols"),
                    Column("share", "ratio"),
                    Column("build id", is_text=True),
                ),
                [
                    (name.rpartition("@")[0], ratio, name.rpartition("@")[2])
                    for name, ratio in top.unknown[:20]
                ],
                caption="steelyard fleet symbols add BINARY... --store STORE names them.",
            )
        )
    return tuple(blocks)


def diff_heading(diff: FleetDiff) -> str:
    """Return the comparison in one line."""
    if diff.changes:
        row = diff.changes[0]
        return f"{row.key}: {_percent(row.a_ratio)} → {_percent(row.b_ratio)}"
    return "No change beyond the noise of sampling"


def diff_subline(diff: FleetDiff) -> str:
    """Return what the comparison stands on."""
    return fmt.plain(
        f"A, {diff.names[0]}: {diff.samples[0]:,} samples in {diff.machine_minutes[0]:,} machine-minutes;"
        f" B, {diff.names[1]}: {diff.samples[1]:,} in {diff.machine_minutes[1]:,}."
        f" {len(diff.changes)} of {len(diff.rows):,} {plural(diff.by)} changed."
    )


def diff_sections(diff: FleetDiff, *, rules: Rules | None = None) -> list[Section]:
    """Return the page of two selections."""
    flame = Fragment(
        lambda nonce: diff_flame_html(
            *diff.profiles,
            "Widths of B, colours by the change from A",
            names=("A", "B"),
            nonce=nonce,
            rules=rules,
        )
    )
    intro = (
        f"Shares are of A's and of B's own {diff.unit}. A row is a change when the t-test of its difference,"
        f" whose variance is that of machine-minutes, is below {ALPHA:.0%} after Holm's correction over all"
        f" rows that are judged; one that fewer than {RARE} machine-minutes saw is not. Intervals are of each"
        " row alone."
    )
    return [
        Section("changes", "Changes", (_diff_table(diff), _diff_bars(diff)), intro=intro),
        Section("graph", "Flame graph", (flame,)),
    ]


def _diff_table(diff: FleetDiff) -> Table:
    count = max(_DIFF_ROWS // 3, min(_DIFF_ROWS, len(diff.changes)))
    columns = (
        Column(diff.by),
        Column("A", "ratio"),
        Column("B", "ratio"),
        Column("difference, points"),
        Column("interval"),
        Column("p, corrected"),
        Column("machine-minutes", rank=1),
        Column("", is_text=True),
    )
    rows = [
        (
            row.key,
            row.a_ratio,
            row.b_ratio,
            Cell(points(row.difference_ratio), repr(row.difference_ratio)),
            _ends_text(row),
            None if row.p_value is None else Cell(f"{row.p_value:.2g}", repr(row.p_value)),
            row.clusters,
            _verdict(row),
        )
        for row in diff.rows[:count]
    ]
    caption = f"{len(rows)} of {len(diff.rows):,} rows." if len(rows) < len(diff.rows) else ""
    return table(columns, rows, caption=caption)


def _ends_text(row: DiffRow) -> Cell | None:
    if row.low is None or row.high is None:
        return None
    return Cell(f"{points(row.low)} to {points(row.high)}", f"{row.low!r} to {row.high!r}")


def _verdict(row: DiffRow) -> Cell:
    if row.is_change is None:
        return Cell("too rare to judge", is_text=True)
    return (
        Cell("change", level="suspect", is_text=True) if row.is_change else Cell("may be noise", is_text=True)
    )


def _diff_bars(diff: FleetDiff) -> Chart:
    rows = [row for row in diff.rows if row.low is not None][:_BARS]
    names: list[str] = []
    for row in rows:
        name = row.key if len(row.key) <= 60 else f"{row.key[:59]}…"
        names.append(name if name not in names else f"{name} ({len(names) + 1})")

    def series(label: str, role: str, wanted: bool) -> Series:
        chosen = [(name, row) for name, row in zip(names, rows, strict=True) if row.is_change is wanted]
        return Series(
            label,
            [name for name, _ in chosen],
            [row.difference_ratio for _, row in chosen],
            "bar",
            role,
            low=[row.low for _, row in chosen],
            high=[row.high for _, row in chosen],
        )

    both = (series("change", "red", True), series("may be noise", "sky", False))
    return Chart(
        "differences",
        "Differences of shares, B less A",
        tuple(one for one in both if one.x),
        y_unit="ratio",
        x_kind="name",
        horizontal=True,
        stacked=True,
        height=100 + 24 * len(rows),
        missing="" if rows else "no row is judged",
    )


def _percent(ratio: float) -> str:
    return fmt.plain(fmt.quantity(ratio, "ratio"))
