"""The folder that a name stands for: of a run, a suite, an experiment, or whatever else Steelyard writes.

In: what was typed, and the folder of runs. Out: a folder with a record. Not here: runs and suites by the
beginnings of their names (``bench.runs``), reading what is in the folder (``answers``).
"""

from __future__ import annotations

from pathlib import Path

from steelyard.bench import runs
from steelyard.report.folders.kinds import Kind, kind_of


def find(name: str, out: Path) -> Path:
    """Return the folder of ``name``: a path to it or to its record, an id under ``out``, or ``latest``.

    Raises UsageError where there is none.
    """
    records = {kind.record for kind in Kind}
    for candidate in (Path(name), out / name):
        folder = candidate.parent if candidate.name in records else candidate
        if name and kind_of(folder) is not None:
            return folder
    return runs.find(name, out)
