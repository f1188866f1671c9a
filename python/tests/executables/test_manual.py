"""Every executable writes man pages and completions that hold all of its flags."""

import re
import subprocess
from pathlib import Path

import pytest

from steelyard._base.paths import executable

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = sorted(
    path.name.removesuffix(".rs") for path in (ROOT / "crates/steelyard/src/bin").glob("steelyard-*")
)


def help_of(program: str, *command: str) -> str:
    line = [executable(program), *command, "--help"]
    return subprocess.run(line, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("program", PROGRAMS)
def test_documents_hold_every_flag(program: str, tmp_path: Path) -> None:
    subprocess.run([executable(program), "--generate-docs", tmp_path], check=True)
    share = tmp_path / "share"
    scripts = [
        share / "bash-completion/completions" / program,
        share / "zsh/site-functions" / f"_{program}",
        share / "fish/vendor_completions.d" / f"{program}.fish",
    ]
    listed = re.search(r"^Commands:\n(.*?)\n\n", help_of(program), re.DOTALL | re.MULTILINE)
    commands = re.findall(r"^  ([a-z]\S*)", listed[1], re.MULTILINE) if listed else []
    for command in ([], *([name] for name in commands if name != "help")):
        flags = set(re.findall(r"^ {2,}(?:-\w, )?(--[a-z][\w-]*)", help_of(program, *command), re.MULTILINE))
        assert flags
        page = (share / "man/man1" / ("-".join([program, *command]) + ".1")).read_text().replace("\\-", "-")
        for flag in flags:
            assert flag in page, f"{command} {flag}"
            for script in scripts:
                assert flag.removeprefix("--") in script.read_text(), f"{script.name}: {command} {flag}"


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ran = subprocess.run(
        [executable("steelyard-load"), "--generate-docs", tmp_path / "file"], capture_output=True, text=True
    )
    assert ran.returncode == 4
    assert ran.stderr.count("\n") == 1
    assert "steelyard-load: " in ran.stderr
