"""Counts that another program made of a run: `steelyard characterize --perf-stat FILE`."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from steelyard._base import executable
from steelyard.bench.health.check import machine_identity
from steelyard.cli.main import invoke
from steelyard.records import write
from tests.health_samples import golden

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "characterize.md"

ROCKSDB = """
 Performance counter stats for './db_bench --benchmarks=readrandom --threads=160 --duration=300':

     47,812,339.20 msec task-clock                #  159.374 CPUs utilized
 171,717,420,118,090      cycles                    #    3.592 GHz
  22,625,805,888,251      instructions              #    0.13  insn per cycle
       1,000,000,000      slots
         241,000,000      topdown-retiring
          59,000,000      topdown-bad-spec
         100,000,000      topdown-fe-bound
         600,000,000      topdown-be-bound
          90,000,000      topdown-fetch-lat
          50,000,000      topdown-br-mispredict
         500,000,000      topdown-mem-bound
          10,000,000      topdown-heavy-ops
                   0      INT_MISC.UOP_DROPPING
     <not counted>      LLC-<b>load</b>-misses                                                (0.00%)

     300.000000000 seconds time elapsed
"""


@pytest.fixture(autouse=True)
def _executables() -> None:
    for name in ("steelyard-exec", "steelyard-probe"):
        executable(name)


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any], str]:
    code = invoke([arguments[0], "--json", *arguments[1:]])
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    return code, json.loads(said.out) if said.out else {}, said.err


def test_perf_around_the_program_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    perf = shutil.which("perf")
    if perf is None:
        pytest.skip("perf is not installed (Debian: linux-perf)")
    monkeypatch.chdir(tmp_path)
    events = "task-clock,page-faults,instructions,cycles"
    code, found, said = call(
        capsys,
        *("characterize", "--hz", "0", "--out", str(tmp_path / "runs"), "--perf-stat", "p.csv", "--"),
        *(perf, "stat", "-x,", "-o", "p.csv", "-e", events, sys.executable, "-c", "sum(range(10**7))"),
    )
    assert code == 0, said
    counters = found["counters"]
    assert counters["source"] == "perf stat file p.csv"
    assert counters["events"]["page-faults"]["count"] > 100
    # The program's own CPU time, not the machine's.
    used = counters["iron_law"]["used_cpus"]["value"]
    assert used == pytest.approx(
        counters["events"]["task-clock"]["count"] / 1e9 / counters["duration_s"], rel=0.02
    )
    text = (tmp_path / "p.csv").read_text()
    if "<not supported>" in text:
        assert counters["iron_law"]["ipc"]["value"] is None
        assert "not supported (perf)" in counters["iron_law"]["ipc"]["missing"]
    else:
        assert 0.05 < counters["iron_law"]["ipc"]["value"] < 10
    run = Path(found["report"]).parent
    assert (run / "perf-stat" / "1-p.csv").read_text() == text
    # The run alone has everything.
    (tmp_path / "p.csv").unlink()
    moved = tmp_path / "elsewhere"
    shutil.copytree(run, moved)
    code, again, said = call(capsys, "report", str(moved))
    assert code in (0, 1), said
    assert again["counters"]["events"] == counters["events"]


def test_counts_of_a_processor_with_counters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "counts.txt").write_text(ROCKSDB)
    code, found, said = call(
        capsys,
        *("characterize", "--hz", "0", "--out", "runs", "--perf-stat", "p.txt", "--"),
        *("sh", "-c", "sleep 0.3; cp counts.txt p.txt"),
    )
    assert code == 0, said
    counters = found["counters"]
    law = counters["iron_law"]
    assert law["ipc"]["value"] == pytest.approx(1 / 7.589450, rel=1e-6)
    assert law["cycles_per_s"]["value"] == pytest.approx(171717420118090 / 300)
    assert law["frequency_hz"]["value"] == pytest.approx(171717420118090 / 47812.3392)
    tree = {node["name"]: node for node in counters["top_down"]["level_1"]}
    assert tree["backend_bound"]["ratio"] == pytest.approx(0.6)
    assert "memory_bound" in counters["top_down_next_step"]
    assert "never got a counter" in counters["events_missing"]["LLC-<b>load</b>-misses"]
    page = Path(found["report"]).read_text()
    assert 'class="law card"' in page
    assert "backend bound" in page
    assert "LLC-<b>load" not in page
    code = invoke(["report", str(Path(found["report"]).parent)])
    shown = " ".join(capsys.readouterr().out.split())
    assert "iron law clocks 572 G/s, IPC 0.132" in shown
    assert "top-down backend bound 60.0 % (memory bound 50.0 %)" in shown


def test_counts_from_before_the_run_explain_nothing_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "old.csv"
    path.write_text("10,,instructions,1,100.00,,\n5,,cycles,1,100.00,,\n")
    subprocess.run(["touch", "-d", "1 hour ago", str(path)], check=True)
    code, found, said = call(
        capsys,
        *("characterize", "--hz", "0", "--out", str(tmp_path / "runs"), "--perf-stat", str(path), "--"),
        *("sleep", "0.3"),
    )
    assert code == 0, said
    assert any("written before the run" in one for one in found["counters"]["cautions"])
    assert found["counters"]["iron_law"]["cycles_per_s"]["value"] is None
    assert found["counters"]["iron_law"]["ipc"]["value"] == 2.0


def test_a_file_that_nobody_writes_is_refused_and_one_that_fails_costs_its_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "runs")
    code = invoke(["characterize", "--out", out, "--perf-stat", str(tmp_path / "none"), "--", "true"])
    said = capsys.readouterr()
    assert code == 2
    assert "there is no such file" in said.err
    assert "hint" in said.err or "perf stat -o" in said.err
    assert invoke(["characterize", "--out", out, "--perf-stat", str(tmp_path), "--", "true"]) == 2
    capsys.readouterr()
    code, found, said = call(
        capsys,
        *("characterize", "--hz", "0", "--out", out, "--perf-stat", str(tmp_path / "absent"), "--"),
        *("sh", "-c", "sleep 0.3; : absent"),
    )
    assert code == 4, said
    assert "--perf-stat absent: cannot be read" in said
    # What Steelyard counted itself stands in, and says what it stands in for.
    counters = found["counters"]
    assert counters["source"] in ("steelyard-probe", None)
    assert "No such file" in " ".join([*counters["cautions"], counters["missing"] or ""])


def test_two_runs_are_compared_by_their_counters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text(ROCKSDB)
    after = ROCKSDB.replace("171,717,420,118,090", "151,013,619,154,778")
    (tmp_path / "b.txt").write_text(after.replace("22,625,805,888,251", "194,183,272,380,812"))
    runs = []
    for name in ("a", "b"):
        command = ("sh", "-c", f"sleep 0.3; cp {name}.txt p.txt")
        _, found, _ = call(
            capsys, "characterize", "--hz", "0", "--out", "runs", "--perf-stat", "p.txt", "--", *command
        )
        runs.append(str(Path(found["report"]).parent))
    code, compared, said = call(capsys, "compare", *runs)
    assert code == 0, said
    terms = {term["name"]: term for term in compared["counters"]["iron_law"]["terms"]}
    assert terms["IPC"]["factor"]["value"] == pytest.approx(7.589450 / 0.777686, rel=1e-5)
    assert terms["path length"]["factor"]["value"] is None
    assert terms["path length"]["factor"]["missing"]
    assert invoke(["compare", *runs]) == 0
    shown = capsys.readouterr().out
    assert "iron law" in shown
    assert "9.76 x" in shown


def test_limits_that_a_health_check_measured_stand_in_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = golden()
    checks = tmp_path / "runs" / "health" / machine_identity()
    for name, good in (("20260101T000000Z", True), ("20260102T000000Z", False)):
        folder = checks / name
        folder.mkdir(parents=True)
        write(result, folder / "health.json")
        (folder / "comparison.json").write_text(json.dumps({"is_good": good}))
    code, found, said = call(
        capsys, "characterize", "--hz", "0", "--out", str(tmp_path / "runs"), "--", "sleep", "0.3"
    )
    assert code == 0, said
    run = Path(found["report"]).parent
    assert (run / "health.json").read_bytes() == (checks / "20260101T000000Z" / "health.json").read_bytes()
    day = datetime.fromtimestamp(result.clock.realtime_ns / 1e9, tz=UTC).strftime("%Y-%m-%d")
    assert f"GB/s measured by steelyard health on {day}" in Path(found["report"]).read_text()
    # One that alarmed is no limit.
    (checks / "20260101T000000Z" / "comparison.json").unlink()
    _, found, _ = call(
        capsys, "characterize", "--hz", "0", "--out", str(tmp_path / "runs"), "--", "sleep", "0.2"
    )
    assert not (Path(found["report"]).parent / "health.json").exists()


def test_the_commands_of_the_guide_work_as_they_stand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed (Debian: linux-perf)")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```sh\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)
    commands = [shlex.split(line) for block in blocks for line in block.splitlines() if line.strip()]
    assert commands
    for command in commands:
        assert command[0] == "steelyard"
        code = invoke(command[1:])
        said = capsys.readouterr()
        assert code in (0, 1), said.err
        assert "report" in said.out


def test_counts_that_the_program_did_not_write_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for script, why in (
        ("echo no > c.txt", "this is no output of perf stat"),
        ("true c.txt", "cannot be read"),
    ):
        arguments = ("--hz", "0", "--no-counters", "--perf-stat", "c.txt", "--", "sh", "-c", script)
        code, found, said = call(capsys, "characterize", *arguments)
        assert code == 4
        assert f"--perf-stat c.txt: {why}" in said
        assert found["run_id"]
        (tmp_path / "c.txt").unlink(missing_ok=True)
