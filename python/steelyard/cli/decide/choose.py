"""``steelyard choose`` as the parser has it, and its answer.

In: a request. Out: an answer or one JSON document. Not here: reading tables (``sources``), computing
(``decide.choice``).
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from steelyard.cli.output import examples
from steelyard.cli.overview import ABOUT
from steelyard.cli.requests import command
from steelyard.decide.choice.request import ChooseRequest

if TYPE_CHECKING:
    from steelyard.report.answer import Answer

_EXAMPLES = (
    "steelyard choose servers.csv --power-price 0.12 --baseline SKU4",
    "steelyard choose A=runs/a B=runs/b prices.csv --demand tao=2e6 --site-mw 5",
    "steelyard choose --improvement 1% --interval 0.4%..1.6%",
)
_OF_IMPROVEMENT = ("interval", "fleets", "save")
_OF_ORDER = (
    "workloads", "weights", "suites", "aggregates", "by", "demands", "headroom", "rack_units", "rack_kw",
    "site_mw", "floor", "noise",
)  # fmt: skip


_OF_DEMAND = ("headroom", "rack_units", "rack_kw", "site_mw")


def add_choose(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    made = command(ChooseRequest, "steelyard.cli.decide.choose:choose_and_show", ABOUT["choose"])
    app.command("choose", epilog=examples(*_EXAMPLES))(made)


def choose_and_show(
    request: ChooseRequest, given: Collection[str], *, report: Path | None, as_json: bool
) -> int:
    """Weigh machines or an improvement; return the exit code."""
    from steelyard._base import UsageError
    from steelyard._base.documents import Paged
    from steelyard._base.request import options
    from steelyard.cli.output import command_line, page_of, print_json, show_answer

    known = options(ChooseRequest)
    unused = _OF_ORDER if request.improvement is not None else _OF_IMPROVEMENT
    if wrong := [known[name].flag for name in unused if name in given]:
        is_for = "is for the order of machines, not" if request.improvement is not None else "is for"
        raise UsageError(f"{wrong[0]} {is_for} --improvement", hint="steelyard choose --help")
    if not request.demands and (wrong := [known[name].flag for name in _OF_DEMAND if name in given]):
        raise UsageError(f"{wrong[0]} is for --demand", hint="as --demand WORKLOAD=1000")
    found, said = answered(request, command_line())
    if as_json:
        print_json(Paged(found, page_of(said, report)))
        return int(said.says_no)
    return show_answer(said, report)


def answered(request: ChooseRequest, command_line: str) -> tuple[Any, Answer]:
    """Return the order of machines, or what an improvement is worth; and how it is shown."""
    from steelyard.cli.decide.sources import table_of
    from steelyard.decide.choice.making import choose, improve
    from steelyard.report.decide.choose import answer
    from steelyard.report.decide.savings import answer as savings_answer

    if request.improvement is not None:
        savings = improve(table_of(request) if request.sources else None, request)
        return savings, savings_answer(savings, command=command_line)
    table = table_of(request)
    choice = choose(table, request)
    return choice, answer(choice, command=command_line, source=", ".join(table.sources))
