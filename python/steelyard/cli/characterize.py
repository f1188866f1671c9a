"""``steelyard characterize``: makes the run, then says what held the workload back."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from steelyard._base import ExitCode, RecordError, SteelyardError, UsageError
from steelyard._base.documents import as_document
from steelyard.bench.characterize.benchmark import characterize
from steelyard.bench.characterize.perf_files import problems
from steelyard.bench.identity import age_s
from steelyard.bench.request import CharacterizeRequest
from steelyard.cli.formats import writing
from steelyard.cli.output import complain, print_json, print_path, show_answer
from steelyard.cli.progress import shown
from steelyard.cli.reports import RunView, exit_code
from steelyard.records import Level, Run
from steelyard.report.answer import Answer


def characterize_or_show(
    request: CharacterizeRequest, given: Collection[str], *, report: Path | None, as_json: bool
) -> int:
    """Make the run of ``request`` or those of its suite, or show what others measured."""
    request.check()
    if request.suite is not None:
        from steelyard.cli.matrix import show_matrix

        return show_matrix(request, report=report, as_json=as_json)
    if report is not None:
        raise UsageError("--tier, --limit, --set-limit, --set and --report need --suite")
    if request.reads_files_only:
        from steelyard.cli.compare.perf_files import show_files

        return show_files(request.perf_stat, as_json=as_json)
    return characterize_and_show(request, as_json=as_json)


def characterize_and_show(request: CharacterizeRequest, *, as_json: bool) -> int:
    """Make the run of ``request`` and show it; return the exit code.

    A program that ended badly gives 4 with a complete report: the work failed, and was measured.
    """
    with shown() as progress:
        attempt = characterize(request, progress=progress)
        if attempt.error is not None:
            complain(attempt.error)
            if as_json:
                print_json(RunView(attempt.directory, attempt.run, None, None, None))
            return int(attempt.error.exit_code)
        progress.phase("report")
        document, said, error = show(attempt.directory, attempt.run)
    if error is not None:
        complain(error)
    if as_json:
        print_json(document)
    else:
        _print(replace(said, lines=[*said.lines, _beside(attempt.run, age_s())]), document)
    unread = problems(attempt.directory, attempt.run)
    for line in unread:
        complain(RecordError(line, hint="the counts are not in the report"))
    if error is not None:
        return int(error.exit_code)
    return int(ExitCode.FAILED if unread or _program_failed(attempt.run) else exit_code(attempt.run))


def _beside(run: Run, whole_s: float) -> str:
    """Return how long all took beside what was measured, in this process and those that it waited for."""
    elapsed = run.metrics.get("elapsed_s")
    measured_s = elapsed.value if elapsed is not None and elapsed.value is not None else 0.0
    return f"took {whole_s - measured_s:.1f} s beside the {measured_s:.1f} s that were measured"


def show_again(directory: Path, run: Run, page: Path | None, *, as_json: bool) -> int:
    """Show a characterization again and write its report; return the exit code."""
    document, said, error = show(directory, run, page)
    if error is not None:
        raise error
    if as_json:
        print_json(document)
    else:
        _print(said, document)
    return int(exit_code(run))


def _print(said: Answer, document: dict[str, Any]) -> None:
    show_answer(said, None)
    if document["report"] is not None and writing() is None:
        print_path("report", Path(document["report"]))


def _program_failed(run: Run) -> bool:
    checks = run.verdict.checks if run.verdict else []
    return any(check.id == "program" and check.level is not Level.VALID for check in checks)


def show(
    directory: Path, run: Run, page: Path | None = None
) -> tuple[dict[str, Any], Answer, SteelyardError | None]:
    """Write the report of a run; return its document, its answer, and why there is no report."""
    from steelyard.report import html, runs
    from steelyard.report.characterize import table as characterize_table
    from steelyard.report.model import gather

    data = gather(directory)
    path, failed = None, None
    try:
        try:
            path = html.write_data(data, page)
        except SteelyardError as error:
            failed = error
        base = as_document(RunView(directory, run, None, None, path, failed))
        document = {**base, **characterize_table.document(data)}
        said = runs.metrics_answer([run]) if writing() is not None else characterize_table.answer(data)
        return document, said, failed
    finally:
        data.close()
