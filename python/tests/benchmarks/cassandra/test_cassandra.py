"""The benchmark of Cassandra: profiles, Java, the collector's log, folders, and whole runs of a real node."""

import contextlib
import os
import signal
import socket
import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from steelyard._base import EnvironmentLacksError, schemas_dir
from steelyard.bench import scratch, undo
from steelyard.bench.executor import LocalExecutor
from steelyard.bench.load.metrics import operation_metrics
from steelyard.bench.parameters import Settings
from steelyard.bench.placement import Placement
from steelyard.bench.stack.disks import device_of
from steelyard.bench.stack.recipe import payload_dir, payload_source
from steelyard.benchmarks.cassandra import section as report
from steelyard.benchmarks.cassandra.benchmark import CassandraBench
from steelyard.benchmarks.cassandra.parameters import PARAMETERS, PROFILES
from steelyard.benchmarks.cassandra.stack import node
from steelyard.benchmarks.cassandra.stack.garbage import gc_metrics, pauses_of, read_pauses
from steelyard.benchmarks.cassandra.stack.profile import load_profile, value_of
from steelyard.records import Check, Level, LoadResult, Machine, RunStatus, read, write
from steelyard.report.bench.operation_table import operation_section

GIB = 1 << 30
GOLDEN = schemas_dir() / "golden"
ONE = Placement((0,), (1,))
SHORT = ("records=1000", "warmup_min=1", "warmup_max=3", "measure=3", "heap=512MiB", "connections=20")


def machine(memory_bytes=64 * GIB):
    golden = read(Machine, GOLDEN / "machine.json")
    memory = golden.memory.model_copy(update={"total_bytes": memory_bytes, "limit_bytes": None})
    return golden.model_copy(update={"memory": memory})


def settings(memory_bytes=64 * GIB, tier="smoke", **chosen):
    def suggest(given):
        return {
            "seed": 1,
            **CassandraBench.suggest(given, machine=machine(memory_bytes), tier=tier, placement=ONE),
        }

    return Settings.resolve(PARAMETERS, chosen, suggest, owner="cassandra")


# Profiles


@pytest.mark.parametrize("name", PROFILES)
def test_each_setting_of_a_profile_has_a_reason_and_a_value(name):
    profile = load_profile(name)
    resolved = profile.resolved(2 * GIB, GIB)
    assert resolved
    assert all(len(each.reason) > 20 and "{" not in each.value for each in resolved)
    assert value_of(resolved, "java", "heap") == "2048M"


def test_the_tuned_profile_is_the_published_recipe():
    profile = load_profile("tuned")
    large = settings(memory_bytes=128 * GIB, tier="full")
    assert large.count("heap") == 6 * GIB
    assert large.count("memtable") == 4 * GIB
    assert large.count("connections") == 200
    resolved = profile.resolved(large.count("heap"), large.count("memtable"))
    assert value_of(resolved, "yaml", "concurrent_reads") == "64"
    assert value_of(resolved, "yaml", "concurrent_writes") == "64"
    assert value_of(resolved, "yaml", "memtable_offheap_space") == "4096MiB"
    assert value_of(resolved, "limit", "open_files") == "32768"
    # Threads x tables x 256 KiB fill the direct memory when the records do not fit into the page cache.
    assert value_of(resolved, "yaml", "compressed_read_ahead_buffer_size") == "0KiB"
    assert value_of(load_profile("stock").settings, "yaml", "concurrent_reads") is None


def test_sizes_follow_from_memory_and_tier():
    assert settings(memory_bytes=8 * GIB, tier="full").count("heap") == 2 * GIB
    assert settings(memory_bytes=8 * GIB, tier="full", profile="stock").count("heap") == 2 * GIB
    assert settings(memory_bytes=128 * GIB, tier="full", profile="stock").count("heap") == 8 * GIB
    assert settings(tier="smoke").count("heap") == GIB
    # Twice the memory, so that the page cache holds less than half.
    full = settings(memory_bytes=8 * GIB, tier="full")
    assert full.count("records") * 1000 > 1.5 * 8 * GIB


def test_a_smaller_limit_of_open_files_is_reported(monkeypatch):
    resolved = load_profile("tuned").resolved(GIB, GIB)
    monkeypatch.setattr(node.resource, "getrlimit", lambda which: (1024, 20_000))
    files = node.open_files(resolved)
    assert (files.asked, files.allowed) == (32_768, 20_000)
    assert "20000 files, not 32768" in files.check().claim
    monkeypatch.setattr(node.resource, "getrlimit", lambda which: (1024, node.resource.RLIM_INFINITY))
    assert node.open_files(resolved).allowed == 32_768
    assert node.open_files(load_profile("stock").settings) is None


# Java


def java_of(folder, version):
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    program.chmod(0o755)
    return program


def only_these(monkeypatch, tmp_path, *versions):
    """Make Java of these versions the only ones here."""
    for version in versions:
        java_of(tmp_path / "jvms" / f"java-{version}", version)
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "env", "sed", "head", "sh"):
        (tools / name).symlink_to(f"/usr/bin/{name}")
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("STEELYARD_JVMS", str(tmp_path / "jvms"))


@pytest.mark.parametrize("version", ["1.8.0_402", "25.0.1"])
def test_another_java_is_named(monkeypatch, tmp_path, version):
    only_these(monkeypatch, tmp_path, version)
    with pytest.raises(EnvironmentLacksError) as raised:
        node.find_java("cassandra")
    assert "needs Java 17 or 21" in raised.value.message
    assert version in raised.value.message
    assert raised.value.hint == "steelyard install cassandra"


def test_no_java_is_named(monkeypatch, tmp_path):
    only_these(monkeypatch, tmp_path)
    with pytest.raises(EnvironmentLacksError, match="needs Java 17 or 21, and there is no Java"):
        node.find_java("cassandra")


@pytest.mark.parametrize("version", ["17.0.15", "21.0.3"])
def test_the_right_java_is_found_among_others(monkeypatch, tmp_path, version):
    only_these(monkeypatch, tmp_path, "25.0.1", version, "1.8.0_402")
    assert node.find_java("cassandra") == str(tmp_path / f"jvms/java-{version}/bin/java")
    # The installation of the payload goes by the same rule.
    command = [str(payload_source("cassandra") / "find-java")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == node.find_java("cassandra")


# What is checked before a run


def test_folders_that_are_not_there_are_named(monkeypatch, tmp_path):
    monkeypatch.setattr("steelyard.benchmarks.cassandra.benchmark.find_java", lambda name: "java")
    monkeypatch.setattr("steelyard.benchmarks.cassandra.benchmark.require", lambda *_: None)
    with pytest.raises(EnvironmentLacksError, match=r"commit_log=/nowhere/at/all: there is no such folder"):
        CassandraBench.checks(settings(commit_log="/nowhere/at/all"), machine=machine())
    with pytest.raises(EnvironmentLacksError, match=r"the data need \d+ MiB of disk"):
        CassandraBench.checks(settings(data=str(tmp_path), records="90000000000"), machine=machine())
    with pytest.raises(EnvironmentLacksError, match=r"heap and memtable ask for"):
        CassandraBench.checks(settings(heap="65GiB"), machine=machine())


def test_a_port_that_is_taken_is_named(monkeypatch):
    monkeypatch.setattr("steelyard.benchmarks.cassandra.benchmark.find_java", lambda name: "java")
    monkeypatch.setattr("steelyard.benchmarks.cassandra.benchmark.require", lambda *_: None)
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(EnvironmentLacksError, match=f"port {port} of 127.0.0.1 cannot be used"):
            CassandraBench.checks(settings(port=str(port)), machine=machine())


# Readiness


@contextlib.contextmanager
def answering(reply):
    """A server that answers one request with ``reply``."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            with contextlib.suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    connection.recv(9)
                    connection.sendall(reply)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        listener.close()
        thread.join()


@pytest.mark.parametrize(
    ("reply", "ready"),
    [
        (bytes([0x84, 0, 0, 0, 0x06, 0, 0, 0, 0]), True),
        (bytes([0x84, 0, 0, 0, 0x00, 0, 0, 0, 0]), False),
        (b"-ERR unknown command\r\n", False),
        (b"", False),
    ],
)
def test_only_a_node_that_serves_is_ready(reply, ready):
    with answering(reply) as port:
        assert node.answers(port) is ready


def test_a_port_without_a_server_is_not_ready():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        assert node.answers(probe.getsockname()[1]) is False


# The collector's log

LOG = """\
[100ns] Using G1
[1000000000ns] GC(0) Pause Young (Normal) (G1 Evacuation Pause) 24M->6M(512M) 5.250ms
[1500000000ns] GC(1) Concurrent Mark Cycle 12.310ms
[2000000000ns] GC(1) Pause Remark 40M->39M(512M) 2.000ms
[9000000000ns] GC(2) Pause Full (Allocation Failure) 1G->512M(1G) 900.000ms
"""


def test_pauses_of_the_measure_phase_count(tmp_path):
    log = tmp_path / "gc.log"
    log.write_text(LOG)
    assert [pause.kind for pause in read_pauses(LOG.splitlines())] == [
        "Pause Young",
        "Pause Remark",
        "Pause Full",
    ]
    metrics = gc_metrics(log, (0, 4_000_000_000))
    assert metrics["gc_pauses"].value == 2
    assert metrics["gc_pause_ratio"].value == pytest.approx(0.00725 / 4)
    assert metrics["gc_pause_max_ns"].value == 5_250_000
    assert metrics["heap_used_max_bytes"].value == 39 << 20
    assert pauses_of(log, 8_000_000_000, 10_000_000_000)[0].used_bytes == 512 << 20


def test_a_phase_without_pauses_has_no_longest_one(tmp_path):
    log = tmp_path / "gc.log"
    log.write_text(LOG)
    metrics = gc_metrics(log, (3_000_000_000, 4_000_000_000))
    assert metrics["gc_pauses"].value == 0
    assert metrics["gc_pause_max_ns"].value is None
    assert metrics["gc_pause_max_ns"].missing == "no pause in the measure phase"
    missing = gc_metrics(tmp_path / "none.log", (0, 1))
    assert missing["gc_pauses"].value is None
    assert missing["gc_pauses"].missing == "there is no log of the garbage collector"


# Shared parts: operations, devices, folders


def test_each_operation_has_a_rate():
    load = read(LoadResult, GOLDEN / "load_result.json")
    metrics = operation_metrics(load)
    rates = [metrics[f"{name.replace('-', '_')}_per_s"].value for name in load.operations]
    assert sum(rates) == pytest.approx(load.throughput_per_s, rel=0.01)
    assert all(metric.value is not None or metric.missing for metric in metrics.values())


def test_devices_are_found_by_their_numbers(tmp_path):
    number = os.stat(tmp_path).st_dev
    block = tmp_path / "dev/block"
    block.mkdir(parents=True)
    assert device_of(tmp_path, tmp_path) is None
    (tmp_path / "devices/sdz").mkdir(parents=True)
    (block / f"{os.major(number)}:{os.minor(number)}").symlink_to(tmp_path / "devices/sdz")
    assert device_of(tmp_path, tmp_path) == "sdz"


class FakeSession:
    def __init__(self, directory):
        self.directory = directory
        self.endings = contextlib.ExitStack()


@pytest.mark.parametrize("given", [False, True])
def test_scratch_folders_go_when_the_run_ends(monkeypatch, tmp_path, given):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    run, disk = tmp_path / "run-1", tmp_path / "disk"
    run.mkdir()
    disk.mkdir()
    session = FakeSession(run)
    folder = scratch.scratch_folder(session, str(disk) if given else "", "data")
    assert folder.parent == (disk if given else run)
    (folder / "table").write_text("rows")
    session.endings.close()
    assert not folder.exists()
    assert run.exists()
    assert disk.exists()
    assert list(undo.journal_dir().glob("*.json")) == []


def test_the_next_start_removes_what_a_killed_run_left(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = scratch.scratch_folder(FakeSession(tmp_path), "", "data")
    (folder / "table").write_text("rows")
    monkeypatch.setattr(undo, "start_ticks", lambda pid: None)
    undo.replay()
    assert not folder.exists()


def test_a_server_has_the_time_to_end_that_it_needs(tmp_path):
    process = LocalExecutor().start("slow", ["true"], log=tmp_path / "log", grace_s=50.0)
    process.popen.wait(20)
    assert process.popen.args[2:4] == ["--grace", "50s"]
    process.stop(1.0)


# The page


def data_of(folder, **parameters):
    load = read(LoadResult, GOLDEN / "load_result.json")
    write(load, folder / "load.json")
    chosen = {name: SimpleNamespace(value=value) for name, value in parameters.items()}
    run = SimpleNamespace(parameters=chosen, verdict=None, phases=[], metrics={})
    return SimpleNamespace(folder=folder, run=run)


def test_the_table_of_operations_has_each_with_its_percentiles(tmp_path):
    data = data_of(tmp_path)
    load = read(LoadResult, tmp_path / "load.json")
    [table] = operation_section(data, "view").tables
    assert table.columns[0].name == "view"
    assert [row[0].text for row in table.rows] == [name.replace("_", " ") for name in load.operations]
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert operation_section(SimpleNamespace(folder=tmp_path / "none")) is None


def test_the_page_shows_each_setting_and_a_smaller_limit(tmp_path):
    data = data_of(tmp_path, profile="tuned", heap=2 * GIB, memtable=GIB)
    check = Check(id="open-files", level=Level.VALID, claim="", value=20_000)
    data.run.verdict = SimpleNamespace(checks=[check])
    [table] = report._profile(data).tables
    rows = {row[0].text: [cell.text for cell in row] for row in table.rows}
    assert rows["heap"][1:3] == ["Java", "2048M"]
    assert rows["memtable offheap space"][2] == "1024MiB"
    assert rows["open files"][2] == "20000, the hard limit, instead of 32768"
    assert report._profile(data_of(tmp_path, profile="tuned")) is None


# Whole runs


@pytest.fixture
def installed():
    if not (payload_dir("cassandra") / ".installed").is_file():
        pytest.fail("Cassandra is not installed: scripts/install-test-packages --slow")


def ended(run):
    assert run.status is RunStatus.INCOMPLETE
    assert run.verdict is None
    assert run.metrics == {}


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_one_run(runner, installed):
    # Workload E, the default: short ranges, and inserts. The load's own tests have all six.
    live = runner.start(benchmark="cassandra", settings=SHORT)
    code, _, stderr = live.finish(300)
    assert code in (0, 1), stderr
    run = live.run()
    assert run.metrics["scan_per_s"].value > 0
    assert run.metrics["insert_per_s"].value > 0
    parts = run.metrics["scan_per_s"].value + run.metrics["insert_per_s"].value
    operations = read(LoadResult, live.directory / "load.json").operations
    assert operations["scan"].hits == operations["scan"].completed
    # An operation also counts that was under way when the phase ended: one of each connection at most.
    assert parts == pytest.approx(run.metrics["requests_per_s"].value, abs=20 / 3 + 1e-6)
    assert run.metrics["errors"].value == 0
    assert 0 < run.metrics["server_cpu_ratio"].value <= 1.05
    assert run.metrics["ready_s"].value > 0
    missing = {name: metric.missing for name, metric in run.metrics.items() if metric.value is None}
    assert all(missing.values())
    page = (live.directory / "report.html").read_text()
    assert "Operations" in page
    assert "the recipe: reads wait for disks" in page
    assert not (live.directory / "data").exists()
    assert live.left() == {}


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("victim", ["server", "orchestrator"])
def test_kill_9_in_the_measure_phase(runner, installed, victim):
    live = runner.start(benchmark="cassandra", settings=(*SHORT, "measure=60", "workload=c"))
    live.until(lambda: live.in_phase("measure"), 200)
    assert not live.unpacks_elsewhere()
    pid = live.pid_of("server") if victim == "server" else live.process.pid
    os.kill(pid, signal.SIGKILL)
    code, _, _ = live.finish(100)
    assert code == (4 if victim == "server" else -signal.SIGKILL)
    live.until(lambda: not live.left(), 100)
    ended(live.run())
    reason = live.run().status_reason
    assert f"{victim} " in reason
    assert "killed" in reason
    assert "WARNING" not in reason
    # A killed run cannot remove its data; the next start does.
    assert Path(live.directory / "data").exists() is (victim == "orchestrator")
