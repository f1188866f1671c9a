"""Machines by the name that a user gives: this one, a run's, a file's, or a recorded tree's.

In: ``live``, a ``machine.json``, a folder with one (a run, a health check), or a recorded tree, packed or
not. Out: the record. Raises UsageError for any other name, RecordError for a misshapen record.
"""

from __future__ import annotations

from pathlib import Path

from steelyard._base import UsageError
from steelyard.machine import recording
from steelyard.machine.snapshot import snapshot
from steelyard.records import Machine, read

LIVE = "live"
_RECORD = "machine.json"


def machine_of(name: str | Path) -> Machine:
    """Return the machine that ``name`` stands for."""
    if str(name) == LIVE:
        return snapshot()
    path = Path(name)
    if path.is_dir():
        return _of_folder(path)
    if recording.is_archive(path) and path.exists():
        with recording.unpacked(path) as root:
            return snapshot(root)
    if not path.exists():
        raise UsageError(
            f"there is no {path}",
            hint="give live, a machine.json, a run's folder, or a recorded tree (a folder or .tar.bz2)",
        )
    return read(Machine, path)


def _of_folder(folder: Path) -> Machine:
    record = folder / _RECORD
    if record.exists():
        return read(Machine, record)
    root = recording.find_root(folder)
    if root is not None:
        return snapshot(root)
    members = sorted(folder.glob(f"*/{_RECORD}"))
    if members:
        # A suite's members ran on one machine; each has its own inventory.
        return read(Machine, members[0])
    raise UsageError(
        f"{folder}: neither a run nor a recorded tree",
        hint=f"a run's folder has {_RECORD}, a recorded tree has the folders proc and sys",
    )
