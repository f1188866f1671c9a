"""``describe``: what this server can be asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from steelyard._base import SteelyardError
from steelyard.agents.context import RUNS, Context, Stop
from steelyard.agents.tool import Reply, tool

_MOST = 30


@dataclass(frozen=True, kw_only=True)
class DescribeRequest:
    """Nothing to choose."""


@tool(DescribeRequest)
def describe(context: Context, request: DescribeRequest, stop: Stop) -> Reply:
    """Describe what is here: how many runs of which benchmarks and machines, tables for decisions with their
    machines and results, whether there is a fleet's store, and whether benchmarks may be run. Begin with it.
    """
    context.index.refresh()
    counts = {
        name: dict(context.index.values_of(name)[:_MOST]) for name in ("kind", "title", "host", "verdict")
    }
    data: dict[str, Any] = {
        "folders_by_kind": counts["kind"],
        "runs_by_benchmark": counts["title"],
        "folders_by_host": counts["host"],
        "folders_by_verdict": counts["verdict"],
        "tables": [_table(context, name) for name in context.table_names],
        "has_fleet_store": context.store is not None,
        "seconds_left_for_benchmarks": context.budget.left_s,
        "words": WORDS,
    }
    return Reply(context.quoted(data))


WORDS = {
    "verdict": "valid: the result may be believed; suspect: with the reasons in mind; invalid: not at all",
    "value": "in the base unit of `unit`: ns, bytes, 1/s, ratio (0 to 1) and so on",
    "low, high": "ends of an interval, where one is known",
    "note": "why a value is missing, or a text in its place",
}


def _table(context: Context, name: str) -> dict[str, Any]:
    if name == RUNS:
        return {"name": name, "about": "the machines and results of all runs that list_runs has"}
    from steelyard.cli.decide.sources import table_of
    from steelyard.decide.request import TableRequest

    try:
        table = table_of(TableRequest(sources=(str(context.table(name)),)))
    except SteelyardError as error:
        return {"name": name, "missing": context.message(error.message)}
    return {
        "name": name,
        "machines": len(table.machines),
        "first_machines": list(table.names[:8]),
        "results": [column.name for column in table.results][:_MOST],
    }
