"""What a report lacks is said with its reason, in paths of the run's folder."""

import os
from pathlib import Path

import pytest

from steelyard.report import page
from steelyard.report.model import gather
from tests.report.runs import write_run


def lacking_of(folder: Path) -> dict[str, str]:
    data = gather(folder)
    data.close()
    return {lack.name: lack.reason for lack in data.lacking}


def as_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def test_telemetry_that_is_a_pipe_is_there_and_no_file(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run-1")
    as_pipe(run / "telemetry" / "telemetry.json")
    assert lacking_of(run)["telemetry"] == "telemetry/telemetry.json: not a regular file but a named pipe"


def test_telemetry_that_is_absent_is_in_no_place(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run-1", without=("telemetry",))
    assert lacking_of(run)["telemetry"].startswith("no recording here (telemetry.json is in neither")


def test_a_machine_that_is_a_pipe_is_said_where_the_machine_would_stand(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run-1")
    as_pipe(run / "machine.json")
    reason = "machine.json: not a regular file but a named pipe"
    assert lacking_of(run)["machine inventory"] == reason
    data = gather(run)
    assert f"The machine is not known: {reason}." in page.answer(data).lines
    data.close()


@pytest.mark.parametrize(
    "name",
    ["telemetry/telemetry.json", "telemetry/cpu.parquet", "machine.json", "load.json", "cache-stats.jsonl"],
)
@pytest.mark.parametrize("kept", [0, 300])
def test_reasons_have_no_path_of_this_machine(name: str, kept: int, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run-1")
    file = run / name
    if file.exists():
        file.write_bytes(file.read_bytes()[:kept] + b"\n")
    else:
        file.mkdir()
    data = gather(run)
    said = page.answer(data)
    data.close()
    assert str(tmp_path) not in str(data.lacking)
    assert str(tmp_path) not in str(said)
