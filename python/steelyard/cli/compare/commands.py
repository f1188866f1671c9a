"""``steelyard compare``: what differs between two runs, suites or files of perf stat.

In: names of runs. Out: a table or one JSON document, and a page where one is asked for. Not here: what
differs (``analyze``), drawing (``report.compare``).
"""

import os
from dataclasses import replace
from pathlib import Path

from steelyard._base import ExitCode, UsageError, command_text
from steelyard._base.documents import Paged, Sides
from steelyard.analyze.comparison import RunComparison, Side, compare_runs
from steelyard.bench import runs
from steelyard.bench.suites import suite as suite_files
from steelyard.cli.compare.perf_files import are_perf_files, show_files_compared
from steelyard.cli.output import command_line, page_of, print_json, show_answer
from steelyard.records import Run

EXPERIMENT = "experiment.json"
_Compared = tuple[tuple[Run, Run], RunComparison]


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
    directories = (runs.find(a, folder), runs.find(b, folder))
    are_suites = [suite_files.is_suite(directory) for directory in directories]
    if are_suites[0] != are_suites[1]:
        suite, run = directories if are_suites[0] else directories[::-1]
        raise UsageError(
            f"{suite.name} is a suite and {run.name} a run: they measure different things",
            hint="compare two suites, or two runs; a suite's runs lie in its folder",
        )
    show = _show_suites if are_suites[0] else _show_runs
    show(directories, report, as_json=as_json)
    return int(ExitCode.OK)


def _experiment(name: str, out: Path) -> Path | None:
    """Return the folder of the experiment ``name``, a path or an id under ``out``, None where it is none."""
    for candidate in (Path(name), out / name):
        folder = candidate.parent if candidate.name == EXPERIMENT else candidate
        # Whatever has this name: reading it says why it is none.
        if os.path.lexists(folder / EXPERIMENT):
            return folder
    return None


def _show_runs(directories: tuple[Path, Path], report: Path | None, *, as_json: bool) -> None:
    pair, comparison = _compared(*directories)
    from steelyard.report.compare.answer import runs_answer

    said = runs_answer(pair, comparison, command=command_line())
    if as_json:
        page = page_of(said, report)
        print_json(Paged(Sides(pair[0].run_id, pair[1].run_id, comparison), page))
        return
    show_answer(said, report)


def _show_suites(directories: tuple[Path, Path], report: Path | None, *, as_json: bool) -> None:
    from steelyard.analyze.suite_comparison import compare_suites
    from steelyard.report.compare.answer import suites_answer

    (a, a_runs), (b, b_runs) = (suite_files.load(directory) for directory in directories)
    earlier = suite_files.beside(directories)
    comparison = compare_suites(a, [run for _, run in a_runs], b, [run for _, run in b_runs], earlier)
    details: dict[str, _Compared] = {}
    if report is not None or as_json:
        for member in comparison.members:
            if member.a.run_id is not None and member.b.run_id is not None:
                details[member.benchmark] = _compared(
                    directories[0] / member.a.run_id, directories[1] / member.b.run_id
                )
    names = (a.suite_id, b.suite_id)
    said = suites_answer(names, comparison, details, command=command_line())
    if as_json:
        page = page_of(said, report)
        runs_of = {name: compared for name, (_, compared) in details.items()}
        members = [replace(one, comparison=runs_of.get(one.benchmark)) for one in comparison.members]
        print_json(Paged(Sides(*names, replace(comparison, members=tuple(members))), page))
        return
    show_answer(said, report)


def _compared(a: Path, b: Path) -> _Compared:
    sides = (_side(a), _side(b))
    return (sides[0].run, sides[1].run), compare_runs(*sides)


def _side(directory: Path) -> Side:
    from steelyard.analyze.operations.power import package_power
    from steelyard.report.model import gather

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
