"""Results of ``fleet top`` as sections of a page and of the terminal.

In: `Top`. Out: headings and `Section`s: tables, charts by platform and over time, flame graphs.

Not here: finding it (``fleet.profiles.top``), differences (``profiles_diff``), writing the page (``page``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from steelyard.analyze.profiles.names import short_function
from steelyard.analyze.profiles.tax_rules import Rules
from steelyard.fleet.profiles.sample_size import PRECISION
from steelyard.fleet.profiles.shares import Share
from steelyard.fleet.profiles.top import CONFIDENCE, Apart, Top, TopRow
from steelyard.report import format as fmt
from steelyard.report.answer import (
    Answer,
    Chart,
    Column,
    Figure,
    Fragment,
    Notes,
    Paragraph,
    Section,
    Series,
    Table,
    Tile,
    table,
    written,
)
from steelyard.report.profiles.flame import flame_html
from steelyard.stats.shares import LEAST_HOLDERS

_ROLES = ("blue", "red", "green", "purple", "orange", "sky", "ink", "yellow")
_BARS = 20
_PLURALS = {"function": "functions", "binary": "binaries", "category": "categories"}


def plural(by: str) -> str:
    """Return what several of a key are called.

    >>> plural("binary"), plural("job")
    ('binaries', 'jobs')
    """
    return _PLURALS.get(by, f"{by}s")


def top(top: Top, *, rules: Rules | None = None) -> Answer:
    """Return everything that ``fleet top`` says; the flame graph's colours are by ``rules``."""
    sample = top.sample
    unit = "s of CPU time" if top.unit == "ns" else top.unit
    weight = top.fleet_weight / 1e9 if top.unit == "ns" else top.fleet_weight
    subline = fmt.plain(
        f"{fmt.count(sample.samples)} samples of {top.event} in {fmt.count(sample.machine_minutes)}"
        f" machine-minutes of {fmt.count(sample.machines)} machines stand for {fmt.count(weight)} {unit}"
        f" of the fleet (by the share of machine-minutes that agents are set to profile)."
    )
    answer = Answer(
        f"Top by {top.by}",
        _heading(top),
        _sections(top, rules=rules),
        top,
        (subline,),
        _cautions(top),
        _tiles(top),
    )
    # The rows that were asked for are shown on every surface.
    return replace(answer, rows=max(answer.rows, len(top.rows)))


def _heading(top: Top) -> str:
    """Return the answer in one line."""
    first = top.rows[0]
    return f"{first.key}: {percent(first.own.ratio)} of all {top.unit}"


def _cautions(top: Top) -> list[str]:
    """Return the warnings of the page."""
    cautions = []
    without = [row.least_machines for row in top.rows if row.own.low is None]
    if without:
        most = max((count for count in without if count is not None), default=None)
        enough = "" if most is None else f"; about {most:,} machines in all would give them one"
        cautions.append(
            f"{len(without)} of {len(top.rows)} rows have no interval: fewer than {LEAST_HOLDERS:g} machines"
            f" make up their weight in effect, and samples of other machines may differ{enough}."
        )
    more = max((row.more_machines for row in top.rows if row.more_machines), default=0)
    if more:
        wanting = sum(bool(row.more_machines) for row in top.rows)
        cautions.append(
            f"{wanting} of {len(top.rows)} rows have intervals wider than ±{PRECISION:.0%} of their share:"
            f" {more:,} more machines would bring all of them to it."
        )
    unknown = top.unknown_symbols_ratio
    if unknown >= 0.001:
        cautions.append(f"{percent(unknown)} of the {top.unit} are in modules without symbols in the store.")
    if top.other_stacks_ratio >= 0.001 and top.by in ("function", "category"):
        cautions.append(
            f"{percent(top.other_stacks_ratio)} are in rare stacks that were merged, and in no row."
        )
    if top.other_events:
        cautions.append(f"Samples of {', '.join(top.other_events)} are left out: --event shows them.")
    return cautions


def _tiles(top: Top) -> list[Tile]:
    """Return the main figures of the page."""
    sample = top.sample
    distance = (
        fmt.MISSING if sample.manhattan_distance is None else fmt.significant(sample.manhattan_distance)
    )
    expected = (
        fmt.MISSING
        if sample.expected_manhattan_distance is None
        else fmt.significant(sample.expected_manhattan_distance)
    )
    tax = top.tax.tax_ratio
    return [
        Tile("machine-minutes", fmt.count(sample.machine_minutes), str(sample.machine_minutes)),
        Tile(
            "entropy of functions",
            f"{sample.entropy.value:.2f} bits",
            note=f"as if spread evenly over {2**sample.entropy.value:,.0f} functions; {_entropy_ends(top)}",
        ),
        Tile("distance of two halves", distance, note=f"of 2 at most; chance alone makes {expected}"),
        Tile("datacenter tax", fmt.quantity(tax, "ratio"), note="of busy samples"),
    ]


def _sections(top: Top, *, rules: Rules | None = None) -> list[Section]:
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
    flame = Fragment(lambda assets: flame_html(top.profile, "The whole fleet", assets=assets, rules=rules))
    if top.by != "category":
        made.append(Section("tax", "Datacenter tax", (_tax(top),)))
    made.append(Section("graph", "Flame graph", (flame,)))
    made.append(Section("sample", "Is the sample enough", _sample(top)))
    return made


def _intro(top: Top) -> str:
    own = (
        "Own is the function itself, total includes its callees; functions of one name are one row. "
        if top.by == "function"
        else ""
    )
    return (
        f"{own}Shares are of all {top.unit} of the selected part of the fleet. Intervals ({CONFIDENCE:.0%})"
        f" take a machine as one draw from a fleet of machines like these, because its minutes are alike."
        f" More needed: how many more machines would bring the interval to ±{PRECISION:.0%} of the share."
    )


def _entropy_ends(top: Top) -> str:
    """Return the interval of the entropy, or why there is none.

    The reason follows a figure, so that it needs no capital.
    """
    entropy = top.sample.entropy
    if entropy.low is None or entropy.high is None:
        return f"no interval: {entropy.missing}"
    return f"{entropy.low:.2f} to {entropy.high:.2f} bits ({CONFIDENCE:.0%})"


def _interval(share: Share | None) -> Figure | None:
    return None if share is None else Figure(share.ratio, share.low, share.high)


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
        Column("machines", rank=2),
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
        rows.append([*cells, row.fleet_weight, row.samples, row.machines, row.more_machines])
    caption = ""
    if top.keys > len(top.rows):
        caption = f"{len(top.rows):,} of {top.keys:,} {plural(top.by)}; --rows {top.keys} shows all."
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
                        [None if share is None else share.ratio for share in row],
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
                [None if share is None else share.ratio for share in row],
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
    return [None if share is None else getattr(share, end) for share in row]


def _tax(top: Top) -> Chart:
    shown = [category for category in top.tax.categories if category.samples]
    return Chart(
        "tax",
        "Cycles by category" if top.unit == "cycles" else "CPU time by category",
        tuple(
            Series(
                category.title,
                ["the fleet"],
                [category.share_ratio],
                "bar",
                f"tax-{category.id}",
                labels=[_behind(category)],
            )
            for category in shown
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
    return ", ".join(short_function(row.function)[:60] for row in functions[:3])


def _sample(top: Top) -> tuple[Table | Paragraph | Notes, ...]:
    sample = top.sample
    rows: list[tuple[object, ...]] = [
        ("machines", sample.machines, "each is one sample of the fleet"),
        ("machine-minutes with samples", sample.machine_minutes, "those of one machine are alike"),
        ("samples", sample.samples, f"of {top.event}"),
        ("functions seen", sample.functions, ""),
        ("entropy, bits", sample.entropy.value, f"of the fleet; {_entropy_ends(top)}"),
        ("entropy of the sample, bits", sample.entropy.sampled, "too small by functions without samples"),
        (
            "of functions on one machine alone",
            written(percent(sample.entropy.unseen_ratio), sample.entropy.unseen_ratio),
            "share of the weight; about as much of the fleet's is of functions not seen",
        ),
        (
            "Manhattan distance of two halves",
            sample.manhattan_distance,
            "sum of the differences of all shares, 0 to 2, of two random halves of the machines",
        ),
        ("… expected of chance alone", sample.expected_manhattan_distance, "from the intervals"),
        (
            f"machines until every row is within ±{PRECISION:.0%}",
            sample.more_machines,
            "more, of the same fleet",
        ),
    ]
    blocks: list[Table | Paragraph | Notes] = [
        table((Column("what"), Column("value"), Column("meaning", is_text=True)), rows)
    ]
    if (
        sample.manhattan_distance
        and sample.expected_manhattan_distance
        and sample.manhattan_distance > 2 * sample.expected_manhattan_distance
    ):
        blocks.append(
            Paragraph(
                "The halves differ by more than twice what chance makes of it: they have unlike machines, or"
                " too few. Look at the shares by platform and over time.",
                "suspect",
            )
        )
    if top.unknown_symbols:
        blocks.append(
            table(
                (
                    Column("module without symbols"),
                    Column("share", "ratio"),
                    Column("build id", is_text=True),
                ),
                [
                    (each.module.rpartition("@")[0], each.ratio, each.module.rpartition("@")[2])
                    for each in top.unknown_symbols[:20]
                ],
                caption="steelyard fleet symbols add BINARY... --store STORE names them.",
            )
        )
    return tuple(blocks)


def percent(ratio: float) -> str:
    """Return a share as a percentage."""
    return fmt.plain(fmt.quantity(ratio, "ratio"))
