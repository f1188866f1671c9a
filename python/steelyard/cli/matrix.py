"""``steelyard characterize --suite``: runs a suite, or reads one, and shows its pressure point matrix."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard._base import ExitCode, SteelyardError, UsageError
from steelyard._base.documents import Paged
from steelyard.analyze.pressure.limits import Limits, with_set
from steelyard.analyze.workload import read_health
from steelyard.bench import tiers
from steelyard.bench.launch import execute
from steelyard.bench.limits.stated import asked_limits
from steelyard.bench.request import CharacterizeRequest, RunRequest
from steelyard.bench.suites import suite as suite_files
from steelyard.cli.output import complain, page_of, print_json, show_answer
from steelyard.cli.progress import shown
from steelyard.cli.run.make import errors_of
from steelyard.cli.run.preflight import announce
from steelyard.records import Machine, Run, RunStatus, read

if TYPE_CHECKING:
    from steelyard.analyze.pressure.matrix import Row
    from steelyard.analyze.pressure.panels import Panels


def show_matrix(request: CharacterizeRequest, *, report: Path | None, as_json: bool) -> int:
    """Run the suite of ``request``, or read the one in the folder of this name, and show its matrix.

    Returns the exit code.
    """
    assert request.suite is not None
    stated, hooks = asked_limits(request.limits, request.set_limits)
    folder = Path(request.suite)
    code = ExitCode.OK
    if not suite_files.is_suite(folder):
        folder, code = _run(request, request.suite, hooks)
    elif request.tier is not None or hooks or request.chosen:
        flag = "--tier" if request.tier is not None else "--set-limit" if hooks else "--set"
        raise UsageError(f"{flag} is for a suite that is run: this one has been")
    from steelyard.analyze.pressure.matrix import PressureMatrix, row_of
    from steelyard.report.pressure.answer import answer
    from steelyard.report.template import page_path

    suite, runs = suite_files.load(folder)
    rows, found = [], []
    places = {member.benchmark: at for at, member in enumerate(suite.members)}
    for directory, run in sorted(runs, key=lambda pair: places.get(pair[1].benchmark, len(places))):
        if run.status is RunStatus.COMPLETE:
            machine = _machine(directory)
            rows.append(row_of(directory, run, machine, health=read_health(directory), limits=stated))
            found.append((directory, run, machine))
    panels = _panels(rows, found, stated) if report is not None else []
    said = answer(suite.suite_id, rows, panels, command=["steelyard", *sys.argv[1:]])
    page = page_path(report) if report is not None and rows else None
    if as_json:
        page_of(said, page)
        print_json(Paged(PressureMatrix(suite.suite_id, rows), page))
    elif rows:
        show_answer(said, page)
    if not rows:
        return int(max(code, ExitCode.FAILED))
    return int(max(code, ExitCode(int(said.says_no))))


def _panels(
    rows: "Sequence[Row]", found: "Sequence[tuple[Path, Run, Machine | None]]", stated: Limits
) -> "list[Panels]":
    from steelyard.analyze.pressure.panels import panels_of

    return [
        panels_of(directory, run, machine, health=read_health(directory), limits=with_set(stated, run))
        for _, (directory, run, machine) in zip(rows, found, strict=True)
    ]


def _run(asked: CharacterizeRequest, name: str, hooks: list[str]) -> tuple[Path, ExitCode]:
    if name not in tiers.suites():
        raise UsageError(
            f"unknown suite {name!r}", hint=f"suites: {', '.join(tiers.suites())}, or the folder of one"
        )
    request = RunRequest(name=name, tier=asked.tier, chosen=asked.chosen, hooks=hooks, out=asked.out)
    with shown() as progress:
        launched = execute(
            request, progress=progress, planned=lambda plans: announce(request, plans, progress)
        )
    errors = errors_of(launched)
    for error in errors:
        complain(error)
    if launched.suite is None:
        raise AssertionError("a suite has a folder")
    return launched.suite, max((error.exit_code for error in errors), default=ExitCode.OK)


def _machine(directory: Path) -> Machine | None:
    try:
        return read(Machine, directory / "machine.json")
    except SteelyardError:
        return None
