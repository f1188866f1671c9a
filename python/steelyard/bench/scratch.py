"""Folders for the data of a run's servers, which go when the run ends, however it ends.

In: a folder with room. Out: a new, empty folder in it. What a killed run leaves is removed at the next start,
by the journal of `undo`.

Not here: logs and results, which stay in the run's directory.
"""

import contextlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard._base import EnvironmentLacksError
from steelyard.bench import undo

if TYPE_CHECKING:
    from steelyard.bench.session import Session

KIND = "scratch-folder"


def check_parent(parent: str, parameter: str) -> None:
    """Raise EnvironmentLacksError when ``parent``, the value of ``parameter``, is no folder to write in."""
    if not parent:
        return
    if not Path(parent).is_dir():
        raise EnvironmentLacksError(f"{parameter}={parent}: there is no such folder", hint=f"mkdir {parent}")
    try:
        probe = Path(parent) / f".steelyard-{os.getpid()}"
        probe.mkdir()
        probe.rmdir()
    except OSError as error:
        raise EnvironmentLacksError(f"{parameter}={parent}: cannot be written: {error.strerror}") from error


def scratch_folder(session: "Session", parent: str, name: str) -> Path:
    """Return a new folder in ``parent``, or in the run's directory where that is empty.

    Raises EnvironmentLacksError when it cannot be made.
    """
    where = (
        Path(parent) / f"steelyard-{session.directory.name}-{name}" if parent else session.directory / name
    )
    path = where.absolute()
    change = undo.Change.begin(f"{session.directory.name}-{name}", KIND, {"path": str(path)})
    session.endings.callback(_undo, change)
    try:
        path.mkdir()
    except OSError as error:
        raise EnvironmentLacksError(f"{path}: cannot be made: {error.strerror}") from error
    return path


def _undo(change: undo.Change) -> None:
    # What cannot be removed now stays in the journal, and the next start tries again.
    with contextlib.suppress(OSError):
        change.undo()


def _remove(details: Mapping[str, str]) -> None:
    path = Path(details["path"])
    if path.exists():
        shutil.rmtree(path)


undo.register(KIND, _remove, on_disk=True)
