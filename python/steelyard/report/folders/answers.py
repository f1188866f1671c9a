"""The answer of a folder that Steelyard wrote, as the command gave it that wrote it.

In: a folder, wherever it was copied to. Out: an `Answer`. Commands, the web pages, the tools for agents and
the Python API show folders by it. Where a page has links, they lead to ``report.html`` of neighbouring
folders.

Not here: what the answers say (the subject's own module), a run's record (``bench.runs``).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steelyard._base import RecordError, UsageError
from steelyard.records import RunStatus, Suite, read
from steelyard.report.folders.kinds import Kind, kind_of

if TYPE_CHECKING:
    from steelyard.report.answer import Answer


def answer_of(folder: Path, *, baseline: str | None = None) -> Answer:
    """Return the answer of what ``folder`` holds; runs and suites are scored against ``baseline``.

    Raises UsageError for a folder without a record, RecordError for a record that cannot be read.
    """
    kind = _known_kind(folder)
    if kind is Kind.RUN:
        return _run(folder, baseline)
    if kind is Kind.SUITE:
        return _suite(folder, baseline)
    return _ANSWERS[kind](folder)


def record_of(folder: Path) -> Any:
    """Return the record of what ``folder`` holds; of a run that was killed one that says so.

    Raises UsageError for a folder without a record, RecordError for a record that cannot be read.
    """
    from steelyard.bench import runs
    from steelyard.bench.colocation import manifest
    from steelyard.bench.health.check import load as load_check
    from steelyard.bench.suites import suite
    from steelyard.experiment import engine
    from steelyard.tune import session

    readers: dict[Kind, Callable[[Path], Any]] = {
        Kind.RUN: runs.load,
        Kind.SUITE: lambda path: suite.load(path)[0],
        Kind.EXPERIMENT: engine.load,
        Kind.TUNING: session.load,
        Kind.COLOCATION: manifest.load,
        Kind.HEALTH: lambda path: load_check(path).result,
    }
    return readers[_known_kind(folder)](folder)


def _known_kind(folder: Path) -> Kind:
    kind = kind_of(folder)
    if kind is None:
        names = ", ".join(one.record for one in Kind)
        raise UsageError(f"{folder} has no record of Steelyard", hint=f"a folder of one has {names}")
    return kind


def _run(folder: Path, baseline: str | None) -> Answer:
    from steelyard.decide.score import score
    from steelyard.report import page
    from steelyard.report.folders.scores import baseline_for
    from steelyard.report.model import gather, headline_of, read_run

    run = read_run(folder)
    scored = None
    if run.status is RunStatus.COMPLETE:
        try:
            scored = score([run], baseline_for(baseline, [run.benchmark]))
        except RecordError:
            scored = None
    data = gather(folder, score=scored, headline=headline_of(run))
    try:
        return page.answer(data)
    finally:
        data.close()


def _suite(folder: Path, baseline: str | None) -> Answer:
    from steelyard.report.folders.scores import baseline_for, weighed
    from steelyard.report.suite import answer as of_suite

    names = [member.benchmark for member in read(Suite, folder / Kind.SUITE.record).members]
    suite, scores, member_runs = weighed(folder, baseline_for(baseline, names))
    found: dict[str, list[of_suite.MemberRun]] = {}
    for directory, run in sorted(member_runs, key=lambda pair: (pair[1].series.index, pair[1].run_id)):
        member = of_suite.MemberRun(run, of_suite.link_to(directory))
        found.setdefault(run.benchmark, []).append(member)
    return of_suite.answer(suite, found, scores, of_suite.machine_of(folder))


def _experiment(folder: Path) -> Answer:
    from steelyard.experiment import engine
    from steelyard.experiment.answers import answers, factor_answers
    from steelyard.experiment.design import is_curve
    from steelyard.experiment.numa.design import is_numa
    from steelyard.experiment.response import response
    from steelyard.report.experiment.answer import answer

    experiment = engine.load(folder)
    is_over = experiment.status is RunStatus.COMPLETE
    if is_curve(experiment):
        from steelyard.experiment.scaling import scaling_of
        from steelyard.report.scale.answer import answer as of_curve

        return of_curve(scaling_of(experiment, folder), source=str(folder), experiment=experiment)
    if is_numa(experiment):
        from steelyard.experiment.numa.verdict import verdicts
        from steelyard.report.experiment.scenarios_answer import answer as of_scenarios

        return of_scenarios(experiment, verdicts(experiment, is_over=is_over))
    if experiment.pilot is not None:
        from steelyard.experiment.power import forecast_of_pilot, target_of
        from steelyard.report.experiment.plan import pilot_answer

        return pilot_answer(experiment, target_of(experiment), forecast_of_pilot(experiment))
    found = answers(experiment, is_over=is_over)
    return answer(experiment, found, response(experiment), factor_answers(experiment, is_over=is_over))


def _tuning(folder: Path) -> Answer:
    from steelyard.report.tune.answer import answer
    from steelyard.tune import session

    return answer(session.load(folder))


def _colocation(folder: Path) -> Answer:
    from steelyard.bench.colocation.manifest import load
    from steelyard.report.colocation.answer import answer

    return answer(load(folder), folder)


def _health(folder: Path) -> Answer:
    from steelyard.bench.health.judging import judged_again
    from steelyard.report.health.answer import answer

    check, comparison = judged_again(folder)
    return answer(check.result, comparison)


_ANSWERS: dict[Kind, Callable[[Path], Answer]] = {
    Kind.EXPERIMENT: _experiment,
    Kind.TUNING: _tuning,
    Kind.COLOCATION: _colocation,
    Kind.HEALTH: _health,
}
