"""SparkBench's executors and their hosts: sums of tasks, telemetry of each, and what is refused."""

import json
import os
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from steelyard._base import EnvironmentLacksError, UsageError, WorkloadFailedError, executable
from steelyard.bench.executor import LocalExecutor
from steelyard.benchmarks.spark import section as report
from steelyard.benchmarks.spark.benchmark import SparkBench
from steelyard.benchmarks.spark.stack.executors import by_host, read_executors, skew
from steelyard.benchmarks.spark.stack.far import FarHosts, stop, telemetry_of
from steelyard.records import Clock
from tests.bench.conftest import until
from tests.benchmarks.spark.spark_log import job, log_in, task
from tests.ssh_server import serving


def added(name, host, cores=2):
    info = {"Host": host, "Total Cores": cores}
    return {"Event": "SparkListenerExecutorAdded", "Executor ID": name, "Executor Info": info}


def task_on(executor, host, stage=1, reason="Success", **figures):
    event = task(stage, 1000, 1100, reason)
    event["Task Info"] |= {"Executor ID": executor, "Host": host}
    return event | ({"Task Metrics": figures} if figures else {})


FIGURES = {
    "Executor CPU Time": 2 * 10**9,
    "Executor Run Time": 3000,
    "JVM GC Time": 40,
    "Disk Bytes Spilled": 5,
    "Input Metrics": {"Bytes Read": 100},
    "Output Metrics": {"Bytes Written": 7},
    "Shuffle Read Metrics": {"Local Bytes Read": 30, "Remote Bytes Read": 12},
    "Shuffle Write Metrics": {"Shuffle Bytes Written": 9},
}


def test_tasks_of_measured_jobs_are_summed_by_executor_and_host(tmp_path):
    events = [
        added("0", "b"),
        added("1", "a"),
        added("2", "b"),
        job("warmup-1", 0),
        job("query-1", 1),
        task_on("0", "b", stage=0, **FIGURES),
        task_on("0", "b", **FIGURES),
        task_on("0", "b", **FIGURES),
        task_on("2", "b", reason="ExceptionFailure"),
        task_on("1", "a", **FIGURES),
    ]
    executors = read_executors(log_in(tmp_path, events), {"query-1"})
    assert [(each.id, each.host, each.tasks, each.failed_tasks) for each in executors] == [
        ("1", "a", 1, 0),
        ("0", "b", 2, 0),
        ("2", "b", 1, 1),
    ]
    hosts = by_host(executors)
    assert list(hosts) == ["a", "b"]
    both = hosts["b"]
    assert (both.id, both.slots, both.tasks, both.failed_tasks) == ("0 2", 4, 3, 1)
    assert (both.cpu_s, both.run_s, both.gc_s) == (4.0, 6.0, 0.08)
    assert (both.read_bytes, both.written_bytes, both.spilled_disk_bytes) == (200, 14, 10)
    assert (both.shuffle_read_bytes, both.remote_read_bytes, both.shuffle_written_bytes) == (84, 24, 18)
    assert skew(list(hosts.values())) == pytest.approx(4.0 / 3.0)
    with pytest.raises(WorkloadFailedError, match="line 3 is no event"):
        read_executors(log_in(tmp_path, [*events[:2], {"Event": "SparkListenerExecutorAdded"}]), {"query-1"})


def test_a_host_without_telemetry_says_why(tmp_path):
    clock = SimpleNamespace(monotonic_ns=0, realtime_ns=0)
    telemetry = telemetry_of("10.9.8.7", {}, tmp_path, (0, 1), clock)
    assert telemetry == "--set executor_hosts=10.9.8.7 records it over ssh"
    assert telemetry_of("a", {"a": "Connection closed"}, tmp_path, (0, 1), clock) == "Connection closed"
    assert "no recording here" in telemetry_of("127.0.0.1", {}, tmp_path, (0, 1), clock)
    with pytest.raises(UsageError, match="is no host"):
        FarHosts.of({"executor_hosts": "a=-oProxyCommand", "ssh": "ssh", "remote_probe": "p"}).check()
    with pytest.raises(EnvironmentLacksError, match=r"host far: ssh: connect to host 127\.0\.0\.1"):
        FarHosts.of(
            {"executor_hosts": "far=127.0.0.1", "ssh": "ssh -F /dev/null -p 1", "remote_probe": "p"}
        ).check()


class Session:
    """As much of a run's session as recording needs, with real processes."""

    def __init__(self, directory):
        self.directory = directory
        (directory / "logs").mkdir(parents=True)

    def start_process(self, name, command, *, cpus, is_aside):
        return LocalExecutor().start(name, command, log=self.directory / "logs" / f"{name}.log")

    def expect_end(self, process):
        pass

    def join(self, process, timeout_s, *, what):
        until(lambda: process.poll() is not None, timeout_s)
        assert process.stop(0.0).exit_code == 0


def test_a_host_is_recorded_over_ssh_and_keeps_nothing(tmp_path):
    # What the host writes while it records is below its folder of temporary files, here one of the test's.
    kept = tmp_path / "kept"
    kept.mkdir()
    probe = tmp_path / "probe"
    probe.write_text(
        f'#!/bin/sh\nls -d "${{5%/*}}" >>{kept}/made\nexec {executable("steelyard-probe")} "$@"\n'
    )
    probe.chmod(0o755)
    session = Session(tmp_path / "run")
    with serving(tmp_path / "ssh") as far:
        hosts = FarHosts.of(
            {
                "executor_hosts": f"node={far.address} gone=127.0.0.1",
                "ssh": far.ssh,
                "remote_probe": str(probe),
            }
        )
        started = hosts.start(session)
        until(lambda: (kept / "made").exists() and len((kept / "made").read_text().split()) == 2)
        # The second is lost in the middle.
        os.kill(started["gone"][0].pid, signal.SIGKILL)
        begin = Clock.now()
        until(lambda: Clock.now().monotonic_ns > begin.monotonic_ns + 1_000_000_000)
        span = (begin.monotonic_ns, Clock.now().monotonic_ns)
        found = stop({"node": started["node"]}, session)
        made = (kept / "made").read_text().split()
        until(lambda: not any(Path(folder).exists() for folder in made))
    telemetry = telemetry_of("node", found, session.directory, span, begin)
    assert 0.0 < telemetry["cpu_ratio"] <= 1.0
    assert telemetry["least_available_bytes"] > 1 << 20
    assert telemetry_of("node", found, session.directory, (0, 1), begin)["cpu_ratio"] is None
    assert not list((session.directory / "hosts").glob("1.tar"))


def test_the_result_and_the_page_have_every_host(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "_running", lambda data, queries: None)
    events = [added("0", "10.9.8.7"), added("1", "10.9.8.8"), added("2", "10.9.8.7"), job("query-1", 1)]
    events += [task_on("0", "10.9.8.7", **FIGURES), task_on("1", "10.9.8.8", **FIGURES)]
    executors = read_executors(log_in(tmp_path, events), {"query-1"})
    bench = object.__new__(SparkBench)
    bench.session = SimpleNamespace(directory=tmp_path)
    bench._queries = [SimpleNamespace(begin_ns=5, end_ns=9)]
    bench._measured = {"monotonic_ns": 1, "realtime_ns": 2}
    bench._recordings = {"10.9.8.7": "Connection closed", "10.9.8.9": "No route to host"}
    rows = bench._hosts(by_host(executors))
    assert [(row["host"], row["missing"]) for row in rows] == [
        ("10.9.8.7", "Connection closed"),
        ("10.9.8.8", "--set executor_hosts=10.9.8.8 records it over ssh"),
        ("10.9.8.9", "No route to host"),
    ]
    assert rows[2]["did"] is None
    telemetry = dict.fromkeys((name for name, _, _ in report._SEEN), 0.5)
    seen = {**{name: rows[0][name] for name in ("host", "did")}, "telemetry": telemetry}
    document = {
        "queries": [],
        "slots": 2,
        "hosts": [seen, *rows[1:]],
        "executors": [executor.as_document() for executor in executors],
    }
    (tmp_path / "stages.json").write_text(json.dumps(document))
    *_, hosts = report.sections(SimpleNamespace(folder=tmp_path))
    did, each, known, missing = ([[cell.text for cell in row] for row in one.rows] for one in hosts.tables)
    assert [row[:3] for row in did] == [["10.9.8.7", "2", "1"], ["10.9.8.8", "1", "1"]]
    assert [row[:3] for row in each] == [
        ["10.9.8.7", "0", "1"],
        ["10.9.8.7", "2", "0"],
        ["10.9.8.8", "1", "1"],
    ]
    assert known[0][0] == "10.9.8.7"
    assert [row[0] for row in missing] == ["10.9.8.8", "10.9.8.9"]
