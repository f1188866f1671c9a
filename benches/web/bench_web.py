#!/usr/bin/env python3
"""How quickly the web server starts, lists 10,000 runs, and begins and ends the page of a run.

There is no peer: each figure has a bar. Times are what a client of this machine sees, the median of several
requests; a first request that compiles templates is not among them. The hour of 64 CPUs is timed in Chromium,
from the address to the first chart that can be pointed at.
"""

import contextlib
import http.client
import importlib.util
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python")]

from tests.browsing import launched  # noqa: E402
from tests.report.runs import write_run  # noqa: E402
from tests.web.serving import many_runs  # noqa: E402

RUNS = 10_000
ROUNDS = 9
PREPARED_AFTER_S = 10.0
WATCHED_S, WATCH_BAR = 60.0, 0.05
STEELYARD = str(Path(sys.executable).parent / "steelyard")
START_BAR_S, LIST_BAR_MS, PAINT_BAR_MS, HOUR_BAR_S = 1.0, 200.0, 200.0, 1.5


@contextmanager
def serving(root: Path) -> Iterator[tuple[int, float, subprocess.Popen[str]]]:
    """Yield the port of a server on ``root``, how long it took to answer, and its process."""
    command = [STEELYARD, "serve", str(root), "--port", "0"]
    began_s = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        found = re.search(r":(\d+)/", process.stdout.readline())
        assert found is not None
        port = int(found[1])
        asked(port, "/healthz")
        yield port, time.perf_counter() - began_s, process
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=30)


def asked(port: int, path: str) -> tuple[float, float, bytes]:
    """Return the time to the first byte of an answer's body, the whole time, and the body."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=120)) as connection:
        began_s = time.perf_counter()
        connection.request("GET", path)
        answer = connection.getresponse()
        first = answer.read(1)
        first_s = time.perf_counter() - began_s
        body = first + answer.read()
        return first_s, time.perf_counter() - began_s, body


def median(of: Callable[[], float]) -> float:
    """Return the median of several rounds."""
    return statistics.median(of() for _ in range(ROUNDS))


def report(name: str, ours: float, bar: float, unit: str, note: str = "") -> None:
    """Print one line for ``benches/run.py``."""
    row = {"name": name, "ours": ours, "unit": unit, "bar": f"<= {bar:g}", "met": ours <= bar}
    print(json.dumps(row | ({"note": note} if note else {})), flush=True)


def lists(root: Path) -> None:
    """Time the list of many runs: from the index, and after the folders were looked at again."""
    many_runs(root, RUNS, day_ns=3_600_000_000_000)
    with serving(root) as (port, _, _):
        began_s = time.perf_counter()
        while json.loads(asked(port, "/api/v1/runs")[2])["total"] < RUNS:
            time.sleep(0.1)
        note = f"the folders were read for the first time in {time.perf_counter() - began_s:.1f} s"
        # More than a second apart: each looks at all folders again.
        times = []
        for _ in range(ROUNDS):
            time.sleep(1.1)
            times.append(asked(port, "/runs")[1])
        report(
            f"list {RUNS:,} runs, folders looked at", 1e3 * statistics.median(times), LIST_BAR_MS, "ms", note
        )
        report(
            f"search {RUNS:,} runs",
            1e3 * median(lambda: asked(port, "/runs?search=tao-0099")[1]),
            LIST_BAR_MS,
            "ms",
        )
    starts = []
    for _ in range(5):
        with serving(root) as (_, took_s, _):
            starts.append(took_s)
    report(f"start on {RUNS:,} runs, to the first answer", statistics.median(starts), START_BAR_S, "s")


def pages(root: Path) -> None:
    """Time the page of a run, and of an hour of 64 CPUs."""
    write_run(root / "tao")
    hour = an_hour(root)
    # The server prepares the page of the newest run, of two as old the last by name: this one's is not.
    other, bare = (root / f"{number}-{hour.name}" for number in (0, 1))
    shutil.copytree(hour, other)
    shutil.copytree(hour, bare, ignore=shutil.ignore_patterns("answers.arrow"))
    with serving(root) as (port, _, _):
        asked(port, "/runs/tao/report.html")
        firsts, wholes = [], []
        for at in range(ROUNDS):
            # Its folder is another one each time: nothing of it is kept.
            (root / "tao" / f"note-{at}").touch()
            first_s, whole_s, _ = asked(port, "/runs/tao/report.html")
            firsts.append(first_s)
            wholes.append(whole_s)
        note = f"the whole page after {1e3 * statistics.median(wholes):.0f} ms"
        report("first part of a run's page", 1e3 * statistics.median(firsts), PAINT_BAR_MS, "ms", note)
        time.sleep(PREPARED_AFTER_S)
        newest_s, _ = interactive(port, hour.name)
        first_s, again_s = interactive(port, other.name)
        name = "hour of 64 CPUs, first chart drawn in Chromium"
        report(f"{name}: the newest run", newest_s, HOUR_BAR_S, "s")
        bare_s, _ = interactive(port, bare.name)
        note = f"{again_s:.2f} s when it was shown before, {bare_s:.2f} s where no answers are kept beside it"
        report(f"{name}: another run, for the first time", first_s, HOUR_BAR_S, "s", note)


def watching(root: Path) -> None:
    """Measure what a page of a run under way takes of the machine that is measured, looked at each second."""
    root.mkdir()
    command = ["run", "tao", "--tier", "smoke", "--out", str(root), "--set", f"measure={WATCHED_S:g}"]
    with serving(root) as (port, _, server):
        run = subprocess.Popen([STEELYARD, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            address = None
            while address is None and run.poll() is None:
                time.sleep(0.5)
                listed = json.loads(asked(port, "/api/v1/runs?status=running")[2])["runs"]
                address = f"/runs/{listed[0]['path']}" if listed else None
            asked(port, f"{address}/report.html")
            used_s, began_s, share = cpu_s(server.pid), time.monotonic(), 0.0
            while json.loads(asked(port, f"{address}/live.json")[2])["status"] == "running":
                time.sleep(1.0)
                share = (cpu_s(server.pid) - used_s) / (time.monotonic() - began_s)
            report("CPUs that the server uses while a run is watched", share, WATCH_BAR, "1")
        finally:
            run.wait(timeout=120)


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def an_hour(root: Path) -> Path:
    """Return the folder of a characterization of an hour on 64 CPUs, as that of the report's bench."""
    path = ROOT / "benches" / "report" / "bench_report.py"
    spec = importlib.util.spec_from_file_location("bench_report", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    folder: Path = module.make_run(root, dict(os.environ))
    # As a run of an hour ends: with its page, and what that asked of its recordings kept beside them.
    subprocess.run([STEELYARD, "report", str(folder)], stdout=subprocess.DEVNULL, check=False)
    return folder


def interactive(port: int, run: str) -> tuple[float, float]:
    """Return the times from the address of a page to its first chart: when it is new, and when it is kept."""
    from playwright.sync_api import sync_playwright

    times = []
    with sync_playwright() as playwright:
        browser = launched(playwright)
        for _ in range(2):
            page = browser.new_page()
            began_s = time.perf_counter()
            page.goto(f"http://127.0.0.1:{port}/runs/{run}/report.html", wait_until="commit")
            page.wait_for_selector(".plot .js-line, .plot .bars, .plot .heatmaplayer image", timeout=120_000)
            times.append(time.perf_counter() - began_s)
            page.close()
        browser.close()
    return times[0], times[1]


def main() -> None:
    """Measure in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="steelyard-web-") as folder:
        lists(Path(folder) / "many")
        pages(Path(folder) / "few")
        watching(Path(folder) / "watched")


if __name__ == "__main__":
    main()
