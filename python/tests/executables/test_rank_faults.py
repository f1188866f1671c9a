"""What steelyard-rank does when clients, leaves, the machine or its limits are against it."""

import json
import random
import socket
import ssl
import struct
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from thriftpy2.thrift import TApplicationException

from steelyard.records import RankStats, read_lines

from . import rank
from .servers import executable

INTERNAL_ERROR = 6
PROTOCOL_ERROR = 7
UNKNOWN_METHOD = 1


def ask(user: int = 1) -> Any:
    return rank.idl().RankRequest(user_id=user)


def refused(*arguments: str) -> tuple[int, str]:
    """Start a process that must not start; its exit code and what it said."""
    command = [str(executable("steelyard-rank")), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout == ""
    return done.returncode, done.stderr


def connect(process: rank.Process) -> socket.socket:
    """Open a bare connection, under TLS where the server has it."""
    plain = socket.create_connection(("127.0.0.1", process.port), timeout=20)
    if not process.ready["tls_ca"]:
        return plain
    context = ssl.create_default_context(cafile=process.ready["tls_ca"])
    return context.wrap_socket(plain, server_hostname="localhost")


def is_closed(connection: socket.socket) -> bool:
    """Read until the other side closes; false when it only says nothing."""
    try:
        while connection.recv(65536):
            pass
    except (ConnectionResetError, ssl.SSLError):
        return True
    except TimeoutError:
        return False
    return True


def eventually(condition: Callable[[], bool], timeout_s: float = 60) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("root", "--no-tls"), 2, "--leaf"),
        (("leaf",), 2, "--tls-dir"),
        (("leaf", "--no-tls", "--tls-dir", "x"), 2, "--no-tls"),
        (("leaf", "--no-tls", "--delay", "soon"), 2, "exponential:MEAN"),
        (("leaf", "--no-tls", "--instance", "2/2"), 2, "0/2"),
        (("leaf", "--no-tls", "--item-bytes", "900TiB"), 3, "--item-bytes"),
        (("leaf", "--no-tls", "--cpus", "4095"), 3, "4095"),
        (("leaf", "--no-tls", "--stats-out", "/nowhere/stats"), 4, "/nowhere/stats"),
        (("leaf", "--tls-cert", "/nowhere.pem", "--tls-key", "/nowhere.key"), 3, "/nowhere.pem"),
        (("leaf", "--tls-dir", "/proc/nowhere"), 3, "/proc/nowhere"),
        (("root", "--no-tls", "--leaf", "x:1", "--feature-functions", "0"), 2, "this build has"),
        (("root", "--no-tls", "--leaf", "127.0.0.1:1", "--connect-timeout", "0"), 3, "leaf 127.0.0.1:1"),
        (("root", "--no-tls", "--leaf", "nowhere.invalid:1", "--connect-timeout", "0"), 3, "nowhere.invalid"),
        (("root", "--tls-cert", "/nowhere.pem", "--tls-key", "k", "--leaf", "x:1"), 2, "--leaf-ca"),
    ],
)
def test_settings_that_do_not_fit_are_named(arguments: tuple[str, ...], code: int, words: str) -> None:
    found, text = refused(*arguments)
    assert (found, words in text) == (code, True), text
    assert "panicked" not in text
    if code != 2:
        assert text.count("\n") == 1


def test_a_taken_port_is_said_in_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, text = refused("leaf", "--no-tls", "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
    assert code == 3
    assert text.count("\n") == 1
    assert "cannot listen on 127.0.0.1" in text


def test_too_many_requests_are_refused_and_the_others_answered() -> None:
    bounds = ("--workers=1", "--queue=1")
    with rank.leaf(None, "--delay=constant:200ms") as leaf, rank.root(None, [leaf], *bounds) as root:
        ends: list[str] = []

        def call(user: int) -> None:
            with root.client() as client:
                try:
                    client.rank(ask(user))
                    ends.append("answered")
                except TApplicationException as exception:
                    ends.append(f"{exception.type}: {exception.message}")

        threads = [threading.Thread(target=call, args=(user,)) for user in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(ends) == 8
        assert set(ends) == {"answered", f"{INTERNAL_ERROR}: overloaded: too many requests are waiting"}
        assert ends.count("answered") <= 3
        with root.client() as client:
            assert client.rank(ask()).story_count == 30, "and afterwards it serves as before"


def test_calls_that_make_no_sense_are_answered_with_their_exception() -> None:
    with rank.leaf(None) as leaf, rank.root(None, [leaf]) as root:
        with leaf.client() as client, pytest.raises(TApplicationException) as caught:
            client.rank(ask())
        assert caught.value.type == UNKNOWN_METHOD
        request = rank.idl().RankRequest
        bad = [
            request(user_id=1, stories=-1),
            request(user_id=1, stories=10_001),
            request(user_id=1, compression=9),
            request(stories=1),
        ]
        with root.client() as client:
            for wrong in bad:
                with pytest.raises(TApplicationException) as caught:
                    client.rank(wrong)
                assert caught.value.type == PROTOCOL_ERROR, wrong
            assert client.rank(ask()).story_count == 30, "the connection lives"
        leaf_request = rank.idl().LeafRequest
        with leaf.client("Leaf") as client:
            for features, length in ((b"", 0), (b"x" * 100, 99), (b"x" * 100, 1 << 30), (b"x" * 63, 63)):
                with pytest.raises(TApplicationException) as caught:
                    client.score(
                        leaf_request(
                            user_id=1, candidates=1, results=1, features=features, uncompressed_bytes=length
                        )
                    )
                assert caught.value.type == PROTOCOL_ERROR


@pytest.mark.parametrize("tls", [True, False])
def test_garbage_half_frames_and_oversized_ones_close_the_connection_only(tmp_path: Path, tls: bool) -> None:
    folder = tmp_path if tls else None
    stats = tmp_path / "stats.jsonl"
    settings = ("--stall-timeout=300ms", "--max-frame=64KiB", f"--stats-out={stats}")
    with rank.leaf(folder) as leaf, rank.root(folder, [leaf], *settings) as root:
        noise = random.Random(7)
        for text in (
            struct.pack(">I", 64 * 1024 + 1),
            struct.pack(">I", 0xFFFFFFFF) + b"x" * 100,
            struct.pack(">I", 0),
            struct.pack(">I", 5) + b"hello",
            b"GET / HTTP/1.1\r\n\r\n",
            *(noise.randbytes(noise.randrange(4, 4000)) for _ in range(20)),
        ):
            with connect(root) as connection:
                connection.sendall(text)
                assert is_closed(connection), text[:20]
        for begun in (b"\0", struct.pack(">I", 100) + b"half"):
            with connect(root) as connection:
                connection.sendall(begun)
                begin = time.monotonic()
                assert is_closed(connection)
                assert 0.25 < time.monotonic() - begin < 10
        with connect(root) as idle, root.client() as client:
            time.sleep(0.7)
            assert client.rank(ask()).story_count == 30, "who waits between calls is not closed"
            idle.settimeout(0.1)
            assert not is_closed(idle)
        if tls:
            for text in (b"hello, no TLS here\r\n" * 10, b"\x16\x03\x01\x02\x00\x01"):
                with socket.create_connection(("127.0.0.1", root.port), timeout=20) as bare:
                    bare.sendall(text)
                    assert is_closed(bare)
        assert root.stop() == 0
    last = list(read_lines(RankStats, stats))[-1]
    assert last.closed_malformed >= 24
    assert last.closed_stalled >= 2
    assert last.requests == 1
    assert last.connections == 0


def test_a_client_that_reads_nothing_is_closed_and_costs_no_memory(tmp_path: Path) -> None:
    with rank.leaf(None) as leaf, rank.root(None, [leaf], "--stall-timeout=1s", "--queue=1") as root:
        call = bytes.fromhex("8221 01 0472616e6b 1c 1602 00 00".replace(" ", ""))
        frame = struct.pack(">I", len(call)) + call
        with socket.create_connection(("127.0.0.1", root.port), timeout=5) as deaf:
            deaf.sendall(frame)
            assert deaf.recv(4)[0] == 0, "the call is one that is answered"
            sent = 0
            try:
                while sent < 400:
                    deaf.sendall(frame * 2000)
                    sent += 1
            except (TimeoutError, OSError):
                pass
            assert sent < 400, "the server went on reading"
        status = Path(f"/proc/{root.process.pid}/statm").read_text().split()
        assert int(status[1]) * 4096 < 200 << 20
        with root.client() as client:
            assert client.rank(ask()).story_count == 30


def test_a_client_that_trusts_another_authority_gets_nothing(tmp_path: Path) -> None:
    with rank.leaf(tmp_path / "one") as leaf, rank.leaf(tmp_path / "other") as other:
        leaf.ready["tls_ca"] = other.ready["tls_ca"]
        with pytest.raises(ssl.SSLCertVerificationError):
            connect(leaf)
        # And a root that does not trust its leaf says so for every request.
        with rank.root(tmp_path / "other", [leaf]) as root, root.client() as client:
            with pytest.raises(TApplicationException, match="leaf 127") as caught:
                client.rank(ask())
            assert caught.value.type == INTERNAL_ERROR


def test_a_leaf_that_goes_and_comes_back_fails_requests_only_while_it_is_gone(tmp_path: Path) -> None:
    with rank.leaf(tmp_path) as leaf, rank.root(tmp_path, [leaf]) as root, root.client() as client:
        before = client.rank(ask()).checksum
        assert leaf.stop() == 0
        with pytest.raises(TApplicationException, match="leaf"):
            client.rank(ask())
        with rank.leaf(tmp_path, "--listen", leaf.ready["listen"]):
            answers = []

            def serves() -> bool:
                try:
                    answers.append(client.rank(ask()).checksum)
                except TApplicationException:
                    return False
                return True

            eventually(serves)
            assert answers == [before]


def test_a_leaf_that_takes_too_long_fails_the_request_in_time() -> None:
    with (
        rank.leaf(None, "--delay=constant:30s") as slow,
        rank.root(None, [slow], "--leaf-timeout=300ms") as root,
        root.client() as client,
    ):
        begin = time.monotonic()
        with pytest.raises(TApplicationException, match="no answer in time"):
            client.rank(ask())
        assert time.monotonic() - begin < 10
        begin = time.monotonic()
        assert root.stop() == 0
        assert slow.stop() == 0, "what waits in the backend does not hold up the end"
        assert time.monotonic() - begin < 5


def test_delays_of_the_backend_are_those_of_the_request(tmp_path: Path) -> None:
    """The same user waits the same, run after run; different users wait differently."""

    def waits() -> list[int]:
        with rank.leaf(None, "--delay=exponential:5ms") as leaf, leaf.client("Leaf") as client:
            request = rank.idl().LeafRequest
            found = []
            for user in range(8):
                answer = client.score(
                    request(user_id=user, candidates=1, results=1, features=b"x" * 64, uncompressed_bytes=64)
                )
                found += [stage.wall_ns for stage in answer.stages if stage.name == "backend"]
            return found

    first = waits()
    assert waits() == first
    assert len(set(first)) == 8
    assert 500_000 < sum(first) / 8 < 50_000_000


def test_lines_of_statistics_come_in_time_and_say_which_instance(tmp_path: Path) -> None:
    stats = tmp_path / "stats.jsonl"
    arguments = (f"--stats-out={stats}", "--stats-interval=50ms", "--instance=1/2", "--workers=3")
    with rank.leaf(None, *arguments) as leaf:
        assert (leaf.ready["instance"], leaf.ready["instances"]) == (1, 2)
        eventually(lambda: stats.read_bytes().count(b"\n") >= 3)
        assert leaf.stop() == 0
    lines = list(read_lines(RankStats, stats))
    assert all((line.role, line.instance, line.instances) == ("leaf", 1, 2) for line in lines)
    times = [line.monotonic_ns for line in lines]
    assert times == sorted(times)
    kinds = sorted(thread.kind for thread in lines[-1].threads)
    assert kinds == ["backend", "io", "worker", "worker", "worker"]
    assert all(thread.cpu_user_ns is not None for thread in lines[-1].threads)
    assert json.loads(stats.read_text().splitlines()[0])["feature_code_bytes"] is None
