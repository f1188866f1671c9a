"""One metric of one benchmark over time, versions or kernels, by machine, and since when it changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from steelyard._base import UsageError
from steelyard.catalog.fields import Field
from steelyard.catalog.filters import RunFilter
from steelyard.catalog.index import Point
from steelyard.report import format as fmt
from steelyard.report.answer import (
    Answer,
    Cell,
    Chart,
    Column,
    Figure,
    Mark,
    Notes,
    Section,
    Series,
    Table,
    table,
)
from steelyard.report.metrics import metric_name
from steelyard.stats.trends import Change, Trend, trend_of
from steelyard.web.context import Context
from steelyard.web.pages.listing import address, moment
from steelyard.web.shell import answer_page

HERE = "/trends"
_MOST_MACHINES = 8
_ROLES = ("blue", "red", "green", "purple", "orange", "sky", "ink", "yellow")
_VERDICTS = {"valid": ("circle", "valid"), "suspect": ("diamond", "suspect")}
"""Symbol and word of the verdicts that count."""
_NUMBERED = re.compile(r"v?\d+(\.\d+)*([-+].*)?")
_MOST_TAGS = 200
_BY = ("time", "version", "kernel")
_CAUSES = (("kernel", "kernel"), ("version", "Steelyard"), ("processor", "processor"))
_TABLE_ROWS = 500


@dataclass(frozen=True)
class MachineTrend:
    """A metric on one machine over time."""

    name: str
    """What distinguishes the machine from others that are shown; empty where it is the only one."""
    whole: str
    """Host, processor, CPUs and tier."""
    points: list[Point]
    """Results that count, in the order of time."""
    trend: Trend


def page(context: Context, *, query: Mapping[str, Sequence[str]]) -> str:
    """Return the page of a metric."""
    given = {name: many[-1] for name, many in query.items()}
    context.index.refresh(most_s=0.1)
    benchmarks = [name for name, _ in context.index.values_of("title")]
    benchmark = given.pop("benchmark", "") or (benchmarks[0] if benchmarks else "")
    metrics = context.index.metrics_of(benchmark)
    metric = given.pop("metric", "") or (metrics[0] if metrics else "")
    by = order_of(given.pop("by", ""))
    asked = RunFilter.of({**given, "benchmark": benchmark, "members": "yes"})

    def choices(column: str) -> tuple[str, ...]:
        return ("", *(name for name, _ in context.index.values_of(column)))

    tags = context.index.tags()
    named = dict.fromkeys(f"tag:{tag.partition('=')[0]}" for tag in tags if "=" in tag)
    form = [
        Field("benchmark", value=benchmark, choices=tuple(benchmarks)),
        Field("metric", value=metric, choices=tuple(metrics), words=_words(metrics, benchmark)),
        Field(
            "by", value=by, default="time", label="ordered by", choices=tuple(dict.fromkeys([*_BY, *named]))
        ),
        Field("host", value=asked.host, choices=choices("host")),
        Field("tier", value=asked.tier, choices=choices("tier"), is_more=True),
        Field("tag", value=asked.tag, suggested=tuple(tags[:_MOST_TAGS]), is_more=True),
        Field("since", "First day (UTC).", "date", asked.since, is_more=True),
        Field("until", "Last day (UTC).", "date", asked.until, is_more=True),
    ]
    if not metric:
        said = Answer("Trends", "No run has a metric yet", [], eyebrow="trends", source="runs")
        return answer_page(said, HERE, form=form, action=HERE)
    said = answer(context.index.series(metric, asked), benchmark, metric, by)
    link = urlencode({field.name: field.value for field in form if field.is_open})
    return answer_page(said, HERE, form=form, action=HERE, links=[("Link to this view", f"{HERE}?{link}")])


def order_of(text: str) -> str:
    """Return what runs are ordered by, time where nothing is said. Raises UsageError."""
    if text and text not in _BY and not text.startswith("tag:"):
        raise UsageError(f"by {text[:40]!r} is none of {', '.join(_BY)}, tag:NAME")
    return text or "time"


def answer(points: Sequence[Point], benchmark: str, metric: str, by: str = "time") -> Answer:
    """Return the trend of a metric on each machine."""
    name = metric_name(metric, benchmark)
    usable = [point for point in points if point.entry.verdict in ("valid", "suspect") and point.value > 0]
    counted = [point for point in usable if _label(point, by)]
    machines = trends(counted, by)
    shown = machines[:_MOST_MACHINES]
    sentences = [line for one in shown for line in _sentences(one, name, by, several=len(machines) > 1)]
    notes = []
    if left := len(points) - len(usable):
        notes.append(f"{fmt.several(left, 'run')} without a usable result: not in the trend.")
    if left := len(usable) - len(counted):
        notes.append(f"{fmt.several(left, 'run')} without {_noun(by)}: not in the trend.")
    if len(machines) > len(shown):
        notes.append(f"{len(machines) - len(shown)} more machines: choose a host.")
    sections = [
        Section(
            "trend",
            fmt.capital(name),
            (_chart(shown, points, benchmark, metric, by), Notes(tuple(notes))),
        ),
        Section("changes", "Changes", (_changes(shown),)),
        Section("runs", "Runs", (_runs(points, name),)),
    ]
    return Answer(
        f"{name} of {benchmark}",
        sentences[0] if sentences else "No run has a usable result",
        [section for section in sections if section.anchor != "changes" or section.tables[0].rows],
        lines=[*sentences[1:], *([shown[0].whole] if len(machines) == 1 else [])],
        eyebrow="trends",
        source="the runs of this folder",
        rows=_TABLE_ROWS,
    )


def _words(metrics: Sequence[str], benchmark: str) -> tuple[str, ...]:
    """Return the names of metrics as people read them; those that two share stay as they are."""
    names = [metric_name(metric, benchmark) for metric in metrics]
    return tuple(
        name if names.count(name) == 1 else metric for name, metric in zip(names, metrics, strict=True)
    )


def trends(points: Sequence[Point], by: str) -> list[MachineTrend]:
    """Return the trend of each machine, that with the most runs first."""
    groups: dict[tuple[str, ...], list[Point]] = {}
    for point in points:
        groups.setdefault(_machine(point), []).append(point)
    place = _places(points, by)
    names = _names(list(groups))
    found = []
    for machine, members in sorted(groups.items(), key=lambda pair: -len(pair[1])):
        ordered = sorted(members, key=lambda point: (place(point), point.entry.begin_ns))
        values = [point.value for point in ordered]
        # Runs of one session share what the day brought.
        sessions = [point.entry.session for point in ordered]
        whole = " · ".join(filter(None, machine))
        found.append(MachineTrend(names[machine], whole, ordered, trend_of(values, sessions)))
    return found


def _machine(point: Point) -> tuple[str, ...]:
    entry = point.entry
    cpus = f"{entry.cpus} CPUs" if entry.cpus else ""
    return (entry.host, entry.processor, cpus, entry.tier)


def _names(machines: Sequence[tuple[str, ...]]) -> dict[tuple[str, ...], str]:
    """Return what distinguishes each machine from the others.

    >>> _names([("a", "EPYC", "64 CPUs", "quick"), ("", "EPYC", "64 CPUs", "full")])
    {('a', 'EPYC', '64 CPUs', 'quick'): 'a · quick', ('', 'EPYC', '64 CPUs', 'full'): 'unknown host · full'}
    """
    differing = [len(set(parts)) > 1 for parts in zip(*machines, strict=True)]
    unknown = ("unknown host", "unknown processor", "unknown CPUs", "unknown tier")
    return {
        machine: " · ".join(
            part or none for part, none, differs in zip(machine, unknown, differing, strict=True) if differs
        )
        for machine in machines
    }


def _places(points: Sequence[Point], by: str) -> Callable[[Point], Any]:
    """Return what orders points: time, the values of numbers and versions, else when a name was first there.

    Commits have no order of their own, but the first run of each was made after that of the one before.
    """
    if by == "time":
        return lambda point: point.entry.begin_ns
    if by in _BY or all(_NUMBERED.fullmatch(_label(point, by)) for point in points):
        return lambda point: _versions(_label(point, by))
    first: dict[str, int] = {}
    for point in points:
        label = _label(point, by)
        first[label] = min(point.entry.begin_ns, first.get(label, point.entry.begin_ns))
    return lambda point: (first[_label(point, by)], _label(point, by))


def _label(point: Point, by: str) -> str:
    """Return the value by which a point is ordered, empty where its run has none."""
    entry = point.entry
    if by.startswith("tag:"):
        prefix = f"{by[4:]}="
        return next((tag.removeprefix(prefix) for tag in entry.tags if tag.startswith(prefix)), "")
    return {"version": entry.version, "kernel": entry.kernel}.get(by, "any")


def _noun(by: str) -> str:
    return f"the tag {by[4:]}=" if by.startswith("tag:") else f"a {by}"


def _versions(text: str) -> tuple[tuple[int, int | str], ...]:
    """Return what orders versions as people do: numbers by their value.

    >>> sorted(["6.10.0", "6.9.1"], key=_versions)
    ['6.9.1', '6.10.0']
    """
    parts = re.findall(r"\d+|[^\d.\-_]+", text)
    return tuple((0, int(part)) if part.isdigit() else (1, part) for part in parts)


def _sentences(one: MachineTrend, name: str, by: str, *, several: bool) -> list[str]:
    where = f" on {one.name}" if several else ""
    if not one.trend.changes:
        why = one.trend.reason or f"no change of {name} in {fmt.several(len(one.points), 'run')}"
        return [f"{fmt.capital(why)}{where}"]
    found = []
    for change in reversed(one.trend.changes):
        first = one.points[one.trend.members[change.at][0]]
        when = moment(first.entry.begin_ns)[:10]
        noun, label = by.removeprefix("tag:"), _since(one, change, by)
        if by == "time":
            since = when
        elif label:
            since = f"{noun} {label} ({when})"
        else:
            since = f"{when}, within {noun} {_label(first, by)}"
        moved = f"{fmt.quantity(abs(change.ratio - 1), 'ratio')} {'higher' if change.ratio > 1 else 'lower'}"
        if first.better in ("higher", "lower"):
            moved += " (better)" if (change.ratio > 1) == (first.better == "higher") else " (worse)"
        cause = _cause(one, change)
        also = f", with {cause}" if cause else ""
        found.append(f"{fmt.capital(name)}: {moved} since {since}{where}{also}")
    return found


def _since(one: MachineTrend, change: Change, by: str) -> str:
    """Return the value that a change began with, empty where it is inside of one value."""
    before = _label(one.points[one.trend.members[change.at - 1][-1]], by)
    labels = (_label(one.points[member], by) for member in one.trend.members[change.at])
    return next((label for label in labels if label != before), "")


def _cause(one: MachineTrend, change: Change) -> str:
    """Return what else is different in the runs before and after a change."""
    before = [one.points[at].entry for session in one.trend.members[: change.at] for at in session]
    after = [one.points[at].entry for session in one.trend.members[change.at :] for at in session]
    parts = []
    for column, noun in _CAUSES:
        left, right = ({getattr(entry, column) for entry in side} for side in (before[-5:], after[:5]))
        if len(left) == len(right) == 1 and left != right:
            parts.append(f"{noun} {next(iter(left)) or 'unknown'} → {next(iter(right)) or 'unknown'}")
    return ", ".join(parts)


def _chart(
    shown: Sequence[MachineTrend], points: Sequence[Point], benchmark: str, metric: str, by: str
) -> Chart:
    unit = points[-1].unit if points else "1"
    series: list[Series] = []
    marks: list[Mark] = []
    place = _places([point for one in shown for point in one.points], by)
    every = sorted((point for one in shown for point in one.points), key=place)
    # Names stand in the order in which they appear, and no machine has all of them.
    names = [] if by == "time" else list(dict.fromkeys(_label(point, by) for point in every))
    for at, one in enumerate(shown):
        role = _ROLES[at % len(_ROLES)]
        xs = _xs(one.points, by)
        for verdict, (symbol, word) in _VERDICTS.items():
            here = [at for at, point in enumerate(one.points) if point.entry.verdict == verdict]
            if not here:
                continue
            first = [] if series else names
            none = [None] * len(first)
            series.append(
                Series(
                    f"{one.name}, {word}" if one.name else f"{word} runs",
                    [*first, *(xs[at] for at in here)],
                    [*none, *(one.points[at].value for at in here)],
                    "points",
                    role,
                    labels=[*("" for _ in first), *(_point_label(one.points[at]) for at in here)],
                    size=7,
                    symbol=symbol,
                )
            )
        levels, places = [], []
        for level, members in zip(one.trend.levels, one.trend.members, strict=True):
            for member in members:
                places.append(xs[member])
                levels.append(level)
        if one.trend.changes:
            series.append(Series(f"{one.name}, level" if one.name else "level", places, levels, "step", role))
        for change in one.trend.changes:
            marked = xs[one.trend.members[change.at][0]]
            if by != "time":
                label = _since(one, change, by)
                if not label:
                    # Inside of one name there is no place between two: the levels show it.
                    continue
                marked = names.index(label) - 0.5
            marks.append(Mark("x", marked, fmt.quantity(change.ratio - 1, "ratio")))
    return Chart(
        "trend",
        f"{metric_name(metric, benchmark)} by {by.removeprefix('tag:')}",
        tuple(series),
        y_unit=unit,
        x_kind="time" if by == "time" else "name",
        marks=tuple(marks),
        height=380,
        wide=True,
        missing="" if shown else "no run has a usable result",
    )


def _xs(points: Sequence[Point], by: str) -> list[Any]:
    if by == "time":
        return [point.entry.begin_ns / 1e9 for point in points]
    return [_label(point, by) for point in points]


def _point_label(point: Point) -> str:
    return f"{point.entry.path} {point.entry.verdict}"


def _changes(shown: Sequence[MachineTrend]) -> Table:
    rows = []
    for one in shown:
        for change in one.trend.changes:
            first = one.points[one.trend.members[change.at][0]].entry
            rows.append(
                (
                    Cell(moment(first.begin_ns), is_text=True, href=address(first.path)),
                    one.name or one.whole,
                    Figure(change.ratio, change.low, change.high),
                    change.p_value,
                    _cause(one, change),
                )
            )
    columns = (
        Column("since", is_text=True),
        Column("machine", is_text=True),
        Column("after over before", is_answer=True),
        Column("p value"),
        Column("changed with it", is_text=True),
    )
    return table(columns, rows)


def _runs(points: Sequence[Point], name: str) -> Table:
    rows = [
        (
            Cell(moment(point.entry.begin_ns), is_text=True, href=address(point.entry.path)),
            Cell(point.entry.verdict or point.entry.status, level=point.entry.verdict or "incomplete"),
            Figure(point.value, unit=point.unit),
            point.entry.tier,
            point.entry.host,
            point.entry.kernel,
            point.entry.version,
            ", ".join(point.entry.tags),
        )
        for point in list(reversed(points))[:_TABLE_ROWS]
    ]
    columns = (
        Column("time", is_text=True),
        Column("verdict", is_text=True),
        Column(name, is_answer=True),
        *(Column(name, is_text=True) for name in ("tier", "host", "kernel", "version", "tags")),
    )
    caption = f"The latest {_TABLE_ROWS} of {len(points):,}." if len(points) > _TABLE_ROWS else ""
    return replace(table(columns, rows), caption=caption)
