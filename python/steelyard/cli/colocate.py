"""``steelyard colocate``: puts two workloads on one machine, and says what that costs each.

In: two workloads. Out: a table, a document or a page; the exit code.
"""

from collections.abc import Collection
from pathlib import Path

from steelyard._base import ExitCode
from steelyard.bench.colocation.asked import pair_asked
from steelyard.bench.colocation.blocks import Colocated, colocate
from steelyard.bench.colocation.manifest import load
from steelyard.bench.request import PairRequest
from steelyard.cli.output import complain, page_of, print_json, show_answer
from steelyard.cli.progress import shown
from steelyard.records import Colocation, Level, RunStatus


def colocate_and_show(
    request: PairRequest, given: Collection[str], *, report: Path | None, as_json: bool
) -> int:
    """Make the runs and show what they say; return the exit code."""
    pair = pair_asked(request)
    with shown() as progress:
        made = colocate(pair, progress=progress)
    return show(made, report=report, as_json=as_json)


def show_again(directory: Path, *, report: Path | None, as_json: bool) -> int:
    """Show a co-location that was made before; return the exit code."""
    return show(Colocated(directory, load(directory)), report=report, as_json=as_json)


def show(made: Colocated, *, report: Path | None, as_json: bool) -> int:
    """Show a co-location; return the exit code."""
    from steelyard.report.colocation.answer import answer
    from steelyard.report.template import page_path

    if made.error is not None:
        complain(made.error)
    said = answer(made.record, made.directory)
    page = page_path(report) if report is not None and made.record.status is RunStatus.COMPLETE else None
    if as_json:
        page_of(said, page)
        print_json(
            {
                **made.record.model_dump(mode="json"),
                "directory": str(made.directory),
                "report": None if page is None else str(page),
            }
        )
    else:
        show_answer(said, page)
    return int(max(_code(made.record), made.error.exit_code if made.error is not None else ExitCode.OK))


def _code(record: Colocation) -> ExitCode:
    is_usable = record.status is RunStatus.COMPLETE and record.level is not Level.INVALID
    return ExitCode.OK if is_usable else ExitCode.NO
