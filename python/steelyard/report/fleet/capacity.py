"""What ``steelyard fleet smt`` and ``steelyard fleet frequency`` say: sections for page and terminal.

In: `SmtResult`, `FrequencyResult`. Out: an `Answer`. Not here: figures (``fleet.capacity.smt``,
``fleet.capacity.frequency``).
"""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.fleet.capacity.frequency import FrequencyResult, Lost
from steelyard.fleet.capacity.smt import SmtResult, Used
from steelyard.report import format as fmt
from steelyard.report.answer import (
    Answer,
    Chart,
    Column,
    Figure,
    Heat,
    Notes,
    Section,
    Series,
    Table,
    span,
    table,
)

_ROLES = ("blue", "orange", "green", "purple", "red", "sky", "yellow", "ink")
_HOURS = tuple(range(24))


def smt(result: SmtResult) -> Answer:
    """Return everything that ``fleet smt`` says."""
    return Answer("Used capacity", _smt_heading(result), _smt_sections(result), result)


def _smt_heading(result: SmtResult) -> str:
    """Return the answer in one line."""
    known = [row for row in result.platforms if row.high is not None and row.cores is not None]
    if not known:
        return "The used capacity is unknown: samples lack the number of cores per machine."
    # Each platform's cores weigh by the time that its machines were seen.
    weights = [(row.cores or 0.0) * row.machine_s for row in known]
    total = sum(weights)
    ends = [
        sum(weight * (end or 0.0) for weight, end in zip(weights, side, strict=True)) / total
        for side in ([row.low for row in known], [row.high for row in known])
    ]
    busy = sum(weight * (row.utilisation_ratio or 0.0) for weight, row in zip(weights, known, strict=True))
    return (
        f"{_span(ends[0], ends[1])} of the cores' capacity is used, at {_percent(busy / total)} utilisation."
    )


def _smt_sections(result: SmtResult) -> list[Section]:
    notes = [
        "Capacity is the throughput of cores with all their threads busy; hours are UTC.",
        "Frequencies fall as a machine fills: slightly less capacity may be left than shown.",
    ]
    if result.contradictions:
        notes.append(
            f"{result.contradictions:,} windows have more busy time than their threads allow and are skipped."
        )
    if result.without_core_time:
        notes.append(
            f"{result.without_core_time:,} windows lack the busy time of cores: their use is known only"
            " within bounds (threads packed or spread)."
        )
    return [
        Section("platforms", "Platforms", (_used(result.platforms, "platform"), _used_chart(result))),
        Section("hours", "Hours of the day", (_hours_chart(result),)),
        Section("clusters", "Clusters", (_used(result.clusters, "cluster"),)),
        Section(
            "uplift", "Throughput gain of a core's second thread", (_uplifts(result), Notes(tuple(notes)))
        ),
    ]


def _span(low: float, high: float) -> str:
    if high - low < 0.005:
        return _percent((low + high) / 2)
    return f"{_percent(low)} to {_percent(high)}"


def _percent(ratio: float) -> str:
    return fmt.plain(fmt.quantity(ratio, "ratio"))


def _used(rows: Sequence[Used], first: str) -> Table:
    columns: list[Column | str] = ["platform"]
    if first == "cluster":
        columns.append("cluster")
    columns += [
        Column("utilisation", "ratio"),
        Column("used capacity"),
        Column("left"),
        Column("cores"),
        Column("machine-hours"),
    ]
    made: list[list[object]] = []
    for row in rows:
        head: list[object] = [row.platform] if first == "platform" else [row.platform, row.cluster]
        if row.low is None or row.high is None:
            gap = Figure(missing=row.missing or "not known")
            made.append([*head, row.utilisation_ratio, gap, gap, gap, row.machine_s / 3600])
            continue
        used = span(_span(row.low, row.high), row.low, row.high, "ratio")
        left = span(_span(1 - row.high, 1 - row.low), 1 - row.high, 1 - row.low, "ratio")
        made.append([*head, row.utilisation_ratio, used, left, row.cores, row.machine_s / 3600])
    return table(columns, made, caption="Cores are those of a machine, on average.")


def _used_chart(result: SmtResult) -> Chart:
    known = [row for row in result.platforms if row.low is not None and row.high is not None]
    names = [row.platform for row in known]
    middle = [((row.low or 0.0) + (row.high or 0.0)) / 2 for row in known]
    return Chart(
        "used",
        "Utilisation and used capacity",
        (
            Series("utilisation", names, [row.utilisation_ratio for row in known], kind="bar", role="sky"),
            Series(
                "used capacity",
                names,
                middle,
                kind="bar",
                role="blue",
                low=[row.low for row in known],
                high=[row.high for row in known],
            ),
        ),
        x_kind="name",
        y_unit="ratio",
        y_range=(0, 1),
        note="Whiskers are bounds; the bar is their middle.",
        missing="" if known else "no platform's capacity is known",
    )


def _hours_chart(result: SmtResult) -> Chart:
    platforms = sorted({row.platform for row in result.hours})
    series = []
    for at, name in enumerate(platforms):
        by_hour = {row.hour: row for row in result.hours if row.platform == name}
        rows = [by_hour.get(hour) for hour in _HOURS]
        lows = [None if row is None else row.low for row in rows]
        highs = [None if row is None else row.high for row in rows]
        middle = [
            None if low is None or high is None else (low + high) / 2
            for low, high in zip(lows, highs, strict=True)
        ]
        series.append(Series(name, _HOURS, middle, role=_ROLES[at % len(_ROLES)], low=lows, high=highs))
    return Chart(
        "hours",
        "Used capacity by hour (UTC)",
        tuple(series),
        x_title="hour of the day, UTC",
        y_unit="ratio",
        y_range=(0, 1),
    )


def _uplifts(result: SmtResult) -> Table:
    return table(
        ["platform", Column("threads a core"), Column("uplift", "ratio"), "source"],
        [
            [
                uplift.platform,
                Figure(missing="cores are not recorded")
                if uplift.threads_per_core is None
                else uplift.threads_per_core,
                uplift.ratio if uplift.ratio is not None else Figure(missing=uplift.source),
                uplift.source,
            ]
            for uplift in result.uplifts
        ],
        caption="--uplift 0.25, or --uplift PLATFORM=0.25, narrows the bounds.",
    )


def frequency(result: FrequencyResult) -> Answer:
    """Return everything that ``fleet frequency`` says."""
    return Answer("Frequency", _frequency_heading(result), _frequency_sections(result), result)


def _frequency_heading(result: FrequencyResult) -> str:
    """Return the answer in one line."""
    total = result.total
    if total.missing is not None or total.capped_ratio is None:
        return f"The loss to lower frequencies is unknown: {total.missing}."
    return (
        f"{_percent(total.capped_ratio)} of machine-hours run below the {result.reference} frequency with"
        f" power capped, which costs {_percent(total.capped_lost_ratio or 0.0)} of all cycles;"
        f" {_percent(total.below_ratio or 0.0)} run below it for any reason."
    )


def _frequency_sections(result: FrequencyResult) -> list[Section]:
    notes = [
        f"Lost cycles are (the {result.reference} frequency - the effective one) x busy time, of windows"
        " below it.",
        "Hours are UTC; frequencies are weighted by busy time.",
    ]
    total = result.total
    if total.no_frequency:
        notes.append(f"{total.no_frequency:,} windows without a frequency or cycles are skipped.")
    if total.no_reference:
        notes.append(
            f"{total.no_reference:,} windows of machines without a {result.reference} frequency are skipped."
        )
    return [
        Section("platforms", "Platforms", (_lost(result.platforms, "platform"), _lost_chart(result))),
        Section("when", "When and where", (_heat(result), _lost(result.clusters, "cluster"))),
        Section("machines", "Machines with the largest loss", (_lost(result.machines, "machine"),)),
        Section("notes", "Skipped data", (Notes(tuple(notes)),)),
    ]


def _lost(rows: Sequence[Lost], first: str) -> Table:
    columns: list[Column | str] = [first]
    if first != "platform":
        columns.append("platform")
    columns += [
        Column("effective", "hz"),
        Column("bought", "hz", rank=1),
        Column("below", "ratio"),
        Column("capped", "ratio", rank=1),
        Column("cycles lost", "ratio"),
        Column("by capping", "ratio"),
    ]
    made: list[list[object]] = []
    for row in rows:
        head: list[object] = [getattr(row, first)]
        if first != "platform":
            head.append(row.platform)
        figures = [
            row.frequency_hz,
            row.reference_hz,
            row.below_ratio,
            row.capped_ratio,
            row.lost_ratio,
            row.capped_lost_ratio,
        ]
        gap = Figure(missing=row.missing or "not known")
        made.append([*head, *[gap if figure is None else figure for figure in figures]])
    return table(
        columns,
        made,
        caption="Below and capped are shares of machine-hours, lost ones of the cycles at that frequency.",
    )


def _lost_chart(result: FrequencyResult) -> Chart:
    known = [row for row in result.platforms if row.missing is None]
    names = [row.platform for row in known]
    other = [(row.lost_ratio or 0.0) - (row.capped_lost_ratio or 0.0) for row in known]
    return Chart(
        "lost",
        "Cycles lost",
        (
            Series("power capped", names, [row.capped_lost_ratio for row in known], kind="bar", role="red"),
            Series("below for other reasons", names, other, kind="bar", role="orange"),
        ),
        x_kind="name",
        y_unit="ratio",
        stacked=True,
        missing="" if known else result.total.missing or "nothing was recorded",
    )


def _heat(result: FrequencyResult) -> Heat:
    platforms = sorted({row.platform for row in result.hours})
    by_place = {(row.platform, row.hour): row.capped_ratio for row in result.hours}
    return Heat(
        "capped",
        "Machine-hours with power capping, by hour (UTC)",
        [str(hour) for hour in _HOURS],
        platforms,
        [[by_place.get((name, hour)) for hour in _HOURS] for name in platforms],
        unit="ratio",
        low=0.0,
        x_title="hour of the day, UTC",
        missing="" if result.total.missing is None else result.total.missing,
    )
