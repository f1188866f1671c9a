"""SparkBench: settings on machines of any size, Java, Spark's event log, and what is refused."""

import contextlib
import json
import re
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard._base import EnvironmentLacksError, UsageError, WorkloadFailedError, schemas_dir, workloads_dir
from steelyard.bench import undo
from steelyard.bench.limits.memory import available_memory_bytes
from steelyard.bench.parameters import Settings
from steelyard.bench.placement import Placement
from steelyard.bench.stack.alike import times_alike
from steelyard.bench.stack.java import find_java
from steelyard.benchmarks.spark import parameters
from steelyard.benchmarks.spark import section as report
from steelyard.benchmarks.spark.benchmark import SparkBench
from steelyard.benchmarks.spark.driver import place_folders
from steelyard.benchmarks.spark.metrics import (
    Query,
    query_metrics,
    query_of,
    result_check,
    tasks_check,
)
from steelyard.benchmarks.spark.stack import cluster
from steelyard.benchmarks.spark.stack.events import Lost, Tail, read_stages
from steelyard.benchmarks.spark.stack.recipe import JAVA
from steelyard.benchmarks.spark.stack.settings import EXECUTOR_CORES, user_configuration
from steelyard.records import Level, Machine, read
from steelyard.report.running import running
from tests.benchmarks.spark.spark_driver import SOURCE, load_driver
from tests.benchmarks.spark.spark_log import job, log_in, task

GIB = 1 << 30
MACHINE = read(Machine, schemas_dir() / "golden" / "machine.json")


def settings_on(*, cpus=8, memory_bytes=64 * GIB, tier="smoke", **chosen):
    memory = MACHINE.memory.model_copy(update={"total_bytes": memory_bytes, "limit_bytes": None})
    machine = MACHINE.model_copy(update={"memory": memory})

    def suggest(known):
        placed = Placement(tuple(range(cpus)), ())
        return {"seed": 1, **parameters.suggest(known, machine=machine, tier=tier, placement=placed)}

    texts = {name: str(value) for name, value in chosen.items()}
    return Settings.resolve(SparkBench.parameters, texts, suggest, owner="spark"), machine


# Settings


@given(st.integers(1, 1000), st.integers(4 * GIB, 1 << 45), st.sampled_from(["smoke", "quick", "full"]))
def test_settings_fit_any_machine(cpus, memory_bytes, tier):
    settings, machine = settings_on(cpus=cpus, memory_bytes=memory_bytes, tier=tier)
    slots = settings["executors"] * settings["executor_cores"]
    assert cpus <= slots < cpus + settings["executors"]
    assert settings["executor_cores"] <= EXECUTOR_CORES
    assert settings["partitions"] >= 4 * slots
    assert 512 << 20 <= settings["memory"] <= available_memory_bytes(machine) / 2


def test_the_largest_tier_scans_more_than_100_gb():
    settings, _ = settings_on(tier="full")
    assert settings["scale"] > 100e9
    assert parameters.rows_of(settings["scale"]) > 10**9


@pytest.mark.parametrize("master", ["spark://host", "mesos://host:5050", "local[x]", "localhost", ""])
def test_what_is_no_master_is_refused(master):
    settings, machine = settings_on(master=master)
    with pytest.raises(UsageError, match="is no master of Spark"):
        parameters.check(settings, machine)


def test_a_cluster_that_is_not_there_is_refused(monkeypatch):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        # It does not listen: nobody answers, and nobody else gets the port.
        settings, machine = settings_on(master=f"spark://127.0.0.1:{probe.getsockname()[1]}")
        with pytest.raises(EnvironmentLacksError, match="no Spark master answers"):
            parameters.check(settings, machine)
        # The first of two may be gone.
        with socket.create_server(("127.0.0.1", 0)) as second:
            both = f"{settings['master']},127.0.0.1:{second.getsockname()[1]}"
            parameters.check(*settings_on(master=both))
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    settings, machine = settings_on(master="yarn")
    with pytest.raises(EnvironmentLacksError, match="HADOOP_CONF_DIR"):
        parameters.check(settings, machine)


def test_a_cluster_of_kubernetes_or_yarn_that_does_not_answer_is_refused(monkeypatch, tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
        for master in (f"k8s://{address}", f"k8s://https://{address}"):
            with pytest.raises(EnvironmentLacksError, match=rf"no API server .*{address}: .*refused"):
                parameters.check(*settings_on(master=master))
        (tmp_path / "yarn-site.xml").write_text(
            "<configuration><property><name>yarn.resourcemanager.address</name>"
            f"<value>{address}</value></property></configuration>"
        )
        monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
        with pytest.raises(EnvironmentLacksError, match=rf"master=yarn \(.*no resource manager .*{address}"):
            parameters.check(*settings_on(master="yarn"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        parameters.check(*settings_on(master=f"k8s://http://127.0.0.1:{server.getsockname()[1]}"))
    for master in ("k8s://", "k8s://ftp://a", "k8s://host:x", "spark://a:1,b"):
        with pytest.raises(UsageError, match=f"master={re.escape(master)}"):
            parameters.check(*settings_on(master=master))


def test_the_users_configuration_comes_before_steelyards(monkeypatch, tmp_path):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "core-site.xml").write_text("<configuration/>")
    (theirs / "log4j2.properties").write_text("rootLogger.level = trace\n")
    (theirs / "spark-defaults.conf").write_text("spark.eventLog.enabled false\nspark.hadoop.fs.s3a.a b")
    monkeypatch.setenv("SPARK_CONF_DIR", str(theirs))
    # Of the environment with another cluster only; of the parameter always.
    own, _ = settings_on()
    assert user_configuration(own) is None
    assert user_configuration(settings_on(master="yarn")[0]) == theirs
    assert user_configuration(settings_on(spark_conf=theirs)[0]) == theirs
    assert cluster.configuration(tmp_path / "none", None) == SOURCE / "conf"
    folder = cluster.configuration(tmp_path / "both", theirs)
    assert (folder / "core-site.xml").read_text() == "<configuration/>"
    assert "trace" not in (folder / "log4j2.properties").read_text()
    rows = [line.split(None, 1) for line in (folder / "spark-defaults.conf").read_text().splitlines()]
    last = {row[0]: row[1] for row in rows if len(row) == 2}
    assert last["spark.eventLog.enabled"] == "true"
    assert last["spark.hadoop.fs.s3a.a"] == "b"
    with pytest.raises(UsageError, match=r"spark_conf=.*no such folder"):
        parameters.check(*settings_on(spark_conf=tmp_path / "nowhere"))


def test_folders_of_another_file_system_are_named_until_the_driver_removed_them(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    settings, _ = settings_on(tables="s3a://bucket/tables/")

    def place(name, *, removed):
        run = tmp_path / name
        (run / "logs").mkdir(parents=True)
        with contextlib.ExitStack() as endings:
            session = SimpleNamespace(directory=run, settings=settings, endings=endings)
            folders = place_folders(session)
            (run / "logs" / "driver.log").write_text(
                '{"event": "removed", "x": 1}\n' if removed else "killed"
            )
        return folders

    assert place("one", removed=True).output == "s3a://bucket/tables/steelyard-one-output"
    assert list(undo.journal_dir().glob("*.json")) == []
    place("two", removed=False)
    monkeypatch.setattr(undo, "start_ticks", lambda pid: None)
    [message] = undo.replay()
    assert (
        "left s3a://bucket/tables/steelyard-two-partial and s3a://bucket/tables/steelyard-two-output"
        in message
    )
    # It is reported until somebody has removed the tables.
    assert undo.replay() == [message]


@pytest.mark.parametrize(
    ("text", "folder"),
    [("/mnt/a", "/mnt/a"), ("file:///mnt/a", "/mnt/a"), ("file:/mnt/a", "/mnt/a"), ("hdfs://a/b", None)],
)
def test_urls_of_files_are_folders(text, folder):
    assert parameters.local_folder(text) == (None if folder is None else Path(folder))


def test_a_disk_that_is_too_small_is_refused(tmp_path):
    settings, machine = settings_on(scale="900TB", tables=tmp_path)
    with pytest.raises(EnvironmentLacksError, match="MiB of disk space") as raised:
        parameters.check(settings, machine)
    assert "scale=" in raised.value.hint
    assert "directory=" in raised.value.hint
    # Another file system and another cluster have disks of their own.
    with socket.create_server(("127.0.0.1", 0)) as master:
        url = f"spark://127.0.0.1:{master.getsockname()[1]}"
        settings, machine = settings_on(scale="900TB", tables="s3a://bucket/tables", master=url)
        parameters.check(settings, machine)


def test_tables_that_are_there_take_no_more_space(tmp_path):
    settings, _ = settings_on()
    first, _ = parameters.needed_disk_bytes(settings, have_tables=False)
    again, shuffled = parameters.needed_disk_bytes(settings, have_tables=True)
    assert first - again == pytest.approx(1.1 * settings["scale"])
    assert shuffled >= settings["scale"]


def test_memory_that_is_not_there_is_refused():
    settings, machine = settings_on(memory_bytes=8 * GIB, memory="7GiB")
    with pytest.raises(EnvironmentLacksError, match="more than the 8192 MiB"):
        parameters.check(settings, machine)
    with pytest.raises(UsageError, match="not NAME=VALUE"):
        parameters.check(*settings_on(conf="spark.a"))


# Java


def java_of(folder, version):
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("versions", "message"),
    [
        ((), "there is no Java"),
        (("1.8.0_392",), "1.8.0_392"),
        (("25.0.1",), "25.0.1"),
        (("1.8.0_392", "25.0.1"), "1.8.0_392 .*, 25.0.1 "),
    ],
)
def test_without_a_java_that_fits_the_versions_here_are_named(monkeypatch, tmp_path, versions, message):
    for version in versions:
        java_of(tmp_path / "jvms" / version, version)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("STEELYARD_JVMS", str(tmp_path / "jvms"))
    with pytest.raises(
        EnvironmentLacksError, match=f"Spark 4.0 needs Java 17 or 21, and .*{message}"
    ) as raised:
        find_java(JAVA, benchmark="spark")
    assert raised.value.hint == "steelyard install spark"
    wanted = java_of(tmp_path / "jvms" / "z-17", "17.0.15")
    assert find_java(JAVA, benchmark="spark") == wanted


# The event log


def completed(stage, tasks, **values):
    metrics = [{"Name": f"internal.metrics.{name}", "Value": value} for name, value in values.items()]
    info = {
        "Stage ID": stage,
        "Number of Tasks": tasks,
        "Accumulables": [*metrics, {"Name": "other", "Value": "x"}],
    }
    return {"Event": "SparkListenerStageCompleted", "Stage Info": info}


SCAN = {"input.bytesRead": 1000, "input.recordsRead": 10, "shuffle.write.bytesWritten": 500}
EVENTS = [
    {"Event": "SparkListenerLogStart", "Spark Version": "4.0.5"},
    job("query-1", 0),
    task(0, 1000, 1100),
    completed(0, 1, **{"input.bytesRead": 50}),
    job("query-1", 1),
    job("query-1", 2),
    task(2, 1300, 1400),
    task(1, 1200, 1350),
    task(1, 1250, 1300, "ExceptionFailure"),
    completed(2, 1, **SCAN, executorCpuTime=40_000_000, executorRunTime=100),
    completed(1, 2, **SCAN, executorCpuTime=60_000_000, executorRunTime=200, jvmGCTime=30),
    job("query-1", 1, 2, 3),
    task(3, 1500, 2500),
    completed(
        3,
        1,
        **{"shuffle.read.localBytesRead": 600, "shuffle.read.remoteBytesRead": 400, "diskBytesSpilled": 77},
        **{"output.bytesWritten": 90, "executorCpuTime": 900_000_000, "executorRunTime": 1000},
    ),
]


@pytest.fixture
def query(tmp_path):
    stages = read_stages(log_in(tmp_path, EVENTS), offset_ns=-(10**9))
    return query_of("query-1", 0, 2_000_000_000, stages)


def test_stages_are_found_by_what_they_do(query):
    assert {step: stage.id for step, stage in query.steps.items()} == {
        "first_scan": 1,
        "second_scan": 2,
        "compare": 3,
    }
    first, last = query.steps["first_scan"], query.steps["compare"]
    assert (first.begin_ns, first.end_ns) == (200_000_000, 350_000_000)
    assert (first.tasks, first.failed_tasks, first.read_rows, first.gc_s) == (2, 1, 10, 0.03)
    assert (last.shuffle_read_bytes, last.spilled_disk_bytes, last.read_bytes) == (1000, 77, 0)
    assert [stage.id for stage in query.others] == [0]


def test_metrics_are_of_all_stages(query):
    metrics = query_metrics([query], slots=2)
    values = {name: metric.value for name, metric in metrics.items()}
    assert values["queries_per_hour"] == 1800
    assert values["query_s"] == 2.0
    assert values["read_bytes_per_s"] == pytest.approx(2050 / 2)
    assert values["shuffle_bytes"] == 1000
    assert values["spill_bytes"] == 77
    assert values["gc_ratio"] == pytest.approx(0.03 / 1.3)
    assert values["executor_cpu_ratio"] == pytest.approx(1.0 / 4)
    assert values["compare_cpu_ratio"] == pytest.approx(0.9 / 2)
    assert values["first_scan_s"] == pytest.approx(0.15)


def test_other_stages_than_three_are_no_result(tmp_path):
    stages = read_stages(log_in(tmp_path, EVENTS[:-2]), offset_ns=0)
    with pytest.raises(WorkloadFailedError, match="2 scanning and 0 shuffled stages"):
        query_of("query-1", 0, 1, stages)


@pytest.mark.parametrize("line", ["{", "[]", '{"Event": "SparkListenerTaskEnd"}', '{"Event": 1'])
def test_a_damaged_event_log_is_named(tmp_path, line):
    path = log_in(tmp_path, EVENTS)
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(WorkloadFailedError, match=f"line {len(EVENTS) + 1} is no event"):
        read_stages(path, 0)


def test_lost_executors_are_seen_while_the_log_grows(tmp_path):
    tail = Tail(tmp_path)
    assert tail.lost() == []
    path = log_in(tmp_path, EVENTS)
    assert tail.lost() == []
    removed = {
        "Event": "SparkListenerExecutorRemoved",
        "Timestamp": 1,
        "Executor ID": "0",
        "Removed Reason": "Command exited with code 137.",
    }
    text = json.dumps(removed) + "\n"
    with path.open("a") as log:
        log.write(text[:70])
        log.flush()
        assert tail.lost() == []
        log.write(text[70:])
        log.flush()
    assert tail.lost() == [Lost("0", "Command exited with code 137")]
    assert tail.lost() == []


# Checks


def checksums(*sums, expected="7", first=False):
    found = [{"name": f"query-{at}", "rows": 3, "sum": each} for at, each in enumerate(sums, 1)]
    return {"found": found, "expected": {"rows": 3, "sum": expected}, "first_run": first}


@pytest.mark.parametrize(
    ("results", "level", "claim"),
    [
        (checksums("7", "7"), Level.VALID, "with the first run of these tables"),
        (checksums("7", "7", first=True), Level.VALID, "with each other"),
        (checksums("7", "8"), Level.INVALID, "query-2 has 3 rows with checksum 8"),
        (checksums("8", "8"), Level.INVALID, "query-1 has 3 rows with checksum 8"),
    ],
)
def test_a_wrong_result_is_invalid(results, level, claim):
    check = result_check(results)
    assert check.level is level
    assert claim in check.claim


def test_failed_tasks_and_unlike_queries_are_reported(query):
    assert tasks_check([query]).level is Level.INVALID
    whole = Query("query-2", 0, 2_100_000_000, {"compare": query.steps["compare"]}, ())
    assert tasks_check([whole]).level is Level.VALID
    assert times_alike([query.seconds, whole.seconds], "queries").level is Level.VALID
    assert times_alike([2.0, 2.1, 3.0], "queries").level is Level.SUSPECT
    assert times_alike([query.seconds], "queries").value is None


# The driver and its files


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "An error occurred while calling o1.sql.\n: org.apache.spark.SparkException: Job aborted due to"
            " stage failure: Task 0 failed\n\tat a.b(C.java)\nCaused by: java.io.IOException: No space left"
            " on device\n",
            "No space left on device",
        ),
        ("[PATH_NOT_FOUND] Path does not exist: s3a://x\nmore", "Path does not exist"),
        ("", "ValueError"),
    ],
)
def test_a_failure_is_one_line_with_its_cause(text, expected):
    line = load_driver().reason(ValueError(text))
    assert expected in line
    assert "\n" not in line


def test_keys_and_words_of_the_tables_are_filled_in():
    driver = load_driver()
    sizes = dict.fromkeys(("users", "rows", "items", "regions", "devices", "categories", "partitions"), 10)
    text = driver.filled((SOURCE / "tables.sql").read_text(), sizes, 42)
    assert not re.search(r"\b(zipf|word|u)\(|[{}]", text.partition("SELECT")[2])
    assert "xxhash64(id, 42, 1)" in text
    assert len(set(driver.WORDS)) == 64


def test_versions_are_the_same_everywhere():
    assert load_driver().VERSION == parameters.VERSION
    lock = (SOURCE / "requirements.lock").read_text()
    developers = (workloads_dir().parent / "requirements-dev.lock").read_text()
    pinned = dict(re.findall(r"^(\S+)==(\S+) ", lock, re.MULTILINE))
    assert set(pinned) == {"py4j", "pyspark"}
    # Slow tests run what developers have installed.
    assert all(f"{name}=={version} " in developers for name, version in pinned.items())
    assert "://" not in lock + (SOURCE / "build.lock").read_text()


# The page


def test_a_page_without_stages_says_so(tmp_path):
    sections = report.sections(SimpleNamespace(folder=tmp_path, steps=()))
    assert sections[0].charts[0].missing
    assert sections[1].tables[0].rows == ()


def test_running_tasks_are_counted_at_each_change():
    times, counts = running([(0, 10), (5, 10), (10, 12)])
    assert times.tolist() == [0, 5, 10, 12]
    assert counts.tolist() == [1, 2, 1, 0]
