"""``steelyard run --preflight``: what a request will take, and what will not fit; nothing is run.

In: a request. Out: a table, or JSON; `announce` prints the table to standard error before a suite starts.
"""

import io
from collections.abc import Sequence

from steelyard import machine as machines
from steelyard._base import ExitCode
from steelyard.bench.launch import Plan, plan
from steelyard.bench.progress import Progress
from steelyard.bench.request import RunRequest
from steelyard.bench.suites import preflight
from steelyard.cli.output import print_json, show_answer

_COLUMNS = 110


def show_preflight(request: RunRequest, *, as_json: bool) -> int:
    """Print what ``request`` will take; return 1 where a member will not be run."""
    from steelyard.report.bench.preflight import answer

    machine = machines.snapshot()
    plans = plan(request, machine)
    found = preflight.look(request.name, request.repeat, plans, machine, request.out)
    if as_json:
        print_json(found)
    else:
        show_answer(answer(found), None)
    return int(ExitCode.OK if len(found.ready) == len(found.members) else ExitCode.NO)


def announce(request: RunRequest, plans: Sequence[Plan], progress: Progress) -> None:
    """Tell what a suite will take before it starts; a benchmark alone starts at once."""
    if plans[0].suite is None:
        return
    from rich.console import Console

    from steelyard.report.answer.terminal import terminal
    from steelyard.report.bench.preflight import answer

    found = preflight.look(request.name, request.repeat, plans, plans[0].machine, request.out)
    text = io.StringIO()
    Console(file=text, width=_COLUMNS, highlight=False).print(terminal(answer(found)))
    progress.note("\n".join(line.rstrip() for line in text.getvalue().splitlines()))
