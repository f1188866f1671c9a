"""Files of ``perf stat`` without a run: ``characterize --perf-stat FILE``, and ``compare A.txt B.txt``.

In: paths. Out: a table or one JSON document. Nothing is measured. Not here: what the counts say
(``analyze``).
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from steelyard._base import ExitCode, UsageError
from steelyard.analyze.counters.perf_files import compare_files, counts_in
from steelyard.cli.output import print_json, show_answer


def are_perf_files(a: str, b: str | None) -> bool:
    """Return whether both names are files, which runs, suites and experiments are not."""
    return b is not None and all(Path(name).is_file() and Path(name).name not in _OF_RUNS for name in (a, b))


_OF_RUNS = ("run.json", "suite.json", "experiment.json")


def show_files(paths: Sequence[Path], *, as_json: bool) -> int:
    """Show the counts of each file; return the exit code."""
    from steelyard.report.counters.perf_files import answer

    found = [counts_in(path) for path in paths]
    if as_json:
        print_json({"files": [asdict(each) for each in found]})
        return int(ExitCode.OK)
    for each in found:
        show_answer(answer(each), None)
    return int(ExitCode.OK)


def show_files_compared(a: Path, b: Path, *, report: Path | None, as_json: bool) -> int:
    """Show two files beside each other; return the exit code."""
    from steelyard.report.counters.perf_files import comparison_answer

    if report is not None:
        raise UsageError(
            "--report draws two runs or two suites, not files of perf stat",
            hint="use --format markdown or csv",
        )
    comparison = compare_files(counts_in(a), counts_in(b))
    if as_json:
        print_json(asdict(comparison))
    else:
        show_answer(comparison_answer(comparison), None)
    return int(ExitCode.OK)
