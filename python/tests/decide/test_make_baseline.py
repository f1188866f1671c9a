"""The script that writes baselines, as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from steelyard import records
from steelyard._base import schemas_dir
from steelyard.decide import load_baselines
from steelyard.records import Level, Machine, Metric, Run, RunStatus, Verdict
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


def make(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, SCRIPT, "--title", "a machine", "--provenance", "measured", *arguments]
    environment = {"PYTHONPATH": str(SCRIPT.parents[1] / "python")}
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, env=environment, check=False
    )


def test_a_baseline_is_written_and_read_back(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    done = make(write_run(tmp_path / "run", Level.VALID), "--name", "mine", "--out", out / "mine.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert load_baselines(out)["mine"].results[0].value == 123.0


def test_an_unfit_run_is_refused_in_one_line(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", Level.SUSPECT)
    done = make(folder, "--out", tmp_path / "x.json")
    assert done.returncode == 4
    assert done.stderr.count("\n") == 1
    assert "the result is suspect: it drifts" in done.stderr
    assert not (tmp_path / "x.json").exists()
    assert make(folder, "--allow-suspect", "--out", tmp_path / "x.json").returncode == 0
    assert make(tmp_path / "nothing").returncode == 2
