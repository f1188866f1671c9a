"""``steelyard project`` as the parser has it, and its answer.

In: a request. Out: an answer or one JSON document. Not here: tables (``sources``), projections
(``decide.projection``).
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from steelyard.cli.output import examples
from steelyard.cli.overview import ABOUT
from steelyard.cli.requests import command
from steelyard.decide.projection.request import ProjectRequest

if TYPE_CHECKING:
    from steelyard.report.answer import Answer

_EXAMPLES = (
    "steelyard project machines.csv --target web_per_s",
    "steelyard project machines.csv --target web_per_s --explain --learning-curve --report projection.html",
    "steelyard project A=runs/a B=runs/b --target mediawiki --method geomean --calibration A",
    "steelyard project specrate.csv --target base --forward",
)


def add_project(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    made = command(ProjectRequest, "steelyard.cli.decide.project:project_and_show", ABOUT["project"])
    app.command("project", epilog=examples(*_EXAMPLES))(made)


def project_and_show(
    request: ProjectRequest, given: Collection[str], *, report: Path | None, as_json: bool
) -> int:
    """Project and show; return the exit code."""
    from steelyard._base.documents import Paged
    from steelyard.cli.output import command_line, page_of, print_json, show_answer

    found, made = answered(request, command_line())
    if as_json:
        print_json(Paged(found, page_of(made, report)))
        return int(made.says_no)
    return show_answer(made, report)


def answered(request: ProjectRequest, command_line: str) -> tuple[Any, Answer]:
    """Return the projection, and how it is shown."""
    from steelyard.cli.decide.sources import table_of
    from steelyard.decide.projection.project import project
    from steelyard.decide.projection.request import question_of
    from steelyard.report.decide.project import answer

    found = project(table_of(request), question_of(request))
    return found, answer(found, command_line, ", ".join(request.sources))
