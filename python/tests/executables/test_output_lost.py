"""Output that does not arrive: a full disk, a closed descriptor, a locale without the letters. Never a
traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from steelyard._base import executable
from steelyard.cli import main

PACKAGE = Path(main.__file__).parents[2]
STEELYARD = [sys.executable, "-m", "steelyard.cli.main"]
COMMANDS = [["list"], ["list", "--json"], ["--help"], ["machine", "show", "--format", "csv"]]
PROGRAMS = [
    ["steelyard-probe", "sources"],
    ["steelyard-probe", "sources", "--json"],
    ["steelyard-tax", "list"],
    ["steelyard-load", "--help"],
    ["steelyard-load", "--version"],
    ["steelyard-top", "--once"],
]


def ended(
    command: list[str], folder: Path, script: str = 'exec "$@"', **environment: str
) -> tuple[int, str, str]:
    """Run a command by a shell, which may redirect it; return its exit code and what it said."""
    done = subprocess.run(
        ["sh", "-c", script, "sh", *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(PACKAGE), **environment},
        capture_output=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout.decode("latin-1"), done.stderr.decode("latin-1")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(
    ("redirection", "why"), [(">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")]
)
def test_a_command_says_that_its_output_is_lost(
    command: list[str], redirection: str, why: str, tmp_path: Path
) -> None:
    code, _, said = ended([*STEELYARD, *command], tmp_path, f'exec "$@" {redirection}')
    assert (code, said) == (4, f"steelyard: cannot write to standard output: {why}\n")


@pytest.mark.parametrize("command", PROGRAMS, ids=" ".join)
@pytest.mark.parametrize(
    ("redirection", "why"), [(">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")]
)
def test_a_program_says_that_its_output_is_lost(
    command: list[str], redirection: str, why: str, tmp_path: Path
) -> None:
    line = [str(executable(command[0])), *command[1:]]
    code, _, said = ended(line, tmp_path, f'exec "$@" {redirection}')
    assert code == 4, said
    assert said.startswith(f"{command[0]}: cannot write to standard output: {why}")
    assert len(said.splitlines()) == 1


def test_messages_that_nobody_can_read_change_nothing(tmp_path: Path) -> None:
    for redirection in ("2>/dev/full", "2>&-"):
        code, shown, _ = ended([*STEELYARD, "list", "--json"], tmp_path, f'exec "$@" {redirection}')
        assert code == 0
        assert shown.startswith("{")


@pytest.mark.parametrize("encoding", ["ascii", "iso-8859-1", "cp1252", "koi8-r"])
def test_letters_that_an_encoding_has_not_are_replaced(encoding: str, tmp_path: Path) -> None:
    code, shown, said = ended([*STEELYARD, "machine", "show"], tmp_path, PYTHONIOENCODING=encoding)
    assert (code, said) == (0, "")
    assert shown.strip()


def test_the_locale_c_shows_everything(tmp_path: Path) -> None:
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    code, shown, said = ended([*STEELYARD, "machine", "show"], tmp_path, **plain)
    assert (code, said) == (0, "")
    assert shown.isascii()
    code, _, said = ended([*STEELYARD, "report", "caf\u00e9"], tmp_path, **plain)
    assert code == 2
    assert "internal error" not in said


def test_a_limit_of_file_sizes_is_said_and_ends_no_program_without_a_word(tmp_path: Path) -> None:
    (tmp_path / "perf.txt").write_text("db 1 [000] 1.5: 10 cycles:\n\t 55d0 work (/usr/bin/db)\n\n")
    program = str(executable("steelyard-profile"))
    limited = 'ulimit -f 0; exec "$@"'
    code, _, said = ended([program, "pprof", "perf.txt", "--output", "a.pb.gz"], tmp_path, limited)
    assert code in (3, 4)
    assert said.startswith("steelyard-profile: cannot write a.pb.gz: File too large")
    # What is started for others has the signal as everybody has it: SIGXFSZ is 25.
    command = [str(executable("steelyard-exec")), "--", "sh", "-c", "kill -XFSZ $$; echo still there"]
    code, shown, _ = ended(command, tmp_path)
    assert (code, shown) == (128 + 25, "")


@pytest.mark.parametrize(
    "line",
    [
        ["steelyard-profile", "fold", "perf.txt", "--output", "/dev/full"],
        ["steelyard-profile", "pprof", "perf.txt", "--output", "/dev/full"],
        [
            "steelyard-cache",
            "--listen",
            "127.0.0.1:0",
            "--stats-out",
            "/dev/full",
            "--stats-interval",
            "50ms",
        ],
        ["steelyard-load", "--generate-docs", "/dev/full"],
    ],
    ids=lambda line: " ".join(line[:2]),
)
def test_a_file_that_takes_nothing_ends_a_program_with_a_line(line: list[str], tmp_path: Path) -> None:
    (tmp_path / "perf.txt").write_text("db 1 [000] 1.5: 10 cycles:\n\t 55d0 work (/usr/bin/db)\n\n")
    code, _, said = ended([str(executable(line[0])), *line[1:]], tmp_path)
    assert code in (3, 4), said
    lines = said.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(f"{line[0]}: ")
    assert "/dev/full" in lines[0]
