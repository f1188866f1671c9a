"""What the processes of one test run make once between them, in a folder that ends with the run."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

VARIABLE = "STEELYARD_TESTS_SHARED"


def make_root() -> Path:
    """Make the folder of this test run; its processes, which start later, find it in the environment."""
    root = Path(tempfile.mkdtemp(prefix="steelyard-tests-"))
    os.environ[VARIABLE] = str(root)
    return root


def remove_root(root: Path) -> None:
    """Remove it."""
    shutil.rmtree(root, ignore_errors=True)


def made_once(name: str, make: Callable[[Path], object]) -> Path:
    """Return a folder that ``make`` has filled, here or in another process; tests change nothing in it."""
    root = Path(os.environ[VARIABLE])
    folder = root / name
    with (root / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            partial = folder.with_name(f"{name}.partial")
            make(partial)
            partial.rename(folder)
    return folder
