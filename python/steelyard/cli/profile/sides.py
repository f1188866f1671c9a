"""The two sides of ``steelyard profile diff``: the runs of each, or blocks of time of the only one.

In: paths. Out: `Side`. A folder without a profile of its own is a side of several runs, one for each profile
in it. A recording whose samples have times is cut into blocks of time. Not here: judging
(``analyze.profiles.diff``).
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from steelyard._base import ResultSaysNoError
from steelyard.analyze.profiles.folded import fold
from steelyard.analyze.profiles.profile import Profile
from steelyard.analyze.profiles.times import TIMES, cut
from steelyard.cli.profile.reading import ALL, FOLDED, Wanted, is_profile_folder, plain, read_profile

BLOCKS = 10
"""Blocks of time of a run. Phases much shorter are within a block, and of longer ones a run has few."""


@dataclass(frozen=True)
class Side:
    """One side of a comparison."""

    whole: Profile
    """All samples."""
    runs: list[Profile]
    blocks: list[Profile]
    """The only run in blocks of time; empty where its samples have none."""


def side_of(path: Path, wanted: Wanted = ALL) -> Side:
    """Read one side. Raises as ``read_profile`` does."""
    paths = _runs_in(path)
    runs = [read_profile(run_path, wanted) for run_path in paths]
    if len(runs) > 1:
        return Side(_together(runs), runs, [])
    # The first event of a block may be another than that of the whole.
    return Side(
        runs[0], runs, _blocks_of(paths[0], replace(wanted, event=runs[0].facts.get("event", wanted.event)))
    )


def _runs_in(path: Path) -> list[Path]:
    """Return the profiles in a folder that is not itself a profile, else the path."""
    if not path.is_dir() or is_profile_folder(path):
        return [path]
    entries = sorted(entry for entry in path.iterdir() if entry.is_file() or is_profile_folder(entry))
    return [entry for entry in entries if not entry.name.startswith(".") and entry.suffix != TIMES] or [path]


def _blocks_of(path: Path, wanted: Wanted) -> list[Profile]:
    path = path / FOLDED if path.is_dir() else path
    if not path.is_file():
        return []
    with plain(path) as text, tempfile.TemporaryDirectory(prefix="steelyard-") as folder:
        try:
            return [read_profile(block, wanted) for block in cut(text, BLOCKS, Path(folder), wanted.event)]
        except ResultSaysNoError:
            # A block has no sample of the event.
            return []


def _together(runs: Sequence[Profile]) -> Profile:
    """Return all samples of several runs as one profile, with the facts of the first."""
    from steelyard.report.profiles.exports import folded

    lines = [
        line.rpartition(" ") for run in runs for line in folded(run).splitlines() if not line.startswith("# ")
    ]
    whole, _ = fold(((stack, count) for stack, _, count in lines), runs[0].facts)
    return whole
