"""A real server on a folder of records that tests make."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

import anyio
import urllib3
from starlette.types import ASGIApp

from steelyard.records import Run
from tests.cli.suites import write_suite
from tests.report.pages_of_answers import GOLDEN
from tests.report.runs import load_result, run_record, write_run

NAME = "<script>window.hacked=1</script><img src=x onerror=window.hacked=1>\"'`\x1b[31m"


PATHS = {
    "run": "tao-1",
    "suite": "suite-1",
    "experiment": "experiment",
    "tuning": "tuning",
    "co-location": "pair",
    "health check": "health/0123456789ab/20260101T000000Z",
}
"""Where `write_all` writes a record of each kind."""


@dataclass
class Served:
    """A server that listens."""

    address: str
    """Without a path."""
    token: str
    process: subprocess.Popen[str]

    @property
    def port(self) -> int:
        return urlsplit(self.address).port or 0

    def get(self, path: str, **options: Any) -> urllib3.BaseHTTPResponse:
        """Ask for a page; no redirect is followed."""
        pool = urllib3.HTTPConnectionPool("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(pool):
            return pool.request(options.pop("method", "GET"), path, redirect=False, retries=False, **options)

    def text(self, path: str, **options: Any) -> str:
        """Return a page that must be there."""
        answer = self.get(path, **options)
        assert answer.status == 200, (path, answer.status, answer.data[:500])
        return answer.data.decode()

    def json(self, path: str) -> Any:
        return json.loads(self.get(path).data)


@contextmanager
def served(root: Path, *options: str, cwd: Path | None = None) -> Iterator[Served]:
    """Serve ``root`` on a free port until the block ends; an interrupt ends it in order."""
    process = subprocess.Popen(
        ["steelyard", "serve", str(root), "--port", "0", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline().strip()
        match = re.fullmatch(r"(http://\S+:\d+)/runs(?:\?token=(\S+))?", line)
        assert match is not None, (line, process.stderr and process.stderr.read())
        yield Served(match[1], match[2] or "", process)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert said == "Ctrl-C ends it\n", said
    assert process.returncode == 0


def asked(app: ASGIApp, path: str) -> tuple[int, str]:
    """Return status and text that an application answers in this process."""
    sent: list[Any] = []

    async def receive() -> Any:
        await anyio.sleep_forever()

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b"",
        "headers": [(b"host", b"localhost")], "http_version": "1.1", "scheme": "http", "root_path": "",
    }  # fmt: skip
    # Where a browser is driven, this thread has a loop already.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(anyio.run, app, scope, receive, send).result()
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:]).decode()


def write_all(folder: Path) -> Mapping[str, str]:
    """Write a record of each kind; return the path of each by its kind."""
    for name, scale in (("tao-1", 1.0), ("tao-2", 1.1), ("tao-3", 0.9)):
        write_run(folder / name, scale=scale)
    write_suite(folder / "suite-1", ("tao", "feed"))
    for name in ("experiment", "tuning"):
        (folder / name).mkdir()
        shutil.copy(GOLDEN / f"{name}.json", folder / name / f"{name}.json")
    (folder / "pair").mkdir()
    shutil.copy(GOLDEN / "colocation.json", folder / "pair" / "colocation.json")
    check = folder / "health" / "0123456789ab" / "20260101T000000Z"
    check.mkdir(parents=True)
    shutil.copy(GOLDEN / "health_result.json", check / "health.json")
    (check / "comparison.json").write_text('{"is_good": true}\n')
    return PATHS


def many_runs(folder: Path, count: int, *, day_ns: int = 86_400_000_000_000) -> None:
    """Write the manifests of ``count`` runs, one a day."""
    base = run_record(load_result(), Path("tao"))
    for at in range(count):
        run = at_time(base, base.clock.realtime_ns - at * day_ns, f"tao-{at:06}")
        (folder / run.run_id).mkdir(parents=True)
        (folder / run.run_id / "run.json").write_text(run.model_dump_json())


def changed_runs(folder: Path, count: int = 60, *, host: str | None = None) -> None:
    """Write runs over 40 days; from the 24th on another kernel, another commit each, and 7 % less."""
    base = run_record(load_result(), Path("tao"))
    if host is not None:
        orchestrator = base.orchestrator.model_copy(update={"hostname": host})
        base = base.model_copy(update={"orchestrator": orchestrator})
    random = Random(3)
    for at in range(count):
        day = at * 40 / count
        is_after = day >= 24
        run = at_time(base, base.clock.realtime_ns + int(day * 86_400e9), f"tao-{host or ''}{at:03}")
        metrics = dict(run.metrics)
        value = (metrics["requests_per_s"].value or 0) * (0.93 if is_after else 1) * random.gauss(1, 0.01)
        metrics["requests_per_s"] = metrics["requests_per_s"].model_copy(update={"value": value})
        tags = ["nightly", f"commit={at * 7919 % 4096:03x}"]
        run = run.model_copy(update={"metrics": metrics, "tags": tags})
        (folder / run.run_id).mkdir(parents=True)
        (folder / run.run_id / "run.json").write_text(run.model_dump_json())
        machine = {"cpu": {"model": "EPYC", "logical_cpus": 8}}
        machine["kernel"] = {"release": "6.10.0" if is_after else "6.9.1"}
        (folder / run.run_id / "machine.json").write_text(json.dumps(machine))


def at_time(run: Run, realtime_ns: int, name: str) -> Run:
    """Return a run with another name, begun at another time."""
    clock = run.clock.model_copy(update={"realtime_ns": realtime_ns})
    series = run.series.model_copy(update={"id": name})
    return run.model_copy(update={"run_id": name, "clock": clock, "series": series})


def open_files(pid: int) -> int:
    """Return how many files a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))
