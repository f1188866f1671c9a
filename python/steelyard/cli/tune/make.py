"""``steelyard tune run``: makes a tuning, goes on with one, shows one, or says what would be tried.

In: a request. Out: a table or one JSON document, the record in its folder, and files of a soft SKU where one
was found. Not here: trials and decisions (``steelyard.tune``), drawing (``report.tune``).
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection
from pathlib import Path

from steelyard import machine as machines
from steelyard._base import (
    ExitCode,
    RecordError,
    ResultSaysNoError,
    UsageError,
    WorkloadFailedError,
    command_text,
)
from steelyard._base.request import resumed
from steelyard.bench import undo
from steelyard.bench.clock import SystemClock
from steelyard.bench.launch import make_run_folder
from steelyard.bench.signals import Interrupts
from steelyard.cli.experiment.make import so_far
from steelyard.cli.output import complain, page_of, print_json, print_path, show_answer
from steelyard.cli.progress import shown
from steelyard.experiment.engine import MACHINE
from steelyard.records import Machine, RunStatus, read, write
from steelyard.records.tuning import Tuning
from steelyard.tune import session
from steelyard.tune.begin import begin, knobs_again
from steelyard.tune.deploy import write_all
from steelyard.tune.knobs import Knob
from steelyard.tune.request import TuneRequest

RESUME = ("steelyard", "tune", "run", "--resume")
"""The command that goes on with a tuning, without its folder."""


def word_of(tuning: Tuning) -> str:
    """Return what is tuned in a word: a benchmark, a command, a service."""
    return tuning.benchmark or ("command" if tuning.live is None else "service")


def tune_and_show(
    request: TuneRequest, given: Collection[str], *, report: Path | None = None, as_json: bool
) -> int:
    """Make or resume a tuning, or only say what it would try; ``given`` are the fields that were typed.

    Returns the exit code.
    """
    if request.advice:
        if report is not None:
            raise UsageError("--report is for what was found: --advice tries nothing")
        return show_tuning(None, begin(request)[0], as_json=as_json)
    with session.alone(_root_of(request)):
        return _tune(request, given, report, as_json=as_json)


def _root_of(request: TuneRequest) -> Path:
    """Return the root of the machine that is changed; a tuning that goes on knows its own."""
    if request.resume is None:
        return request.root
    try:
        return Path(session.load(request.resume).root)
    except RecordError:
        # It is refused, with the reason, by whoever reads it next.
        return request.root


def _tune(request: TuneRequest, given: Collection[str], report: Path | None, *, as_json: bool) -> int:
    # What a killed one left behind would be taken for the machine as found.
    for line in undo.replay():
        print(f"steelyard: {line}", file=sys.stderr)
    if request.resume is not None:
        folder = request.resume
        tuning = session.load_to_resume(folder, machines.snapshot(_root_of(request)))
        resumed(tuning.request, request, given, words=[*RESUME, str(folder)])
        knobs = knobs_again(tuning, folder)
        session.check_as_found(tuning, knobs)
    else:
        tuning, knobs = begin(request)
        if not any(entry.reason is None for entry in tuning.knobs):
            raise ResultSaysNoError(
                "there is no knob to try",
                hint="steelyard tune list shows which there are, and why others are not",
            )
        folder = make_run_folder(request.out, f"tune-{word_of(tuning)}", SystemClock())
        tuning = tuning.model_copy(update={"tuning_id": folder.name})
        write(machines.snapshot(tuning.root), folder / MACHINE)
        _say_chances(tuning)
        if request.user_file is not None:
            shutil.copyfile(request.user_file, folder / session.USER_FILE)
    return _run(folder, tuning, knobs, report, as_json=as_json)


def _say_chances(tuning: Tuning) -> None:
    """Say before the first trial what its blocks can find."""
    from rich.console import Console

    from steelyard.report.answer.terminal import terminal
    from steelyard.report.tune.knobs import chances_answer

    Console(stderr=True, highlight=False).print(terminal(chances_answer(tuning.plan)))


def _run(folder: Path, tuning: Tuning, knobs: dict[str, Knob], report: Path | None, *, as_json: bool) -> int:
    interrupts = Interrupts()
    tried = {entry.name: knobs[entry.name] for entry in tuning.knobs if entry.reason is None}
    failed: WorkloadFailedError | None = None
    with interrupts.caught(), shown() as progress:
        under_way = session.Session(
            folder,
            tuning,
            tried,
            clock=SystemClock(),
            progress=progress,
            interrupts=interrupts,
            on_progress=lambda experiment: progress.status(so_far(experiment)),
        )
        try:
            under_way.run()
        except WorkloadFailedError as error:
            failed = error
        made = under_way.tuning
        # What is complete is not resumed: an interrupt comes too late to keep its files from being written.
        if made.status is RunStatus.COMPLETE and made.chosen:
            write_all(folder, made, tried, read(Machine, folder / MACHINE))
    code = show_tuning(folder, made, report, as_json=as_json)
    if made.status is RunStatus.COMPLETE:
        return code
    complain(
        failed
        or WorkloadFailedError(
            f"tuning {made.status_reason}",
            hint=f"{command_text([*RESUME, folder])} goes on",
        )
    )
    return int(ExitCode.FAILED)


def show_tuning(folder: Path | None, tuning: Tuning, report: Path | None = None, *, as_json: bool) -> int:
    """Show a tuning, or the plan of one that has no folder; write its page to ``report``."""
    from steelyard.report.tune.answer import answer

    said = answer(tuning)
    if as_json:
        page_of(said, report)
        print_json(tuning.model_dump(mode="json"))
    elif folder is None:
        from steelyard.report.tune.knobs import plan_answer

        page_of(said, report)
        show_answer(plan_answer(tuning), None)
    else:
        show_answer(said, report)
        print_path("record", folder / session.MANIFEST)
        for path in sorted(folder.glob("softsku*")):
            print_path("soft SKU", path)
    return int(said.says_no)
