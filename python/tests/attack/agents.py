"""Hostile clients of ``steelyard mcp``: wrong types, paths that lead out, noise, huge lines, calls cancelled.

Each request with an id must get one answer. An answer that names the folder that is served, or anything of a
file outside of it, is a leak.
"""

import json
import queue
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tests.report.runs import write_run

from .figures import ANSWER_S, CRASHES, Figures

SECRET = "outside-of-the-roots"
MEMORY_KB_MAX = 1 << 20
TOOLS = (
    *("describe", "list_runs", "explain_run", "compare_runs", "profile_top", "profile_diff"),
    *("list_fleet_queries", "fleet_query", "project", "choose", "size", "score", "run_benchmark", "none"),
)
NAMES = (
    *("path", "paths", "part", "cursor", "a", "b", "by", "side", "table", "name", "options", "search"),
    *("since", "benchmark", "order", "weights", "baseline", "target", "years", "columns", "settings"),
)
PATHS = (
    *("run-1", "", "..", "../secret", "run-1/../../secret", "link", "/etc/passwd", "/proc/self/environ"),
    *("run-1/", "~", ".", "\x00", "\u202e", "runs", "a" * 3000, "table.csv", "run-1/telemetry"),
)


class Server:
    """A server, and the lines that it has answered."""

    def __init__(self, folder: Path) -> None:
        command = [str(Path(sys.executable).with_name("steelyard")), "mcp", str(folder / "runs")]
        self.errors = (folder / "errors").open("w+b")
        self.process = subprocess.Popen(
            [*command, "--table", str(folder / "table.csv")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
        )
        self.lines: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        about = {"name": "attack", "version": "1"}
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about}
        self.send(request(0, "initialize", hello))
        self.lines.get(timeout=60)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)

    def send(self, message: Any) -> None:
        """Send a message, or bytes as they are."""
        line = message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"
        assert self.process.stdin is not None
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def end(self) -> tuple[int | None, bytes]:
        """Return the exit code once the client has left, and what was said on standard error."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            code: int | None = self.process.wait(3 * ANSWER_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            code = None
        self.errors.seek(0)
        return code, self.errors.read()

    @property
    def memory_kb(self) -> int:
        """The most memory that it had."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0])


def request(number: int, method: str, params: Any) -> dict[str, Any]:
    """Return a request."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def value(chosen: random.Random, depth: int = 0) -> Any:
    """Return a value of any type, often a path."""
    kind = chosen.randrange(8 if depth < 3 else 5)
    if kind < 3:
        return chosen.choice(PATHS)
    if kind == 3:
        return chosen.choice((None, True, False, -1, 0, 1, 1e308, 2**70, 0.5))
    if kind == 4:
        return chosen.randbytes(chosen.randrange(30)).decode("latin-1")
    if kind < 7:
        return [value(chosen, depth + 1) for _ in range(chosen.randrange(4))]
    return {chosen.choice(NAMES): value(chosen, depth + 1) for _ in range(chosen.randrange(4))}


def message(chosen: random.Random, number: int) -> tuple[bytes, bool]:
    """Return a line, and whether it is a request that must get one answer."""
    arguments = {chosen.choice(NAMES): value(chosen) for _ in range(chosen.randrange(4))}
    call = request(number, "tools/call", {"name": chosen.choice(TOOLS), "arguments": arguments})
    line = json.dumps(call).encode()
    kind = chosen.randrange(20)
    if kind == 0:
        noise = chosen.randbytes(chosen.randrange(200)).replace(b"\n", b"")
        return noise + b"\n", False
    if kind == 1:
        # Not in the id, which may become another's.
        at = chosen.randrange(line.index(b'"method"'), len(line))
        return line[:at] + bytes([chosen.randrange(32, 256)]) + line[at + 1 :] + b"\n", False
    if kind == 2:
        size = chosen.choice((1 << 19, 1 << 21, 10 << 20))
        huge = request(number, "tools/call", {"name": "list_runs", "arguments": {"search": "x" * size}})
        return json.dumps(huge).encode() + b"\n", True
    if kind == 3:
        return json.dumps(
            {"jsonrpc": "2.0", "id": number, "method": "x", "params": value(chosen)}
        ).encode() + b"\n", False
    return line + b"\n", True


def attack(folder: Path, seconds: float, seed: int) -> Figures:
    """Send messages for ``seconds``, hold the answers against what was asked, then leave."""
    chosen = random.Random(seed)
    write_run(folder / "runs" / "run-1")
    write_run(folder / "secret", changes={"benchmark": SECRET})
    (folder / "runs" / "link").symlink_to(folder / "secret")
    (folder / "table.csv").write_text("machine,web_per_s,power_w\nA,1,2\nB,2,3\nC,3,4\n")
    figures = Figures()
    server = Server(folder)
    before = server.memory_kb
    asked: dict[int, bytes] = {}
    answered: dict[int, int] = {}
    until_s = time.monotonic() + seconds
    number = 0
    try:
        while time.monotonic() < until_s and not figures.has_failed():
            for _ in range(8):
                number += 1
                line, counts = message(chosen, number)
                server.send(line)
                figures.tried += 1
                if counts:
                    asked[number] = line[:300]
            number += 1
            asked[number] = b"ping"
            server.send(request(number, "ping", {}))
            _collect(server, asked, answered, figures, folder)
    except (BrokenPipeError, queue.Empty):
        figures.note("crashed", f"the server left after {number} messages")
    grown_kb = server.memory_kb - before if server.process.poll() is None else 0
    if grown_kb > MEMORY_KB_MAX:
        figures.note("crashed", f"memory grew by {grown_kb} kB")
    code, said = server.end()
    if code is None:
        figures.note("orphaned", "the server outlived its client")
    if code not in (0, None) or any(word in said for word in CRASHES):
        figures.note("crashed", f"exit code {code}: {said[-300:]!r}")
    return figures


def _collect(
    server: Server, asked: dict[int, bytes], answered: dict[int, int], figures: Figures, folder: Path
) -> None:
    """Read answers until each request has one."""
    until_s = time.monotonic() + 3 * ANSWER_S
    while missing := set(asked) - set(answered):
        try:
            line = server.lines.get(timeout=max(0.0, until_s - time.monotonic()))
        except queue.Empty:
            if server.process.poll() is not None:
                raise
            first = min(missing)
            figures.note("hung", f"{len(missing)} without an answer, the first: {asked[first]!r}")
            return
        answer = json.loads(line)
        at = answer.get("id")
        if isinstance(at, int):
            answered[at] = answered.get(at, 0) + 1
            if answered[at] > 1:
                figures.note("doubled", f"two answers: {asked.get(at)!r}")
        if str(folder).encode() in line or SECRET.encode() in line or b"root:x:0" in line:
            figures.note("leaked", f"{asked.get(at)!r}: {line[:300]!r}")
