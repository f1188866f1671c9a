"""A reader that leaves early, as `| head` does, is no failure: every program ends with 0 and no complaint."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from steelyard._base import executable, schemas_dir
from steelyard.cli import main
from tests.fleet import half_empty
from tests.fleet.test_half_empty import SHAPES
from tests.report.runs import write_run

PACKAGE = Path(main.__file__).parents[2]
MACHINE = str(schemas_dir() / "golden" / "machine.json")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(PACKAGE)}
PERF_SCRIPT = "".join(
    f"db  1234 [000] {time}.5: 10101010 cycles:\n\t 55d0 function_{time} (/usr/bin/db)\n\n"
    for time in range(1, 4000)
)
"""More than a pipe holds."""
STEELYARD = [sys.executable, "-m", "steelyard.cli.main"]


def ended(command: list[str], folder: Path) -> tuple[int, str]:
    """Run a command whose standard output nobody reads; return its exit code and what it complained of."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    return process.wait(), said


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["list"],
        ["list", "--json"],
        ["numa", "map", "--machine", MACHINE],
        ["report", "run"],
        ["compare", "run", "other"],
        ["experiment", "experiment"],
        ["fleet", "top", "--store", "store"],
    ],
    ids=" ".join,
)
def test_a_command_ends_with_0(
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if arguments[0] in ("report", "compare"):
        for name in ("run", "other"):
            write_run(tmp_path / "runs" / name, without=("telemetry", "cache_stats"))
    if arguments[0] == "experiment":
        (tmp_path / "experiment").mkdir()
        shutil.copy(schemas_dir() / "golden" / "experiment.json", tmp_path / "experiment")
    if arguments[0] == "fleet":
        half_empty.make(tmp_path / "store", SHAPES["several of all"])
    monkeypatch.chdir(tmp_path)
    # What has nothing to say ends with 0 in any case.
    assert main.invoke(arguments) in (0, 1)
    assert len(capsys.readouterr().out) > 100
    assert ended([*STEELYARD, *arguments], tmp_path) == (0, "")


@pytest.mark.parametrize(
    "command",
    [
        ["steelyard-probe", "sources"],
        ["steelyard-probe", "sources", "--json"],
        ["steelyard-probe", "numa", "--all", "--json", "--duration", "0"],
        ["steelyard-top", "--once"],
        ["steelyard-top", "--json", "--count", "1"],
        ["steelyard-load", "--help"],
        ["steelyard-tax", "list"],
        ["steelyard-profile", "fold", "perf.txt"],
    ],
    ids=" ".join,
)
def test_an_executable_ends_with_0(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "perf.txt").write_text(PERF_SCRIPT)
    assert ended([str(executable(command[0])), *command[1:]], tmp_path) == (0, "")


def test_a_pipe_is_as_wide_as_the_table(tmp_path: Path) -> None:
    name = "a" * 100
    write_run(tmp_path / "runs" / name, without=("telemetry", "cache_stats"), changes={"status_reason": None})
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    environment.pop("COLUMNS", None)
    done = subprocess.run(
        [*STEELYARD, "list", "runs"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = [line for line in done.stdout.splitlines() if line.startswith(name)]
    assert "requests/s" in line
    assert all(line == line.rstrip() for line in done.stdout.splitlines())
    document = subprocess.run(
        [*STEELYARD, "list", "runs", "--json"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(document.stdout)["runs"][0]["run_id"] == name
