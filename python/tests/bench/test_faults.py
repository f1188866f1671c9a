"""What may go wrong under a run, with real processes: nothing is left behind, nothing passes for a result."""

import contextlib
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from steelyard._base import UsageError, WorkloadFailedError, executable
from steelyard.bench.executor import Ending, LocalExecutor
from steelyard.bench.launch import execute
from steelyard.bench.progress import Silence
from steelyard.bench.request import RunRequest
from steelyard.machine.cgroups import memory_groups
from steelyard.machine.tree import Tree
from steelyard.records import Level, RunStatus
from tests.bench import sample_benchmarks
from tests.bench.conftest import BUSY, LONG_WARMUP, until

HERE = Path(__file__).parent
PHASES = ("start", "warmup", "measure", "drain")
# The phase that is to be hit lasts longer than any host stalls: who is hit in it ends at once.
HELD_ARGUMENTS = {
    "start": ("--hook", "command:after_start=sleep 20"),
    "drain": ("--hook", "command:after_measure=sleep 20"),
}
HELD_SETTINGS = {"warmup": LONG_WARMUP, "measure": ("measure=20",)}
# Answers to misses take so long that the load is still draining when it is killed.
SLOW = ("backend_delay=constant:1500ms", "target_hit_ratio=0.5", BUSY)


def start_held(runner, victim, phase):
    """Start a run that stays in ``phase``, with the victim in it."""
    if (victim, phase) == ("load", "drain"):
        return runner.start(settings=SLOW)
    if phase == "start" and victim in ("orchestrator", "probe"):
        # The probe comes last: the phase is over when it has begun to record.
        late = with_a_late("steelyard-probe", runner.out.parent / "bin", seconds=4)
        return runner.start(bin_dir=late)
    return runner.start(*HELD_ARGUMENTS.get(phase, ()), settings=HELD_SETTINGS.get(phase, ()))


def with_a_late(program, folder, *, seconds):
    """Make a folder of our executables in which one begins late."""
    folder.mkdir()
    for name in {"steelyard-exec", "steelyard-cache", "steelyard-load", "steelyard-probe"} - {program}:
        (folder / name).symlink_to(executable(name))
    real = str(executable(program))
    late = folder / program
    late.write_text(
        f"#!{sys.executable}\nimport os, sys, time\ntime.sleep({seconds})\n"
        f"os.execv({real!r}, [{real!r}, *sys.argv[1:]])\n"
    )
    late.chmod(0o755)
    return folder


def kill(live, victim, phase):
    """Kill -9 ``victim`` once the run is in ``phase`` and the victim is there."""
    if victim == "orchestrator":
        # In phase start the probe is the last process to come: all of them must go.
        live.until(lambda: live.in_phase(phase) and (phase != "start" or live.pid_of("probe")))
        live.process.send_signal(signal.SIGKILL)
        return
    pid = live.until(lambda: live.in_phase(phase) and live.pid_of(victim))
    os.kill(pid, signal.SIGKILL)


VICTIMS = ("orchestrator", "server", "load", "probe")
# The load does not exist before the warm-up.
KILLS = [pair for pair in itertools.product(VICTIMS, PHASES) if pair != ("load", "start")]


@pytest.mark.parametrize(("victim", "phase"), KILLS)
def test_kill_9(runner, victim, phase):
    live = start_held(runner, victim, phase)
    kill(live, victim, phase)
    code, stdout, _ = live.finish()
    live.until(lambda: not live.left())
    run = live.run()
    assert run.status is RunStatus.INCOMPLETE
    assert run.verdict is None
    assert run.metrics == {}
    assert victim in (run.status_reason or "")
    assert "killed" in (run.status_reason or "")
    assert f"in phase {phase}" in (run.status_reason or "")
    if victim == "orchestrator":
        assert code == -signal.SIGKILL
    else:
        assert code == 4
        assert victim in live.complaint()
        assert json.loads(stdout)["runs"][0]["status"] == "incomplete"


def test_kill_9_of_the_orchestrator_before_its_supervisor_began(tmp_path):
    """The supervisor finds another parent than the one that started it, and starts nothing."""
    late = with_a_late("steelyard-exec", tmp_path / "bin", seconds=1)
    code = (
        "import os, signal, sys\nfrom pathlib import Path\n"
        "from steelyard.bench.executor import LocalExecutor\n"
        "LocalExecutor().start('one', ['touch', sys.argv[1]], log=Path(sys.argv[2]), direct=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    environment = {**os.environ, "STEELYARD_BIN_DIR": str(late)}
    command = [sys.executable, "-c", code, str(tmp_path / "ran"), str(tmp_path / "log")]
    assert subprocess.run(command, env=environment, check=False).returncode == -signal.SIGKILL
    until((tmp_path / "log").read_text)
    assert (tmp_path / "log").read_text() == "steelyard-exec: the parent process has ended\n"
    assert not (tmp_path / "ran").exists()


def test_a_killed_supervisor_takes_its_server_with_it(runner):
    live = start_held(runner, None, "warmup")
    live.until(lambda: live.in_phase("warmup") and live.pid_of("server"))
    supervisor = next(one["pid"] for one in live.raw()["processes"] if one["name"] == "server")
    os.kill(supervisor, signal.SIGKILL)
    assert live.finish()[0] == 4
    live.until(lambda: not live.left())
    assert "server was killed by SIGKILL in phase warmup" in (live.run().status_reason or "")


@pytest.mark.parametrize(
    ("name", "phase"),
    [("SIGINT", phase) for phase in PHASES] + [("SIGTERM", "measure"), ("SIGHUP", "warmup")],
)
def test_a_signal_stops_the_run_in_order(runner, name, phase):
    live = start_held(runner, None, phase)
    live.until(lambda: live.in_phase(phase))
    live.process.send_signal(signal.Signals[name])
    code, stdout, _ = live.finish()
    assert code == 4
    assert live.left() == {}
    assert live.complaint() == f"steelyard: stopped by {name} in phase {phase}"
    assert live.run().status is RunStatus.INCOMPLETE
    assert live.run().status_reason == f"stopped by {name} in phase {phase}"
    assert json.loads(stdout)["runs"][0]["status_reason"] == f"stopped by {name} in phase {phase}"


def test_a_port_that_is_taken(runner):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        live = runner.start(settings=(f"port={port}",))
        assert live.finish()[0] == 3
    assert f"port {port} of 127.0.0.1 cannot be used" in live.complaint()
    assert live.left() == {}


@pytest.mark.parametrize("where", ["file", "proc"])
def test_a_folder_that_cannot_be_written(runner, tmp_path, where):
    # Root may write anywhere, so that modes alone would show nothing.
    blocked = tmp_path / "blocked"
    blocked.write_text("a file")
    out = blocked if where == "file" else Path("/proc/steelyard")
    live = runner.start("--out", str(out))
    assert live.finish()[0] == 3
    assert f"{out}: runs cannot be written there" in live.complaint()
    assert "--out" in live.complaint()
    assert live.left() == {}


@contextlib.contextmanager
def small_disk(folder, size):
    """A file system of ``size`` at ``folder``; skips where mounting is not allowed."""
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)], capture_output=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted: {done.stderr.decode().strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk(runner, tmp_path):
    with small_disk(tmp_path / "disk", "600k"):
        runner.out = tmp_path / "disk" / "runs"
        live = runner.start(settings=LONG_WARMUP)
        # The rest of the disk is eaten once the run is under way.
        live.until(lambda: live.in_phase("warmup"))
        with contextlib.suppress(OSError), (tmp_path / "disk" / "eater").open("wb", buffering=0) as eater:
            while eater.write(b"x" * 4096):
                pass
        code, _, _ = live.finish()
        assert code == 4
        live.until(lambda: not live.left())
        run = live.run()
        assert run.status is RunStatus.INCOMPLETE
        assert "space" in (run.status_reason or "")
        assert "space" in live.complaint()


@contextlib.contextmanager
def memory_cgroup(limit_bytes):
    """A memory cgroup below our own with a limit; skips where none can be made."""
    groups = memory_groups(Tree())
    if not groups:
        pytest.skip("there is no memory cgroup here")
    version, parent = groups[0]
    folder = Path("/") / parent / f"steelyard-test-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / ("memory.limit_in_bytes" if version == 1 else "memory.max")).write_text(str(limit_bytes))
    except OSError as error:
        with contextlib.suppress(OSError):
            folder.rmdir()
        pytest.skip(f"a memory cgroup cannot be made: {error}")
    try:
        yield folder / "cgroup.procs"
    finally:
        folder.rmdir()


def confined(procs):
    """A command prefix that enters the cgroup before it becomes the rest of the command."""
    script = (
        "import os,sys; open(sys.argv[1],'w').write(str(os.getpid())); os.execv(sys.argv[2], sys.argv[2:])"
    )
    return (sys.executable, "-c", script, str(procs))


def test_a_cache_above_the_memory_limit(runner):
    with memory_cgroup(1 << 30) as procs:
        live = runner.start(settings=("memory=2GiB",), prefix=confined(procs))
        assert live.finish()[0] == 3
        assert "memory=2048MiB is more than the 1024 MiB" in live.complaint()
        assert live.left() == {}


def test_a_server_that_outgrows_the_memory_limit(runner):
    glutton = f"{sys.executable} -c 'x = b\"x\" * (2 << 30)'"
    with memory_cgroup(1 << 30) as procs:
        live = runner.start(settings=(f"server_command={glutton}",), prefix=confined(procs))
        assert live.finish()[0] == 4
        live.until(lambda: not live.left())
        assert "server was killed by SIGKILL in phase start: the memory limit" in live.complaint()
        assert live.run().status is RunStatus.INCOMPLETE


def test_a_server_that_answers_garbage(runner):
    server = f"{sys.executable} {HERE / 'programs' / 'garbage_server.py'} {{port}}"
    live = runner.start(settings=(f"server_command={server}",))
    code, stdout, _ = live.finish()
    assert live.left() == {}
    run = live.run()
    if run.status is RunStatus.COMPLETE:
        assert code == 1
        assert run.verdict is not None
        assert run.verdict.level is Level.INVALID
        assert any(check.id == "errors" for check in run.verdict.reasons)
    else:
        assert code == 4
        assert live.complaint()
    assert json.loads(stdout)["runs"][0]["run_id"] == run.run_id


def test_a_server_that_never_answers_the_door(runner):
    live = runner.start(settings=(f"server_command={sys.executable} -c 'raise SystemExit(\"no luck\")'",))
    assert live.finish()[0] == 4
    assert "server exited with code 1 in phase start: no luck" in live.complaint()
    assert live.left() == {}


def test_a_program_of_ours_that_was_called_wrongly_is_usage(runner, tmp_path, monkeypatch):
    fake = tmp_path / "bin"
    fake.mkdir()
    for name in ("steelyard-exec", "steelyard-load", "steelyard-probe"):
        (fake / name).symlink_to(executable(name))
    # It finds its arguments in order when asked, and not when it is to work.
    script = (
        '#!/bin/sh\nfor last; do :; done\n[ "$last" = --check ] && exit 0\n'
        "echo 'steelyard-cache: an argument went wrong; see --help' >&2\nexit 2\n"
    )
    (fake / "steelyard-cache").write_text(script)
    (fake / "steelyard-cache").chmod(0o755)
    monkeypatch.setenv("STEELYARD_BIN_DIR", str(fake))
    live = runner.start()
    code, _, _ = live.finish()
    assert code == 2
    assert "steelyard-cache: an argument went wrong; see --help" in live.complaint()
    assert live.run().status is RunStatus.INCOMPLETE


def test_what_others_mean_by_2_nobody_knows():
    assert Ending(2, None).error_of(["/opt/bin/steelyard-load"]) is UsageError
    assert Ending(4, None).error_of(["steelyard-load"]) is WorkloadFailedError
    assert Ending(None, 9).error_of(["steelyard-load"]) is WorkloadFailedError
    assert Ending(2, None).error_of(["memcached"]) is WorkloadFailedError


@pytest.mark.parametrize("direct", [False, True])
def test_what_failed_is_named_and_not_where(tmp_path, direct):
    failed = "java.lang.OutOfMemoryError: Java heap space"
    trace = rf"{failed}\n\tat a.B.c(B.java:1)\n\tat java.base/d.E.<init>(E.java)\n\t... 3 more\n"
    process = LocalExecutor().start(
        "server", ["sh", "-c", f"printf '{trace}' >&2; exit 3"], log=tmp_path / "log", direct=direct
    )
    process.popen.wait(30)
    process.finish_reading()
    assert (str(process.poll()), process.last_line()) == ("exited with code 3", failed)


@pytest.mark.parametrize(
    ("benchmark", "settings", "program", "last_words"),
    [
        ("tax", ("time=1", "only=crc32c snappy-compress"), "tax", "preparing"),
        ("tao", (), "load", '"name":"measure"'),
    ],
)
def test_a_run_held_up_until_its_measurement_is_over_is_complete(
    runner, benchmark, settings, program, last_words
):
    live = runner.start(benchmark=benchmark, settings=settings)
    until(lambda: any(last_words in log.read_text() for log in runner.out.glob(f"*/logs/{program}.log")))
    (started,) = until(lambda: [p["pid"] for p in live.raw()["processes"] if p["name"] == program])
    # As a host does that has no CPU for this process; what it started goes on.
    live.process.send_signal(signal.SIGSTOP)
    until(lambda: state_of(started) == "Z")
    live.process.send_signal(signal.SIGCONT)
    code, _, stderr = live.finish()
    # 1 is a result that its checks object to.
    assert code in (0, 1), stderr
    run = live.run()
    assert run.status is RunStatus.COMPLETE
    assert [phase.name for phase in run.phases] == ["install", "start", "warmup", "measure", "drain"]
    assert live.left() == {}
    # What was looked at too late is not 0.
    costs = [about for about in run.hooks.values() if "cpu_s" in about]
    assert costs
    assert all(about["cpu_s"] or "were read only" in about["cpu_missing"] for about in costs), costs


def state_of(pid):
    """Return the state of a process as a letter."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_process_that_does_not_end_is_killed_and_the_reason_says_when(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    sample_benchmarks.add(tmp_path / "site", monkeypatch.syspath_prepend)

    def start(bench):
        deaf = ["sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 1; done"]
        bench.deaf = bench.session.start_process("deaf", deaf, cpus=None, grace_s=1.5)
        bench.session.wait_for(lambda: bench.deaf.lines() != [], 60.0, what="the start of deaf")

    monkeypatch.setattr(sample_benchmarks.Spin, "start", start)
    monkeypatch.setattr(
        sample_benchmarks.Spin, "drain", lambda bench: bench.session.stop_process(bench.deaf, 60.0)
    )
    [attempt] = execute(
        RunRequest(name="spin", tier="smoke", out=tmp_path / "runs"), progress=Silence()
    ).attempts
    reason = attempt.run.status_reason or ""
    found = re.fullmatch(
        r"deaf was killed by SIGKILL in phase \w+, (\S+) s after it was asked to end", reason
    )
    assert found is not None, reason
    assert float(found[1]) >= 1.5
