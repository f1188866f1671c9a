"""The process that reads a source: its file, its bounds, and what a hostile source cannot do to it."""

import gzip
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from steelyard.analyze.operations.files import _read as read_file
from steelyard.bench.operations import fetch
from steelyard.bench.operations.fetch import Client, FetchError
from tests.bench.conftest import until

PACKAGE = Path(__file__).resolve().parents[3]


@contextmanager
def recorder(folder: Path, **plan: Any) -> Iterator[Path]:
    """The process beside a block; it is asked to end after it and must do so well."""
    out = folder / "0.jsonl"
    known = {"given": "test", "type": "log", "name": "test", "meaning": "count", "what": "", "url": None}
    known |= {"path": None, "format": None, "zone": None, "interval_s": 0.05, "out": str(out)}
    process = subprocess.Popen(
        [sys.executable, "-m", "steelyard.bench.operations.recorder", json.dumps({**known, **plan})],
        env={**os.environ, "PYTHONPATH": str(PACKAGE)},
    )
    try:
        until(out.is_file)
        assert Path(f"/proc/{process.pid}/comm").read_text().strip() == "steelyard-ops"
        yield out
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()


def counted(path: Path) -> dict[str, int]:
    found: dict[str, int] = {}
    for reading in read_file(path).readings:
        for label, count in reading.get("counts", {}).items():
            found[label] = found.get(label, 0) + count
    return found


def test_lines_are_counted_by_their_labels(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("GET before\n")
    pattern = r"^(?P<verb>[A-Z]+) (?P<count>\d+)?"
    with recorder(tmp_path, path=str(log), what=pattern) as out, log.open("a") as file:
        file.write("GET 3\nPUT 2\nnothing\nGET x\nGET 4\n")
        file.flush()
    # A count that is no number is no operation.
    assert counted(out) == {'verb="GET"': 7, 'verb="PUT"': 2}
    tail = read_file(out).tail
    assert tail is not None
    assert (tail["lines"], tail["matched"]) == (5, 3)


def test_a_pattern_that_does_not_end_is_given_up(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.touch()
    began = time.monotonic()
    with recorder(tmp_path, path=str(log), what="^(a+)+$") as out:
        with log.open("a") as file:
            file.write("aaa\n" + ("a" * 40 + "b\n") * 100)
        until(lambda: "end_ns" in out.read_text().splitlines()[-1])
    tail = read_file(out).tail
    assert tail is not None
    assert (tail["slow"], tail["matched"]) == (3, 1)
    assert "repetitions within repetitions" in tail["notes"][0]
    assert time.monotonic() - began < 8


def test_stamps_without_a_zone_are_counted_and_reported(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.touch()
    with recorder(tmp_path, path=str(log), what=r"^(?P<time>\S+ \S+)") as out, log.open("a") as file:
        file.write("2026-11-22 02:27:14 x\n")
        file.flush()
    tail = read_file(out).tail
    assert tail is not None
    assert (tail["zoneless"], tail["matched"]) == (1, 0)


@contextmanager
def answering(*pieces: bytes, pause_s: float = 0.0) -> Iterator[str]:
    """A service that answers every connection with the same bytes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                try:
                    connection.recv(4096)
                    for piece in pieces:
                        connection.sendall(piece)
                        time.sleep(pause_s)
                except OSError:
                    pass

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/metrics"
    finally:
        listener.close()


@contextmanager
def keeping(answer: bytes, *, answers: int | None = None) -> Iterator[tuple[str, list[int]]]:
    """A service that keeps its connections, for ``answers`` where given; and the connections made."""
    listener = socket.create_server(("127.0.0.1", 0))
    made: list[int] = []

    def serve(connection: socket.socket) -> None:
        with connection:
            for _ in range(answers or 1_000):
                asked = b""
                while not asked.endswith(b"\r\n\r\n"):
                    if not (piece := connection.recv(4096)):
                        return
                    asked += piece
                connection.sendall(answer)

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            made.append(1)
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/metrics", made
    finally:
        listener.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\na 1\nb\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\na 1\n\r\n2\r\nb\n\r\n0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 6\r\n\r\na 1\nb\n",
    ],
    ids=["length", "chunks", "1.0"],
)
def test_a_kept_connection_gives_every_page(answer: bytes) -> None:
    with keeping(answer) as (url, made):
        client = Client(url)
        assert [client.get() for _ in range(5)] == ["a 1\nb\n"] * 5
        client.close()
    assert len(made) == 1


def test_a_connection_that_the_service_closed_is_made_anew() -> None:
    with keeping(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na\n", answers=1) as (url, made):
        client = Client(url)
        assert [client.get() for _ in range(4)] == ["a\n"] * 4
        client.close()
    assert len(made) == 4


def test_a_page_that_is_packed_unasked_is_read() -> None:
    body = gzip.compress(b"a 1\n")
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n"
    with keeping(head.encode() + body) as (url, _):
        client = Client(url)
        assert [client.get(), client.get()] == ["a 1\n", "a 1\n"]
        client.close()


OK = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"", "nothing|answer|Remote"),
        (b"SSH-2.0-OpenSSH\r\n", "does not answer in HTTP: .*SSH-2.0-OpenSSH"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n", "does not answer in HTTP: got more than"),
        (b"HTTP/1.1 301 Moved\r\nLocation: http://example.com/\r\nContent-Length: 0\r\n\r\n", "points to"),
        (b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", "answers 500 No"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", "broke off in the middle"),
    ],
)
def test_malformed_pages_are_reported_in_a_line(answer: bytes, said: str) -> None:
    with answering(answer) as url, pytest.raises(FetchError, match=said) as caught:
        Client(url).get()
    assert "\n" not in str(caught.value)


def test_a_page_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(OK, *[b"x" * 65536] * 40) as url, pytest.raises(FetchError, match="more than 1 MiB"):
        Client(url, bytes_at_most=1 << 20).get()
    with (
        answering(OK, *[b"x"] * 200, pause_s=0.02) as url,
        pytest.raises(FetchError, match=r"longer than 0\.3 s"),
    ):
        Client(url, timeout_s=0.3).get()


def test_a_service_that_closes_each_connection_is_read(tmp_path: Path) -> None:
    assert fetch.TIMEOUT_S <= 5
    with (
        answering(OK + b"x_total 1\n") as url,
        recorder(tmp_path, type="prometheus", meaning=None, url=url, what="x_total") as out,
    ):
        until(lambda: out.read_text().count("values") > 2)
    found = read_file(out)
    assert found.tail is not None
    assert found.tail["failed"] == 0
    assert all(reading["took_ns"] < 10**9 for reading in found.readings if "values" in reading)
