"""The guide on exports: its commands work as they stand, and its table names every format."""

import re
import shlex
from pathlib import Path

from steelyard.cli.export import ExportTo
from tests.calling import call
from tests.folded import folded
from tests.report.runs import write_run

GUIDE = Path(__file__).resolve().parents[4] / "docs" / "guides" / "export.md"
TEXT = GUIDE.read_text()
COMMANDS = [
    shlex.split(line.strip()) for line in TEXT.splitlines() if line.startswith("    steelyard export ")
]


def test_the_commands_write_their_files(tmp_path: Path) -> None:
    run = write_run(tmp_path / "runs" / "before")
    folded(run, {"web;main [web]": 5}, name="profile.folded")
    for words in COMMANDS:
        done = call(*words[1:], folder=tmp_path)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        assert (tmp_path / words[3]).stat().st_size > 100
    assert {words[5] for words in COMMANDS} == {str(one) for one in ExportTo}


def test_the_table_names_every_format() -> None:
    rows = re.findall(r"^\| (`.*?) \|", TEXT, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) == {str(one) for one in ExportTo}
