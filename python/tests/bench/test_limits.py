"""Limits that are set for a run: they hold, they are undone, and they never replace somebody else's.

A link is limited only in a network namespace of the test's own.
"""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard._base import EnvironmentLacksError, UsageError
from steelyard.analyze.pressure.matrix import row_of
from steelyard.bench import hook, undo
from steelyard.bench.limits.control_group import parent_group
from steelyard.bench.limits.disk import DiskLimit
from steelyard.bench.limits.network import NetworkLimit
from steelyard.bench.limits.stated import hooks_of, limits_of
from steelyard.bench.stack.disks import device_of

MB = 1e6
SENDER = """
import socket, sys, threading, time
from steelyard.bench.limits.network import NetworkLimit
limit = NetworkLimit("lo", float(sys.argv[1]))
limit.set("test")
server = socket.create_server(("127.0.0.1", 0))
def receive():
    connection, _ = server.accept()
    while connection.recv(1 << 16):
        pass
threading.Thread(target=receive, daemon=True).start()
client = socket.create_connection(server.getsockname())
sent, until = 0, time.monotonic() + 1.5
began = time.monotonic()
while time.monotonic() < until:
    sent += client.send(b"x" * 16384)
print(sent / (time.monotonic() - began), flush=True)
if len(sys.argv) > 2:
    time.sleep(60)
limit.undo()
"""


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state/steelyard/undo"


@pytest.fixture
def space() -> Iterator[str]:
    """A network namespace of its own, with loopback up."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    name = f"sy{uuid.uuid4().hex[:8]}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        yield name
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


def inside(space: str, *arguments: str, code: str = SENDER) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["ip", "netns", "exec", space, sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def shown(space: str) -> str:
    command = ["ip", "netns", "exec", space, "tc", "qdisc", "show", "dev", "lo"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_a_link_is_held_to_its_limit_and_freed(space: str, state: Path) -> None:
    before = shown(space)
    sender = inside(space, str(20 * MB))
    out, err = sender.communicate(timeout=60)
    # What the bucket holds and the buffers of a connection take comes on top.
    assert 8 * MB < float(out) < 27 * MB, err
    assert shown(space) == before
    assert list(state.glob("*.json")) == []


def test_a_link_of_a_killed_run_is_freed_by_the_next_wherever_that_runs(space: str, state: Path) -> None:
    sender = inside(space, str(20 * MB), "stay")
    assert sender.stdout is not None
    assert float(sender.stdout.readline()) > 0
    assert "tbf" in shown(space)
    assert undo.replay() == []
    assert "tbf" in shown(space)
    sender.send_signal(signal.SIGKILL)
    sender.wait()
    # This process is in another namespace.
    (message,) = undo.replay()
    assert message.startswith("undid a change of a killed run: network limit lo")
    assert "tbf" not in shown(space)
    assert list(state.glob("*.json")) == []


def test_what_somebody_else_set_since_is_left_alone(space: str, state: Path) -> None:
    sender = inside(space, str(20 * MB), "stay")
    assert sender.stdout is not None
    sender.stdout.readline()
    sender.send_signal(signal.SIGKILL)
    sender.wait()
    for words in (
        ("del", "dev", "lo", "root"),
        ("add", "dev", "lo", "root", "handle", "9:", "tbf", "rate", "9mbit", "burst", "64kb", "limit", "1mb"),
    ):
        subprocess.run(["ip", "netns", "exec", space, "tc", "qdisc", *words], check=True)
    assert len(undo.replay()) == 1
    assert "tbf 9:" in shown(space)


def test_a_discipline_that_is_there_is_not_replaced(space: str, state: Path) -> None:
    words = ["add", "dev", "lo", "root", "tbf", "rate", "9mbit", "burst", "64kb", "limit", "1mb"]
    subprocess.run(["ip", "netns", "exec", space, "tc", "qdisc", *words], check=True)
    before = shown(space)
    sender = inside(space, str(20 * MB))
    _, err = sender.communicate(timeout=60)
    assert "lo has a queueing discipline already (tbf" in err
    assert "which is not replaced" in err
    assert shown(space) == before
    assert list(state.glob("*.json")) == []


def test_a_namespace_that_is_gone_took_its_limit_along(state: Path) -> None:
    undo.Change.begin(
        "gone", "network limit", {"interface": "lo", "handle": "1:", "namespace": "net:[1]"}
    ).undo()
    assert list(state.glob("*.json")) == []


def test_an_interface_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no network interface lx9") as refused:
        NetworkLimit("lx9", MB).check()
    assert "lo" in (refused.value.hint or "")


def test_only_root_limits_a_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(EnvironmentLacksError, match="can be set by root only"):
        NetworkLimit("lo", MB).check()


@pytest.fixture
def disk(tmp_path: Path) -> str:
    """The whole disk below the test's folder."""
    try:
        parent_group("blkio", "io", noun="block I/O")
    except EnvironmentLacksError as error:
        pytest.skip(error.message)
    name = device_of(tmp_path)
    if name is None or not Path("/sys/block", name).exists():
        pytest.skip(f"the test's folder is on {name}, which is no whole disk")
    return name


def write(file: Path, count: int) -> float:
    began = time.monotonic()
    command = ["dd", "if=/dev/zero", f"of={file}", "bs=256k", f"count={count}", "oflag=direct"]
    subprocess.run(command, check=True, capture_output=True)
    return time.monotonic() - began


def test_processes_are_held_to_the_rate_of_a_disk(tmp_path: Path, disk: str, state: Path) -> None:
    limit = DiskLimit(disk, 2 * MB)
    limit.check()
    group = limit.set("test-disk-limit")
    code = "import subprocess, sys; sys.stdin.readline(); subprocess.run(sys.argv[1:], check=True)"
    dd = ["dd", "if=/dev/zero", f"of={tmp_path / 'file'}", "bs=256k", "count=16", "oflag=direct"]
    writer = subprocess.Popen([sys.executable, "-c", code, *dd], stdin=subprocess.PIPE, text=True)
    try:
        limit.hold(writer.pid)
        began = time.monotonic()
        # The process that writes is started by the one that is held.
        writer.communicate("\n", timeout=60)
        assert time.monotonic() - began > 1.5
        assert len(list(state.glob("*.json"))) == 1
    finally:
        writer.kill()
        limit.undo()
    assert not group.exists()
    assert list(state.glob("*.json")) == []
    limit.undo()


def test_a_disk_of_a_killed_run_is_freed_by_the_next(disk: str, state: Path) -> None:
    code = (
        "import os, sys, time\nfrom steelyard.bench.limits.disk import DiskLimit\n"
        f"limit = DiskLimit({disk!r}, 1e6)\nprint(limit.set('test-killed'), flush=True)\n"
        "limit.hold(os.getpid())\ntime.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    group = Path(holder.stdout.readline().strip())
    assert group.exists()
    holder.kill()
    holder.wait()
    (message,) = undo.replay()
    assert message == f"undid a change of a killed run: limit cgroup {group}"
    assert not group.exists()


def test_a_partition_is_no_disk(tmp_path: Path) -> None:
    whole = tmp_path / "sys/devices/sdq"
    (whole / "sdq1").mkdir(parents=True)
    (whole / "dev").write_text("8:256\n")
    (whole / "sdq1/partition").write_text("1\n")
    for folder, name, target in (("block", "sdq", whole), ("class/block", "sdq1", whole / "sdq1")):
        (tmp_path / "sys" / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / "sys" / folder / name).symlink_to(target)
    assert DiskLimit("sdq", MB, root=tmp_path).number() == "8:256"
    with pytest.raises(UsageError, match="sdq1 is a partition") as refused:
        DiskLimit("sdq1", MB, root=tmp_path).number()
    assert refused.value.hint == "limit sdq"
    with pytest.raises(UsageError, match="there is no disk sdr"):
        DiskLimit("sdr", MB, root=tmp_path).number()
    with pytest.raises(EnvironmentLacksError, match="no cgroup with a block I/O controller"):
        DiskLimit("sdq", MB, root=tmp_path).check()


def test_what_is_set_is_written_as_what_is_stated() -> None:
    assert limits_of(["lo=1Gbit", "dram=20GB"]).network_bytes_per_s == {"lo": 125 * MB}
    assert hooks_of(["lo=1Gbit", "sda=50MB"]) == [
        "network-limit:interface=lo,rate=1Gbit",
        "disk-limit:device=sda,rate=50MB",
    ]
    made = dict(hook.create(hooks_of(["lo=1Gbit", "sda=50MB"])))
    assert made["network-limit"].options["rate"] == 125 * MB
    assert made["disk-limit"].options["rate"] == 50 * MB


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["dram=20GB"], "memory bandwidth cannot be limited"),
        (["lo=1Gbit", "eth0=1Gbit"], "one interface is limited already"),
        (["lo"], "--set-limit lo: not a limit"),
        (["lo=0Gbit"], "not a limit"),
        (["sda=many"], "not a limit"),
    ],
)
def test_limits_that_cannot_be_set_are_refused(texts: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        hooks_of(texts)


def test_a_run_meets_the_limit_of_its_hook(runner, disk: str, tmp_path: Path) -> None:
    written = tmp_path / "written"
    command = f"dd if=/dev/zero of={written} bs=256k count=4 oflag=direct"
    live = runner.start(
        "--hook",
        f"disk-limit:device={disk},rate=2MB",
        benchmark="command",
        settings=(f"command={command}", "measure=2"),
    )
    code, _, stderr = live.finish()
    assert code in (0, 1), stderr
    run = live.run()
    # One MiB at 2 MB/s.
    assert 0.4e9 < run.metrics["iteration_p50_ns"].value < 3e9
    limit = run.hooks["disk-limit"]
    assert (limit["device"], limit["rate_bytes_per_s"]) == (disk, 2 * MB)
    assert not Path(limit["cgroup"]).exists()
    assert list(runner.state.glob("steelyard/undo/*")) == []
    row = row_of(live.directory, run, None)
    assert row.parts is not None
    assert "set for the run by blkio" in (row.parts.disk_bandwidth.limit or "")
    assert "disk" in row.pressure_points


def test_who_writes_beside_a_limited_run_is_no_pressure_of_it(runner, disk: str, tmp_path: Path) -> None:
    live = runner.start(
        "--hook",
        f"disk-limit:device={disk},rate=1MB",
        benchmark="command",
        settings=("command=sleep 0.2", "measure=2"),
    )
    neighbour = subprocess.Popen(
        ["sh", "-c", f"while :; do dd if=/dev/zero of={tmp_path}/beside bs=1M count=4 oflag=direct; done"],
        stderr=subprocess.DEVNULL,
        process_group=0,
    )
    try:
        code, _, stderr = live.finish()
    finally:
        os.killpg(neighbour.pid, signal.SIGKILL)
        neighbour.wait()
    assert code in (0, 1), stderr
    row = row_of(live.directory, live.run(), None)
    assert row.parts is not None
    found = row.parts.disk_bandwidth
    assert found.limit == "1 MB/s set for the run by blkio"
    assert found.ratio is not None, found.reason
    # The probe, in the run's group, writes what it records.
    assert not found.is_pressure_point, found.evidence


def test_a_limit_that_cannot_be_set_is_refused_before_the_run(runner) -> None:
    live = runner.start("--hook", "network-limit:interface=lx9,rate=1Gbit", settings=())
    code, _, _ = live.finish()
    assert code == 2
    assert "there is no network interface lx9" in live.complaint()
    assert not list(live.out.glob("*"))
