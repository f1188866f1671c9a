"""``steelyard list runs``: in the order of time, results with their units."""

import csv
import io
import json
from pathlib import Path

from steelyard.records import Run, read
from tests.calling import call
from tests.cli.suites import write_suite
from tests.report.runs import write_run


def begun(folder: Path, after_s: int) -> None:
    """Let what a folder holds have begun later."""
    (path,) = (folder / name for name in ("run.json", "suite.json") if (folder / name).exists())
    document = json.loads(path.read_text())
    document["clock"]["realtime_ns"] += after_s * 10**9
    path.write_text(json.dumps(document))


def names(text: str) -> list[str]:
    return [line.split()[0] for line in text.partition("\nrun ")[2].splitlines()[2:] if line.strip()]


def test_the_last_runs_are_those_that_began_last(tmp_path: Path) -> None:
    for at, name in enumerate("gfedcba"):
        begun(write_run(tmp_path / name, without=("telemetry", "cache_stats")), at)
    (tmp_path / "runs").mkdir()
    shown = call("list", "--runs", str(tmp_path)).stdout
    assert "The last 5 of 7 runs" in shown
    assert names(shown) == list("edcba")
    assert names(call("list", "runs", "--runs", str(tmp_path)).stdout) == list("gfedcba")


def test_results_have_their_units_and_suites_their_verdict(tmp_path: Path) -> None:
    write_run(tmp_path / "run-1")
    write_suite(tmp_path / "suite-1", ("tao", "feed"))
    suite = tmp_path / "suite-1" / "suite.json"
    overall = {"score": 0.536, "suspect": [], "baseline": "x", "baseline_title": "X"}
    suite.write_text(json.dumps({**json.loads(suite.read_text()), "overall": overall}))
    shown = call("list", "runs", "--runs", str(tmp_path)).stdout.replace("\u202f", " ").replace("\xa0", " ")
    assert "118 k requests/s" in shown
    line = next(line for line in shown.splitlines() if line.startswith("suite-1"))
    assert line.split() == ["suite-1", "suspect", "0.536×", "overall"]
    value = read(Run, tmp_path / "run-1" / "run.json").metrics["requests_per_s"].value
    text = call("list", "runs", "--runs", str(tmp_path), "--format", "csv").stdout
    rows = {row["run"]: row for row in csv.DictReader(io.StringIO(text))}
    assert (float(rows["run-1"]["result"]), rows["run-1"]["result unit"]) == (value, "1/s")
    assert (rows["suite-1"]["result"], rows["suite-1"]["result unit"]) == ("0.536", "ratio")
    text = call("list", "runs", "--runs", str(tmp_path), "--format", "jsonl").stdout
    figures = {row["row"]: row for row in map(json.loads, text.splitlines())}
    assert (figures["run-1, suspect"]["value"], figures["run-1, suspect"]["unit"]) == (value, "1/s")
    document = json.loads(call("list", "runs", "--runs", str(tmp_path), "--json").stdout)
    assert {run["unit"] for run in document["runs"] if run["run_id"] == "run-1"} == {"1/s"}
    assert [one["verdict"] for one in document["suite_runs"]] == ["suspect"]
