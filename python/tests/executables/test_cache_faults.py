"""What steelyard-cache does when clients, the machine or its limits are against it."""

import json
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from . import servers

MEBIBYTE = 1 << 20
READ_THROUGH = ("--mode", "read-through", "--slow-threads", "3")


@pytest.fixture(params=["uring", "epoll"])
def io(request: pytest.FixtureRequest) -> str:
    """Return each way to move bytes that the kernel permits."""
    if request.param == "uring" and not servers.uring_is_permitted():
        pytest.skip("the kernel does not permit io_uring here")
    return str(request.param)


def refused(*arguments: str, wrapper: tuple[str, ...] = ()) -> tuple[int, str]:
    """Start a server that must not start; its exit code and what it said."""
    command = [*wrapper, str(servers.executable("steelyard-cache")), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout == ""
    return done.returncode, done.stderr


def rss_bytes(server: servers.Server) -> int:
    pages = int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


def ask(server: servers.Server, text: bytes) -> bytes:
    with server.connect() as connection:
        connection.sendall(text + b"quit\r\n")
        return servers.read_all(connection)


def eventually(condition: Callable[[], bool], timeout_s: float = 60) -> None:
    """Wait until ``condition`` returns true."""
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_taken_port_is_said_in_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, text = refused("--listen", f"127.0.0.1:{taken.getsockname()[1]}")
    assert code == 3
    assert text.count("\n") == 1
    assert "cannot listen on 127.0.0.1" in text
    assert "--listen 127.0.0.1:0" in text


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--memory", "1MiB"), 2, "raise --memory"),
        (("--memory", "lots"), 2, "use B, KiB"),
        (("--fast-threads", "0"), 2, "fast-threads"),
        (("--backend-delay", "soon"), 2, "exponential:MEAN"),
        (("--compressibility", "0"), 2, "at most 1"),
        (("--mode", "read-through", "--object-sizes", "/nowhere.json"), 2, "/nowhere.json"),
        (("--stats-out", "/nowhere/stats.jsonl"), 4, "/nowhere/stats.jsonl"),
        (("--cpus", "4095"), 3, "4095"),
    ],
)
def test_settings_that_do_not_fit_are_named(arguments: tuple[str, ...], code: int, words: str) -> None:
    found, text = refused("--listen", "127.0.0.1:0", *arguments)
    assert (found, words in text) == (code, True), text


@contextmanager
def memory_cgroup(limit_bytes: int) -> Iterator[Path]:
    """A cgroup (v1 or v2) with a memory limit, where this machine lets us make one."""
    for base, file in (
        (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
        (Path("/sys/fs/cgroup"), "memory.max"),
    ):
        folder = base / f"steelyard-test-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            (folder / file).write_text(str(limit_bytes))
        except OSError:
            folder.rmdir()
            continue
        try:
            yield folder
        finally:
            left = folder / "cgroup.procs"
            eventually(lambda left=left: not left.read_text())
            folder.rmdir()
        return
    pytest.skip("no cgroup with a memory limit can be made here (that needs root and the memory controller)")


def test_a_cgroup_smaller_than_the_cache_is_refused() -> None:
    with memory_cgroup(256 * MEBIBYTE) as folder:
        enter = ("sh", "-c", f'echo $$ > {folder}/cgroup.procs; exec "$@"', "sh")
        code, text = refused("--listen", "127.0.0.1:0", "--memory", "512MiB", wrapper=enter)
        assert code == 3, text
        assert text.count("\n") == 1
        assert str(folder) in text
        with servers.steelyard_cache("--memory", "64MiB", wrapper=enter) as server:
            assert ask(server, b"set a 0 0 1\r\nx\r\nget a\r\n").endswith(b"END\r\n")


def test_the_limit_on_open_files_bounds_connections() -> None:
    few = ("sh", "-c", 'ulimit -n 100; exec "$@"', "sh")
    with servers.steelyard_cache("--max-connections", "5000", wrapper=few) as server:
        assert server.stats()["max_connections"] == "36"
    soft = ("sh", "-c", 'ulimit -S -n 100; exec "$@"', "sh")
    with servers.steelyard_cache("--max-connections", "500", wrapper=soft) as server:
        assert server.stats()["max_connections"] == "500"


def test_more_connections_than_the_limit_are_refused_as_memcached_does(io: str) -> None:
    with servers.steelyard_cache("--io", io, "--max-connections", "3") as server:
        held = [server.connect() for _ in range(3)]
        for connection in held:
            connection.sendall(b"get a\r\n")
            assert connection.recv(100) == b"END\r\n"
        with server.connect() as over:
            assert servers.read_all(over) == b"ERROR Too many open connections\r\n"
        held.pop().close()

        def served() -> bool:
            return ask(server, b"get a\r\n") == b"END\r\n"

        eventually(served)
        # The connection that was just served may not be gone yet, and hold the last place.
        eventually(lambda: int(server.stats().get("rejected_connections", 0)) >= 1)
        for connection in held:
            connection.close()


def test_garbage_and_vanishing_clients_leave_the_server_well(io: str) -> None:
    noise = random.Random(7)
    with servers.steelyard_cache("--io", io, *READ_THROUGH, "--backend-delay", "constant:2ms") as server:
        for number in range(200):
            connection = server.connect()
            connection.sendall(noise.randbytes(noise.randrange(3000)))
            connection.sendall(b"set half 0 0 100000\r\nabc" if number % 2 else b"get missing%d\r\n" % number)
            if number % 3 == 0:
                # A reset instead of an orderly end.
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            connection.close()
        eventually(lambda: server.stats()["curr_connections"] == "1")
        assert ask(server, b"set a 0 0 1\r\nx\r\nget a\r\n") == b"STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n"
        assert server.stop() == 0


def test_a_client_that_does_not_read_costs_bounded_memory(io: str) -> None:
    with servers.steelyard_cache("--io", io, "--memory", "16MiB") as server:
        value = b"v" * 500_000
        assert b"STORED" in ask(server, b"set a 0 0 %d\r\n%s\r\n" % (len(value), value))
        before = rss_bytes(server)
        connection = server.connect()
        connection.setblocking(False)
        asked = 0
        end = time.monotonic() + 1
        while time.monotonic() < end:
            try:
                asked += connection.send(b"get a\r\n" * 1000)
            except BlockingIOError:
                time.sleep(0.01)
        # What was asked for would be many gigabytes of answers.
        assert asked // 7 * len(value) > 1 << 30
        assert rss_bytes(server) - before < 16 * MEBIBYTE
        # Others are served meanwhile, and this one gets its answers once it reads.
        assert ask(server, b"get b\r\n") == b"END\r\n"
        connection.setblocking(True)
        got = 0
        while got < 20 * len(value):
            got += len(connection.recv(1 << 20))
        connection.close()


def test_many_half_sent_values_cost_what_was_sent(io: str) -> None:
    with servers.steelyard_cache("--io", io, "--memory", "16MiB") as server:
        before = rss_bytes(server)
        held = [server.connect() for _ in range(200)]
        for connection in held:
            connection.sendall(b"set a 0 0 1000000\r\n" + b"x" * 1000)
        assert ask(server, b"get a\r\n") == b"END\r\n"
        assert rss_bytes(server) - before < 16 * MEBIBYTE
        for connection in held:
            connection.close()


def test_memory_when_full_is_what_was_asked_for() -> None:
    sizes = json.loads((servers.ROOT / "data/tao/object-sizes.json").read_text())["quantiles"]
    limit = 256 * MEBIBYTE
    draw = random.Random(1)
    body = b"v" * 70_000

    def size() -> int:
        at = draw.random()
        for (low, below), (high, above) in pairwise(sizes):
            if at <= high:
                return round(below + (above - below) * (at - low) / (high - low))
        return int(sizes[-1][1])

    lengths = [size() for _ in range(10_000)]
    with servers.steelyard_cache("--memory", "256MiB", "--io", "auto") as server:
        with server.connect(120) as connection:
            sent = number = 0
            while sent < 1.3 * limit:
                parts = []
                for length in lengths:
                    number += 1
                    parts.append(b"set key-%026d 0 0 %d noreply\r\n%s\r\n" % (number, length, body[:length]))
                    sent += length
                connection.sendall(b"".join(parts))
            connection.sendall(b"get key-%026d\r\nquit\r\n" % number)
            assert servers.read_all(connection).startswith(b"VALUE")
        stats = server.stats()
        assert int(stats["evictions"]) > 0
        assert int(stats["limit_maxbytes"]) == limit
        assert 0.9 * limit < int(stats["stored_bytes"]) <= limit
        assert 0.9 * limit < rss_bytes(server) < 1.1 * limit


def test_read_through_answers_the_same_bytes_for_miss_and_hit(io: str) -> None:
    sizes = servers.ROOT / "data/tao/object-sizes.json"
    arguments = (
        "--io",
        io,
        *READ_THROUGH,
        "--object-sizes",
        str(sizes),
        "--backend-delay",
        "exponential:200us",
    )
    keys = [b"key%d" % number for number in range(400)]
    with servers.steelyard_cache(*arguments) as server:
        one_by_one = b"".join(b"get %s\r\n" % key for key in keys)
        missed = ask(server, one_by_one)
        assert [word for word in missed.split() if word in keys] == keys, (
            "answers come in the order of requests"
        )
        assert ask(server, one_by_one) == missed
        together = ask(server, b"get %s\r\n" % b" ".join(keys))
        assert together == missed.replace(b"END\r\n", b"") + b"END\r\n"
        stats = server.stats()
        assert stats["slow_requests"] == str(len(keys))
        assert stats["fast_requests"] == str(2 * len(keys))
        assert int(stats["slow_wait_us"]) > 0
        # The same key and seed give the same object in another process.
        with servers.steelyard_cache(*arguments) as other:
            assert ask(other, one_by_one) == missed


def test_a_full_slow_queue_holds_clients_back_and_loses_nothing(io: str) -> None:
    arguments = (
        "--io",
        io,
        "--mode",
        "read-through",
        "--slow-threads",
        "1",
        "--backend-delay",
        "constant:100us",
    )
    with servers.steelyard_cache(*arguments) as server:
        connections = [server.connect(60) for _ in range(8)]
        for number, connection in enumerate(connections):
            keys = b" ".join(b"c%d-%d" % (number, key) for key in range(300))
            connection.sendall(b"get %s\r\nquit\r\n" % keys)
        for number, connection in enumerate(connections):
            answer = servers.read_all(connection)
            assert answer.count(b"VALUE c%d-" % number) == 300
            assert answer.endswith(b"END\r\n")
            connection.close()
        stats = server.stats()
        assert stats["slow_requests"] == "2400"
        assert int(stats["slow_queue_depth_max"]) <= 64
        assert stats["slow_queue_depth"] == "0"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_the_statistics_file_ends_with_the_last_count(io: str, how: signal.Signals, tmp_path: Path) -> None:
    path = tmp_path / "stats.jsonl"
    arguments = ("--stats-out", str(path), "--stats-interval", "20ms", "--fast-threads", "2")
    with servers.steelyard_cache("--io", io, *READ_THROUGH, *arguments) as server:
        for number in range(50):
            # One after the other: a second get that is sent before the first is answered misses too.
            ask(server, b"get key%d\r\n" % number)
            ask(server, b"get key%d\r\n" % number)
        eventually(lambda: path.read_text().count("\n") >= 2)
        server.process.send_signal(how)
        assert server.process.wait(20) == 0
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    last = lines[-1]
    assert len(lines) > 1
    assert {line["kind"] for line in lines} == {"cache_stats"}
    assert (last["slow_requests"], last["fast_requests"]) == (50, 50)
    assert (last["get_misses"], last["get_hits"]) == (50, 50)
    assert last["stored_bytes"] <= last["memory_limit_bytes"]
    assert [thread["name"] for thread in last["threads"]] == [
        "fast-0",
        "fast-1",
        "slow-0",
        "slow-1",
        "slow-2",
    ]
    assert sum(thread["requests"] for thread in last["threads"] if thread["kind"] == "slow") == 50
    assert all(thread["cpu_user_ns"] is not None for thread in last["threads"])
    assert [line["requests"] for line in lines] == sorted(line["requests"] for line in lines)


def test_it_ends_with_its_parent() -> None:
    command = f"{servers.executable('steelyard-cache')} --listen 127.0.0.1:0 --die-with-parent & read line"
    shell = subprocess.Popen(["sh", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert shell.stdout
    ready = json.loads(shell.stdout.readline())
    shell.kill()
    shell.communicate()

    def gone() -> bool:
        try:
            return Path(f"/proc/{ready['pid']}/stat").read_text().rsplit(")")[-1].split()[0] == "Z"
        except FileNotFoundError:
            return True

    eventually(gone)
