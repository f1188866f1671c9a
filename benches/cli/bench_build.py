#!/usr/bin/env python3
"""How long ``make build`` takes on a clone that has compiled nothing, and how large its environment is.

What was downloaded before is not downloaded again. The CPU time beside it tells a build that waited for
neighbours from one that has more to do, but not a slower CPU.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
BUILD_GOAL_S = 240.0
ENVIRONMENT_GOAL_MIB = 380.0
"""350 for what measures and analyses, and up to 30 for pages and agents (Starlette, uvicorn, the SDK of the
Model Context Protocol, which brings cryptography)."""


def cpu_s() -> float:
    """Return the CPU time, user and system, of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def occupied_mib(folder: Path) -> float:
    """Return what the files below ``folder`` occupy on the disk; links are not followed."""
    files = {(stat.st_dev, stat.st_ino): stat.st_blocks for stat in (p.lstat() for p in folder.rglob("*"))}
    return sum(files.values()) * 512 / 2**20


def report(name: str, ours: float, goal: float, unit: str, **others: str) -> None:
    """Print one line for ``benches/run.py``; there is no peer to compare with."""
    row = {"name": name, "ours": ours, "unit": unit, "bar": f"<= {goal:g}", "met": ours <= goal}
    print(json.dumps(row | others), flush=True)


def main() -> None:
    """Build the checkout's last commit elsewhere and print its time and the size of its environment."""
    environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    with tempfile.TemporaryDirectory(prefix="steelyard-build-") as folder:
        clone = Path(folder) / "steelyard"
        subprocess.run(["git", "clone", "--quiet", CHECKOUT, clone], check=True)
        environment["CARGO_TARGET_DIR"] = str(clone / "target")
        began_s, before_s = time.perf_counter(), cpu_s()
        subprocess.run([clone / "scripts" / "build"], env=environment, stdout=sys.stderr, check=True)
        took_s, used_s = time.perf_counter() - began_s, cpu_s() - before_s
        size_mib = occupied_mib(clone / ".venv")
    note = f"{used_s:.0f} CPU s on {os.cpu_count()} CPUs"
    report("make build, nothing compiled", took_s, BUILD_GOAL_S, "s", note=note)
    report(".venv after make build", size_mib, ENVIRONMENT_GOAL_MIB, "MiB")


if __name__ == "__main__":
    main()
