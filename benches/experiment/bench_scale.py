#!/usr/bin/env python3
"""What `steelyard scale` takes beside the workload's own time.

    bench_scale.py [--seconds S] [--blocks N]

On every step of this machine's CPUs in N blocks. One workload sleeps for S seconds, so that whatever is
more than S for each of its runs is Steelyard's: its own start, start and end of trials, the record, the
profiles, the fit; without profiles, and with the two runs whose stacks are sampled. The other one computes
for about S seconds: its own time is that of the same command on the same CPUs without Steelyard, as often,
half of it before and half after. Prints one JSON object a line, as benches/run.py asks.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BAR = 0.05
STEELYARD = Path(sys.executable).parent / "steelyard"
COMPUTES = "total = 0\nfor number in range({}):\n    total += number * number % 7\n"
PROBED = 2_000_000


def main() -> None:
    """Measure a command that sleeps, without and with profiles, and one that computes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--blocks", type=int, default=5)
    arguments = parser.parse_args()
    for flag, name in (("--no-profile", ""), ("--profile", ", with both profiles")):
        took_s, steps = scaled(["sleep", str(arguments.seconds)], flag, arguments.blocks)
        runs = len(steps) * arguments.blocks + (2 if flag == "--profile" else 0)
        show(steps, name, took_s, runs * arguments.seconds, f"{runs} runs of {arguments.seconds:g} s")
    # As many rounds as take S seconds on this machine.
    probed_s = alone(computing(PROBED), [steps[0]])
    command = computing(round(PROBED * arguments.seconds / probed_s))
    half = [step for step in steps for _ in range(arguments.blocks)]
    before_s = alone(command, half[::2])
    took_s, steps = scaled(command, "--no-profile", arguments.blocks)
    own_s = before_s + alone(command, half[1::2])
    show(steps, ", which computes", took_s, own_s, f"{len(half)} runs, also without Steelyard")


def computing(rounds: int) -> list[str]:
    """Return a command that keeps one CPU busy."""
    return [sys.executable, "-S", "-c", COMPUTES.format(rounds)]


def scaled(command: list[str], flag: str, blocks: int) -> tuple[float, list[str]]:
    """Return how long `steelyard scale` took, and the CPUs of its steps."""
    with tempfile.TemporaryDirectory() as folder:
        words = [str(STEELYARD), "scale", flag, "--blocks", str(blocks), "--json", "--out", folder]
        began_s = time.perf_counter()
        done = subprocess.run([*words, "--", *command], stdout=subprocess.PIPE, text=True, check=False)
        took_s = time.perf_counter() - began_s
    return took_s, [step["listed"] for step in json.loads(done.stdout)["steps"]]


def alone(command: list[str], places: list[str]) -> float:
    """Return how long a command took, once on each of these CPUs."""
    began_s = time.perf_counter()
    for cpus in places:
        subprocess.run(["taskset", "--cpu-list", cpus, *command], check=True)
    return time.perf_counter() - began_s


def show(steps: list[str], name: str, took_s: float, own_s: float, note: str) -> None:
    """Print one row."""
    row = {
        "name": f"steelyard scale, {len(steps)} steps to {os.cpu_count()} CPUs{name} / the workload alone",
        "ours": took_s,
        "theirs": own_s,
        "unit": "s",
        "ratio": took_s / own_s,
        "bar": f"<= {1 + BAR:g} x",
        "met": took_s <= (1 + BAR) * own_s,
        "note": note,
    }
    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
