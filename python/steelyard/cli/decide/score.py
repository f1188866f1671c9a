"""``steelyard score`` as the parser has it: one run or suite against a baseline, or machines in order.

In: a request. Out: an answer or one JSON document. Not here: tables (``sources``), scores (``decide``).
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from steelyard.cli.output import examples
from steelyard.cli.overview import ABOUT
from steelyard.cli.requests import command
from steelyard.decide.ranking.request import ScoreRequest

if TYPE_CHECKING:
    from steelyard.decide.ranking.ranking import Ranking
    from steelyard.report.answer import Answer

_EXAMPLES = (
    "steelyard score latest",
    "steelyard score a=runs/a b=runs/b --baseline a",
    "steelyard score results.csv --weight web_per_s=3 --report scores.html",
)


def add_score(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    made = command(ScoreRequest, "steelyard.cli.decide.score:score_and_show", ABOUT["score"])
    app.command("score", epilog=examples(*_EXAMPLES))(made)


def score_and_show(
    request: ScoreRequest, given: Collection[str], *, report: Path | None, as_json: bool
) -> int:
    """Score one run or suite, or rank machines; return the exit code."""
    from steelyard._base import UsageError
    from steelyard._base.documents import Paged
    from steelyard.cli.decide.sources import is_one_run
    from steelyard.cli.output import command_line, page_of, print_json, show_answer

    if len(request.sources) == 1 and is_one_run(request.sources[0], request.runs):
        from steelyard.cli.reports import show_score

        unused = sorted({"result", "weight", "noise", "columns"}.intersection(given))
        if unused or report is not None:
            flag = f"--{unused[0]}" if unused else "--report"
            raise UsageError(f"{flag} is for several machines", hint="steelyard report shows one run")
        return show_score(request.sources[0], request.runs, baseline=request.baseline, as_json=as_json)
    found, made = answered(request, command_line())
    if as_json:
        print_json(Paged(found, page_of(made, report)))
        return int(made.says_no)
    return show_answer(made, report)


def answered(request: ScoreRequest, command_line: str) -> tuple[Ranking, Answer]:
    """Return machines in order, and how that is shown."""
    from steelyard._base import UsageError
    from steelyard.cli.decide.sources import table_of
    from steelyard.decide.ranking.ranking import rank
    from steelyard.report.decide.score import answer

    table = table_of(request)
    named = request.baseline
    baseline = None
    if named is not None and named not in table.names:
        from steelyard.decide.tables.model import LIST_AT_MOST
        from steelyard.report.folders.scores import baseline_for

        try:
            baseline = baseline_for(named, [column.name for column in table.results])
        except UsageError as error:
            hint = f"machines: {', '.join(table.names[:LIST_AT_MOST])}; {error.hint}"
            raise UsageError(error.message, hint=hint) from error
    found = rank(table, request, baseline)
    return found, answer(found, command_line, ", ".join(table.sources))
