"""Whole runs of the wiki with the distribution's servers, and what happens when one of them is killed."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from steelyard._base import SteelyardError
from steelyard.bench import undo
from steelyard.bench.children import children_of
from steelyard.benchmarks.mediawiki.load import page_kinds
from steelyard.benchmarks.mediawiki.servers import find_programs
from steelyard.records import Level, LoadResult, RunStatus, read
from tests.bench.test_faults import confined, memory_cgroup, small_disk

pytestmark = pytest.mark.slow
SHORT = ("warmup_min=1", "warmup_max=2", "measure=3")
KIND_RATES = {f"{kind.name.replace('-', '_')}_per_s" for kind in page_kinds(30)}
LONG = ("warmup_min=60", "warmup_max=60")
"""For who ends a run in its warm-up."""


@pytest.fixture(scope="module")
def stacks(tmp_path_factory):
    """The folder in which the wiki is prepared, once for all tests."""
    try:
        find_programs()
    except SteelyardError as error:
        pytest.fail(f"{error.message}: scripts/install-test-packages --slow")
    return tmp_path_factory.mktemp("stacks")


@pytest.fixture
def wiki(runner, stacks, monkeypatch):
    """Starts runs of the benchmark."""
    monkeypatch.setenv("STEELYARD_STACKS", str(stacks))
    monkeypatch.setenv("XDG_STATE_HOME", str(runner.state))

    def start(*settings, prefix=()):
        return runner.start(settings=settings, benchmark="mediawiki", prefix=prefix)

    return start


def under_load(live):
    """Wait until the load runs."""
    live.until(lambda: live.in_phase("warmup") and live.pid_of("load"), timeout_s=120)


def incomplete(live, reason):
    """See that the run ended without a result, for ``reason``, and left nothing behind."""
    code, _, errors = live.finish(60)
    assert code == 4, errors
    assert reason in live.complaint()
    run = live.run()
    assert run.status is RunStatus.INCOMPLETE
    assert run.metrics == {}
    assert live.left() == {}
    assert not (live.directory / "data").exists()


def test_a_smoke_run(wiki, stacks):
    live = wiki(*SHORT)
    code, _, errors = live.finish(240)
    # Other work on the machine makes the verdict invalid: that is 1.
    assert code in (0, 1), errors
    run = live.run()
    assert [phase.name for phase in run.phases] == ["install", "start", "warmup", "measure", "drain"]
    assert {process.exit_code for process in run.processes} == {0}
    values = {name: metric.value for name, metric in run.metrics.items()}
    load = read(LoadResult, live.directory / "load.json")
    assert set(load.operations) == {kind.name for kind in page_kinds(30)}
    assert set(load.requests.answers_by_class) == {"2xx"}
    assert values["errors"] == 0
    assert values["requests_per_s"] > 0
    rates = [value for name, value in values.items() if name in KIND_RATES]
    # A page also counts for its kind that was under way when the phase ended: one of each connection at most.
    under_way = run.parameters["connections"].value / 3
    assert sum(rates) == pytest.approx(values["requests_per_s"], abs=under_way + 1e-6)
    assert 0 < values["server_cpu_ratio"] < 1.1
    assert 0.3 < values["memcached_hit_ratio"] <= 1
    assert 1 < values["queries_per_request"] < 200
    checks = {check.id: check for check in run.verdict.checks}
    assert checks["answers"].level is Level.VALID
    assert {"cpu-reached", "load-cpu", "errors", "foreign-load"} <= set(checks)
    assert all((live.directory / file).exists() for file in run.artifacts.values())
    # Data and sockets are gone, the prepared wiki stays.
    assert not (live.directory / "data").exists()
    assert [path.name[:8] for path in (stacks / "prepared" / "mediawiki").glob("[!.]*")] == ["wiki-30-"]
    assert list(undo.journal_dir().glob("*")) == []
    assert live.left() == {}
    page = (live.directory / "report.html").read_text()
    for word in ("long-article", "recent-changes", "memcached hit ratio", "A generated wiki of 30 articles"):
        assert word in page


def test_pages_with_an_error_are_failures_and_give_no_score(wiki):
    live = wiki(*SHORT, "measure=6")
    live.until(lambda: live.in_phase("measure"), timeout_s=240)
    # The servers live, and what they answer is the page of an error.
    config = (live.directory / "config" / "mariadb.cnf").read_text()
    database = re.search(r"^socket = (\S+)$", config, re.MULTILINE)[1]
    client = [find_programs().mariadb, "--no-defaults", f"--socket={database}", "--user=root", "wiki"]
    subprocess.run([*client, "--execute=RENAME TABLE page TO lost"], check=True, timeout=60)
    code, output, errors = live.finish(120)
    assert code == 1, errors
    run, load = live.run(), read(LoadResult, live.directory / "load.json")
    assert (run.status, run.verdict.level) == (RunStatus.COMPLETE, Level.INVALID)
    answers = load.requests.answers_by_class
    assert answers["5xx"] > 0
    assert load.requests.errors_by_kind["status-5xx"] == answers["5xx"]
    assert run.metrics["errors"].value == load.requests.errors >= answers["5xx"]
    seconds = (load.end_ns - load.begin_ns) / 1e9
    # Throughput is pages without an error; each connection may have one under way when the phase begins.
    connections = run.parameters["connections"].value
    assert answers["5xx"] > connections
    assert abs(run.metrics["requests_per_s"].value * seconds - answers["2xx"]) <= connections
    check = next(check for check in run.verdict.checks if check.id == "errors")
    assert check.level is Level.INVALID
    assert "status-5xx" in check.claim
    summary = json.loads(output)["series"]["mediawiki"]
    assert (summary["runs"], summary["counted"], summary["score"]) == (1, 0, None)


def test_a_php_worker_that_outgrows_the_memory_limit(wiki):
    with memory_cgroup(2 << 30) as procs, contextlib.ExitStack() as endings:
        live = wiki(*LONG, prefix=confined(procs))
        # The group goes only when nothing is left in it.
        endings.callback(lambda: live.until(lambda: not live.left(), 60))
        endings.callback(live.process.kill)
        under_load(live)
        worker = children_of(live.pid_of("php-fpm"))[0]
        Path(f"/proc/{worker}/oom_score_adj").write_text("1000")
        # As if the pages had grown: something in the same group takes what is left.
        glutton = endings.enter_context(
            subprocess.Popen([*confined(procs), sys.executable, "-c", "x = b'x' * (3 << 30)"])
        )
        endings.callback(glutton.kill)
        incomplete(live, f"php-fpm: worker {worker} was killed by signal 9")


@pytest.mark.parametrize("victim", ["mariadb", "php-fpm", "memcached"])
def test_a_server_that_is_killed(wiki, victim):
    live = wiki(*LONG)
    under_load(live)
    os.kill(live.pid_of(victim), signal.SIGKILL)
    incomplete(live, f"{victim} was killed by SIGKILL in phase warmup")


def test_a_php_worker_that_is_killed(wiki):
    live = wiki(*LONG)
    under_load(live)
    # As the kernel does to the largest process of a machine that is out of memory.
    worker = children_of(live.pid_of("php-fpm"))[0]
    os.kill(worker, signal.SIGKILL)
    incomplete(live, f"php-fpm: worker {worker} was killed by signal 9")


def test_a_killed_steelyard_leaves_no_process_and_its_data_goes_with_the_next_run(wiki):
    live = wiki(*LONG)
    under_load(live)
    data = live.directory / "data"
    assert data.is_dir()
    live.process.kill()
    live.until(lambda: live.left() == {})
    undo.replay()
    assert not data.exists()
    assert live.run().status is RunStatus.INCOMPLETE


def test_a_port_that_is_taken(wiki):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        live = wiki(*SHORT, f"port={port}")
        assert live.finish(60)[0] == 3
    assert f"port {port} of 127.0.0.1 cannot be used" in live.complaint()


def test_a_disk_that_is_nearly_full(wiki, runner, tmp_path):
    with small_disk(tmp_path / "disk", "300m"):
        runner.out = tmp_path / "disk" / "runs"
        live = wiki(*SHORT)
        code, _, errors = live.finish(240)
        assert code == 3, errors
        assert re.search(r"it needs \d+ MiB of disk, and \S+ has \d+ MiB", live.complaint())
        assert live.left() == {}
        assert [path for path in Path(runner.out).rglob("*") if path.stat().st_size > 1 << 20] == []
