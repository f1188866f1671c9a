"""Two runs or two suites in their folders, compared.

In: folders. Out: what differs, and its `Answer`. Not here: what counts as a difference (``analyze``), which
names stand for folders (``cli.compare``, ``web``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from steelyard._base import UsageError
from steelyard._base.documents import Sides
from steelyard.analyze.comparison import RunComparison, Side, compare_runs
from steelyard.analyze.operations.power import package_power
from steelyard.analyze.suite_comparison import SuiteComparison, compare_suites
from steelyard.bench.suites import suite as suite_files
from steelyard.records import Run
from steelyard.report.answer import Answer
from steelyard.report.compare.answer import runs_answer, suites_answer
from steelyard.report.model import gather


@dataclass(frozen=True)
class Compared:
    """Two sides, what differs between them, and how that is shown."""

    result: Sides[RunComparison] | Sides[SuiteComparison]
    answer: Answer


def compare_folders(a: Path, b: Path, *, command: str, in_full: bool = True) -> Compared:
    """Return what differs between two runs, or two suites; ``command`` is what shows it again.

    ``in_full``: suites with the comparison of each member's runs. Raises UsageError for a run and a suite.
    """
    are_suites = [suite_files.is_suite(directory) for directory in (a, b)]
    if are_suites[0] != are_suites[1]:
        suite, run = (a, b) if are_suites[0] else (b, a)
        raise UsageError(
            f"{suite.name} is a suite and {run.name} a run: they measure different things",
            hint="compare two suites, or two runs; a suite's runs lie in its folder",
        )
    return _suites(a, b, command, in_full=in_full) if are_suites[0] else _runs(a, b, command)


def sides(directories: Sequence[Path]) -> list[Side]:
    """Return runs with what is compared of them."""
    return [_side(directory) for directory in directories]


def _runs(a: Path, b: Path, command: str) -> Compared:
    pair, comparison = _pair(a, b)
    result = Sides(pair[0].run_id, pair[1].run_id, comparison)
    return Compared(result, runs_answer(pair, comparison, command=command))


def _suites(a: Path, b: Path, command: str, *, in_full: bool) -> Compared:
    (first, first_runs), (second, second_runs) = (suite_files.load(directory) for directory in (a, b))
    earlier = suite_files.beside((a, b))
    comparison = compare_suites(
        first, [run for _, run in first_runs], second, [run for _, run in second_runs], earlier
    )
    details: dict[str, tuple[tuple[Run, Run], RunComparison]] = {}
    for member in comparison.members if in_full else ():
        if member.a.run_id is not None and member.b.run_id is not None:
            details[member.benchmark] = _pair(a / member.a.run_id, b / member.b.run_id)
    names = (first.suite_id, second.suite_id)
    said = suites_answer(names, comparison, details, command=command)
    runs_of = {name: compared for name, (_, compared) in details.items()}
    members = [replace(one, comparison=runs_of.get(one.benchmark)) for one in comparison.members]
    return Compared(Sides(*names, replace(comparison, members=tuple(members))), said)


def _pair(a: Path, b: Path) -> tuple[tuple[Run, Run], RunComparison]:
    first, second = sides((a, b))
    return (first.run, second.run), compare_runs(first, second)


def _side(directory: Path) -> Side:
    data = gather(directory)
    data.close()
    points = [point.part for point in data.pressure]
    return Side(
        data.run,
        data.machine,
        data.findings,
        points,
        data.profile.profile,
        data.conditions.counters,
        package_power(data.conditions.power),
        data.headline[0] if data.headline else None,
    )
