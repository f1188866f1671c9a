"""``compare``: what differs between two runs, or two suites.

In: paths or ids. Out: a `Result` whose figures have both sides. Not here: experiments, which compare their
arms themselves (``read``).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard._base import command_text
from steelyard.api.calls import checked
from steelyard.api.result import Result

if TYPE_CHECKING:
    from steelyard._base.documents import Sides
    from steelyard.analyze.comparison import RunComparison
    from steelyard.analyze.suite_comparison import SuiteComparison


@checked
def compare(
    a: str | os.PathLike[str], b: str | os.PathLike[str], *, runs: str | os.PathLike[str] = "runs"
) -> Result[Sides[RunComparison] | Sides[SuiteComparison]]:
    """Return what differs between two runs or two suites: readings, paths, or ids in the folder
    ``runs``.

    Raises UsageError for a run and a suite, and where one is not there; RecordError for a record that cannot
    be read.
    """
    from steelyard.bench.runs import find
    from steelyard.report.compare.folders import compare_folders

    names = (os.fspath(a), os.fspath(b))
    folders = [find(name, Path(runs)) for name in names]
    compared = compare_folders(*folders, command=command_text(["steelyard", "compare", *names]))
    return Result(compared.result, compared.answer)
