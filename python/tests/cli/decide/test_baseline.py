"""``steelyard baseline make``, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path
from subprocess import CompletedProcess

from steelyard import records
from steelyard._base import schemas_dir
from steelyard.decide import load_baselines
from steelyard.records import Level, Machine, Metric, Run, RunStatus, Suite, Verdict
from steelyard.records.values import Check
from tests.calling import call


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


ARGUMENTS = ["--title", "a machine", "--provenance", "measured"]


def make(*words: object, few: bool = True, name: str = "x") -> CompletedProcess[str]:
    """Run the command with what every baseline here has."""
    more = ["--allow-few"] if few else []
    return call("baseline", "make", *map(str, words), *ARGUMENTS, *more, "--name", name)


def test_a_baseline_is_written_and_read_back(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", Level.VALID)
    done = make(folder, "--out", tmp_path / "out", name="mine")
    assert (done.returncode, done.stderr) == (0, "")
    assert load_baselines(tmp_path / "out")["mine"].results[0].value == 123.0


def test_a_baseline_of_the_user_is_known_by_its_name(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", Level.VALID)
    home = {"XDG_DATA_HOME": str(tmp_path / "home")}
    words = ["baseline", "make", str(folder), *ARGUMENTS, "--allow-few", "--name", "lab"]
    assert call(*words, **home).returncode == 0
    scored = call("score", str(folder), "--baseline", "lab", "--json", **home)
    assert json.loads(scored.stdout)["score"]["ratio"] == 1.0
    # Elsewhere nobody knows it.
    assert "unknown baseline 'lab'" in call("score", str(folder), "--baseline", "lab").stderr


def test_results_of_other_benchmarks_may_be_kept(tmp_path: Path) -> None:
    out = tmp_path
    first = write_run(tmp_path / "first", Level.VALID)
    assert make(first, "--out", out).returncode == 0
    second = write_run(tmp_path / "second", Level.VALID)
    run = records.read(Run, second / "run.json")
    records.write(run.model_copy(update={"tier": "full"}), second / "run.json")
    assert make(second, "--keep", "--out", out).returncode == 0
    baseline = load_baselines(tmp_path)["x"]
    assert [(one.tier, one.date, one.provenance) for one in baseline.results] == [
        (records.read(Run, first / "run.json").tier, baseline.date, "measured"),
        ("full", None, None),
    ]
    machine = records.read(Machine, second / "machine.json")
    larger = machine.memory.model_copy(update={"total_bytes": 2 * (machine.memory.total_bytes or 1)})
    records.write(machine.model_copy(update={"memory": larger}), second / "machine.json")
    assert make(second, "--keep", "--out", out).returncode == 4


def test_an_unfit_run_is_refused_in_one_line(tmp_path: Path) -> None:
    folder, out = write_run(tmp_path / "run", Level.SUSPECT), tmp_path / "x.json"
    refused = make(folder, "--out", out.parent)
    assert refused.returncode == 4
    assert refused.stderr.count("\n") == 1
    assert "the result is suspect: it drifts" in refused.stderr
    assert not out.exists()
    assert make(folder, "--allow-suspect", "--out", out.parent).returncode == 0
    assert make(tmp_path / "nothing").returncode == 2


def test_a_run_counts_once_and_a_name_is_no_path(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", Level.VALID)
    refused = make(folder, tmp_path / "run" / ".." / "run")
    assert (refused.returncode, "run is given twice" in refused.stderr) == (2, True)
    for name in ("../x", "a/b", "", "-x"):
        refused = make(folder, name=name)
        assert (refused.returncode, "not a name" in refused.stderr) == (2, True), name


def test_a_suite_stands_for_its_runs(tmp_path: Path) -> None:
    folder, out = tmp_path / "suite", tmp_path / "x.json"
    folder.mkdir()
    suite = records.read(Suite, schemas_dir() / "golden" / "suite.json")
    run = records.read(Run, write_run(folder / "one", Level.VALID) / "run.json")
    (folder / "one").rename(folder / run.run_id)
    entry = suite.members[0].runs[0].model_copy(update={"run_id": run.run_id})
    member = suite.members[0].model_copy(update={"runs": [entry]})
    # A member that has no result would be missing from the baseline.
    records.write(suite, folder / "suite.json")
    refused = make(folder, "--out", out.parent)
    assert refused.returncode == 4
    assert "the suite is incomplete" in refused.stderr
    whole = {"members": [member], "status": RunStatus.COMPLETE, "status_reason": None}
    records.write(suite.model_copy(update=whole), folder / "suite.json")
    assert make(folder, "--out", out.parent).returncode == 0
    assert json.loads(out.read_text())["results"][0]["value"] == 123.0


def test_too_few_runs_for_an_interval_are_refused(tmp_path: Path) -> None:
    runs, out = [write_run(tmp_path / f"run-{index}", Level.VALID) for index in range(3)], tmp_path / "x.json"
    refused = make(*runs[:2], "--out", out.parent, few=False)
    assert refused.returncode == 4
    assert "has 2 runs: 3 give an interval (run it with --repeat 3" in refused.stderr
    assert not out.exists()
    made = make(*runs, "--out", out.parent, few=False)
    assert made.returncode == 0
    assert "123 1/s, 3 runs, spread 0.0%, 0 suspect" in made.stdout
