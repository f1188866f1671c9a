"""The guide on soft SKUs: its commands work as they stand, and its TOML is understood."""

from __future__ import annotations

import json
import os
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from steelyard.tune.knobs.user import read_user_file
from tests.calling import call

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "softsku.md"
TEXT = GUIDE.read_text()
COMMANDS = [shlex.split(line) for line in TEXT.splitlines() if line.startswith("    steelyard tune ")]
TOML = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def test_the_guide_tunes_lists_and_restores() -> None:
    assert len(COMMANDS) == 6
    assert {words[2] for words in COMMANDS} >= {"list", "run", "restore", "--benchmark"}


def test_knobs_of_the_guide_are_understood(tmp_path: Path) -> None:
    (text,) = TOML
    assert set(tomllib.loads(text)) == {"knob", "guard"}
    (tmp_path / "mine.toml").write_text(text)
    knobs, guards = read_user_file(tmp_path / "mine.toml")
    assert [knob.name for knob in knobs] == ["queue", "threads", "cache"]
    assert [guard.limit for guard in guards] == [100.0]


@pytest.mark.parametrize(
    "words", [words for words in COMMANDS if "--budget" not in words], ids=lambda words: " ".join(words[2:5])
)
def test_a_command_of_the_guide_works(words: list[str], tmp_path: Path) -> None:
    tunes_pages = any(word.startswith("thp_enabled") for word in words)
    if tunes_pages and not os.access(THP, os.W_OK):
        pytest.skip(f"{THP} cannot be written here")
    (tmp_path / "words").write_text("\n".join(f"word {number}" for number in range(30_000)))
    (tmp_path / "mine.toml").write_text(TOML[0])
    before = THP.read_text() if THP.exists() else ""
    at = words.index("--") if "--" in words else len(words)
    state = str(tmp_path / "state")
    done = call(*words[1:at], "--json", *words[at:], folder=tmp_path, XDG_STATE_HOME=state)
    if done.returncode == 3 and "another tuning is under way on this machine" in done.stderr:
        pytest.skip("another tuning is under way on this machine")
    assert done.returncode in (0, 1), done.stderr
    document = json.loads(done.stdout)
    if document["kind"] == "tuning" and document["trials"]:
        assert document["status"] == "complete"
        assert document["evidence"]
    # Of the others, each may run beside the one that tunes.
    assert not tunes_pages or THP.read_text() == before
