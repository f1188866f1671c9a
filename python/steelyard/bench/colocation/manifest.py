"""``colocation.json``, rewritten atomically at each change, and read again.

In: what happened. Out: a file that says how far the co-location came, whenever it is read.
"""

import contextlib
from pathlib import Path

from steelyard._base import RecordError, record_files
from steelyard.bench.identity import gone
from steelyard.records import Colocation, RunStatus, read, write

COLOCATION = record_files.COLOCATION


class ColocationManifest:
    """The manifest in ``directory``; every change is on disk before the method returns."""

    def __init__(self, directory: Path, record: Colocation) -> None:
        self.directory = directory
        self.record = record
        self.put(record)

    def put(self, record: Colocation) -> None:
        """Replace what the manifest says."""
        self.record = record
        write(record, self.directory / COLOCATION)


def load(directory: Path, proc: Path = Path("/proc")) -> Colocation:
    """Return a co-location as its directory shows it now. Raises RecordError where there is none."""
    path = directory / COLOCATION
    if not path.exists():
        raise RecordError(f"{directory} is no co-location: it has no {COLOCATION}")
    record = read(Colocation, path)
    if record.status is RunStatus.RUNNING and (why := gone(record.orchestrator, proc)) is not None:
        return record.model_copy(update={"status": RunStatus.INCOMPLETE, "status_reason": why})
    return record


def find(name: str, out: Path) -> Path | None:
    """Return the directory of a co-location: a path or an id under ``out``; None where ``name`` is none."""
    for candidate in (Path(name), out / name):
        directory = candidate.parent if candidate.name == COLOCATION else candidate
        if (directory / COLOCATION).exists():
            return directory
    return None


def history(out: Path) -> list[Colocation]:
    """Return the co-locations in a folder of runs; what cannot be read is left out."""
    found = []
    for path in sorted(out.glob(f"*/{COLOCATION}")):
        with contextlib.suppress(RecordError):
            found.append(load(path.parent))
    return found
