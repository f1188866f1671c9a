"""One metric of one benchmark over time, versions or kernels, by machine, and since when it changed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from steelyard._base import UsageError
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
from steelyard.web.forms import Field
from steelyard.web.index.filters import RunFilter
from steelyard.web.index.store import Point
from steelyard.web.pages.listing import address, moment
from steelyard.web.shell import answer_page

HERE = "/trends"
_MOST_MACHINES = 8
_ROLES = ("blue", "red", "green", "purple", "orange", "sky", "ink", "yellow")
_SYMBOLS = {"valid": "circle", "suspect": "diamond", "": "x", "invalid": "x"}
_BY = ("time", "version", "kernel")
_CAUSES = (("kernel", "kernel"), ("version", "version of Steelyard"), ("processor", "processor"))
_TABLE_ROWS = 500


@dataclass(frozen=True)
class MachineTrend:
    """A metric on one machine over time."""

    name: str
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
    by = given.pop("by", "") or "time"
    if by not in _BY and not by.startswith("tag:"):
        raise UsageError(f"by {by[:40]!r} is none of {', '.join(_BY)}, tag:NAME")
    asked = RunFilter.of({**given, "benchmark": benchmark, "members": "yes"})
    form = [
        Field("benchmark", "", value=benchmark, choices=tuple(benchmarks)),
        Field("metric", "", value=metric, choices=tuple(metrics)),
        Field(
            "tier", "", value=asked.tier, choices=("", *(name for name, _ in context.index.values_of("tier")))
        ),
        Field(
            "host", "", value=asked.host, choices=("", *(name for name, _ in context.index.values_of("host")))
        ),
        Field(
            "by", "time, version, kernel, or tag:NAME for the values of a tag.", value=by, label="ordered by"
        ),
        Field("tag", "Runs with this tag.", value=asked.tag),
        Field("since", "First day (UTC).", "date", asked.since),
        Field("until", "Last day (UTC).", "date", asked.until),
    ]
    if not metric:
        said = Answer("Trends", "No run has a metric yet", [], eyebrow="trends", source="runs")
        return answer_page(said, HERE, form=form, action=HERE)
    said = answer(context.index.series(metric, asked), benchmark, metric, by)
    link = urlencode({**{field.name: field.value for field in form if field.value}})
    return answer_page(said, HERE, form=form, action=HERE, links=[("Link to this view", f"{HERE}?{link}")])


def answer(points: Sequence[Point], benchmark: str, metric: str, by: str = "time") -> Answer:
    """Return the trend of a metric on each machine."""
    name = metric_name(metric, benchmark)
    counted = [point for point in points if point.entry.verdict in ("valid", "suspect") and point.value > 0]
    machines = trends(counted, by)
    shown = machines[:_MOST_MACHINES]
    sentences = [line for one in shown for line in _sentences(one, name)]
    left = len(points) - len(counted)
    notes = [f"{fmt.several(left, 'run')} without a usable result: not in the trend."] if left else []
    if len(machines) > len(shown):
        notes.append(f"{len(machines) - len(shown)} more machines: choose a host.")
    sections = [
        Section(
            "trend",
            f"{name[:1].upper()}{name[1:]}",
            (_chart(shown, points, benchmark, metric, by), Notes(tuple(notes))),
        ),
        Section("changes", "Changes", (_changes(shown),)),
        Section("runs", "Runs", (_runs(points, metric),)),
    ]
    return Answer(
        f"{name} of {benchmark}",
        sentences[0] if sentences else "No run has a usable result",
        [section for section in sections if section.anchor != "changes" or section.tables[0].rows],
        lines=sentences[1:],
        eyebrow="trends",
        source="the runs of this folder",
        rows=_TABLE_ROWS,
    )


def trends(points: Sequence[Point], by: str) -> list[MachineTrend]:
    """Return the trend of each machine, that with the most runs first."""
    groups: dict[str, list[Point]] = {}
    for point in points:
        groups.setdefault(_machine(point), []).append(point)
    found = []
    for machine, members in sorted(groups.items(), key=lambda pair: -len(pair[1])):
        ordered = sorted(members, key=lambda point: _place(point, by))
        values = [point.value for point in ordered]
        # Runs of one boot and day share what that day brought.
        sessions = [_session(point) for point in ordered]
        found.append(MachineTrend(machine, ordered, trend_of(values, sessions)))
    return found


def _machine(point: Point) -> str:
    entry = point.entry
    parts = [
        entry.host or "unknown host",
        entry.processor,
        f"{entry.cpus} CPUs" if entry.cpus else "",
        entry.tier,
    ]
    return " · ".join(part for part in parts if part)


def _session(point: Point) -> str:
    return point.entry.parent or moment(point.entry.begin_ns)[:10]


def _place(point: Point, by: str) -> tuple[Any, ...]:
    entry = point.entry
    if by == "time":
        return (entry.begin_ns,)
    return (_versions(_label(point, by)), entry.begin_ns)


def _label(point: Point, by: str) -> str:
    if by.startswith("tag:"):
        prefix = f"{by[4:]}="
        return next((tag.removeprefix(prefix) for tag in point.entry.tags if tag.startswith(prefix)), "")
    return {"version": point.entry.version, "kernel": point.entry.kernel}[by]


def _versions(text: str) -> tuple[tuple[int, int | str], ...]:
    """Return what orders versions as people do: numbers by their value.

    >>> sorted(["6.10.0", "6.9.1"], key=_versions)
    ['6.9.1', '6.10.0']
    """
    parts = re.findall(r"\d+|[^\d.\-_]+", text)
    return tuple((0, int(part)) if part.isdigit() else (1, part) for part in parts)


def _sentences(one: MachineTrend, name: str) -> list[str]:
    if not one.trend.changes:
        why = one.trend.reason or f"no change of {name} in {fmt.several(len(one.points), 'run')}"
        return [f"{why[:1].upper()}{why[1:]} on {one.name}."]
    found = []
    for change in reversed(one.trend.changes):
        first = one.points[one.trend.members[change.at][0]]
        when = moment(first.entry.begin_ns)[:10]
        word = "higher" if change.ratio > 1 else "lower"
        moved = fmt.quantity(abs(change.ratio - 1), "ratio")
        cause = _cause(one, change)
        found.append(f"{name[:1].upper()}{name[1:]} is {moved} {word} since {when} on {one.name}{cause}.")
    return found


def _cause(one: MachineTrend, change: Change) -> str:
    """Return what else is different in the runs before and after a change."""
    before = [one.points[at].entry for session in one.trend.members[: change.at] for at in session]
    after = [one.points[at].entry for session in one.trend.members[change.at :] for at in session]
    parts = []
    for column, noun in _CAUSES:
        left, right = ({getattr(entry, column) for entry in side} for side in (before[-5:], after[:5]))
        if len(left) == len(right) == 1 and left != right:
            parts.append(f"{noun} {next(iter(left)) or 'unknown'} → {next(iter(right)) or 'unknown'}")
    return f", with {', '.join(parts)}" if parts else ""


def _chart(
    shown: Sequence[MachineTrend], points: Sequence[Point], benchmark: str, metric: str, by: str
) -> Chart:
    unit = points[-1].unit if points else "1"
    series = []
    marks = []
    for at, one in enumerate(shown):
        role = _ROLES[at % len(_ROLES)]
        xs = _xs(one.points, by)
        label = [f"{point.entry.path} {point.entry.verdict}" for point in one.points]
        series.append(
            Series(one.name, xs, [point.value for point in one.points], "points", role, labels=label, size=7)
        )
        levels, places = [], []
        for level, members in zip(one.trend.levels, one.trend.members, strict=True):
            for member in members:
                places.append(xs[member])
                levels.append(level)
        if one.trend.changes:
            series.append(Series(f"{one.name}, level", places, levels, "step", role))
            if by == "time":
                marks += [
                    Mark("x", xs[one.trend.members[change.at][0]], fmt.quantity(change.ratio - 1, "ratio"))
                    for change in one.trend.changes
                ]
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
    return [_label(point, by) or "unknown" for point in points]


def _changes(shown: Sequence[MachineTrend]) -> Table:
    rows = []
    for one in shown:
        for change in one.trend.changes:
            first = one.points[one.trend.members[change.at][0]].entry
            rows.append(
                (
                    Cell(moment(first.begin_ns), is_text=True, href=address(first.path)),
                    one.name,
                    Figure(change.ratio, change.low, change.high),
                    change.p_value,
                    _cause(one, change).removeprefix(", with "),
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


def _runs(points: Sequence[Point], metric: str) -> Table:
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
        Column(metric, is_answer=True),
        *(Column(name, is_text=True) for name in ("tier", "host", "kernel", "version", "tags")),
    )
    caption = f"The latest {_TABLE_ROWS} of {len(points):,}." if len(points) > _TABLE_ROWS else ""
    return replace(table(columns, rows), caption=caption)
