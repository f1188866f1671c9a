"""Hostile clients of ``steelyard serve``: paths that lead out, wild queries, wrong hosts, noise.

Each whole request must get one answer of HTTP. A status of 500 is a crash; an answer that names the folder
that is served, or anything of a file outside of it, is a leak. Meanwhile a run comes, changes and goes.
"""

import json
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from steelyard.fleet.simulate import Settings, simulate
from tests.report.runs import write_run

from .figures import ANSWER_S, CRASHES, Figures

SECRET = "outside-of-the-root"
MEMORY_KB_MAX = 1 << 20
PARTS = (
    *("runs", "tao-1", "report.html", "machine.html", "live.json", "..", ".", "", "%2e%2e", "..%2f..%2fetc"),
    *("etc", "passwd", "link", "static", "page.js", "compare", "trends", "fleet", "top", "cpi", "outliers"),
    *("decide", "choose", "project", "size", "api", "v1", "openapi.json", "metrics", "jobs", "%00", "~"),
    *("a" * 300, "%ff%fe", "<script>", "\u202e", "tao-1%2f..%2f..", "coming", "broken", "health", "diff"),
)
NAMES = (
    *(
        "run",
        "with",
        "search",
        "order",
        "page",
        "since",
        "until",
        "members",
        "benchmark",
        "metric",
        "by",
        "tag",
    ),
    *(
        "tables",
        "target",
        "weight:result",
        "power_price",
        "years",
        "job",
        "rows",
        "where",
        "from",
        "to",
        "a",
        "b",
    ),
    *("token", "", "x", "confidence", "baseline", "demands", "rate"),
)
VALUES = (
    *("tao-1", "../secret", "link", "0", "-1", "1e308", "nan", "yes", "no", "2026-01-01", "9999-12-31", ""),
    *(
        "table.csv",
        "runs",
        "result",
        "time",
        "tag:x",
        "%",
        "_",
        "'",
        '"',
        "a=b",
        "a=b,c",
        "/etc/passwd",
        "\x1b[31m",
    ),
    *("\u202e", "1" * 400, "*", "job=x", "\n", "<img src=x>", "label.x=y", "function", "category"),
)
HEADERS = (
    *(
        "Host: evil.example",
        "Host: localhost\r\nHost: evil",
        "Content-Length: 99999999999",
        "Content-Length: -1",
    ),
    *(
        "Transfer-Encoding: chunked",
        "Origin: http://evil.example",
        "Cookie: steelyard-token=x",
        "X: " + "y" * 9000,
    ),
    *("Authorization: Bearer x", "Range: bytes=0-1", "Connection: close", "Accept: application/json", "\x00"),
)


class Server:
    """A server on a folder of runs, a store and a table."""

    def __init__(self, folder: Path, store: Path) -> None:
        self.errors = (folder / "errors").open("w+b")
        command = [
            str(Path(sys.executable).with_name("steelyard")),
            "serve",
            str(folder / "runs"),
            "--port",
            "0",
        ]
        self.process = subprocess.Popen(
            [*command, "--store", str(store), "--table", str(folder / "table.csv")],
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )
        assert self.process.stdout is not None
        found = re.search(r":(\d+)/", self.process.stdout.readline())
        assert found is not None
        self.port = int(found[1])

    def said(self) -> bytes:
        """Return what it wrote to standard error."""
        self.errors.seek(0)
        return self.errors.read()

    def memory_kb(self) -> int:
        """Return its largest resident set."""
        with suppress(OSError):
            found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{self.process.pid}/status").read_text())
            return int(found[1]) if found else 0
        return 0

    def end(self) -> int | None:
        """Interrupt it; return how it ended, None where it had to be killed."""
        self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(timeout=ANSWER_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None


def prepared(folder: Path) -> None:
    """Write runs, a link that leads out, a broken record and a table."""
    root = folder / "runs"
    for at in (1, 2):
        write_run(root / f"tao-{at}", index=at)
    write_run(folder / SECRET)
    (root / "link").symlink_to(folder / SECRET)
    (root / "broken").mkdir()
    (root / "broken" / "run.json").write_text('{"kind": "run"')
    (folder / "table.csv").write_text("machine,result,other,price_usd\na,1,2,3\nb,2,1,4\n")


def asked(chosen: random.Random) -> bytes:
    """Return a request, often one that is almost right."""
    path = "/" + "/".join(chosen.choice(PARTS) for _ in range(chosen.randrange(1, 6)))
    if chosen.random() < 0.5:
        path = chosen.choice(
            (
                "/runs",
                "/compare",
                "/trends",
                "/fleet/top",
                "/decide/choose",
                "/api/v1/runs",
                "/runs/tao-1/report.html",
            )
        )
    pairs = [
        f"{quote(chosen.choice(NAMES))}={quote(chosen.choice(VALUES))}" for _ in range(chosen.randrange(5))
    ]
    target = path.encode() + (b"?" + "&".join(pairs).encode() if pairs else b"")
    target = target.replace(b" ", b"%20")
    method = chosen.choice((b"GET", b"GET", b"GET", b"GET", b"HEAD", b"POST", b"PUT", b"get", b"\x00"))
    lines = [method + b" " + target + b" HTTP/1.1"]
    if chosen.random() < 0.9:
        lines.append(b"Host: localhost")
    if chosen.random() < 0.3:
        lines.append(chosen.choice(HEADERS).encode("utf-8"))
    if chosen.random() < 0.1:
        lines.append(chosen.randbytes(chosen.randrange(200)))
    return b"\r\n".join(lines) + b"\r\n\r\n"


def answer(port: int, request: bytes, chosen: random.Random) -> bytes | None:
    """Send a request and return what came back; None where nothing came in time. Some clients leave."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S) as connection:
            connection.sendall(
                request[: chosen.randrange(len(request))] if chosen.random() < 0.05 else request
            )
            if chosen.random() < 0.1:
                return b""
            connection.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: connection.recv(1 << 16), b""))
    except TimeoutError:
        return None
    except OSError:
        return b""


def attack(folder: Path, seconds: float, seed: int) -> Figures:
    """Ask for ``seconds`` from several clients, while runs come and go."""
    figures, lock = Figures(), threading.Lock()
    prepared(folder)
    store = folder / "store"
    simulate(Settings(machines=12, days=1, platforms=2, clusters=1, step_s=120), str(store))
    server = Server(folder, store)
    until = time.monotonic() + seconds
    hidden = (str(folder).encode(), SECRET.encode(), b"root:x:")

    def client(number: int) -> None:
        chosen = random.Random(f"{seed}-{number}")
        while time.monotonic() < until:
            request = asked(chosen)
            came = answer(server.port, request, chosen)
            with lock:
                figures.tried += 1
                if came is None:
                    figures.note("hung", f"no answer to {request[:200]!r}")
                elif came.startswith(b"HTTP/1.1 500"):
                    figures.note("crashed", f"{request[:300]!r}")
                elif any(word in came for word in hidden if word not in request):
                    figures.note("leaked", f"{request[:300]!r}")

    def come_and_go() -> None:
        chosen = random.Random(f"{seed}-runs")
        coming = folder / "runs" / "coming"
        while time.monotonic() < until:
            write_run(coming, scale=chosen.uniform(0.5, 2))
            (coming / "run.json").write_text(json.dumps({"kind": chosen.choice(("run", "suite", 7))}))
            shutil.rmtree(coming)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(4)]
    threads.append(threading.Thread(target=come_and_go))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if server.memory_kb() > MEMORY_KB_MAX:
        figures.note("crashed", f"it used {server.memory_kb()} kB")
    code = server.end()
    if code is None:
        figures.note("hung", "it did not end at an interrupt")
    said = server.said()
    if code not in (0, None) or any(word in said for word in CRASHES):
        figures.note("crashed", f"code {code}: {said[-2000:].decode(errors='replace')}")
    return figures
