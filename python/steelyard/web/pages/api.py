"""The same as JSON, under ``/api/v1``, with its OpenAPI; and ``/metrics``.

Results are those of the commands' ``--json``, and their schemas those of ``schemas``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any
from urllib.parse import unquote

from steelyard import __version__
from steelyard._base import UsageError, read_regular, schemas_dir
from steelyard._base.documents import Paged, as_document
from steelyard.catalog.comparison import comparison_of
from steelyard.catalog.entries import Entry
from steelyard.catalog.fields import Field
from steelyard.catalog.filters import CHOICES, RunFilter
from steelyard.catalog.roots import NotThereError, check_links, folder_at
from steelyard.cli.fleet.registry import queries
from steelyard.records.text import load_object
from steelyard.report.answer import Answer
from steelyard.report.answer.delimited import FIGURES, figures_of
from steelyard.report.exports.open_metrics import Family, Sample
from steelyard.report.exports.open_metrics import open_metrics as text_of
from steelyard.report.folders.kinds import Kind, kind_of
from steelyard.web.context import Context
from steelyard.web.pages import decide, fleet, folder, trends

_RECORD_BYTES = 32 << 20
_MOST_FIGURES = 5000


def runs(context: Context, *, query: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return a page of the list of runs."""
    asked = RunFilter.of(_single(query))
    context.index.refresh(most_s=0.1)
    found = context.index.rows(asked)
    return {
        "runs": [_entry(entry) for entry in found.entries],
        "total": found.total,
        "page": found.page,
        "pages": found.pages,
        "not_read": context.index.unread.note or None,
    }


def run(context: Context, *, path: str, query: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the record of a folder, and the answer that its page gives."""
    root = context.settings.root
    directory = folder_at(root, path)
    kind = kind_of(directory)
    if kind is None:
        raise NotThereError(f"there is no run at {path[:200]!r}")
    check_links(root, directory)
    name = "health.json" if kind is Kind.HEALTH else kind.record
    raw = read_regular(directory / name, at_most_bytes=_RECORD_BYTES)
    record = load_object(raw, where=f"{path}/{name}")
    return {"path": path, "kind": kind.value, "record": record, "answer": said(folder.answer(context, path))}


def compared(context: Context, *, query: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return what differs between runs."""
    return said(comparison_of(context, [unquote(path) for path in query.get("run", ())]))


def trend(context: Context, *, query: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return a metric over time, and its changes on each machine."""
    given = _single(query)
    benchmark, metric = given.pop("benchmark", ""), given.pop("metric", "")
    by = trends.order_of(given.pop("by", ""))
    context.index.refresh(most_s=0.1)
    known = context.index.metrics_of(benchmark) if benchmark else []
    if benchmark and not known:
        names = [name for name, _ in context.index.values_of("title")]
        raise UsageError(
            f"there is no run of {benchmark[:40]!r}", hint=f"there are runs of {', '.join(names)}"
        )
    if metric and benchmark and metric not in known:
        hint = f"metrics: {', '.join(known)}" if known else "there is no run of this benchmark"
        raise UsageError(f"no run of {benchmark[:40]!r} has a metric {metric[:60]!r}", hint=hint)
    if benchmark and not metric:
        metric = next(iter(known), "")
    asked = RunFilter.of({**given, "benchmark": benchmark, "members": "yes"})
    points = context.index.series(metric, asked)
    return {
        "benchmark": benchmark,
        "metric": metric,
        "unit": points[-1].unit if points else None,
        "points": [
            {
                "path": point.entry.path,
                "time_ns": point.entry.begin_ns,
                "value": point.value,
                "verdict": point.entry.verdict,
                "host": point.entry.host,
                "version": point.entry.version or None,
                "kernel": point.entry.kernel or None,
                "tags": list(point.entry.tags),
            }
            for point in points
        ],
        "answer": said(trends.answer(points, benchmark, metric, by)),
    }


def fleet_query(context: Context, *, name: str, query: Mapping[str, Sequence[str]]) -> Any:
    """Return the result of a fleet query."""
    return as_document(fleet.document(context, name=name, query=query))


def decision(context: Context, *, name: str, query: Mapping[str, Sequence[str]]) -> Any:
    """Return the result of a decision."""
    return as_document(Paged(decide.document(context, name=name, query=query), None))


def open_api(context: Context, *, query: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return what can be asked here, in the form of OpenAPI 3.1."""
    return _open_api()


def said(answer: Answer) -> dict[str, Any]:
    """Return an answer as plain values: what it says, and every figure of its tables."""
    figures = [dict(zip(FIGURES, row, strict=True)) for row in figures_of(answer)]
    return {
        "title": answer.title,
        "heading": answer.heading,
        "lines": [line for line in answer.lines if line],
        "cautions": list(answer.cautions),
        "verdict": answer.level,
        "command": answer.command or None,
        "figures": as_document(figures[:_MOST_FIGURES]),
        "figures_left_out": max(0, len(figures) - _MOST_FIGURES),
    }


def open_metrics(context: Context) -> str:
    """Return the latest result of each benchmark on each machine that is not invalid, and how many folders
    there are.

    Samples have no time stamps: a scraper refuses old ones. When a run was made is a metric beside it.
    """
    context.index.refresh(most_s=0.1)
    by_verdict = dict(context.index.values_of("verdict"))
    by_verdict[_NO_VERDICT] = context.index.rows(RunFilter(members=True)).total - sum(by_verdict.values())
    families = [
        Family(
            "steelyard_folders",
            "Folders of runs, suites, experiments and checks by verdict.",
            [Sample({"verdict": name}, count) for name, count in by_verdict.items()],
        )
    ]
    by_name: dict[tuple[str, str], list[Sample]] = {}
    begins: list[Sample] = []
    for entry in context.index.latest():
        if entry.value is None:
            continue
        labels = {"benchmark": entry.title, "tier": entry.tier, "host": entry.host}
        by_name.setdefault((entry.metric, entry.unit), []).append(Sample(labels, entry.value))
        run = {**labels, "path": entry.path, "verdict": entry.verdict}
        begins.append(Sample(run, entry.begin_ns / 1e9))
    about = "Main result of the latest run that is not invalid."
    families += [
        Family(f"steelyard_{name}", about, samples, unit) for (name, unit), samples in sorted(by_name.items())
    ]
    about = "When the run began whose result is given, since 1970; its path and verdict."
    families.append(Family("steelyard_latest_run_begin", about, begins, "s"))
    return text_of(families)


def _single(query: Mapping[str, Sequence[str]]) -> dict[str, str]:
    return {name: values[-1] for name, values in query.items()}


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "path": entry.path,
        "kind": entry.kind,
        "title": entry.title,
        "status": entry.status,
        "reason": entry.reason or None,
        "verdict": entry.verdict or None,
        "tier": entry.tier or None,
        "metric": entry.metric or None,
        "value": entry.value,
        "unit": entry.unit or None,
        "begin_ns": entry.begin_ns,
        "host": entry.host or None,
        "processor": entry.processor or None,
        "cpus": entry.cpus,
        "kernel": entry.kernel or None,
        "version": entry.version or None,
        "tags": list(entry.tags),
    }


_ANSWER = {
    "type": "object",
    "required": ["title", "heading", "lines", "cautions", "figures"],
    "properties": {
        "title": {"type": "string"},
        "heading": {"type": "string", "description": "The answer in one line"},
        "lines": {"type": "array", "items": {"type": "string"}},
        "cautions": {
            "type": "array",
            "items": {"type": "string"},
            "description": "What to know before believing it",
        },
        "verdict": {"type": ["string", "null"]},
        "command": {"type": ["string", "null"], "description": "The command that shows it again"},
        "figures": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    name: {"type": ["number", "null"] if name in ("value", "low", "high") else "string"}
                    for name in FIGURES
                },
            },
        },
        "figures_left_out": {"type": "integer"},
    },
}
_NO_VERDICT = "none"
_DECISIONS = {"choose": "choice", "project": "projection", "size": "sizing"}


@cache
def _open_api() -> dict[str, Any]:
    schemas: dict[str, Any] = {"Answer": _ANSWER}
    paths: dict[str, Any] = {
        "/api/v1/runs": _get(runs, [], {"type": "object"}),
        "/api/v1/runs/{path}": _get(run, ["path"], {"type": "object"}),
        "/api/v1/compare": _get(compared, [], _reference("Answer")),
        "/api/v1/trends": _get(trend, [], {"type": "object"}),
    }
    filters = [Field(name, choices=CHOICES.get(name, ())) for name in RunFilter.__dataclass_fields__]
    paths["/api/v1/runs"]["get"]["parameters"] = [_parameter(one) for one in filters]
    several = Field("run", "Path of a run or suite; two to eight of them.", is_list=True)
    paths["/api/v1/compare"]["get"]["parameters"] = [_parameter(several, is_required=True)]
    of_trend = [
        Field("metric", "By default the main result of the benchmark."),
        Field("by", "What runs are ordered by: time, version, kernel or tag:NAME; by default time."),
        *(one for one in filters if one.name not in ("benchmark", "members", "page", "order", "ascending")),
    ]
    paths["/api/v1/trends"]["get"]["parameters"] = [
        _parameter(Field("benchmark", "Benchmark, such as tao."), is_required=True),
        *map(_parameter, of_trend),
    ]
    for name, one in queries().items():
        schema = _schema(f"fleet/{name.replace(' ', '_')}", schemas)
        made = _get(one.ask, [], schema)
        needed = {option.name for option in one.options if option.default is option.empty}
        made["get"]["parameters"] = [
            _parameter(each, is_required=each.name in needed) for each in fleet.form_of(one, {})
        ]
        paths[f"/api/v1/fleet/{name.replace(' ', '/')}"] = made
    for name, kind in _DECISIONS.items():
        one_decision = decide.DECISIONS[name]
        made = _get(decision, [], _schema(kind, schemas))
        made["get"]["summary"] = one_decision.about
        made["get"]["parameters"] = [
            _parameter(each, is_required=each.name == one_decision.needs)
            for each in decide.declared_fields(one_decision)
        ]
        paths[f"/api/v1/decide/{name}"] = made
    return {
        "openapi": "3.1.0",
        "info": {"title": "Steelyard", "version": __version__},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _parameter(one: Field, *, is_required: bool = False) -> dict[str, Any]:
    """Return a field as a parameter of an address."""
    name = "integer" if one.type is int else "number" if one.type is float and not one.is_share else "string"
    kind: dict[str, Any] = {"type": name}
    if name != "string":
        ends = {"minimum": one.least, "maximum": one.most}
        kind |= {name: end for name, end in ends.items() if end is not None}
    if one.kind == "flag":
        kind = {"type": "string", "enum": ["yes", "no"]}
    elif one.choices:
        kind["enum"] = [choice for choice in one.choices if choice]
    elif one.is_list:
        kind = {"type": "array", "items": kind}
    if one.default and not one.is_list:
        kind["default"] = one.type(one.default) if name != "string" else one.default
    found = {"name": one.name, "in": "query", "required": is_required, "schema": kind}
    return found | ({"description": one.help} if one.help else {})


def _get(make: Callable[..., Any], names: Sequence[str], schema: dict[str, Any]) -> dict[str, Any]:
    about = " ".join((make.__doc__ or "").split("\n\n")[0].split())
    return {
        "get": {
            "summary": about.removeprefix("Return ").capitalize() if about.startswith("Return") else about,
            "parameters": [
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
            ],
            "responses": {
                "200": {"description": "The result", "content": {"application/json": {"schema": schema}}},
                "default": {
                    "description": "An error",
                    "content": {
                        "application/json": {
                            "schema": {
                                "type": "object",
                                "properties": {
                                    "error": {"type": "string"},
                                    "hint": {"type": ["string", "null"]},
                                },
                            }
                        }
                    },
                },
            },
        }
    }


def _reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _schema(kind: str, schemas: dict[str, Any]) -> dict[str, Any]:
    """Return a reference to the schema of a result, which becomes a component with its definitions inside."""
    file = schemas_dir() / f"{kind}.schema.json"
    if not file.is_file():
        return {"type": "object"}
    name = kind.replace("/", "_")
    schemas[name] = json.loads(file.read_text(encoding="utf-8"))
    # References within it are to its own definitions.
    text = json.dumps(schemas[name]).replace('"#/$defs/', f'"#/components/schemas/{name}/$defs/')
    schemas[name] = json.loads(text)
    return _reference(name)
