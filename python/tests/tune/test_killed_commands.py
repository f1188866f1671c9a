"""Commands of knobs and guardrails end with the tuning that started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from steelyard.bench.supervised import run_to_end
from tests.calling import call

STEELYARD = Path(sys.executable).with_name("steelyard")
SLOW = """
[[knob]]
name = "threads"
apply = ["sh", "-c", "echo begun >begun; setsid sh -c 'sleep 2; echo $0 >value' {} & sleep 2; echo {} >value"]
read = ["cat", "value"]
levels = ["4", "8"]
risk = "high"
"""


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, "nothing came"
        time.sleep(0.01)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "COLUMNS": "300", "XDG_STATE_HOME": str(tmp_path / "state")}


def test_a_killed_tuning_leaves_no_command_that_writes_after_restore(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    (tmp_path / "value").write_text("4\n")
    (tmp_path / "mine.toml").write_text(SLOW)
    words = ["tune", "run", "--knobs", "mine.toml", "--knob", "threads", "--risk", "high", "--blocks", "4"]
    process = subprocess.Popen(
        [str(STEELYARD), *words, "--", "true"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until((tmp_path / "begun").exists)
    process.send_signal(signal.SIGKILL)
    process.wait()
    restored = call("tune", "restore", folder=tmp_path, XDG_STATE_HOME=environment["XDG_STATE_HOME"])
    assert restored.returncode == 0, restored.stderr
    assert "undid a change of a killed run" in restored.stdout
    assert (tmp_path / "value").read_text() == "4\n"
    # Longer than any of the commands would have taken.
    time.sleep(4.5)
    assert (tmp_path / "value").read_text() == "4\n"


def test_what_a_command_leaves_in_the_background_goes_on_unless_it_had_to_be_ended(tmp_path: Path) -> None:
    begin = f"sleep 1000 & echo $! >{tmp_path / 'pid'}; echo done"
    begun = time.monotonic()
    done = run_to_end(["sh", "-c", begin], timeout_s=30, background=True)
    # It does not wait for the process that has its output open.
    assert (done.stdout, time.monotonic() - begun < 20) == ("done\n", True)
    left = int((tmp_path / "pid").read_text())
    os.kill(left, signal.SIGKILL)
    with pytest.raises(subprocess.TimeoutExpired):
        run_to_end(["sh", "-c", f"trap '' TERM; {begin}; sleep 1000"], timeout_s=0.5, background=True)
    ended = int((tmp_path / "pid").read_text())
    assert not Path(f"/proc/{ended}").exists()


def test_a_command_that_is_not_there_is_named() -> None:
    with pytest.raises(FileNotFoundError, match="no-such-command"):
        run_to_end(["no-such-command"], timeout_s=5)
