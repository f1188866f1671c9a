"""Showing runs: in the terminal, as JSON, as an HTML report; and scoring them.

In: run directories. Out: `RunView`, drawn by ``report`` and scored by ``decide``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard._base import ExitCode, SteelyardError, UsageError
from steelyard._base.documents import INLINE, NOT_PRINTED, as_document
from steelyard.bench import declaration, runs
from steelyard.bench.colocation import manifest as colocations
from steelyard.bench.suites import suite as suite_files
from steelyard.cli.formats import writing
from steelyard.cli.output import page_of, print_json, print_path, show_answer
from steelyard.records import Level, Run, RunStatus

if TYPE_CHECKING:
    from steelyard.decide import Baseline, Refusal, Score
    from steelyard.report.answer import Answer


@dataclass(frozen=True, slots=True)
class RunView:
    """One run with what was derived from it; ``--json`` prints its record, its score and its page."""

    directory: Path
    """Its folder."""
    run: Run = field(metadata=INLINE)
    score: "Score | Refusal | None"
    """Its score, or why it has none; None where it was not scored."""
    answer: "Answer | None" = field(metadata=NOT_PRINTED)
    report: Path | None
    """Its page, None where there is none."""
    error: SteelyardError | None = field(default=None, metadata=NOT_PRINTED)
    """Why there is no page."""


def headline(run: Run) -> tuple[str, ...]:
    """Return the metrics to show first."""
    return declaration.of_run(run.benchmark).headline


def view(directory: Path, run: Run, baseline: "Baseline | None", *, page: Path | None = None) -> RunView:
    """Score a run and write its page, to ``page`` or into its own directory."""
    from steelyard.decide.score import score
    from steelyard.report import html
    from steelyard.report import runs as of_runs
    from steelyard.report.bench.sides import side_lines
    from steelyard.report.model import gather

    run_score = score([run], baseline) if run.status is RunStatus.COMPLETE else None
    try:
        data = gather(directory, score=run_score, headline=headline(run))
        try:
            path = html.write_data(data, page)
            answer = of_runs.answer(
                run,
                score=run_score,
                findings=data.findings,
                headline=headline(run),
                recorded=side_lines(data),
            )
        finally:
            data.close()
    except SteelyardError as error:
        answer = of_runs.answer(run, score=run_score, headline=headline(run))
        return RunView(directory, run, run_score, answer, None, error)
    return RunView(directory, run, run_score, answer, path)


def bare_view(directory: Path, run: Run) -> RunView:
    """Return a run that came to no result: nothing to score, and a report only when it is asked for."""
    from steelyard.report import runs as of_runs

    return RunView(directory, run, None, of_runs.answer(run), None)


def show_runs(views: Sequence[RunView]) -> None:
    """Print runs as tables, and repeats of one benchmark as one more."""
    from steelyard.report import runs as of_runs

    if writing() is not None:
        show_answer(of_runs.metrics_answer([run_view.run for run_view in views]), None)
        return
    for run_view in views:
        if run_view.answer is not None:
            show_answer(run_view.answer, None)
        if run_view.report is not None:
            print_path("report", run_view.report)
        print()
    for name in dict.fromkeys(run_view.run.benchmark for run_view in views):
        mine = [run_view.run for run_view in views if run_view.run.benchmark == name]
        if len(mine) > 1:
            show_answer(of_runs.repeats_answer(mine, headline=headline(mine[0])), None)


def exit_code(run: Run) -> ExitCode:
    """Return the exit code that a run's state stands for: 1 unless it is a result that may be believed."""
    if run.status is not RunStatus.COMPLETE:
        return ExitCode.NO
    return ExitCode.NO if run.verdict and run.verdict.level is Level.INVALID else ExitCode.OK


def show_report(
    name: str,
    page: Path | None,
    folder: Path,
    *,
    baseline: str | None,
    shared_script: bool = False,
    as_json: bool,
) -> int:
    """Show again what a folder holds, and write its page, to ``page`` or into the folder."""
    from steelyard.report.folders.naming import find

    if (pair := colocations.find(name, folder)) is not None:
        from steelyard.cli.colocate import show_again

        return show_again(pair, report=page or pair, as_json=as_json)
    directory = find(name, folder)
    if not shared_script:
        return _show_report(directory, page, baseline=baseline, as_json=as_json)
    from steelyard.report.chart_library import shared
    from steelyard.report.template import page_path

    with shared(directory if page is None else page_path(page).parent):
        return _show_report(directory, page, baseline=baseline, as_json=as_json)


def _show_report(directory: Path, page: Path | None, *, baseline: str | None, as_json: bool) -> int:
    from steelyard.report.folders.kinds import Kind, kind_of

    if kind_of(directory) not in (Kind.RUN, Kind.SUITE):
        return _show_other(directory, page, baseline=baseline, as_json=as_json)
    if suite_files.is_suite(directory):
        from steelyard.cli import suites

        return suites.show_report(directory, page, baseline=baseline, as_json=as_json)
    run = runs.load(directory)
    if own := declaration.of_run(run.benchmark).show:
        shown: int = declaration.load(own, run.benchmark)(directory, run, page, as_json=as_json)
        return shown
    from steelyard.report.folders.scores import baseline_for

    run_view = view(directory, run, baseline_for(baseline, [run.benchmark]), page=page)
    if run_view.error is not None:
        raise run_view.error
    if as_json:
        print_json(run_view)
    else:
        show_runs([run_view])
    return int(exit_code(run_view.run))


def _show_other(directory: Path, page: Path | None, *, baseline: str | None, as_json: bool) -> int:
    """Show an experiment, a tuning or a health check. Raises UsageError for a baseline, which these lack."""
    from steelyard.report.folders.answers import answer_of, record_of
    from steelyard.report.folders.kinds import kind_of

    if baseline is not None:
        raise UsageError(
            f"{directory} is of the kind {kind_of(directory)}", hint="--baseline is for runs and suites"
        )
    answer = answer_of(directory)
    path = page_of(answer, page or directory)
    if as_json:
        print_json({**as_document(record_of(directory)), "directory": directory, "report": path})
        return int(answer.says_no)
    show_answer(answer, None)
    if path is not None:
        print_path("report", path)
    return int(answer.says_no)


def print_score(name: str, run_score: "Score") -> None:
    """Print a score with everything that bears on it."""
    from steelyard.report.format import plain
    from steelyard.report.score_text import score_text

    print(f"{name}: {run_score.ratio:.3g} x {run_score.baseline} ({run_score.metric})")
    for note in (*score_text(run_score).notes, *run_score.reservations):
        print(f"  {plain(note)}")


def show_score(name: str, folder: Path, *, baseline: str | None, as_json: bool) -> int:
    """Show the score of one run or suite, or why it has none."""
    from steelyard.decide import Refusal, RunScore
    from steelyard.decide.score import score
    from steelyard.report.folders.scores import baseline_for

    directory = runs.find(name, folder)
    if suite_files.is_suite(directory):
        from steelyard.cli import suites

        return suites.show_score(directory, baseline=baseline, as_json=as_json)
    run = runs.load(directory)
    run_score = score([run], baseline_for(baseline, [run.benchmark]))
    if as_json:
        print_json(RunScore(run.run_id, run_score))
    elif isinstance(run_score, Refusal):
        print(f"{run.run_id}: no score: {run_score.reason}")
    else:
        print_score(run.run_id, run_score)
    return int(ExitCode.NO if isinstance(run_score, Refusal) else ExitCode.OK)
