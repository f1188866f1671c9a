"""``steelyard colocate`` with commands that really run, and what it leaves behind when it is killed."""

import json
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from steelyard._base import UsageError
from steelyard.bench.colocation.manifest import load
from steelyard.bench.colocation.workload import pair_of, workload_of
from steelyard.cli.main import invoke
from steelyard.records import RunStatus
from tests.bench.colocation.conftest import Made
from tests.bench.conftest import MARK, marked, until

SPIN = f"{sys.executable} -S -c 'sum(range(300000))'"
SLEEP = "sleep 0.05"


def start(out: Path, *arguments: str) -> "tuple[subprocess.Popen[str], str]":
    mark = uuid.uuid4().hex
    environment = {**os.environ, MARK: mark, "XDG_STATE_HOME": str(out / "state")}
    command = [
        sys.executable,
        "-m",
        "steelyard.cli.main",
        "colocate",
        *arguments,
        "--json",
        "--out",
        str(out),
    ]
    process = subprocess.Popen(
        command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    return process, mark


def test_two_commands_are_put_together(tmp_path: Path, made: Made) -> None:
    page = tmp_path / "page.html"
    code, document, stderr = made(
        SPIN, SLEEP, "--repeats", "1", "--duration", "1s", "--seed", "7", "--report", str(page)
    )
    # Others may use this machine's CPUs; that is a verdict, not a failure.
    assert code in (0, 1), stderr
    assert document["kind"] == "colocation"
    assert document["status"] == "complete"
    assert [each["name"] for each in document["workloads"]] == [Path(sys.executable).name, "sleep"]
    (block,) = document["blocks"]
    assert sorted(block["order"]) == ["first", "second", "together"]
    assert [run["condition"] for run in block["runs"]].count("together") == 2
    overlaps = [run["overlap_ratio"] for run in block["runs"] if run["condition"] == "together"]
    assert all(overlap is not None and overlap > 0.3 for overlap in overlaps), overlaps
    for run in block["runs"]:
        assert run["value"] > 0
        folder = Path(document["directory"]) / run["run_id"]
        assert json.loads((folder / "run.json").read_text())["status"] == "complete"
    for each in document["workloads"]:
        assert each["use"]["cpu"] is not None
        assert each["prediction"]["slowdown"] >= 1.0
    assert "https://" not in page.read_text().split("<script", 1)[0]
    assert "slowdown" in page.read_text()
    directory = Path(document["directory"])
    record = load(directory)
    assert (record.status, record.seed) == (RunStatus.COMPLETE, 7)
    for name in (str(directory), directory.name):
        assert invoke(["report", name, "--runs", str(tmp_path), "--json"]) == code
    assert (directory / "report.html").exists()
    run_id = block["runs"][0]["run_id"]
    assert invoke(["report", str(directory / run_id)]) in (0, 1)


def test_a_command_that_fails_ends_the_other_and_is_named(made: Made) -> None:
    code, document, stderr = made(SLEEP, "false", "--repeats", "1", "--duration", "1s", "--seed", "3")
    assert code == 4
    assert "false ended with exit code 1" in stderr
    assert "Traceback" not in stderr
    assert document["status"] == "incomplete"
    assert "false ended with exit code 1" in document["status_reason"]


def test_a_signal_ends_all_runs_in_order(tmp_path: Path) -> None:
    process, mark = start(tmp_path, SLEEP, SPIN, "--repeats", "1", "--duration", "30s")
    until(lambda: list(tmp_path.glob("*/*/iterations.txt")), 60)
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 4
    assert "stopped by SIGTERM" in stderr
    assert marked(mark) == {}
    (folder,) = (path.parent for path in tmp_path.glob("*/colocation.json"))
    assert load(folder).status_reason == "stopped by SIGTERM"


def test_a_kill_leaves_no_process(tmp_path: Path) -> None:
    process, mark = start(tmp_path, SLEEP, SPIN, "--repeats", "1", "--duration", "30s")
    until(lambda: list(tmp_path.glob("*/*/iterations.txt")), 60)
    process.kill()
    process.communicate()
    until(lambda: not marked(mark), 20)
    (folder,) = (path.parent for path in tmp_path.glob("*/colocation.json"))
    record = load(folder)
    assert record.status is RunStatus.INCOMPLETE
    assert record.status_reason


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("redis", "no-such-thing"), "'no-such-thing' is no benchmark and no command"),
        (("redis", "taoo"), "did you mean tao?"),
        (("characterization", "sleep 1"), "characterization is a suite, not a benchmark"),
        (("sleep 1", "sleep 1", "--repeats", "0"), "--repeats 0: allowed is 1.."),
        (("sleep 1", "sleep 1", "--duration", "long"), "duration=long: allowed is"),
        (("sleep 1", "sleep 1", "--tier", "tiny"), "unknown tier 'tiny'"),
        (("sleep 1", "command:colour=red"), "command"),
        (("sleep 1", "sleep 'x", "--tier", "smoke"), "No closing quotation"),
        (("sleep 1", "sleep 1", "--set-limit", "lx9=1Gbit"), "there is no network interface lx9"),
        (("sleep 1", "tax", "--duration", "3s"), "tax has no parameter 'measure'"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_starts(
    arguments: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["colocate", *arguments, "--out", str(tmp_path / "runs")]) == 2
    stderr = capsys.readouterr().err
    assert message in stderr
    assert "Traceback" not in stderr
    assert not (tmp_path / "runs").exists()


def test_workloads_are_written_as_benchmarks_or_commands() -> None:
    assert workload_of("redis:depth=16,connections=8").chosen == {"depth": "16", "connections": "8"}
    assert workload_of("sleep 1").chosen == {"command": "sleep 1"}
    first, second = pair_of("sleep 1", "sleep 2")
    assert (first.name, second.name) == ("sleep 1", "sleep 2")
    with pytest.raises(UsageError, match="no benchmark and no command"):
        workload_of("redis2")
