"""What a killed run left changed is undone before anything is measured or judged."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from steelyard.bench import undo
from steelyard.cli.main import invoke

COMMANDS = (
    ["doctor"],
    ["machine", "show"],
    ["machine", "check", "live"],
    ["numa", "score", "--duration", "0"],
)


@pytest.fixture
def left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Leave a change of a process that has ended, and return what undoing it is called with."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    calls: list[Any] = []
    undo.register("test leftover", calls.append, on_disk=True)
    change = undo.Change.begin("one", "test leftover", {"path": "/x"})
    ended = subprocess.Popen(["true"])
    ended.wait()
    entry = json.loads(change.path.read_text())
    change.path.write_text(json.dumps({**entry, "pid": ended.pid}))
    return calls


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_that_looks_at_the_machine_undoes_it_first(
    command: list[str], left: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(command) in (0, 1, 3)
    assert left == [{"path": "/x"}]
    assert "undid a change of a killed run: test leftover /x" in capsys.readouterr().err


def test_a_recorded_machine_has_nothing_to_do_with_it(left: list[Any], tmp_path: Path) -> None:
    (tmp_path / "tree/proc").mkdir(parents=True)
    invoke(["machine", "show", "--root", str(tmp_path / "tree")])
    assert left == []
