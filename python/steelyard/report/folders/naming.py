"""The folder that a name stands for: of a run, a suite, an experiment, or whatever else Steelyard writes.

In: what was typed, and the folder of runs. Out: a folder with a record. Not here: runs and suites by the
beginnings of their names (``bench.runs``), reading what is in the folder (``answers``).
"""

from __future__ import annotations

from pathlib import Path

from steelyard._base import UsageError
from steelyard.bench import runs
from steelyard.bench.health.check import RESULT
from steelyard.report.folders.kinds import Kind, kind_of

_TIMED = {Kind.HEALTH: RESULT}
"""Records that have a time where the one that says the kind has none."""


def find(name: str, out: Path) -> Path:
    """Return the folder of ``name``: a path to it or to its record, an id under ``out``, or ``latest``.

    The latest is a run or a suite, and only where there is none something else.
    Raises UsageError where there is none.
    """
    records = {kind.record for kind in Kind}
    for candidate in (Path(name), out / name):
        folder = candidate.parent if candidate.name in records else candidate
        if name and kind_of(folder) is not None:
            return folder
    try:
        return runs.find(name, out)
    except UsageError:
        others = [path for path in out.glob("*") if kind_of(path) is not None] if out.is_dir() else []
        if name == "latest" and others:
            return max(others, key=lambda path: (begin_ns(path), path.name))
        matching = [path for path in others if name and path.name.startswith(name)]
        if len(matching) == 1:
            return matching[0]
        raise


def begin_ns(folder: Path) -> int:
    """Return when that began which ``folder`` holds, in ns since 1970; 0 where nothing says it."""
    kind = kind_of(folder)
    return 0 if kind is None else runs.begin_of_record_ns(folder / _TIMED.get(kind, kind.record))
