"""The guide of ``steelyard project``: its commands work on its files."""

import re
import shlex
from pathlib import Path

import pytest

from tests.calling import call

GUIDE = Path(__file__).resolve().parents[4] / "docs" / "guides" / "project.md"
TEXT = GUIDE.read_text()
FILES = dict(re.findall(r"^```csv (\S+)\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL))
COMMANDS = [shlex.split(line.strip()) for line in TEXT.splitlines() if line.startswith("    steelyard ")]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[2:]))
def test_a_command_of_the_guide_works(words: list[str], tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    done = call(*words[1:], folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Projections" in done.stdout
    if "--explain" in words:
        assert "Results" in done.stdout
    if "--learning-curve" in words:
        assert "How many to measure" in done.stdout
    if "--forward" in words:
        assert "2021" in done.stdout
