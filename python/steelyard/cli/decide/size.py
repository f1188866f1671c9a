"""``steelyard size`` as the parser has it, and its answer.

In: a request. Out: an answer or one JSON document. Not here: reading curves (``curves``) and tables
(``sources``), sizing (``decide.sizing``).
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from steelyard.cli.output import examples
from steelyard.cli.overview import ABOUT
from steelyard.cli.requests import command
from steelyard.decide.sizing.request import SizeRequest

if TYPE_CHECKING:
    from steelyard.report.answer import Answer

_EXAMPLES = (
    "steelyard size types.csv --curve curves.csv --rate 2e6",
    "steelyard size types.csv --workload web_per_s --rate 1e5 --memory 24GiB --noise 3%",
    "steelyard size types.csv --curve m7.large=runs/scale-tao --rate 5e5 --latency-limit 2ms",
)
_OF_CURVES = ("sibling_worth", "whole")
_OF_DEMAND = ("headroom", "most_machines")


def add_size(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    made = command(SizeRequest, "steelyard.cli.decide.size:size_and_show", ABOUT["size"])
    app.command("size", epilog=examples(*_EXAMPLES))(made)


def size_and_show(request: SizeRequest, given: Collection[str], *, report: Path | None, as_json: bool) -> int:
    """Size machines; return the exit code."""
    from steelyard._base import UsageError
    from steelyard._base.documents import Paged
    from steelyard._base.request import options
    from steelyard.cli.output import command_line, page_of, print_json, show_answer

    if "latency" in given and request.latency_limit is None:
        raise UsageError("--latency is for --latency-limit", hint="as --latency-limit 5ms")
    known = options(SizeRequest)
    if not request.curves and (wrong := [known[name].flag for name in _OF_CURVES if name in given]):
        raise UsageError(f"{wrong[0]} is for --curve", hint="as --curve curves.csv")
    if request.demand is None and (wrong := [known[name].flag for name in _OF_DEMAND if name in given]):
        raise UsageError(f"{wrong[0]} is for --rate", hint="as --rate 1e6")
    found, said = answered(request, command_line())
    if as_json:
        print_json(Paged(found, page_of(said, report)))
        return int(said.says_no)
    return show_answer(said, report)


def answered(request: SizeRequest, command_line: str) -> tuple[Any, Answer]:
    """Return the sizes, and how they are shown."""
    from steelyard.cli.decide.curves import measured_in
    from steelyard.cli.decide.sources import table_of
    from steelyard.decide.sizing.making import size
    from steelyard.report.decide.size import answer

    measured = measured_in(request.curves)
    table = table_of(request) if request.sources else None
    found = size(measured, table, request)
    sources = [*request.sources, *request.curves]
    return found, answer(found, command=command_line, source=", ".join(sources))
