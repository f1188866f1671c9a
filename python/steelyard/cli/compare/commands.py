"""``steelyard compare``: what differs between two runs, suites or files of perf stat.

In: names of runs. Out: a table or one JSON document, and a page where one is asked for. Not here: what
differs (``analyze``), drawing (``report.compare``).
"""

import os
from pathlib import Path

from steelyard._base import ExitCode, UsageError, command_text, record_files
from steelyard._base.documents import Paged
from steelyard.bench import runs
from steelyard.cli.compare.perf_files import are_perf_files, show_files_compared
from steelyard.cli.output import command_line, page_of, print_json, show_answer

EXPERIMENT = record_files.EXPERIMENT


def show_comparison(a: str, b: str | None, folder: Path, *, report: Path | None, as_json: bool) -> int:
    """Compare two runs, or two suites, and show it; return the exit code.

    An experiment compares its arms itself: its answer is shown.
    """
    if are_perf_files(a, b):
        return show_files_compared(Path(a), Path(b or a), report=report, as_json=as_json)
    experiment = _experiment(a, folder)
    if experiment is not None and b is None:
        from steelyard.cli.experiment.make import show_experiment
        from steelyard.experiment import engine

        return show_experiment(experiment, engine.load(experiment), report, as_json=as_json)
    for name in (a, b or a):
        if _experiment(name, folder) is not None:
            raise UsageError(
                f"{name} is an experiment, which compares its arms itself",
                hint=command_text(["steelyard", "compare", name]),
            )
    if b is None:
        raise UsageError(
            f"{a} is to be compared with nothing", hint="name a second run or suite, or `latest`"
        )
    from steelyard.report.compare.folders import compare_folders

    compared = compare_folders(
        runs.find(a, folder),
        runs.find(b, folder),
        command=command_line(),
        in_full=as_json or report is not None,
    )
    if as_json:
        print_json(Paged(compared.result, page_of(compared.answer, report)))
    else:
        show_answer(compared.answer, report)
    return int(ExitCode.OK)


def _experiment(name: str, out: Path) -> Path | None:
    """Return the folder of the experiment ``name``, a path or an id under ``out``, None where it is none."""
    for candidate in (Path(name), out / name):
        folder = candidate.parent if candidate.name == EXPERIMENT else candidate
        # Whatever has this name: reading it says why it is none.
        if os.path.lexists(folder / EXPERIMENT):
            return folder
    return None
