#!/usr/bin/env python3
"""What the agent costs at 200 tasks with all collection on: CPU time and resident memory.

Two hundred processes, each in control groups of its own, wake ten times a second; a tenth of them does a
little more. The agent samples a window of 10 s each minute, counts what events there are, and profiles every
minute of the run. CPU time is the agent's own (with the profiles it waited for), as its page for Prometheus
reports it, over whole periods. Prints one JSON object a line, as benches/run.py asks.

--seconds N: how long (default 185, which is three periods).
"""

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

TASKS = 200
CPU_BAR_RATIO, MEMORY_BAR_BYTES = 0.01, 60e6


def hierarchies() -> list[Path]:
    """Return where the hierarchies are that a task has a folder in."""
    wanted = {"cpu", "cpuacct", "memory", "blkio"}
    found = []
    for line in Path("/proc/mounts").read_text().splitlines():
        _, point, kind, options, *_ = line.split()
        if kind == "cgroup2" or (kind == "cgroup" and wanted & set(options.split(","))):
            found.append(Path(point))
    return found


def start_tasks(places: list[Path]) -> tuple[list[int], list[Path]]:
    """Start the tasks; return their processes and the folders that were made."""
    pids, folders = [], []
    for number in range(TASKS):
        mine = [place / "steelyard" / "batch" / f"bench-{number % 20}" / f"task-{number}" for place in places]
        pid = os.fork()
        if pid == 0:
            while True:
                time.sleep(0.1)
                if number % 10 == 0:
                    sum(range(2000))
        pids.append(pid)
        for folder in mine:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "cgroup.procs").write_text(str(pid))
            folders.append(folder)
    return pids, folders


def end_tasks(pids: list[int], folders: list[Path]) -> None:
    """End the tasks and take away their folders."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    for folder in folders:
        for each in (folder, folder.parent, folder.parent.parent, folder.parent.parent.parent):
            with contextlib.suppress(OSError):
                each.rmdir()


def figures(port: int) -> dict[str, float]:
    """Return the agent's figures that have no labels."""
    page = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
    lines = (
        line.split() for line in page.splitlines() if line.startswith("steelyard_agent_") and "{" not in line
    )
    return {name: float(value) for name, value in lines}


def measure(port: int, command: list[str], seconds: float) -> dict[str, float]:
    """Run the agent; return its use per second over whole periods, its memory and what it did."""
    with subprocess.Popen(command) as agent:
        try:
            # The first window tells that it runs; the cost of the start is not counted.
            begin: dict[str, float] = {}
            while not begin.get("steelyard_agent_windows_total"):
                time.sleep(0.5)
                with contextlib.suppress(OSError):
                    begin = figures(port)
            started = time.monotonic()
            time.sleep(seconds // 60 * 60)
            now = figures(port)
            while now["steelyard_agent_windows_total"] == begin["steelyard_agent_windows_total"]:
                time.sleep(0.5)
                now = figures(port)
            passed = time.monotonic() - started
        finally:
            agent.send_signal(signal.SIGTERM)
    used = now["steelyard_agent_cpu_seconds_total"] - begin["steelyard_agent_cpu_seconds_total"]
    return now | {"cpu_ratio": used / passed, "windows": now["steelyard_agent_windows_total"]}


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=185)
    asked = parser.parse_args()
    if os.geteuid() != 0:
        print("bench_agent: control groups are made by root only", file=sys.stderr)
        return 4
    beside = Path(os.environ.get("STEELYARD_BIN_DIR", "")) / "steelyard-agent"
    program = str(beside) if beside.is_file() else "steelyard-agent"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "agent.toml"
        config.write_text(
            f'metrics.listen = "127.0.0.1:{port}"\nprofiles.minutes_ratio = 1.0\nlimits.cpu_ratio = 1.0\n'
        )
        command = [program, "run", "--config", str(config), "--create-store"]
        command += ["--store", f"{folder}/store", "--spool", f"{folder}/spool"]
        pids, folders = [], []
        try:
            pids, folders = start_tasks(hierarchies())
            found = measure(port, command, asked.seconds)
        finally:
            end_tasks(pids, folders)
    note = (
        f"{found['steelyard_agent_tasks']:.0f} tasks, {found['windows']:.0f} windows, "
        f"{found['steelyard_agent_profiles_total']:.0f} minutes profiled (all; 1 in 100 by default)"
    )
    memory = found["steelyard_agent_resident_memory_bytes"]
    for name, value, unit, bar in (
        ("agent at 200 tasks, CPU", found["cpu_ratio"], "ratio", CPU_BAR_RATIO),
        ("agent at 200 tasks, memory", memory, "bytes", MEMORY_BAR_BYTES),
    ):
        row = {"name": name, "ours": value, "theirs": None, "unit": unit, "ratio": None, "bar": f"<= {bar:g}"}
        print(json.dumps(row | {"met": value <= bar, "note": note}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
