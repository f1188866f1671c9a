#!/usr/bin/env python3
"""How long commands take that have next to nothing to do, beside an interpreter that does nothing.

Each command and the bare interpreter run in turn, so that a busy machine slows both; medians are compared.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMMANDS = {"--help": 0.15, "list": 0.3, "numa map": 0.3, "machine check": 0.3}
"""Goals, s beside the interpreter's own start."""
ROUNDS = 7


def seconds(command: list[str], folder: str) -> float:
    """Return how long ``command`` took."""
    began_s = time.perf_counter()
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return time.perf_counter() - began_s


def main() -> None:
    """Measure every command beside the bare interpreter and print one line for each."""
    steelyard = str(Path(sys.executable).parent / "steelyard")
    with tempfile.TemporaryDirectory() as folder:
        for name, goal_s in COMMANDS.items():
            ours: list[float] = []
            bare: list[float] = []
            for _ in range(ROUNDS):
                ours.append(seconds([steelyard, *name.split()], folder))
                bare.append(seconds([sys.executable, "-c", "pass"], folder))
            middle, base = statistics.median(ours), statistics.median(bare)
            row = {"name": f"steelyard {name} / python -c pass", "ours": middle, "theirs": base, "unit": "s"}
            row |= {"ratio": middle / base, "bar": f"<= {goal_s} s more", "met": middle - base <= goal_s}
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
