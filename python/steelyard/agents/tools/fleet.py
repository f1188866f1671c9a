"""``list_fleet_queries`` and ``fleet_query``: a fleet's store, asked as by ``steelyard fleet``.

In: the name of a query and its options. Out: pages of figures. Options that name files are not offered. Not
here: the queries (``cli.fleet``).
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from steelyard._base import ResultSaysNoError, SteelyardError, UsageError
from steelyard._base.request import Option, in_names
from steelyard.agents import data
from steelyard.agents.context import Context, Stop
from steelyard.agents.tool import Reply, tool
from steelyard.agents.tools.runs import Cursor
from steelyard.catalog.fields import Field, fields_of_query, filled, values
from steelyard.cli.fleet.options import opened
from steelyard.cli.fleet.query import Query
from steelyard.cli.fleet.registry import queries
from steelyard.report.answer.delimited import figures_of


@dataclass(frozen=True, kw_only=True)
class QueriesRequest:
    """Nothing to choose."""


@tool(QueriesRequest)
def list_fleet_queries(context: Context, request: QueriesRequest, stop: Stop) -> Reply:
    """List what can be asked of the fleet's store by fleet_query: names, what each shows, and its options."""
    rows = [
        {
            "name": name,
            "shows": _about(query),
            "options": {one.name: _described(one) for one in fields_of_query(query.options)},
            "needs": [one.name for one in query.options if one.default is inspect.Parameter.empty],
        }
        for name, query in queries().items()
    ]
    return Reply(context.quoted({"has_store": context.store is not None, "queries": rows}))


@dataclass(frozen=True, kw_only=True)
class QueryRequest:
    """Which query, over which days."""

    name: Annotated[str, Option("Name of a query, as list_fleet_queries has it.")]
    options: Annotated[Mapping[str, str], Option("Its options by name; several values with commas.")] = field(
        default_factory=dict
    )
    first: Annotated[str | None, Option("First day, as 2026-01-31 (UTC).")] = None
    last: Annotated[str | None, Option("Last day (inclusive).")] = None
    cursor: Cursor = None


@tool(QueryRequest)
def fleet_query(context: Context, request: QueryRequest, stop: Stop) -> Reply:
    """Ask the fleet's store: cycles by function or job, CPI and its outliers, pressure, NUMA locality,
    resource usage effectiveness, placement and so on. Figures have units, intervals and reasons.
    """
    if context.store is None:
        raise ResultSaysNoError("no store is served", hint="start the server with --store STORE")
    query = queries().get(request.name)
    if query is None:
        hint = f"queries: {', '.join(queries())}"
        raise UsageError(f"there is no query {request.name[:60]!r}", hint=hint)
    given = _given(query, request.options)
    with opened(context.store, first=request.first, last=request.last) as store:
        stop.act = store.engine.interrupt
        stop.check()
        try:
            answer = query.ask(store, **given)
        except SteelyardError as error:
            raise in_names(error, query.flags) from error
        problems = store.problems
    rows = [context.quoted(row) for row in data.figures(figures_of(answer))]
    words: dict[str, Any] = {}
    if request.cursor is None:
        said = data.said(replace(answer, command=""))
        words = context.quoted({"query": request.name, **said, "files_put_aside": len(problems)})
    most = data.PAGE_BYTES // (2 if words else 1)
    taken, more = data.page(rows, request.cursor, most_bytes=most)
    return Reply({**words, "total": len(rows), "figures": taken}, more)


def _given(query: Query, options: Mapping[str, str]) -> dict[str, Any]:
    """Return options as the query takes them. Raises UsageError."""
    fields = fields_of_query(query.options)
    names = [one.name for one in fields]
    if unknown := sorted(set(options) - set(names)):
        hint = f"options: {', '.join(names) or 'none'}"
        raise UsageError(f"{query.name} has no option {unknown[0][:40]!r}", hint=hint)
    texts = {name: _flag(fields, name, text) for name, text in options.items()}
    given = values(filled(fields, texts)) if texts else values(fields)
    needed = [one.name for one in query.options if one.default is inspect.Parameter.empty]
    if missing := [name for name in needed if name not in given]:
        raise UsageError(f"{query.name} needs {' and '.join(missing)}", hint="give it in options")
    return given


def _flag(fields: list[Field], name: str, text: str) -> str:
    """Return a flag as a form has it, any other text as it is."""
    one = next(field for field in fields if field.name == name)
    return {"true": "yes", "false": ""}.get(text, text) if one.kind == "flag" else text


def _described(one: Field) -> str:
    choices = f" One of {', '.join(filter(None, one.choices))}." if one.choices else ""
    default = f" Default: {one.value}." if one.value else ""
    return f"{one.help}{choices}{default}"


def _about(query: Query) -> str:
    return " ".join((inspect.getdoc(query.ask) or "").split("\n\n")[0].split())
