"""The benchmark of RocksDB: what db_bench prints, what is refused, and a real run."""

import json
import os
import re
import signal
import subprocess

import pytest

from steelyard._base import EnvironmentLacksError, WorkloadFailedError, schemas_dir
from steelyard.bench import undo
from steelyard.bench.stack.processor import CpuTime
from steelyard.bench.stack.recipe import find_program
from steelyard.benchmarks.rocksdb.benchmark import RocksDbBench, Step, _found, _levels, needed_bytes
from steelyard.benchmarks.rocksdb.flags import arguments, load_flags
from steelyard.benchmarks.rocksdb.output import parse, rates
from steelyard.records import Level, Machine, RunStatus, read

MACHINE = read(Machine, schemas_dir() / "golden" / "machine.json")
READ = """RocksDB:    version 7.8.3
WARNING: Assertions are enabled; benchmarks unnecessarily slow
------------------------------------------------
DB path: [/tmp/database]
readrandom : 56.257 micros/op 35439 ops/sec 3.019 seconds 106998 operations; 3.9 MB/s (53999 of 54000 found)

Microseconds per read:
Count: 106998 Average: 56.3472  StdDev: 1311.87
Percentiles: P50: 6.35 P75: 8.33 P99: 14.57 P99.9: 24547.60 P99.99: 53250.50
"""
FILL = "fillseq      :      15.818 micros/op 63216 ops/sec 3.164 seconds 200000 operations;    7.0 MB/s\n"


def test_figures_of_a_step_are_read():
    result = parse(READ, "readrandom")
    assert result.operations == 106_998
    assert result.per_s == pytest.approx(106_998 / 3.019)
    assert (result.p50_ns, result.p99_ns) == (6350.0, 14_570.0)
    assert result.found_ratio == pytest.approx(53_999 / 54_000)
    assert result.has_assertions
    assert result.version == "7.8.3"


def test_what_is_not_printed_is_missing():
    result = parse(FILL, "fillseq")
    assert result.per_s == pytest.approx(200_000 / 3.164)
    assert (result.p50_ns, result.found_ratio, result.version) == (None, None, None)
    assert not result.has_assertions


@pytest.mark.parametrize("text", ["", FILL, "readrandom : 1 micros/op 0 ops/sec 0.0 seconds 0 operations;\n"])
def test_no_result_is_an_error(text):
    with pytest.raises(WorkloadFailedError, match="no result of readrandom"):
        parse(text, "readrandom")


def test_the_first_second_is_no_rate(tmp_path):
    (tmp_path / "rates.csv").write_text("secs_elapsed,interval_qps\n1,10\n2,20\n3,oops\n4,40\n")
    assert rates(tmp_path / "rates.csv") == [20.0, 40.0]
    assert rates(tmp_path / "absent.csv") == []


def step(found, values=()):
    text = READ.replace("53999 of 54000", found)
    return Step("readrandom_all", 2, parse(text, "readrandom"), list(values), CpuTime(1.0, 1.0), 3.0)


@pytest.mark.parametrize(
    ("found", "level"), [("54000 of 54000", Level.VALID), ("50000 of 54000", Level.INVALID)]
)
def test_keys_that_were_not_found_make_the_result_invalid(found, level):
    assert _found([step(found)]).level is level


def test_steps_of_other_levels_are_compared_with_their_own():
    levels = _levels([step("1 of 1", [10.0, 11.0, 9.0]), step("1 of 1", [1000.0, 1000.0]), step("1 of 1")])
    assert levels == [1.0, 1.1, 0.9, 1.0, 1.0]


def test_a_disk_that_is_too_small_is_refused(tmp_path):
    settings = {"keys": 10**13, "value_size": 100, "directory": str(tmp_path)}
    assert needed_bytes(settings) > 10**15
    with pytest.raises(EnvironmentLacksError, match=r"MiB of disk space|not installed"):
        RocksDbBench.checks(settings, machine=MACHINE)


def test_each_flag_has_a_reason_and_a_value():
    values = dict.fromkeys(
        ("database", "keys", "key_bytes", "value_bytes", "threads", "seed", "report", "seconds"), 7
    )
    fill, read_ = (arguments(values, reads=reads) for reads in (False, True))
    assert all(len(flag.reason) > 15 for flag in load_flags())
    assert not any("{" in flag for flag in (*fill, *read_))
    assert set(read_) - set(fill) == {"--use_existing_db=1", "--duration=7"}
    assert len({flag.split("=")[0] for flag in read_}) == len(read_)


@pytest.mark.slow
def test_db_bench_knows_each_flag():
    known = subprocess.run([find_program("db_bench"), "--help"], capture_output=True, text=True, check=False)
    for flag in load_flags():
        assert re.search(rf"^\s+-{flag.name} \(", known.stdout, re.MULTILINE), flag.name


def test_a_folder_that_is_not_there_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr("steelyard.benchmarks.rocksdb.benchmark.require", lambda *_: None)
    settings = {"keys": 1000, "value_size": 100, "directory": str(tmp_path / "none")}
    with pytest.raises(EnvironmentLacksError, match=r"directory=.*/none: there is no such folder"):
        RocksDbBench.checks(settings, machine=MACHINE)


@pytest.mark.slow
def test_a_smoke_run_measures_every_step(runner):
    live = runner.start("--tier", "smoke", settings=("keys=20000", "step=1"), benchmark="rocksdb")
    code, output, errors = live.finish(300)
    # Other work on the machine makes the verdict invalid: that is 1.
    assert code in (0, 1), errors
    run = live.run()
    names = ["fillseq", "readrandom_one", "readrandom_all", "readwhilewriting_one", "readwhilewriting_all"]
    assert [each.name for each in run.steps] == names
    assert all(run.metrics[f"{name}_per_s"].value > 0 for name in names)
    assert run.metrics["readrandom_all_p99_ns"].value
    assert run.metrics["server_cpu_ratio"].value
    checks = {check.id: check for check in run.verdict.checks}
    assert checks["keys-found"].level is Level.VALID
    # db_bench counts the writes of a step in its rates and its CPU time, and not in its result.
    assert "Operations of readwhilewriting are reads" in (live.directory / "report.html").read_text()
    assert not (live.directory / "database").exists(), "the database is removed"
    assert json.loads(output)["runs"][0]["run_id"] == run.run_id


@pytest.mark.slow
def test_db_bench_that_is_killed_makes_the_run_incomplete(runner):
    live = runner.start("--tier", "smoke", settings=("step=60",), benchmark="rocksdb")
    os.kill(live.until(lambda: live.pid_of("readrandom_one"), 120.0), signal.SIGKILL)
    assert live.finish(60)[0] == 4
    assert "readrandom_one was killed by SIGKILL in phase measure" in live.complaint()
    assert live.run().status is RunStatus.INCOMPLETE
    assert not (live.directory / "database").exists()


@pytest.mark.slow
def test_the_next_start_removes_the_database_of_a_killed_run(runner, tmp_path, monkeypatch):
    disk = tmp_path / "disk"
    disk.mkdir()
    live = runner.start(
        "--tier", "smoke", settings=("step=60", "keys=20000", f"directory={disk}"), benchmark="rocksdb"
    )
    live.until(lambda: live.pid_of("readrandom_one"), 120.0)
    os.kill(live.process.pid, signal.SIGKILL)
    live.finish(60)
    live.until(lambda: not live.left(), 60.0)
    [database] = disk.iterdir()
    assert (database / "CURRENT").is_file()
    monkeypatch.setenv("XDG_STATE_HOME", str(runner.state))
    undo.replay()
    assert list(disk.iterdir()) == []
