"""``steelyard colocate`` in the test's process."""

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.bench.conftest import MARK, marked
from tests.calling import call

Made = Callable[..., tuple[int, dict[str, Any], str]]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """Run the command in this process: its exit code, its document and what it complained of."""
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def run(*arguments: str) -> tuple[int, dict[str, Any], str]:
        done = call("colocate", *arguments, "--json", "--out", str(tmp_path))
        assert marked(mark) == {}
        return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr

    return run
