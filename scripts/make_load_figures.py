#!/usr/bin/env python3
"""Measures the figures of docs/guides/load.md, and draws its chart.

In: the executables. Out: docs/images/load-stall.svg, and on standard output a JSON of every figure that the
guide quotes. Run it on a quiet machine; it takes a minute.

One server (steelyard-cache) is loaded in a closed loop, and in an open one at a small part of what that
completes; once left alone, and once stopped (SIGSTOP) for a moment in the middle.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from steelyard._base import executable

ROOT = Path(__file__).resolve().parents[1]
STALL_S = 0.2
DURATION_S = 10.0
CONNECTIONS = 16
RATE_PER_S = 5000.0
"""Of the open loop: a small part of what the server can do, so that nothing but the stall makes it slow."""


@contextmanager
def cache() -> Iterator[tuple[str, int]]:
    """Give a cache that is filled and answers from memory: its address and process id."""
    command = [executable("steelyard-cache"), "--listen", "127.0.0.1:0", "--memory", "64MiB"]
    cpus = sorted(os.sched_getaffinity(0))
    server = subprocess.Popen(
        [*map(str, command)],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, cpus[: max(1, len(cpus) // 2)]),
    )
    try:
        if server.stdout is None:
            raise AssertionError("it is a pipe")
        ready = json.loads(server.stdout.readline())
        yield str(ready["listen"]), server.pid
    finally:
        server.send_signal(signal.SIGCONT)
        server.terminate()
        server.wait()


def load(target: str, *flags: str, stall: int | None = None) -> dict[str, Any]:
    """Return the result of one load; ``stall`` is a process to stop for a moment in the middle."""
    cpus = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "load.json"
        command = [
            *(str(executable("steelyard-load")), "--target", target, "--keys", "10000"),
            *("--connections", str(CONNECTIONS), "--warmup", "1s", "--duration", f"{DURATION_S:g}s"),
            *("--output", str(output), "--progress", "json", *flags),
        ]
        process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, cpus[len(cpus) // 2 :]),
        )
        if process.stderr is None:
            raise AssertionError("it is a pipe")
        for line in process.stderr:
            event = json.loads(line) if line.startswith("{") else {}
            if stall is not None and (event.get("event"), event.get("name")) == ("phase", "measure"):
                threading.Thread(target=stop_for_a_moment, args=(stall,)).start()
        # 1: an invalid result, which a stall may cause.
        if process.wait() not in (0, 1):
            raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}")
        found: dict[str, Any] = json.loads(output.read_text())
    return found


def stop_for_a_moment(pid: int) -> None:
    """Stop a process for STALL_S, in the middle of a measure phase that has just begun."""
    time.sleep(DURATION_S / 2)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(STALL_S)
    os.kill(pid, signal.SIGCONT)


def figures(result: dict[str, Any]) -> dict[str, Any]:
    """Return what the guide quotes of a load."""
    verdict = result["verdict"]["level"]
    quoted: dict[str, Any] = {"requests_per_s": result["throughput_per_s"], "verdict": verdict}
    for name in ("response", "service", "lag"):
        summary = result["latency"][name]
        quoted[name] = {one: summary[f"{one}_ns"] for one in ("p50", "p99", "p999", "p9999", "max")}
    return quoted


def experiment() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return figures and whole results of the four loads, at one throughput."""
    results = {}
    with cache() as (target, pid):
        load(target, "--prefill")
        free = load(target)
        open_flags = ("--rate", f"{RATE_PER_S:g}", "--arrival", "poisson")
        results["closed, as fast as it goes"] = free
        results["open"] = load(target, *open_flags)
        results["closed, with a stall"] = load(target, stall=pid)
        results["open, with a stall"] = load(target, *open_flags, stall=pid)
    return {name: figures(one) for name, one in results.items()}, results


def curves(results: dict[str, Any]) -> list[tuple[str, str, list[tuple[float, float]]]]:
    """Return name, class and points (1/(1-quantile), ms) of the curves of the chart."""
    found = []
    for name, result, which, style in (
        ("open loop, response", "open, with a stall", "response", "open"),
        ("open loop, service", "open, with a stall", "service", "service"),
        ("closed loop", "closed, with a stall", "response", "closed"),
    ):
        points = [
            (1 / (1 - point["quantile"]), point["value_ns"] / 1e6)
            for point in results[result]["latency"][which]["curve"]
            if point["quantile"] < 1 and point["value_ns"] > 0
        ]
        found.append((name, style, points))
    return found


def main() -> int:
    """Measure, draw, and print the figures."""
    from load_chart import percentile_svg

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images", help="folder of the charts")
    asked = parser.parse_args()
    quoted, results = experiment()
    title = f"A server that stood still for {STALL_S * 1e3:.0f} ms, as two loops see it"
    svg = percentile_svg(curves(results), title)
    (asked.out / "load-stall.svg").write_text(svg, encoding="utf-8")
    json.dump(quoted, sys.stdout, indent=2)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
