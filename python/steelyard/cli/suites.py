"""Showing suites: in the terminal, as JSON, as an HTML report with one for each member; and scoring them.

In: the directory of a suite. Out: `SuiteView`, drawn by ``report`` and scored by ``decide``.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard._base import ExitCode, SteelyardError
from steelyard._base.documents import INLINE, NOT_PRINTED, printed
from steelyard.bench.manifest import SUITE
from steelyard.bench.suites.suite import level_of, verdict_of
from steelyard.cli import reports
from steelyard.cli.formats import writing
from steelyard.cli.output import print_json, print_path, show_answer
from steelyard.records import Level, RunStatus, Suite, read

if TYPE_CHECKING:
    from steelyard.decide import Baseline, Refusal, Score
    from steelyard.report.answer import Answer


@dataclass(frozen=True, slots=True)
class SuiteView:
    """One suite with what was derived from it; ``--json`` prints its record and where the pages are."""

    directory: Path
    """Its folder."""
    suite: Suite = field(metadata=INLINE)
    scores: "dict[str, Score | Refusal]" = field(metadata=NOT_PRINTED)
    members: list[reports.RunView] = field(metadata=NOT_PRINTED)
    answer: "Answer" = field(metadata=NOT_PRINTED)
    report: Path | None
    """Its page, None where it could not be written."""
    error: SteelyardError | None = field(default=None, metadata=NOT_PRINTED)
    """Why a page could not be written."""

    @property
    @printed
    def reports(self) -> dict[str, Path]:
        """The pages of its members, by run."""
        return {view.run.run_id: view.report for view in self.members if view.report}

    @property
    @printed
    def verdict(self) -> str | None:
        """The worst verdict among the members, None unless each has one."""
        level = verdict_of(self.suite)
        return None if level is None else str(level)


def view(directory: Path, baseline: "Baseline | None", *, page: Path | None = None) -> SuiteView:
    """Score a suite, and write its page to ``page`` or its own directory.

    The members' pages go into folders of their names beside it, where its links lead.
    """
    from steelyard.report import template
    from steelyard.report.answer.page import write_page
    from steelyard.report.folders.scores import weighed
    from steelyard.report.suite import answer as of_suite

    page = None if page is None else template.page_path(page)
    suite, scores, member_runs = weighed(directory, baseline)
    members = [
        reports.view(
            folder, run, baseline, page=None if page is None else page.parent / folder.name / template.PAGE
        )
        for folder, run in member_runs
    ]
    found: dict[str, list[of_suite.MemberRun]] = {}
    for member in sorted(members, key=lambda member: (member.run.series.index, member.run.run_id)):
        link = of_suite.link_to(member.directory) if member.report is not None else None
        found.setdefault(member.run.benchmark, []).append(of_suite.MemberRun(member.run, link))
    errors = [member.error for member in members if member.error is not None]
    answer = of_suite.answer(suite, found, scores, of_suite.machine_of(directory))
    try:
        path = write_page(page or directory / template.PAGE, answer)
    except SteelyardError as error:
        return SuiteView(directory, suite, scores, members, answer, None, error)
    return SuiteView(directory, suite, scores, members, answer, path, errors[0] if errors else None)


def show(suite_view: SuiteView) -> None:
    """Print a suite as a table."""

    if writing() is not None:
        from steelyard.report.runs import metrics_answer

        show_answer(metrics_answer([member.run for member in suite_view.members]), None)
    show_answer(suite_view.answer, None)
    if suite_view.report is not None:
        print_path("report", suite_view.report)


def exit_code(suite: Suite) -> ExitCode:
    """Return the exit code that a suite's state stands for: 1 unless every member has a usable result."""
    if suite.status is not RunStatus.COMPLETE:
        return ExitCode.NO
    invalid = any(level_of(member) in (None, Level.INVALID) for member in suite.members)
    return ExitCode.NO if invalid else ExitCode.OK


def _baseline(directory: Path, name: str | None) -> "Baseline | None":
    from steelyard.report.folders.scores import baseline_for

    members = read(Suite, directory / SUITE).members
    return baseline_for(name, [member.benchmark for member in members])


def show_report(directory: Path, page: Path | None, *, baseline: str | None, as_json: bool) -> int:
    """Show a suite again and write its pages."""
    suite_view = view(directory, _baseline(directory, baseline), page=page)
    if suite_view.error is not None:
        raise suite_view.error
    if as_json:
        print_json(suite_view)
    else:
        show(suite_view)
    return int(exit_code(suite_view.suite))


def show_score(directory: Path, *, baseline: str | None, as_json: bool) -> int:
    """Show the scores of a suite, or why it has none."""
    from steelyard.decide import Score, SuiteScore
    from steelyard.report.folders.scores import weighed
    from steelyard.report.format import plain

    suite, scores, _ = weighed(directory, _baseline(directory, baseline))
    overall = suite.overall
    if as_json:
        print_json(SuiteScore(suite.suite_id, overall, scores))
    else:
        for name, score in scores.items():
            if isinstance(score, Score):
                reports.print_score(name, score)
            else:
                print(f"{name}: no score: {score.reason}")
        if overall is not None and overall.score is not None:
            from steelyard.report.score_text import overall_text

            print(f"{suite.suite_id}: overall {overall.score:.3g} x {overall.baseline_title}")
            words = overall_text(overall)
            for note in words.notes if words is not None else []:
                print(f"  {plain(note)}")
        elif overall is not None:
            print(f"{suite.suite_id}: overall {overall.withheld}")
    return int(ExitCode.OK if overall is not None and overall.score is not None else ExitCode.NO)
