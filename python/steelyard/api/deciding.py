"""``score``, ``project``, ``choose`` and ``size``: decisions between machines.

In: CSV files, runs, suites, folders of runs, or a fleet's store, and options as on the command line. Out: a
`Result`. Not here: how they are reached (``decide``).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from steelyard._base import UsageError, command_text
from steelyard._base.request import words
from steelyard.api.calls import brief
from steelyard.api.requests import request_of, with_options
from steelyard.api.result import Result
from steelyard.decide.choice.request import ChooseRequest
from steelyard.decide.projection.request import ProjectRequest
from steelyard.decide.ranking.request import ScoreRequest
from steelyard.decide.sizing.request import SizeRequest

if TYPE_CHECKING:
    from steelyard.decide import RunScore, SuiteScore
    from steelyard.decide.choice.results import Choice
    from steelyard.decide.choice.savings import Savings
    from steelyard.decide.projection.result import Projection
    from steelyard.decide.ranking.ranking import Ranking
    from steelyard.decide.sizing.results import Sizing
    from steelyard.report.answer import Answer

Source = str | os.PathLike[str]
T = TypeVar("T")


@with_options(lambda: ScoreRequest)
def score(*sources: Source, **options: Any) -> Result[Ranking | RunScore | SuiteScore]:
    """Score one run or suite against a baseline, or rank machines.

    Raises UsageError for sources and options that do not fit.
    """
    from steelyard.cli.decide.score import answered
    from steelyard.cli.decide.sources import is_one_run

    request: ScoreRequest = _request(ScoreRequest, "score", sources, options)
    if len(sources) == 1 and is_one_run(request.sources[0], request.runs):
        return _score_of_run(request, options)
    return _decided(answered, ScoreRequest, "score", sources, options)


@with_options(lambda: ProjectRequest)
def project(*sources: Source, **options: Any) -> Result[Projection]:
    """Project a workload's performance on machines from benchmarks, with its error.

    Raises UsageError for sources and options that do not fit.
    """
    from steelyard.cli.decide.project import answered

    return _decided(answered, ProjectRequest, "project", sources, options)


@with_options(lambda: ChooseRequest)
def choose(*sources: Source, **options: Any) -> Result[Choice | Savings]:
    """Compare machines by performance per watt and per cost, and size a fleet for a demand.

    >>> import tempfile, pathlib
    >>> table = "machine,web_per_s,power_w\\nA,1000,200\\nB,1500,400\\n"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "servers.csv")
    ...     _ = file.write_text(table)
    ...     chosen = choose(file, baseline="A")
    >>> [machine.name for machine in chosen.result.machines]
    ['A', 'B']

    Raises UsageError for sources and options that do not fit.
    """
    from steelyard.cli.decide.choose import answered

    return _decided(answered, ChooseRequest, "choose", sources, options)


@with_options(lambda: SizeRequest)
def size(*sources: Source, **options: Any) -> Result[Sizing]:
    """Find the CPUs, memory and machine types that serve a rate, and their cost.

    Raises UsageError for sources and options that do not fit.
    """
    from steelyard.cli.decide.size import answered

    return _decided(answered, SizeRequest, "size", sources, options)


def _score_of_run(request: ScoreRequest, options: dict[str, Any]) -> Result[RunScore | SuiteScore]:
    """Return the score of one run or suite. Raises UsageError for options that are for several machines."""
    from steelyard.bench import runs
    from steelyard.bench.manifest import SUITE
    from steelyard.bench.suites.suite import is_suite
    from steelyard.decide import RunScore, SuiteScore
    from steelyard.decide.score import score
    from steelyard.records import Suite, read
    from steelyard.report.folders.answers import answer_of
    from steelyard.report.folders.scores import baseline_for, weighed

    if unused := sorted({"result", "weight", "noise", "columns"}.intersection(options)):
        raise UsageError(f"{unused[0]} is for several machines", hint="read(...) shows one run")
    folder = runs.find(request.sources[0], request.runs)
    answer = answer_of(folder, baseline=request.baseline)
    if is_suite(folder):
        names = [member.benchmark for member in read(Suite, folder / SUITE).members]
        suite, scores, _ = weighed(folder, baseline_for(request.baseline, names))
        return Result(SuiteScore(suite.suite_id, suite.overall, scores), answer)
    run = runs.load(folder)
    found = score([run], baseline_for(request.baseline, [run.benchmark]))
    return Result(RunScore(run.run_id, found), answer)


def _request(kind: type[Any], name: str, sources: tuple[Source, ...], options: dict[str, Any]) -> Any:
    """Return what is asked of the function ``name``. Raises UsageError for what does not fit."""
    for source in sources:
        if not isinstance(source, str | os.PathLike):
            several = isinstance(source, list | tuple | set)
            raise UsageError(
                f"{name}() takes paths, or what read() returned, not {brief(source)}",
                hint=f"{name}(*paths)" if several else "write a table to a CSV file, and give its path",
            )
    return request_of(kind, {"sources": list(sources), **options})


def _decided(
    answered: Callable[[Any, str], tuple[Any, Answer]],
    kind: type[Any],
    name: str,
    sources: tuple[Source, ...],
    options: dict[str, Any],
) -> Result[Any]:
    request = _request(kind, name, sources, options)
    typed = words(request, never=("sources",))
    shown_by = command_text(["steelyard", name, *request.sources, *typed])
    return Result(*answered(request, shown_by))
