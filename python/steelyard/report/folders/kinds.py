"""What Steelyard wrote into a folder: a run, a suite, an experiment, a tuning, a co-location, a health check.

In: a folder. Out: its `Kind`, by the name of the record in it. Not here: reading the record (``answers``).
"""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path

from steelyard._base import record_files as files


class Kind(StrEnum):
    """What a folder holds."""

    RUN = "run"
    SUITE = "suite"
    EXPERIMENT = "experiment"
    TUNING = "tuning"
    COLOCATION = "co-location"
    HEALTH = "health check"

    @property
    def record(self) -> str:
        """The file whose presence says so."""
        return _RECORDS[self]


# A check counts once its comparison is there (``bench.health.check``).
_RECORDS = {
    Kind.SUITE: files.SUITE,
    Kind.RUN: files.RUN,
    Kind.EXPERIMENT: files.EXPERIMENT,
    Kind.TUNING: files.TUNING,
    Kind.COLOCATION: files.COLOCATION,
    Kind.HEALTH: files.HEALTH_COMPARISON,
}


def kind_of(folder: Path) -> Kind | None:
    """Return what ``folder`` holds; None for a folder that Steelyard wrote no record into."""
    # Whatever has this name: reading it says why it is none.
    return next((kind for kind, record in _RECORDS.items() if os.path.lexists(folder / record)), None)
