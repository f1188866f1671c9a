"""Commands that people are shown: what a copy button copies is what a shell takes."""

import html
import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

import steelyard
from steelyard._base import command_text, schemas_dir
from steelyard.cli.main import invoke
from tests.report.runs import write_run

ODD = [
    "steelyard",
    "experiment",
    "--metric",
    r"rate=rate (\S+)",
    'it\'s $HOME `date` "x" & | > *',
    "",
    "caf\u00e9 \\ a\tb",
]
SOURCES = sorted(Path(steelyard.__file__).parent.rglob("*.py"))


def copied(page: Path) -> str:
    """Return what the copy button of a page gives: the text of its command."""
    [shown] = re.findall(r'<code id="command">(.*?)</code>', page.read_text(), flags=re.DOTALL)
    return html.unescape(shown)


def words_in_a_shell(line: str) -> list[str]:
    """Return the words that a shell makes of a line."""
    script = f"set -- {line}\nprintf '%s\\0' \"$@\""
    done = subprocess.run(["sh", "-c", script], capture_output=True, check=True)
    return done.stdout.decode().split("\0")[:-1]


def test_a_command_means_to_a_shell_what_it_was_made_of() -> None:
    assert words_in_a_shell(command_text(ODD)) == ODD


def test_the_page_of_an_experiment_copies_its_command(tmp_path: Path) -> None:
    document = json.loads((schemas_dir() / "golden" / "experiment.json").read_text())
    document["command"] = ODD
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "experiment.json").write_text(json.dumps(document))
    page = tmp_path / "page.html"
    assert invoke(["experiment", str(tmp_path / "experiment"), "--report", str(page)]) in (0, 1)
    assert words_in_a_shell(copied(page)) == ODD


def test_the_page_of_a_run_copies_its_command(tmp_path: Path) -> None:
    write_run(tmp_path / "run", without=("telemetry", "cache_stats"), changes={"command": ODD})
    page = tmp_path / "page.html"
    assert invoke(["report", str(tmp_path / "run"), "--report", str(page)]) in (0, 1)
    assert words_in_a_shell(copied(page)) == ODD


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_no_command_is_joined_by_blanks(path: Path) -> None:
    """Both rules find what lost quotes: words joined by hand, and names within a command of ours."""
    text = path.read_text()
    joined = re.findall(r'["\']\s["\']\.join\([^()]*\b(?:command|argv)\)', text)
    assert joined == []
    commands = "run|report|compare|tune|scale|experiment"
    named = re.findall(rf'hint=f"[^"]*steelyard (?:{commands})\b[^"{{]*\{{(?:folder|directory)\b', text)
    assert named == []


def test_examples_of_help_can_be_pasted() -> None:
    found = []
    for path in SOURCES:
        for block in re.findall(r"examples\(\n(.*?)\n\s*\)", path.read_text(), flags=re.DOTALL):
            found += re.findall(r'^\s*"((?:[^"\\]|\\.)*)",?$', block, flags=re.MULTILINE)
    lines = [line.encode().decode("unicode_escape") for line in found if line.startswith("steelyard ")]
    assert len(lines) > 20
    # A shell reads all of them, which runs none with -n.
    done = subprocess.run(["sh", "-n"], input="\n".join(lines), text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(len(shlex.split(line)) > 1 for line in lines)
