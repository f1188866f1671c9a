"""Stores and hosts that answer anything: an agent loses no row to one, and a load ends in time at the other.

S3: a bucket that now and then is a login page, an error with status 200, silent, endless or gone. Each file
of the agent is in the bucket or in its spool at any time (lost otherwise), and each run of the agent ends.

Hosts: what stands for ssh prints floods, half greetings, odd reports, or nothing. The load ends in a line
(crashed), in time (hung), and small.
"""

import json
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from urllib.parse import unquote, urlsplit

from .figures import Figures, executable, judge, run
from .kills import machine

REQUEST_S = 30.0
"""What the agent gives a request."""
HELLO_S = 30.0
"""What a load gives a host to greet."""
PAGE = b"<html><body>Please log in</body></html>"
ERROR = b"<?xml version='1.0'?><Error><Code>InternalError</Code><Message>later</Message></Error>"
WAYS = ("good", "good", "good", "page", "no tag", "error", "500", "reset", "endless", "short")


class Bucket:
    """A bucket's objects, and how it answers next."""

    def __init__(self, chosen: random.Random) -> None:
        self.chosen, self.lock = chosen, Lock()
        self.objects: dict[str, bytes] = {}

    def way(self) -> str:
        """Return how to answer; one in fifty is a byte now and then, which takes its time."""
        with self.lock:
            return "trickle" if self.chosen.random() < 0.02 else self.chosen.choice(WAYS)


class Answer(BaseHTTPRequestHandler):
    """Answers one request, in order or not."""

    bucket: Bucket
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _send(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _odd(self, way: str) -> None:
        self.close_connection = True
        if way == "page":
            self._send(200, PAGE, ETag='"1"')
        elif way == "no tag":
            self._send(200)
        elif way == "error":
            self._send(200, ERROR, ETag='"1"')
        elif way == "500":
            self._send(500, ERROR)
        elif way == "short":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nETag: 1\r\nContent-Length: 99\r\n\r\nhalf")
        elif way == "endless":
            self.wfile.write(b'HTTP/1.1 200 OK\r\nETag: "1"\r\nTransfer-Encoding: chunked\r\n\r\n')
            while True:
                self.wfile.write(b"8000\r\n" + b"x" * 0x8000 + b"\r\n")
        elif way == "trickle":
            for byte in b"HTTP/1.1 200 OK\r\nETag: 1\r\n" + b"X-Wait: " + b"x" * 1000:
                self.wfile.write(bytes([byte]))
                time.sleep(1)

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        key = unquote(urlsplit(self.path).path)
        way = self.bucket.way()
        with suppress(OSError):
            if way != "good":
                self._odd(way)
            elif self.command == "PUT":
                with self.bucket.lock:
                    self.bucket.objects[key] = body
                self._send(200, ETag='"1"')
            elif key in self.bucket.objects:
                self._send(200, self.bucket.objects[key])
            elif urlsplit(self.path).query:
                self._send(200, b"<ListBucketResult></ListBucketResult>")
            else:
                self._send(404, b"<Error><Code>NoSuchKey</Code></Error>")

    do_GET = do_PUT = _answer  # noqa: N815 - the names of http.server


@contextmanager
def served(bucket: Bucket) -> Iterator[str]:
    """Serve a bucket on loopback; yield its address."""
    handler = type("Served", (Answer,), {"bucket": bucket})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def s3(folder: Path, seconds: float, seed: int) -> Figures:
    """Run agents against the bucket until the time is over."""
    figures, chosen = Figures(), random.Random(seed)
    bucket = Bucket(chosen)
    config, spool = folder / "once.toml", folder / "spool"
    config.write_text('metrics.listen = ""\n[sampling]\nwindow_s = 0.1\n[profiles]\nminutes_ratio = 0\n')
    line = [executable("steelyard-agent"), "run", "--once", "--config", str(config)]
    line += ["--root", str(machine(folder)), "--spool", str(spool), "--store", "s3://bucket/fleet"]
    line += ["--create-store"]
    end, known = time.monotonic() + seconds, 0
    with served(bucket) as address:
        keys = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "here"}
        environment = {**os.environ, **keys, "AWS_ENDPOINT_URL": address}
        while time.monotonic() < end or figures.tried < len(WAYS):
            what = f"seed {seed}, agent {figures.tried}"
            # Every request of a run may be the one that takes its whole time.
            judge(figures, run(line, folder, 4 * REQUEST_S, environment), what)
            ready = {path.name.rsplit(",", 1)[-1] for path in (spool / "ready").glob("*.parquet")}
            stored = {Path(key).name for key in bucket.objects if key.endswith(".parquet")}
            files = len(ready | stored)
            # Each run seals a window at least, and none may be forgotten.
            if files <= known:
                figures.note("lost", f"{files} files are known after {known} ({what})")
            known = files
    return figures


HELLO = '{"report":"hello","version":"VERSION"}'


def script(chosen: random.Random, version: str) -> str:
    """Return what stands for ssh."""
    hello = HELLO.replace("VERSION", version)
    parts = [
        "yes",
        "cat /dev/zero",
        "yes >&2",
        "head -c 300000000 /dev/zero",
        "echo Welcome; echo to this host",
        f"echo '{hello[:-5]}'",
        f"echo '{hello}'",
        "echo '{}'",
        'echo \'{"report":"interval"}\'',
        f"echo '{json.dumps({'report': 'failed', 'kind': 'other', 'why': 'x' * 5000})}'",
        "printf '\\033[2J\\377\\n' >&2",
        "head -c 2000 /dev/urandom",
        "sleep 0.2",
        f"exit {chosen.randrange(4)}",
    ]
    return "; ".join(chosen.sample(parts, chosen.randrange(1, 4)))


def hosts(folder: Path, seconds: float, seed: int) -> Figures:
    """Load from hosts that say anything, until the time is over."""
    figures, chosen = Figures(), random.Random(seed)
    load = executable("steelyard-load")
    version = run([load, "--version"], folder, 30).output.split()[-1].decode()
    end = time.monotonic() + seconds
    while time.monotonic() < end or figures.tried < 10:
        said = script(chosen, version)
        ssh = folder / "ssh"
        ssh.write_text(f"#!/bin/sh\n{said}\n")
        ssh.chmod(0o755)
        line = [load, "memcache://127.0.0.1:9", "--host", "there", "--ssh", str(ssh), "--duration", "1s"]
        ended = run([*line, "--connections", "1"], folder, 2 * HELLO_S)
        judge(figures, ended, f"{said} (seed {seed})")
        if ended.code not in (2, 3, 4, None) or len(ended.output) > 100_000:
            figures.note(
                "crashed", f"{ended.code}, {len(ended.output)} bytes of output: {said} (seed {seed})"
            )
    return figures
