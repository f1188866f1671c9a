"""The site as `make site` builds it, for the tests of a module."""

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. What earlier tests built is kept in target/, so that only changes are built again."""
    work, out = ROOT / "target" / "site-of-tests", tmp_path_factory.mktemp("site") / "site"
    work.mkdir(parents=True, exist_ok=True)
    with (work / "lock").open("w") as lock:
        # Two processes of tests would write the same files.
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = [sys.executable, ROOT / "scripts/site", out, "--work", work]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return out
