#!/usr/bin/env python3
"""What `steelyard scale` takes beside the workload's own time.

    bench_scale.py [--seconds S] [--blocks N]

The workload sleeps for S seconds, on every step of this machine's CPUs in N blocks, so that whatever is more
than S for each of its runs is Steelyard's: its own start, start and end of trials, the record, the profiles,
the fit. Prints one JSON object a line, as benches/run.py asks: without profiles, and with the two runs whose
stacks are sampled.
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


def main() -> None:
    """Measure with and without profiles."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--blocks", type=int, default=5)
    arguments = parser.parse_args()
    steelyard = str(Path(sys.executable).parent / "steelyard")
    for flag, name in (("--no-profile", ""), ("--profile", ", with both profiles")):
        with tempfile.TemporaryDirectory() as folder:
            command = [steelyard, "scale", flag, "--blocks", str(arguments.blocks), "--json", "--out", folder]
            began_s = time.perf_counter()
            done = subprocess.run(
                [*command, "--", "sleep", str(arguments.seconds)],
                stdout=subprocess.PIPE,
                text=True,
                check=False,
            )
            took_s = time.perf_counter() - began_s
        steps = len(json.loads(done.stdout)["steps"])
        runs = steps * arguments.blocks + (2 if flag == "--profile" else 0)
        own_s = runs * arguments.seconds
        row = {
            "name": f"steelyard scale, {steps} steps to {os.cpu_count()} CPUs{name} / the workload alone",
            "ours": took_s,
            "theirs": own_s,
            "unit": "s",
            "ratio": took_s / own_s,
            "bar": f"<= {1 + BAR:g} x",
            "met": took_s <= (1 + BAR) * own_s,
            "note": f"{runs} runs of {arguments.seconds:g} s",
        }
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
