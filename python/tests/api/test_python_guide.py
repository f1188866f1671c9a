"""The guide on the Python API: what it shows is what Python says."""

import doctest
import os
import re
import shutil
from pathlib import Path

import pytest

from tests.calling import call
from tests.fleet.simulated import simulated_store
from tests.report.runs import write_run

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "python.md"
TEXT = GUIDE.read_text()
FILES = dict(re.findall(r"^```csv (\S+)\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL))


def test_the_guide_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "runs" / "before")
    write_run(tmp_path / "runs" / "after", scale=1.3, index=2)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    store = simulated_store(machines=12, days=1, platforms=2, clusters=1, step_s=120)
    shutil.copytree(store, tmp_path / "store")
    examples = doctest.DocTestParser().get_doctest(TEXT, {}, "python.md", str(GUIDE), 0)
    assert len(examples.examples) > 15
    said: list[str] = []
    result = doctest.DocTestRunner().run(examples, out=said.append)
    assert result.failed == 0, "".join(said)
    assert sorted(path.split("-")[0] for path in os.listdir("runs"))


def test_the_guide_names_every_function() -> None:
    import steelyard

    functions = {name for name in steelyard.__all__ if name[0].islower()}
    assert {name for name in functions if f"{name}(" in TEXT} == functions


def test_the_commands_that_the_guide_names_have_their_options() -> None:
    commands = re.findall(r"`(steelyard [^`]+)`", TEXT)
    assert len(commands) >= 8
    for command in commands:
        words = command.split()[1:]
        flags = [word for word in words if word.startswith("--")]
        names = words[: words.index(flags[0])] if flags else words
        done = call(*names, "--help")
        assert done.returncode == 0, command
        assert not [flag for flag in flags if flag not in done.stdout], command
