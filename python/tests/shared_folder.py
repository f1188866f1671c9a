"""What the processes of one test run make once between them, in a folder that the last to end removes."""

import atexit
import fcntl
import functools
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO


@functools.cache
def _root() -> Path:
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    root = Path(tempfile.gettempdir()) / f"steelyard-tests-{run}"
    root.mkdir(exist_ok=True)
    users = (root / "users").open("w")
    fcntl.flock(users, fcntl.LOCK_SH)
    atexit.register(_leave, root, users)
    return root


def _leave(root: Path, users: IO[str]) -> None:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    shutil.rmtree(root, ignore_errors=True)


def made_once(name: str, make: Callable[[Path], object]) -> Path:
    """Return a folder that ``make`` has filled, here or in another process; tests change nothing in it."""
    folder = _root() / name
    with (_root() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            partial = folder.with_name(f"{name}.partial")
            make(partial)
            partial.rename(folder)
    return folder
