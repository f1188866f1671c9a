"""The script that writes baselines, as a user runs it."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from steelyard import records
from steelyard._base import schemas_dir
from steelyard.decide import load_baselines
from steelyard.records import Level, Machine, Metric, Run, RunStatus, Suite, Verdict
from steelyard.records.values import Check

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "make_baseline.py"


def write_run(folder: Path, level: Level) -> Path:
    folder.mkdir()
    run = records.read(Run, schemas_dir() / "golden" / "run.json")
    metric = Metric(value=123.0, unit="1/s", better="higher")
    fields = {
        "benchmark": "tao",
        "status": RunStatus.COMPLETE,
        "metrics": {"requests_per_s": metric},
        "verdict": Verdict.of([Check(id="steady", level=level, claim="it drifts")]),
    }
    records.write(run.model_copy(update=fields), folder / "run.json")
    records.write(records.read(Machine, schemas_dir() / "golden" / "machine.json"), folder / "machine.json")
    return folder


ARGUMENTS = ["--title", "a machine", "--provenance", "measured", "--allow-few"]


def test_a_baseline_is_written_and_read_back(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    folder = write_run(tmp_path / "run", Level.VALID)
    command = [sys.executable, SCRIPT, folder, *ARGUMENTS, "--name", "mine", "--out", out / "mine.json"]
    environment = {"PYTHONPATH": str(SCRIPT.parents[1] / "python")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert load_baselines(out)["mine"].results[0].value == 123.0


def test_results_of_other_benchmarks_may_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, script = tmp_path / "mine.json", runpy.run_path(str(SCRIPT))

    def make(folder: Path, *more: str) -> int:
        monkeypatch.setattr("sys.argv", [str(SCRIPT), str(folder), *ARGUMENTS, "--out", str(out), *more])
        code: int = script["main"]()
        return code

    first = write_run(tmp_path / "first", Level.VALID)
    assert make(first) == 0
    second = write_run(tmp_path / "second", Level.VALID)
    run = records.read(Run, second / "run.json")
    records.write(run.model_copy(update={"tier": "full"}), second / "run.json")
    assert make(second, "--keep") == 0
    baseline = load_baselines(tmp_path)["default"]
    assert [(one.tier, one.date, one.provenance) for one in baseline.results] == [
        (records.read(Run, first / "run.json").tier, baseline.date, "measured"),
        ("full", None, None),
    ]
    machine = records.read(Machine, second / "machine.json")
    larger = machine.memory.model_copy(update={"total_bytes": 2 * (machine.memory.total_bytes or 1)})
    records.write(machine.model_copy(update={"memory": larger}), second / "machine.json")
    assert make(second, "--keep") == 4


def test_an_unfit_run_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main = runpy.run_path(str(SCRIPT))["main"]

    def make(*arguments: object) -> int:
        monkeypatch.setattr("sys.argv", list(map(str, [SCRIPT, *arguments, *ARGUMENTS])))
        code: int = main()
        return code

    folder = write_run(tmp_path / "run", Level.SUSPECT)
    assert make(folder, "--out", tmp_path / "x.json") == 4
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1
    assert "the result is suspect: it drifts" in complaint
    assert not (tmp_path / "x.json").exists()
    assert make(folder, "--allow-suspect", "--out", tmp_path / "x.json") == 0
    assert make(tmp_path / "nothing") == 2


def test_a_suite_stands_for_its_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main = runpy.run_path(str(SCRIPT))["main"]
    folder = tmp_path / "suite"
    folder.mkdir()
    suite = records.read(Suite, schemas_dir() / "golden" / "suite.json")
    run = records.read(Run, write_run(folder / "one", Level.VALID) / "run.json")
    (folder / "one").rename(folder / run.run_id)
    entry = suite.members[0].runs[0].model_copy(update={"run_id": run.run_id})
    member = suite.members[0].model_copy(update={"runs": [entry]})
    arguments = [SCRIPT, folder, *ARGUMENTS, "--out", tmp_path / "x.json"]
    monkeypatch.setattr("sys.argv", list(map(str, arguments)))
    # A member that has no result would be missing from the baseline.
    records.write(suite, folder / "suite.json")
    assert main() == 4
    assert "the suite is incomplete" in capsys.readouterr().err
    whole = {"members": [member], "status": RunStatus.COMPLETE, "status_reason": None}
    records.write(suite.model_copy(update=whole), folder / "suite.json")
    assert main() == 0
    assert json.loads((tmp_path / "x.json").read_text())["results"][0]["value"] == 123.0


def test_too_few_runs_for_an_interval_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main = runpy.run_path(str(SCRIPT))["main"]
    runs = [write_run(tmp_path / f"run-{index}", Level.VALID) for index in range(3)]

    def make(count: int) -> int:
        few = [word for word in ARGUMENTS if word != "--allow-few"]
        arguments = [SCRIPT, *runs[:count], *few, "--out", tmp_path / "x.json"]
        monkeypatch.setattr("sys.argv", list(map(str, arguments)))
        code: int = main()
        return code

    assert make(2) == 4
    assert "has 2 runs: 3 give an interval: run it with --repeat 3" in capsys.readouterr().err
    assert not (tmp_path / "x.json").exists()
    assert make(3) == 0
    assert "123 1/s, 3 runs, spread 0.0%, 0 suspect" in capsys.readouterr().out
