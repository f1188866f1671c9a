"""Hostile clients of the cache, the ranking service and the agent's page, and hostile servers of the load."""

import json
import random
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .figures import ANSWER_S, Figures, executable, judge, run

WORDS = [
    b"get ",
    b"gets ",
    b"set k 0 0 ",
    b"add ",
    b"cas ",
    b"incr ",
    b"1048576",
    b"-1",
    b"4294967296",
    b"noreply",
]
WORDS += [
    b"\r\n",
    b"\n",
    b"\0",
    b" ",
    b"k" * 251,
    b"GET / HTTP/1.1\r\n",
    b"Host: x\r\n",
    b"\x16\x03\x01\x02\x00",
    b"\x82\x21",
]
ANSWERS = [
    b"END\r\n",
    b"STORED\r\n",
    b"VALUE k 0 5\r\nhello\r\n",
    b"VALUE k 0 99999999\r\n",
    b"ERROR\r\n",
    b"HTTP/1.1 200 OK\r\n",
]
ANSWERS += [
    b"Content-Length: 99999999999999999999\r\n\r\n",
    b"+OK\r\n",
    b"$-1\r\n",
    b"*1000000000\r\n",
    b"\0\0\0\x10garbage",
]


def text(chosen: random.Random, words: list[bytes]) -> bytes:
    """Return words and noise in any order."""
    parts = [
        chosen.choice(words) if chosen.random() < 0.8 else chosen.randbytes(chosen.randrange(40))
        for _ in range(9)
    ]
    return b"".join(parts)


def leave(connection: socket.socket, chosen: random.Random) -> None:
    """Close a connection, often by a reset."""
    if chosen.random() < 0.5:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def offend(port: int, chosen: random.Random, kept: list[socket.socket]) -> None:
    """Hold one hostile conversation; some stay open, with half a request."""
    with suppress(OSError):
        connection = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S)
        for _ in range(chosen.randrange(4)):
            connection.sendall(text(chosen, WORDS))
        if chosen.random() < 0.3:
            connection.setblocking(False)
            connection.recv(4096)
        if chosen.random() < 0.1:
            kept.append(connection)
            if len(kept) > 200:
                leave(kept.pop(0), chosen)
        else:
            leave(connection, chosen)


def asks(request: bytes, wanted: bytes) -> Callable[[int], bool]:
    """Return a question that a healthy server answers with ``wanted``."""

    def ask(port: int) -> bool:
        with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S) as connection:
            connection.sendall(request)
            return wanted in connection.recv(4096)

    return ask


def accepts(port: int) -> bool:
    """Whether somebody is let in, of a server whose protocol begins with a handshake."""
    socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S).close()
    return True


@contextmanager
def server(
    command: list[str], folder: Path, port: int | None
) -> Iterator[tuple["subprocess.Popen[bytes]", int]]:
    """Run a server; its port stands in its first line unless it was given."""
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        try:
            assert process.stdout is not None
            if port is None:
                port = int(json.loads(process.stdout.readline())["listen"].rsplit(":", 1)[1])
            end = time.monotonic() + 60
            while time.monotonic() < end:
                with suppress(OSError):
                    accepts(port)
                    break
                time.sleep(0.05)
            yield process, port
        finally:
            process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()


def besiege(
    figures: Figures,
    name: str,
    started: tuple["subprocess.Popen[bytes]", int],
    ask: Callable[[int], bool],
    chosen: random.Random,
    seconds: float,
) -> None:
    """Offend a server for so long; between, it must answer others."""
    process, port = started
    kept: list[socket.socket] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(25):
            offend(port, chosen, kept)
            figures.tried += 1
        if process.poll() is not None:
            figures.note("crashed", f"{name} ended with {process.returncode}")
            break
        try:
            if not ask(port):
                figures.note("crashed", f"{name} answers others wrongly")
                break
        except OSError as error:
            figures.note("hung", f"{name} does not answer others: {error}")
            break
    for connection in kept:
        connection.close()


def misbehave(listener: socket.socket, seed: int) -> None:
    """Serve a load badly: noise, halves, silence, resets."""
    chosen = random.Random(seed)
    kept: list[socket.socket] = []
    with suppress(OSError):
        while True:
            client, _ = listener.accept()
            with suppress(OSError):
                client.settimeout(0.2)
                client.recv(4096)
                for _ in range(chosen.randrange(4)):
                    client.sendall(text(chosen, ANSWERS))
            if chosen.random() < 0.2:
                kept.append(client)
            else:
                leave(client, chosen)


def load(figures: Figures, folder: Path, seed: int, seconds: float) -> None:
    """Let loads of each protocol meet a server that misbehaves."""
    end, number = time.monotonic() + seconds, 0
    protocols = ["memcached", "redis", "http"]
    while time.monotonic() < end or number < len(protocols):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            threading.Thread(target=misbehave, args=(listener, seed + number), daemon=True).start()
            command = [executable("steelyard-load"), "--target", f"127.0.0.1:{listener.getsockname()[1]}"]
            command += [
                "--protocol",
                protocols[number % len(protocols)],
                "--warmup",
                "0s",
                "--duration",
                "300ms",
                "--drain",
                "100ms",
                "--json",
            ]
            judge(figures, run(command, folder, 30 + ANSWER_S), " ".join(command))
            listener.shutdown(socket.SHUT_RDWR)
        number += 1


def free_port() -> int:
    """Return a port that nobody uses now."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def attack(folder: Path, seconds: float, seed: int) -> Figures:
    """Besiege each server, and the load, for its part of the time."""
    figures, chosen = Figures(), random.Random(seed)
    page = free_port()
    config = folder / "agent.toml"
    config.write_text(f'metrics.listen = "127.0.0.1:{page}"\n')
    agent = [executable("steelyard-agent"), "run", "--config", str(config), "--spool", str(folder / "spool")]
    agent += ["--store", str(folder / "store"), "--create-store"]
    cache = [executable("steelyard-cache"), "--listen", "127.0.0.1:0", "--request-timeout", "2s", "--io"]
    rank = [executable("steelyard-rank"), "leaf", "--listen", "127.0.0.1:0", "--item-bytes=1MiB"]
    tls = folder / "tls"
    tls.mkdir()
    version = asks(b"version\r\n", b"VERSION")
    health = asks(b"GET /healthz HTTP/1.1\r\n\r\n", b"200 OK")
    servers = [
        ("cache over auto", [*cache, "auto"], None, version),
        ("cache over epoll", [*cache, "epoll"], None, version),
    ]
    servers += [
        ("rank", [*rank, "--no-tls"], None, accepts),
        ("rank with TLS", [*rank, "--tls-dir", str(tls)], None, accepts),
        ("agent's page", agent, page, health),
    ]
    share = seconds / (len(servers) + 1)
    for name, command, port, ask in servers:
        with server(command, folder, port) as started:
            besiege(figures, name, started, ask, chosen, share)
    load(figures, folder, seed, share)
    return figures
