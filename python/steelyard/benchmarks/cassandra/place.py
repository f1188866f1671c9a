"""Where a node of the benchmark keeps its data and its commit log, and how much they take.

In: settings, the disks of this machine. Out: folders, sizes, what there is to say of them.

Writes reach the commit log before anything else. On a disk of its own it is written in order, whatever the
tables do; the published recipe has it so.

Not here: making the folders (``scratch``), what the disks did (``stack.devices``).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.bench.parameters import Setting
from steelyard.bench.stack.disks import OtherDisk, device_of, other_disks

if TYPE_CHECKING:
    from steelyard.records import Check

AUTO = "auto"
RECORD_BYTES = 1150
"""A record on disk: ten fields of 100 bytes, their names and times, the key."""
TABLES_RATIO = 2.0
"""Times the records that tables take while they are merged."""
COMMIT_LOG_MOST_BYTES = 8 << 30
"""Cassandra's bound on the log of all tables (`commitlog_total_space`); it then writes tables."""
COMMIT_LOG_LEAST_BYTES = 64 << 20
"""Two segments."""


@dataclass(frozen=True, slots=True)
class Place:
    """Folders to put the node's own into; None for the run's own directory, and for beside the data."""

    data: Path | None
    commit_log: Path | None
    data_bytes: int
    commit_log_bytes: int
    others: tuple[OtherDisk, ...]
    """Other disks that the log would find room on."""
    is_auto: bool

    def folders(self, run: Path) -> tuple[Path, Path]:
        """Return what data and commit log lie in, for a run in ``run``."""
        data = self.data or run
        return data, self.commit_log or data

    @property
    def advice(self) -> str:
        """Return that the log could have a disk of its own, empty where it has, or where there is none."""
        if self.commit_log is not None or not self.others:
            return ""
        other = self.others[0]
        return f"{other.folder} is another disk ({other.device}): --set commit_log={AUTO} puts the log there"

    def check(self, run: Path) -> "Check":
        """Return where data and commit log were."""
        from steelyard.analyze import checks
        from steelyard.records import Level

        data, log = (device_of(folder) or f"the file system of {folder}" for folder in self.folders(run))
        claim = f"data on {data}, commit log on {log}"
        if data == log:
            claim = f"data and commit log share {data}"
            if self.is_auto:
                claim += ": no other disk has room for the log"
            elif self.advice:
                claim += f"; {self.advice}"
        return checks.stated("commit-log", Level.VALID, claim)


def place_of(settings: Mapping[str, Setting], run: Path = Path()) -> Place:
    """Return where the settings put data and commit log; ``run`` is the run's directory, or will hold it."""
    records_bytes = RECORD_BYTES * int(settings["records"])
    log_bytes = min(COMMIT_LOG_MOST_BYTES, COMMIT_LOG_LEAST_BYTES + records_bytes)
    data = Path(str(settings["data"])) if settings["data"] else None
    chosen = str(settings["commit_log"])
    others = tuple(other_disks(data or run, log_bytes)) if chosen in ("", AUTO) else ()
    log = Path(chosen) if chosen not in ("", AUTO) else None
    if chosen == AUTO and others:
        log = others[0].folder
    return Place(data, log, int(TABLES_RATIO * records_bytes), log_bytes, others, chosen == AUTO)
