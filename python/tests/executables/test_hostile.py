"""Hostile clients, files and folders: bounded, refused with their name, and never at others' expense."""

import json
import os
import re
import signal
import socket
import stat
import struct
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from . import servers

MEBIBYTE = 1 << 20
PROMTOOL = servers.ROOT / ".tools" / "prometheus" / "usr" / "bin" / "promtool"


def run(name: str, *arguments: object, **options: object) -> "subprocess.CompletedProcess[str]":
    command = [str(servers.executable(name)), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)  # type: ignore[call-overload, no-any-return]


def rss_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.mark.parametrize("io", ["uring", "epoll"])
def test_half_sent_values_are_bounded_and_others_served(io: str) -> None:
    if io == "uring" and not servers.uring_is_permitted():
        pytest.skip("the kernel does not permit io_uring here")
    bound = ("--memory", "32MiB", "--connection-memory", "16MiB")
    with servers.steelyard_cache("--io", io, *bound) as server, ExitStack() as stack:
        before = rss_bytes(server.process.pid)
        part = b"set key 0 0 1048576\r\n" + b"x" * (512 << 10)
        largest = 0
        for number in range(250):
            connection = stack.enter_context(server.connect())
            # Those that were closed for what they held say so by an error.
            with suppress(OSError):
                connection.sendall(part)
            if number % 10 == 0:
                largest = max(largest, rss_bytes(server.process.pid))
                assert b"VERSION" in ask(server, b"version\r\n")
        # 125 MiB were sent; buffers that grow hold up to twice of what is in them for a moment.
        assert largest - before < 3 * 16 * MEBIBYTE
        assert int(server.stats()["memory_kicks"]) > 100


@pytest.mark.parametrize("io", ["uring", "epoll"])
def test_buffers_that_hold_nothing_close_nobody(io: str) -> None:
    """They keep their size for the next answer: of many connections that is more than all may hold."""
    if io == "uring" and not servers.uring_is_permitted():
        pytest.skip("the kernel does not permit io_uring here")
    bound = ("--memory", "32MiB", "--connection-memory", "4MiB", "--fast-threads", "1")
    with servers.steelyard_cache("--io", io, *bound) as server, ExitStack() as stack:
        size = 60_000
        assert b"STORED" in ask(server, b"set key 0 0 %d\r\n" % size + b"x" * size + b"\r\n")
        clients = [stack.enter_context(server.connect()) for _ in range(300)]
        for _ in range(2):
            for client in clients:
                client.sendall(b"get key\r\n")
                left = len(b"VALUE key 0 60000\r\n") + size + len(b"\r\nEND\r\n")
                while left:
                    part = client.recv(left)
                    assert part, "it was closed"
                    left -= len(part)
        assert server.stats()["memory_kicks"] == "0"


@pytest.mark.parametrize("io", ["uring", "epoll"])
def test_answers_to_a_client_that_was_closed_meanwhile_harm_nobody(io: str) -> None:
    """Slow threads still owe it hundreds when it has to go for what it holds."""
    if io == "uring" and not servers.uring_is_permitted():
        pytest.skip("the kernel does not permit io_uring here")
    bound = (
        "--memory",
        "32MiB",
        "--connection-memory",
        "128KiB",
        "--fast-threads",
        "1",
        "--slow-threads",
        "4",
    )
    with servers.steelyard_cache("--io", io, "--mode", "read-through", *bound) as server:
        half = b"set key 0 0 1000000\r\n" + b"x" * (128 << 10)
        for turn in range(200):
            missing = b"".join(b"get missing%d\r\n" % (100 * turn + number) for number in range(100))
            with server.connect() as client, suppress(OSError):
                client.sendall(missing + half)
                client.sendall(half)
                client.recv(1)
        stats = server.stats()
        assert int(stats["memory_kicks"]) > 10


@pytest.mark.parametrize(("sent", "bound_mib"), [(0, 8), (128 << 10, 2 * 64)])
@pytest.mark.parametrize("io", ["uring", "epoll"])
def test_a_thousand_silent_clients_hold_what_the_manual_says(io: str, sent: int, bound_mib: int) -> None:
    """Each announces a megabyte; with the default bound of 64 MiB, of which growing buffers take twice."""
    if io == "uring" and not servers.uring_is_permitted():
        pytest.skip("the kernel does not permit io_uring here")
    with servers.steelyard_cache("--io", io, "--memory", "32MiB") as server, ExitStack() as stack:
        before = rss_bytes(server.process.pid)
        largest = 0
        for number in range(1000):
            connection = stack.enter_context(server.connect())
            # Those that were closed for what they held say so by an error.
            with suppress(OSError):
                connection.sendall(b"set key%d 0 0 1000000\r\n" % number + b"x" * sent)
            if number % 50 == 0:
                largest = max(largest, rss_bytes(server.process.pid))
                assert b"STORED" in ask(server, b"set other 0 0 1\r\nx\r\n")
        assert max(largest, rss_bytes(server.process.pid)) - before < bound_mib * MEBIBYTE
        assert b"VALUE other 0 1\r\nx\r\n" in ask(server, b"get other\r\n")
        # Nobody is closed for what was only announced.
        assert (int(server.stats()["memory_kicks"]) > 0) == (sent > 0)


def ask(server: servers.Server, text: bytes) -> bytes:
    with server.connect() as connection:
        connection.sendall(text + b"quit\r\n")
        return servers.read_all(connection)


def test_a_half_sent_request_is_waited_for_so_long_and_an_idle_client_for_ever() -> None:
    with servers.steelyard_cache("--request-timeout", "1s") as server:
        with server.connect() as half, server.connect() as idle:
            half.sendall(b"set key 0 0 10\r\nabc")
            idle.sendall(b"version\r\n")
            assert idle.recv(4096).startswith(b"VERSION")
            assert half.recv(1) == b""
            idle.sendall(b"version\r\n")
            assert idle.recv(4096).startswith(b"VERSION")
        assert server.stats()["idle_kicks"] == "1"


def tree(folder: Path) -> Path:
    """Return a machine with one control group, made of files."""
    for name, text in {
        "proc/mounts": "c /c cgroup2 rw 0 0\n",
        "proc/stat": "cpu  1 0 0 0 0 0 0 0\ncpu0 1\n",
        "proc/sys/kernel/hostname": "m1\n",
        "c/system.slice/a.service/cgroup.procs": "1\n",
        "c/system.slice/a.service/cpu.stat": "usage_usec 5\n",
    }.items():
        path = folder / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "root"


def agent_arguments(folder: Path, listen: str = "") -> list[object]:
    config = folder / "agent.toml"
    config.write_text(
        f'metrics.listen = "{listen}"\n[sampling]\nwindow_s = 0.1\n[profiles]\nminutes_ratio = 0\n'
    )
    places = ["--spool", folder / "spool", "--store", folder / "store", "--create-store"]
    return ["run", "--root", tree(folder), "--config", config, *places]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def agent_page(folder: Path) -> Iterator[int]:
    port = free_port()
    command = [
        str(servers.executable("steelyard-agent")),
        *map(str, agent_arguments(folder, f"127.0.0.1:{port}")),
    ]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=5).close()
                break
            except OSError:
                assert process.poll() is None
                assert time.monotonic() < end
                time.sleep(0.02)
        yield port
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def test_slow_clients_of_the_agents_page_keep_nobody_waiting(tmp_path: Path) -> None:
    with agent_page(tmp_path) as port, ExitStack() as stack:
        done = threading.Event()
        stack.callback(done.set)
        # More than are kept, each with a request that never ends.
        slow = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(100)]

        def trickle() -> None:
            while not done.wait(0.2):
                for client in slow:
                    with suppress(OSError):
                        client.send(b"G")

        threading.Thread(target=trickle, daemon=True).start()
        for _ in range(5):
            answer = urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=20)
            assert answer.read() == b"ok\n"
        # Each has a deadline for its whole request, however often it sends.
        assert slow[-1].recv(1) == b""


@pytest.mark.slow
def test_the_agents_page_is_valid_exposition(tmp_path: Path) -> None:
    with agent_page(tmp_path) as port:
        page = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20).read()
    version = run("steelyard-agent", "--version").stdout.split()[1]
    assert f'steelyard_agent_build_info{{version="{version}"}} 1\n' in page.decode()
    assert PROMTOOL.exists(), "promtool is missing: run scripts/install-test-packages --slow"
    checked = subprocess.run([PROMTOOL, "check", "metrics"], input=page, capture_output=True, check=False)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")


def modes(folder: Path) -> set[tuple[str, int]]:
    kinds = {True: "folder", False: "file"}
    below = [folder, *folder.rglob("*")]
    return {(kinds[path.is_dir()], stat.S_IMODE(path.lstat().st_mode)) for path in below}


@pytest.mark.parametrize("umask", [0, 0o022, 0o777])
def test_the_spool_is_the_agents_alone_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    arguments = agent_arguments(tmp_path)
    # A store that is away leaves the rows in the spool.
    arguments[arguments.index("--create-store") - 1] = "s3://bucket/fleet"
    names = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "eu"}
    names["AWS_ENDPOINT_URL"] = "http://127.0.0.1:9"
    done = run("steelyard-agent", *arguments, "--once", umask=umask, env=names)
    assert done.returncode == 3, done.stderr
    assert list((tmp_path / "spool" / "ready").iterdir())
    assert modes(tmp_path / "spool") == {("folder", 0o700), ("file", 0o600)}


@pytest.mark.parametrize(
    "name", ["lock", "guard/audit.jsonl", "guard/lock", "journal", "ready", "lost.partial"]
)
def test_no_link_in_the_spool_is_followed(tmp_path: Path, name: str) -> None:
    target = tmp_path / "precious"
    target.mkdir() if name in {"journal", "ready"} else target.write_text("content")
    link = tmp_path / "spool" / name
    for folder in (tmp_path / "spool", link.parent):
        folder.mkdir(mode=0o700, exist_ok=True)
    link.symlink_to(target)
    done = run("steelyard-agent", *agent_arguments(tmp_path), "--once")
    if name != "lost.partial":
        assert done.returncode == 3
        assert "spool" in done.stderr
        assert "symbolic link" in done.stderr
    assert list(target.iterdir()) == [] if target.is_dir() else target.read_text() == "content"


def test_a_spool_of_others_is_refused(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    spool.chmod(0o777)
    done = run("steelyard-agent", *agent_arguments(tmp_path), "--once")
    assert done.returncode == 3
    assert "others may write to it" in done.stderr
    assert list(spool.iterdir()) == []
    if os.geteuid() == 0:
        spool.chmod(0o700)
        os.chown(spool, 65_534, 65_534)
        done = run("steelyard-agent", *agent_arguments(tmp_path), "--once")
        assert done.returncode == 3
        assert "belongs to user 65534" in done.stderr


@pytest.mark.parametrize(
    "flags", [("--value-sizes",), ("--key-sizes",), ("--rate", "5", "--arrival"), ("--mix",), ("--trace",)]
)
@pytest.mark.parametrize("kind", ["zero", "fifo", "sparse"])
def test_load_reads_regular_files_up_to_a_bound(tmp_path: Path, kind: str, flags: tuple[str, ...]) -> None:
    path = tmp_path / "input"
    if kind == "zero":
        path.symlink_to("/dev/zero")
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        with path.open("wb") as file:
            file.truncate(100 << 30)
    given = f"recorded:{path}" if "--arrival" in flags else str(path)
    limit = 'ulimit -v 2000000; exec "$@"'
    load = [servers.executable("steelyard-load"), "--target", "127.0.0.1:1", *flags, given]
    done = subprocess.run(
        ["sh", "-c", limit, "sh", *map(str, load)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2, done.stderr
    assert str(path) in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("sizes", ["99999999999", "99999999999999999999999"])
def test_a_size_beyond_the_bound_is_a_usage_error(sizes: str) -> None:
    done = run("steelyard-load", "--target", "127.0.0.1:1", "--value-sizes", sizes)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"--value-sizes: {sizes} bytes are more than" in done.stderr


@contextmanager
def resetting_server() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def reset() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    client.recv(4096)
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    client.close()

        threading.Thread(target=reset, daemon=True).start()
        yield int(listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("flags", [(), ("--rate", "100")])
def test_errors_are_the_same_in_the_text_and_in_the_record(flags: tuple[str, ...], tmp_path: Path) -> None:
    """What fails in a measure phase that is shorter than the back-off was due before it: both are said."""
    with resetting_server() as port:
        phases = ("--warmup", "1200ms", "--duration", "1500ms", "--progress", "text")
        target = ("--target", f"127.0.0.1:{port}")
        load = ("steelyard-load", *target, *phases, "--connections", 8, "--keys", 100, *flags)
        done = run(*load, "--output", tmp_path / "load.json")
    shown = [line.split() for line in done.stderr.splitlines() if "errors" in line]
    errors = sum(int(words[3]) for words in shown if words[0] == "measure")
    requests = json.loads((tmp_path / "load.json").read_text())["requests"]
    assert requests["errors"] - requests["errors_after"] + requests["errors_from_before"] == errors > 0
    line = next(line for line in done.stdout.splitlines() if line.startswith("errors "))
    assert re.search(r"(\d+) more came in the 1\.5 s, of requests due before$", line), line
    ended = requests["completed"] + requests["errors"] + requests["outstanding_at_end"] + requests["unsent"]
    assert requests["intended"] == ended
    assert sum(requests["errors_by_kind"].values()) == requests["errors"]
