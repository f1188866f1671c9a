"""``list_runs``, ``explain_run`` and ``compare_runs``: the folder of runs.

In: paths as ``list_runs`` has them. Out: pages of rows. Not here: finding folders
(``catalog.index``), and what is said of them (``report``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from steelyard._base import ResultSaysNoError, SteelyardError, UsageError
from steelyard._base.documents import as_document
from steelyard._base.request import Option
from steelyard.agents import data
from steelyard.agents.context import Context, Stop
from steelyard.agents.tool import Reply, tool
from steelyard.catalog.entries import Entry
from steelyard.catalog.filters import CHOICES, PAGE_ROWS, RunFilter
from steelyard.catalog.roots import real_path, shown_path
from steelyard.records import Run, Suite, read
from steelyard.report.answer import Answer, Table
from steelyard.report.folders.kinds import Kind, kind_of

Cursor = Annotated[str | None, Option("next_cursor of the answer before, for the next page.")]
_PARTS = ("summary", "figures", "findings", "checks")
_METRICS = 24
_FINDINGS = 3
_LACKS = 3


@dataclass(frozen=True, kw_only=True)
class ListRequest:
    """Which folders are listed."""

    search: Annotated[str, Option("Words, all of which stand in the name, benchmark, host or machine.")] = ""
    kind: Annotated[str, Option("What a folder holds.")] = ""
    benchmark: Annotated[str, Option("Only runs of this benchmark, those of suites too.")] = ""
    verdict: Annotated[str, Option("How far a result may be believed.")] = ""
    status: Annotated[str, Option("How far a run came.")] = ""
    host: Annotated[str, Option("Only of this host.")] = ""
    since: Annotated[str, Option("First day, as 2026-01-31 (UTC).")] = ""
    until: Annotated[str, Option("Last day (inclusive).")] = ""
    order: Annotated[str, Option("What rows are ordered by.")] = "time"
    ascending: Annotated[bool, Option("Order from the smallest or earliest.")] = False
    cursor: Cursor = None


@tool(ListRequest, choices=CHOICES)
def list_runs(context: Context, request: ListRequest, stop: Stop) -> Reply:
    """List runs, suites, experiments and checks, the latest first: path, verdict, main result with unit,
    machine. Give the path to explain_run, compare_runs and the profile tools.
    """
    context.index.refresh()
    begin = data.place_of(request.cursor)
    asked = RunFilter(
        search=request.search,
        kind=request.kind,
        benchmark=request.benchmark,
        verdict=request.verdict,
        status=request.status,
        host=request.host,
        since=request.since,
        until=request.until,
        order=request.order,
        ascending=request.ascending,
        page=1 + begin // PAGE_ROWS,
    )
    first = context.index.rows(asked)
    entries = [*first.entries, *context.index.rows(replace(asked, page=asked.page + 1)).entries]
    # A path is whole: it is given back.
    rows = [
        {"path": shown_path(entry.path), **context.quoted(_row(entry))}
        for entry in entries[begin % PAGE_ROWS :]
    ]
    taken, more = data.page(rows, None)
    following = begin + len(taken)
    left = more is not None or following < first.total
    note = context.index.unread.note
    found = {"total": first.total, "folders": taken} | ({"not_read": context.quoted(note)} if note else {})
    return Reply(found, str(following) if left and taken else None)


def _row(entry: Entry) -> dict[str, Any]:
    found = {
        "kind": entry.kind,
        "of": entry.title,
        "tier": entry.tier,
        "status": entry.status if entry.status != "complete" else "",
        "reason": entry.reason,
        "verdict": entry.verdict,
        "metric": entry.metric,
        "value": entry.value,
        "unit": entry.unit,
        "begun": datetime.fromtimestamp(entry.begin_ns / 1e9, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "host": entry.host,
        "processor": entry.processor,
        "cpus": entry.cpus,
    }
    return {name: value for name, value in found.items() if value not in (None, "")}


@dataclass(frozen=True, kw_only=True)
class ExplainRequest:
    """What is explained."""

    path: Annotated[str, Option("Path as list_runs has it.")]
    part: Annotated[
        str,
        Option(
            "summary (verdict, metrics, first findings), figures (all, in pages), findings (with evidence and"
            " next step), or checks (behind the verdict)."
        ),
    ] = "summary"
    cursor: Cursor = None


@tool(ExplainRequest, choices={"part": _PARTS})
def explain_run(context: Context, request: ExplainRequest, stop: Stop) -> Reply:
    """Explain one folder: a run's verdict with what objects, its metrics, and what limited it with evidence;
    of an experiment, a tuning, a co-location or a health check, what it says.
    """
    from steelyard.report.answer.delimited import figures_of
    from steelyard.report.folders.answers import answer_of, record_of

    folder = context.folder(request.path)
    path = shown_path(real_path(context.root, request.path))
    record = record_of(folder)
    run = record if isinstance(record, Run) else None
    if request.part == "summary" and request.cursor is not None:
        raise UsageError("a summary has one page", hint="part figures has pages")
    if request.part == "summary":
        said = answer_of(folder)
        found = {**data.said(said), "kind": str(kind_of(folder))}
        found |= _summary(context, path, run) if run is not None else {}
        if lacking := _lacking(said):
            found["not_measured"] = lacking
        found["figures_in_all"] = len(list(figures_of(said)))
        members = _members(context, folder, path) if isinstance(record, Suite) else {}
        return Reply({"path": path, **context.quoted(found), **members})
    if request.part == "figures":
        rows = [context.quoted(row) for row in data.figures(figures_of(answer_of(folder)))]
    elif run is None:
        raise ResultSaysNoError(f"only a run has {request.part}", hint="part summary or figures")
    elif request.part == "findings":
        rows = [context.quoted(_finding(one)) for one in _findings(context, path)]
    else:
        checks = run.verdict.checks if run.verdict is not None else []
        rows = [context.quoted(_without_none(one.model_dump(mode="json"))) for one in checks]
    taken, more = data.page(rows, request.cursor)
    return Reply({"path": path, "total": len(rows), request.part: taken}, more)


def _summary(context: Context, path: str, run: Run) -> dict[str, Any]:
    metrics = {
        name: _without_none(
            {"value": one.value, "unit": one.unit, "better": one.better, "missing": one.missing}
        )
        for name, one in list(run.metrics.items())[:_METRICS]
    }
    found: dict[str, Any] = {
        "benchmark": run.benchmark,
        "tier": run.tier,
        "status": run.status.value,
        "metrics": metrics,
        "metrics_in_all": len(run.metrics),
        "shown_by": f"steelyard report {path}",
    }
    if run.verdict is not None:
        found["objections"] = [_without_none(one.model_dump(mode="json")) for one in run.verdict.reasons]
    if run.status == "complete":
        findings = _findings(context, path)
        found["findings_in_all"] = len(findings)
        found["findings"] = [
            {"rule": one.rule, "claim": one.claim, "next_step": one.next_step} for one in findings[:_FINDINGS]
        ]
    return found


def _members(context: Context, folder: Path, path: str) -> dict[str, Any]:
    """Return the runs of a suite, each with the path that other tools take."""
    folders = [one for one in sorted(folder.iterdir()) if kind_of(one) is Kind.RUN]
    return {
        "members": [
            {"path": f"{path}/{shown_path(one.name)}", **context.quoted(_member(one))} for one in folders
        ]
    }


def _lacking(said: Answer) -> str:
    """Return in one line what the page of a run has under "Not measured", empty where that is nothing."""
    from steelyard.report.details import NOT_MEASURED

    rows = [
        row
        for section in said.sections
        for block in section.blocks
        if isinstance(block, Table) and block.title == NOT_MEASURED
        for row in block.rows
    ]
    shown = [f"{row[0].text}: {row[1].text}" for row in rows[:_LACKS]]
    more = [f"{len(rows) - _LACKS} more"] if len(rows) > _LACKS else []
    return "; ".join([*shown, *more])


def _member(folder: Path) -> dict[str, Any]:
    try:
        run = read(Run, folder / Kind.RUN.record)
    except SteelyardError as error:
        return {"missing": error.message}
    verdict = run.verdict.level.value if run.verdict is not None else run.status.value
    return {"benchmark": run.benchmark, "verdict": verdict}


def _findings(context: Context, path: str) -> list[Any]:
    from steelyard.report.exports.findings import findings_of
    from steelyard.report.exports.runs import runs_in

    return findings_of(runs_in(context.run(path))[0])


def _finding(one: Any) -> dict[str, Any]:
    document = as_document(one)
    kept = ("rule", "area", "claim", "evidence", "threshold", "next_step", "gain", "part", "is_measured",
            "blame", "explained_ratio", "also")  # fmt: skip
    return {name: document[name] for name in kept if document[name] not in (None, "", [])}


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class CompareRequest:
    """Two to eight runs, or two suites."""

    paths: Annotated[
        list[str], Option("Paths of two to eight runs, or of two suites, as list_runs has them.")
    ]
    cursor: Cursor = None


@tool(CompareRequest)
def compare_runs(context: Context, request: CompareRequest, stop: Stop) -> Reply:
    """Compare runs or suites: what differs, in figures with what is known of their noise. The first page has
    what is said of them; pages of figures follow.
    """
    from steelyard.catalog.comparison import comparison_of
    from steelyard.report.answer.delimited import figures_of

    said = comparison_of(context.catalog, [real_path(context.root, path) for path in request.paths])
    rows = [context.quoted(row) for row in data.figures(figures_of(said))]
    words = context.quoted(data.said(said)) if request.cursor is None else {}
    taken, more = data.page(
        rows, request.cursor, most_bytes=data.PAGE_BYTES if not words else data.PAGE_BYTES // 2
    )
    return Reply({**words, "total": len(rows), "figures": taken}, more)
