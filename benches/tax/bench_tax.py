#!/usr/bin/env python3
"""How far the tax's overall score moves from run to run on this machine when nothing else runs.

The same run, seed included, is made some times one after the other; the spread is the largest score minus
the smallest over the median. Runs that say themselves that something disturbed them are counted in the note.
"""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

RUNS = int(os.environ.get("STEELYARD_BENCH_ROUNDS", "5"))
SECONDS = int(os.environ.get("STEELYARD_BENCH_TAX_SECONDS", "40"))
TAX = Path(os.environ.get("STEELYARD_BIN_DIR", Path(sys.executable).parent)) / "steelyard-tax"
BAR = 0.01


def measure() -> dict[str, object]:
    """Run the tax once, as tier quick does, and return its record."""
    command = [str(TAX), "run", "--time", f"{SECONDS}s", "--seed", "1", "--json", "--progress", "none"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result: dict[str, object] = json.loads(done.stdout)
    return result


def main() -> None:
    """Measure and print."""
    results = []
    for _ in range(RUNS):
        results.append(measure())
        last = results[-1]
        checks = {check["id"]: check["value"] for check in last["verdict"]["checks"]}  # type: ignore[index]
        scores = [last[name]["rate_per_s"] for name in ("score_one", "score_all")]  # type: ignore[index]
        print(f"{scores} {checks}", file=sys.stderr)
    suspect = sum(result["verdict"]["level"] != "valid" for result in results)  # type: ignore[index]
    for name, cores in (("score_all", "all cores"), ("score_one", "one core")):
        values = [result[name]["rate_per_s"] for result in results]  # type: ignore[index]
        spread = (max(values) - min(values)) / statistics.median(values)
        row = {
            "name": f"tax: run-to-run spread of the overall score, {cores}",
            "ours": 100 * spread,
            "theirs": None,
            "unit": "%",
            "ratio": None,
            "bar": "<= 1 % on an idle machine",
            "met": spread <= BAR,
            "note": f"{RUNS} runs of {SECONDS} s; {suspect} of them say that something disturbed them",
        }
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
