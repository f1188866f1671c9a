"""``profile_top`` and ``profile_diff``: where the time of runs went.

In: paths of runs. Out: rows with shares. Not here: counting (``analyze.profiles``).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from steelyard._base import command_text
from steelyard._base.documents import as_document
from steelyard._base.request import Option
from steelyard.agents import data
from steelyard.agents.context import Context, Stop
from steelyard.agents.tool import Reply, tool
from steelyard.agents.tools.runs import Cursor
from steelyard.analyze.run_files import PROFILES
from steelyard.report.exports.profiles import profile_of
from steelyard.report.exports.runs import runs_in

_MOST_ROWS = 2000
_BY = ("function", "category")
_SIDES = tuple(PROFILES)


@dataclass(frozen=True, kw_only=True)
class TopRequest:
    """Of which run, and how its samples are counted."""

    path: Annotated[str, Option("Path of a run, as list_runs has it.")]
    by: Annotated[str, Option("function, or category: what the time is for (the tax map).")] = "function"
    side: Annotated[str, Option("server or load, where they were sampled apart.")] = "server"
    cursor: Cursor = None


@tool(TopRequest, choices={"by": _BY, "side": _SIDES})
def profile_top(context: Context, request: TopRequest, stop: Stop) -> Reply:
    """Show where the CPU time of a run went, the most first: functions with the shares of their own and of
    everything they call, or categories of the datacenter tax.
    """
    from steelyard.analyze.profiles.tax_map import classify
    from steelyard.report.profiles.words import cautions_of, top_functions

    (one,) = runs_in(context.run(request.path))
    profile = profile_of(one, request.side)
    busy = profile.busy()
    if request.by == "function":
        rows: list[dict[str, Any]] = [
            {
                "function": row.function,
                "module": row.module,
                "own_ratio": row.own / busy.total,
                "total_ratio": row.total / busy.total,
                "own_count": profile.in_unit(row.own),
            }
            for row in top_functions(busy, _MOST_ROWS)
        ]
    else:
        rows = [
            {
                "category": each.id,
                "title": each.title,
                "ratio": each.share_ratio,
                "count": profile.in_unit(each.samples),
            }
            for each in classify(profile).categories
        ]
    taken, more = data.page([context.quoted(row) for row in rows], request.cursor)
    words = {
        "path": request.path,
        "unit": profile.unit,
        "event": profile.facts.get("event"),
        "counted": profile.in_unit(busy.total),
        "cautions": cautions_of(profile),
    }
    return Reply({**context.quoted(words), "total": len(rows), "rows": taken}, more)


@dataclass(frozen=True, kw_only=True)
class DiffRequest:
    """Which runs are compared."""

    a: Annotated[str, Option("Path of a run, as list_runs has it.")]
    b: Annotated[str, Option("Path of the run to compare with it.")]
    by: Annotated[str, Option("function, module or category.")] = "function"
    cursor: Cursor = None


@tool(DiffRequest, choices={"by": ("function", "module", "category")})
def profile_diff(context: Context, request: DiffRequest, stop: Stop) -> Reply:
    """Compare where the CPU time of two runs went: shares of both, and whether a difference is more than the
    noise within the runs, as far as that can be judged.
    """
    from steelyard.analyze.profiles.diff import diff
    from steelyard.analyze.profiles.tax_rules import rules_with
    from steelyard.cli.profile.reading import ALL
    from steelyard.cli.profile.sides import side_of

    folders = [context.run(path) for path in (request.a, request.b)]
    for folder in folders:
        profile_of(runs_in(folder)[0], "server")
    stop.check()
    sides = [side_of(folder, replace(ALL, samples=True)) for folder in folders]
    are_blocks = all(side.blocks for side in sides)
    units = [side.blocks if are_blocks else side.runs for side in sides]
    result = diff(units[0], units[1], rules_with([]), are_blocks=are_blocks)
    table = result.table(request.by)
    rows = [context.quoted(as_document(asdict(row))) for row in table.rows[:_MOST_ROWS]]
    taken, more = data.page(rows, request.cursor)
    # This command takes paths and no ids.
    named = [Path(context.catalog.settings.runs_name) / path for path in (request.a, request.b)]
    words = {
        "a": request.a,
        "b": request.b,
        "a_samples": result.a_samples,
        "b_samples": result.b_samples,
        "changed": result.changed,
        "not_judged": result.reason,
        "held_against": result.basis,
        "cautions": list(result.cautions),
        "shown_by": command_text(["steelyard", "profile", "diff", *named]),
    }
    return Reply({**context.quoted(words), "total": len(table.rows), "rows": taken}, more)
