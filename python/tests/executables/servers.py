"""Finds Steelyard's executables, and runs cache servers, ours or Debian's, for the length of a test."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def executable(name: str) -> Path:
    """Return the path of ``name``: STEELYARD_BIN_DIR, else beside this Python, else Cargo's target folder."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    folders = [Path(sys.executable).parent, target / "release", target / "debug"]
    if given := os.environ.get("STEELYARD_BIN_DIR"):
        folders = [Path(given)]
    for folder in folders:
        if (folder / name).exists():
            return folder / name
    raise FileNotFoundError(f"{name} is in none of {[str(folder) for folder in folders]}: run `make build`")


def tool(name: str) -> str:
    """Return the path of a program from Debian."""
    path = shutil.which(name)
    assert path, f"{name} is missing: run scripts/install-test-packages"
    return path


@dataclass
class Server:
    """A running server."""

    process: "subprocess.Popen[bytes]"
    port: int
    name: str

    def connect(self, timeout_s: float = 20) -> socket.socket:
        """Open a connection."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=timeout_s)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def stats(self) -> dict[str, str]:
        """Return the answer to the stats command."""
        with self.connect() as connection:
            connection.sendall(b"stats\r\nquit\r\n")
            text = read_all(connection).decode()
        pairs = (line.split(" ", 2)[1:] for line in text.splitlines() if line.startswith("STAT "))
        return {pair[0]: pair[1] for pair in pairs}

    def stop(self) -> int:
        """Ask the server to end and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)


def read_all(connection: socket.socket) -> bytes:
    """Read until the other side closes; a reset counts as one."""
    parts = []
    try:
        while part := connection.recv(1 << 20):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


@contextmanager
def running(process: "subprocess.Popen[bytes]", port: int, name: str) -> Iterator[Server]:
    try:
        yield Server(process, port, name)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()


@contextmanager
def steelyard_cache(*arguments: str, wrapper: tuple[str, ...] = ()) -> Iterator[Server]:
    """Run steelyard-cache on a free port until the block ends."""
    command = [*wrapper, str(executable("steelyard-cache")), "--listen", "127.0.0.1:0", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        _, error = process.communicate()
        raise AssertionError(f"steelyard-cache did not start: {error.decode()}")
    ready = json.loads(line)
    assert ready["event"] == "ready"
    with running(process, int(ready["listen"].rsplit(":", 1)[1]), "steelyard-cache") as server:
        yield server


@cache
def uring_is_permitted() -> bool:
    """Return whether the kernel lets steelyard-cache use io_uring."""
    try:
        with steelyard_cache("--io", "uring"):
            return True
    except AssertionError as error:
        if "io_uring is not permitted" in str(error):
            return False
        raise


@contextmanager
def memcached(*arguments: str) -> Iterator[Server]:
    """Run Debian's memcached, text protocol only, on a free port until the block ends."""
    command = [tool("memcached"), "-l", "127.0.0.1", "-B", "ascii", "-t", "1", *arguments]
    if os.geteuid() == 0:
        command += ["-u", "root"]
    for _ in range(20):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        process = subprocess.Popen(
            [*command, "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        # Another program may take the port in between: memcached then ends, and another port is tried.
        if listens(process, port):
            with running(process, port, "memcached") as server:
                yield server
            return
        process.kill()
        process.wait()
    raise AssertionError("memcached found no free port")


def listens(process: "subprocess.Popen[bytes]", port: int) -> bool:
    pause = threading.Event()
    for _ in range(500):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
            return process.poll() is None
        except OSError:
            if process.poll() is not None:
                return False
            pause.wait(0.02)
    return False
