"""The list of runs: searched, filtered, sorted, in pages of a hundred."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any
from urllib.parse import quote, urlencode

from steelyard.catalog.entries import Entry
from steelyard.catalog.fields import Field
from steelyard.catalog.filters import CHOICES, RunFilter
from steelyard.records import Metric
from steelyard.report import format as fmt
from steelyard.report.folders.kinds import Kind
from steelyard.report.metrics import headline_text
from steelyard.report.template import PAGE
from steelyard.web.context import Context
from steelyard.web.shell import template_page

WAIT_S = 0.1
"""How long a page waits for what changed since the last one; what takes longer is there at the next."""
_FIRST = ("search", "benchmark", "verdict", "tag")
"""Filters that are shown; others are folded away unless one is used."""
_MOST_TAGS = 200
_COMPARABLE = (Kind.RUN.value, Kind.SUITE.value)
_COLUMNS = (
    ("run", "name", True),
    ("verdict", "verdict", True),
    ("result", "result", False),
    ("time (UTC)", "time", True),
    ("machine", "machine", True),
    ("tags and notes", "", True),
)


def page(context: Context, *, query: Mapping[str, Sequence[str]]) -> str:
    """Return the page of a filter."""
    asked = RunFilter.of({name: values[-1] for name, values in query.items()})
    index = context.index
    index.refresh(most_s=WAIT_S)
    rows = index.rows(asked)
    noun = "run" if rows.total == 1 else "runs"
    notes = [context.without_root(index.problem)] if index.problem else []
    if index.waiting:
        notes.append(f"{index.waiting:,} folders are still being read.")
    if index.unread.note:
        notes.append(f"{index.unread.note}.")
    return template_page(
        "runs.html.j2",
        "/runs",
        {
            "title": "Runs",
            "where": context.settings.root.name or "runs",
            "heading": f"{rows.total:,} {noun}",
            "notes": notes,
            "form": _form(context, asked),
            "filtered": bool(asked.query),
            "columns": [_column(asked, *column) for column in _COLUMNS],
            "rows": [_row(entry) for entry in rows.entries],
            "empty": _empty(asked),
            "pager": _pager(asked, rows.pages),
        },
    )


def _empty(asked: RunFilter) -> str:
    if asked.page > 1:
        return "This list has fewer pages."
    if asked.query:
        return "No run has all of this."
    return "There is no run yet: steelyard run quick makes some."


def address(path: str) -> str:
    """Return the address of a folder's page."""
    return f"/runs/{quote(path)}/{PAGE}"


def moment(ns: int) -> str:
    """Return a time as lists have it, in UTC."""
    return datetime.fromtimestamp(ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M")


def result_text(entry: Entry) -> str:
    """Return the main result with its name, empty where there is none."""
    if entry.value is None:
        return ""
    found = Metric(value=entry.value, unit=entry.unit or "1")
    if not entry.metric:
        return fmt.quantity(found.value, found.unit)
    if entry.kind == Kind.EXPERIMENT:
        arms, _, outcome = entry.metric.rpartition(", ")
        return f"{arms}: {fmt.quantity(found.value, found.unit)}, {outcome}"
    return headline_text(entry.metric, found, entry.title)


def _row(entry: Entry) -> dict[str, Any]:
    is_over = entry.status == "complete"
    machine = [entry.processor, f"{entry.cpus} CPUs" if entry.cpus else "", entry.host]
    return {
        # A page has no control characters: a name with one would be another name.
        "path": quote(entry.path),
        "href": address(entry.path),
        "title": entry.title,
        # Of a member its suite is named beside it.
        "name": entry.name if entry.parent else entry.path,
        "kind": " ".join(filter(None, (entry.kind, entry.tier))),
        "suite": (entry.parent, address(entry.parent)) if entry.parent else None,
        "level": entry.verdict if is_over else "incomplete",
        "word": entry.verdict if is_over else entry.status,
        "result": result_text(entry),
        "raw": "" if entry.value is None else f"{entry.metric} = {fmt.raw(entry.value, entry.unit)}",
        "time": moment(entry.begin_ns) if entry.begin_ns else "",
        "iso": datetime.fromtimestamp(entry.begin_ns / 1e9, UTC).isoformat(),
        "machine": " · ".join(part for part in machine if part),
        "tags": [(tag, _to(RunFilter(tag=tag))) for tag in entry.tags],
        "reason": "" if is_over else entry.reason,
        "comparable": entry.kind in _COMPARABLE and is_over,
    }


def _form(context: Context, asked: RunFilter) -> list[Field]:
    def choices(column: str) -> tuple[str, ...]:
        return tuple(sorted(value for value, _ in context.index.values_of(column)))

    fields = [
        Field("search", "Words in names, machines, kernels and tags.", value=asked.search),
        Field("benchmark", value=asked.benchmark, choices=("", *choices("title"))),
        Field("verdict", value=asked.verdict, choices=("", *CHOICES["verdict"])),
        Field("tag", value=asked.tag, suggested=tuple(context.index.tags()[:_MOST_TAGS])),
        Field("kind", value=asked.kind, choices=("", *CHOICES["kind"])),
        Field("processor", value=asked.processor, choices=("", *choices("processor"))),
        Field("kernel", value=asked.kernel, choices=("", *choices("kernel"))),
        Field("host", value=asked.host, choices=("", *choices("host"))),
        Field("tier", value=asked.tier, choices=("", *choices("tier"))),
        Field("status", value=asked.status, choices=("", *choices("status"))),
        Field("since", "First day (UTC).", "date", asked.since),
        Field("until", "Last day (UTC).", "date", asked.until),
        Field("members", "", "flag", "yes" if asked.members else "", label="also the runs of suites"),
    ]
    hidden = [
        Field(name, "", "hidden", value)
        for name, value in asked.query.items()
        if name in ("order", "ascending")
    ]
    return [*(replace(field, is_more=field.name not in _FIRST) for field in fields), *hidden]


def _column(asked: RunFilter, name: str, order: str, is_text: bool) -> tuple[str, str, str, bool]:
    """Return heading, the address that orders by it, how it is ordered now, and whether it is text."""
    if not order:
        return name, "", "", is_text
    is_here = asked.order == order
    # A name begins with its first letter, a figure with its largest.
    first = is_text and order != "time"
    ascending = not asked.ascending if is_here else first
    query = asked.query | {"order": order, "ascending": "yes" if ascending else "no"}
    query.pop("page", None)
    mark = ("ascending" if asked.ascending else "descending") if is_here else ""
    return name, f"/runs?{urlencode(query)}", mark, is_text


def _pager(asked: RunFilter, pages: int) -> list[tuple[str, str]]:
    """Return text and address of the pages around this one; this one has no address."""
    if pages == 1:
        return []
    here = min(asked.page, pages)
    near = sorted({1, pages, *range(max(1, here - 2), min(pages, here + 2) + 1)})
    found: list[tuple[str, str]] = []
    for before, number in pairwise([0, *near]):
        if number > before + 1:
            found.append(("…", ""))
        query = asked.query | {"page": str(number)}
        found.append((str(number), "" if number == here else f"/runs?{urlencode(query)}"))
    return found


def _to(asked: RunFilter) -> str:
    return f"/runs?{urlencode(asked.query)}"
