"""Runs Debian's redis-server and nginx for the length of a test, and the load engine against them."""

import json
import os
import re
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import servers


def free_port() -> int:
    """Return a port of 127.0.0.1 that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _serving(command: list[str], port: int, name: str) -> Iterator[servers.Server]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if not servers.listens(process, port):
        process.kill()
        process.wait()
        raise AssertionError(f"{name} did not start")
    with servers.running(process, port, name) as server:
        yield server


@contextmanager
def redis(folder: Path) -> Iterator[servers.Server]:
    """Run Debian's redis-server, in memory only, until the block ends."""
    port = free_port()
    command = [servers.tool("redis-server"), "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    with _serving([*command, "--dir", str(folder)], port, "redis-server") as server:
        yield server


def commands_of(server: servers.Server) -> dict[str, int]:
    """Return how many commands of each kind a redis-server has executed, without the caller's own."""
    with server.connect() as connection:
        connection.sendall(b"INFO commandstats\r\nQUIT\r\n")
        text = servers.read_all(connection).decode()
    found = re.findall(r"^cmdstat_(\S+?):calls=(\d+),", text, re.MULTILINE)
    return {name: int(calls) for name, calls in found}


@dataclass
class Nginx:
    """A running nginx, what it serves and what it has logged."""

    server: servers.Server
    folder: Path

    def statuses(self) -> dict[str, int]:
        """Return how many requests it has answered by class of status."""
        counts: dict[str, int] = {}
        for line in (self.folder / "access.log").read_text().splitlines():
            # The time to write a line of the log comes after the answer: the caller stops the server before.
            name = f"{line.split()[0][0]}xx"
            counts[name] = counts.get(name, 0) + 1
        return counts


PACED_PER_S = 50
"""Requests per second of nginx's page ``/paced``: those beyond them wait, so that it takes a while."""
CONFIG = """
daemon off;
master_process off;
pid {folder}/pid;
error_log {folder}/error.log;
events {{ worker_connections 512; }}
http {{
  log_format statuses '$status $request_method $uri';
  access_log {folder}/access.log statuses;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  keepalive_requests {keepalive_requests};
  limit_req_zone $server_port zone=paced:64k rate={PACED_PER_S}r/s;
  server {{
    listen 127.0.0.1:{port};
    location / {{ return 200 "hello from a small page\\n"; }}
    location /post {{ return 204; }}
    location /moved {{ return 301 /; }}
    location /missing {{ return 404; }}
    location /broken {{ return 503; }}
    location /paced {{ root {folder}; limit_req zone=paced burst=1000; }}
  }}
}}
"""


@contextmanager
def nginx(folder: Path, keepalive_requests: int = 1_000_000) -> Iterator[Nginx]:
    """Run Debian's nginx with a handful of locations until the block ends."""
    port = free_port()
    config = folder / "nginx.conf"
    (folder / "paced").write_text("hello from a page that takes a while\n")
    config.write_text(
        CONFIG.format(
            folder=folder, port=port, keepalive_requests=keepalive_requests, PACED_PER_S=PACED_PER_S
        )
    )
    command = [servers.tool("nginx"), "-p", str(folder), "-c", str(config), "-e", str(folder / "error.log")]
    with _serving(command, port, "nginx") as server:
        yield Nginx(server, folder)


def load(port: int, *arguments: str) -> dict[str, Any]:
    """Run steelyard-load against a port and return its result."""
    return result_of(load_process(port, *arguments))


def result_of(done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    """Return the result of a load that ended: with 1 where its verdict is invalid, by the machine or not."""
    assert done.returncode in (0, 1), done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert (done.returncode == 1) == (result["verdict"]["level"] == "invalid")
    return result


def load_process(port: int, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run steelyard-load against a port to its end."""
    command = [str(servers.executable("steelyard-load")), "--target", f"127.0.0.1:{port}"]
    command += ["--json", "--progress", "none", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=os.environ)


def answered(result: dict[str, Any]) -> int:
    """Return how many requests the server has answered over the whole load, prefill apart."""
    return sum(row["completed"] + row["errors"] for row in result["series"])


Round = Callable[[], tuple[float, float]]
"""One load in a closed loop: throughput in requests/s, and median latency in ms."""


def agree(ours: Round, theirs: Round) -> None:
    """Check that two load generators that take turns find the same throughput and median latency.

    Others on the machine only ever slow a round down, so the best of each is compared: the highest throughput
    and the lowest median. Three rounds are enough on a quiet machine; on a busy one more, until both
    had a calm moment. Each may differ by a factor of 4: the programs share two CPUs with the server, spend
    different CPU time on a request, and get different shares of the CPUs beside other work. Our median is
    lower since answers are stamped when the kernel has them, and the others' when their one thread reads
    them. Mistakes of the kind looked for are larger: a wrong unit, a batch counted as one request, a wait of
    whole batches left out. Other tests find requests counted twice or not at all, from the server's counters.
    """
    of_ours: list[tuple[float, float]] = []
    of_theirs: list[tuple[float, float]] = []
    for index in range(ROUNDS_MAX):
        of_ours.append(ours())
        of_theirs.append(theirs())
        throughput = max(rate for rate, _ in of_ours) / max(rate for rate, _ in of_theirs)
        median = min(latency for _, latency in of_ours) / min(latency for _, latency in of_theirs)
        if index >= 2 and 0.25 < throughput < 4 and 0.25 < median < 4:
            return
    raise AssertionError((throughput, median, of_ours, of_theirs))


ROUNDS_MAX = 15
