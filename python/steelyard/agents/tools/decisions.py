"""``project``, ``choose``, ``size`` and ``score``: decisions between the machines of a table.

In: the name of a table that the server was given, or the folder of runs, and options of the command of the
same name. Out: pages of figures. Options that name files are not offered. Not here: deciding (``decide``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from steelyard._base import SteelyardError, command_text
from steelyard._base.request import Option, flags_of, in_names, options, words
from steelyard.agents import data
from steelyard.agents.context import RUNS, Context, Stop
from steelyard.agents.tool import Reply, Tool, tool
from steelyard.cli.decide import choose as choosing
from steelyard.cli.decide import project as projecting
from steelyard.cli.decide import score as scoring
from steelyard.cli.decide import size as sizing
from steelyard.decide.choice.request import ChooseRequest
from steelyard.decide.projection.request import ProjectRequest
from steelyard.decide.ranking.request import ScoreRequest
from steelyard.decide.sizing.request import SizeRequest
from steelyard.report.answer import Answer
from steelyard.report.answer.delimited import figures_of

_LEFT = ("sources", "columns", "runs", "curves")
"""Fields that name files."""


@dataclass(frozen=True, kw_only=True)
class _Common:
    table: Annotated[
        str, Option(f"Table of machines and results, as describe has it, or {RUNS}; by default the first.")
    ] = ""
    cursor: Annotated[str | None, Option("next_cursor of the answer before, for the next page.")] = None


def _decision(
    name: str, kind: type[Any], answered: Callable[[Any, str], tuple[Any, Answer]], about: str
) -> Tool:
    """Return the tool of a decision: the fields of its request, with a table in the place of sources."""

    def act(context: Context, request: Mapping[str, Any], stop: Stop) -> Reply:
        given = dict(request)
        table, cursor = given.pop("table", "") or context.table_names[0], given.pop("cursor", None)
        source = context.table(table)
        asked = kind(sources=(str(source),), **given)
        shown_by = command_text(["steelyard", name, table, *words(asked, never=("sources",))])
        try:
            _, said = answered(asked, shown_by)
        except SteelyardError as error:
            raise in_names(error, flags_of(kind)) from error
        said = replace(said, source=table)
        rows = [context.quoted(row) for row in data.figures(figures_of(said))]
        first = context.quoted(data.said(said)) if cursor is None else {}
        most = data.PAGE_BYTES // (2 if first else 1)
        taken, more = data.page(rows, cursor, most_bytes=most)
        return Reply({**first, "total": len(rows), "figures": taken}, more)

    made = tool(_Common)(act)
    own = {key: one for key, one in options(kind).items() if key not in _LEFT and not _is_file(one.type)}
    return replace(made, name=name, request=dict, about=about, fields={**made.fields, **own})


def _is_file(kind: Any) -> bool:
    return getattr(kind, "__name__", "") == "Path"


project = _decision(
    "project",
    ProjectRequest,
    projecting.answered,
    "Project a workload's performance on machines where only benchmarks have run, with its error.",
)
choose = _decision(
    "choose",
    ChooseRequest,
    choosing.answered,
    "Compare machines by performance per watt and per cost, and size a fleet for a demand.",
)
size = _decision(
    "size",
    SizeRequest,
    sizing.answered,
    "Find the CPUs, memory and machine types that serve a rate, and their cost.",
)
score = _decision(
    "score",
    ScoreRequest,
    scoring.answered,
    "Rank the machines of a table by the geometric mean of their results, with intervals.",
)
