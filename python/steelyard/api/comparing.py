"""``compare``: what differs between two runs, or two suites.

In: paths or ids. Out: a `Result` whose figures have both sides. Not here: experiments, which compare their
arms themselves (``read``).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard._base import UsageError, command_text
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

    Raises UsageError for a run and a suite, for what is neither, and where one is not there; RecordError for
    a record that cannot be read.
    """
    from steelyard.report.compare.folders import compare_folders
    from steelyard.report.folders.kinds import Kind, kind_of
    from steelyard.report.folders.naming import find

    names = (os.fspath(a), os.fspath(b))
    folders = [find(name, Path(runs)) for name in names]
    for name, folder in zip(names, folders, strict=True):
        kind = kind_of(folder)
        if kind not in (Kind.RUN, Kind.SUITE):
            raise UsageError(f"{name} is no run but of the kind {kind}", hint=f"read({name!r}) shows it")
    compared = compare_folders(*folders, command=command_text(["steelyard", "compare", *names]))
    return Result(compared.result, compared.answer)
