#!/usr/bin/env python3
"""How long `steelyard choose` takes on 1,214 machines with prices, beside the start of the command.

It and `steelyard choose --improvement 1%`, which reads nothing, run in turn, so that a busy machine slows
both; medians are compared. Without ../shared/data/servers a table of the same size is made up.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MACHINES = Path(__file__).resolve().parents[3] / "shared" / "data" / "servers" / "machines.csv"
GOAL_S = 1.0
ROUNDS = 7
_MADE_UP = 1214


def seconds(command: list[str], folder: str) -> float:
    """Return how long ``command`` took."""
    began_s = time.perf_counter()
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began_s


def tables(folder: Path) -> list[str]:
    """Return files of machines, and of their prices, which differ from one to the next."""
    if MACHINES.exists():
        machines = MACHINES
        names = [line.partition(",")[0] for line in machines.read_text().splitlines()[1:]]
    else:
        machines, names = folder / "machines.csv", [f"m{number}" for number in range(_MADE_UP)]
        rows = [f"{name},{1000 + 37 * at % 911},{100 + 53 * at % 97}" for at, name in enumerate(names)]
        machines.write_text("\n".join(["machine,web_1k_per_s,redis_set_per_s", *rows]))
    prices = folder / "prices.csv"
    rows = [f"{name},{0.05 + 37 * at % 101 / 20},{50 + 17 * at % 401}" for at, name in enumerate(names)]
    prices.write_text("\n".join(["machine,price_per_hour_usd,budgeted_power_w", *rows]))
    return [str(machines), str(prices)]


def main() -> None:
    """Measure both in turn and print one line."""
    steelyard = str(Path(sys.executable).parent / "steelyard")
    with tempfile.TemporaryDirectory() as folder:
        files = tables(Path(folder))
        weighed = [
            "--workload",
            "web_1k_per_s",
            "--workload",
            "redis_set_per_s",
            "--demand",
            "web_1k_per_s=1e8",
        ]
        ours: list[float] = []
        bare: list[float] = []
        for _ in range(ROUNDS):
            ours.append(seconds([steelyard, "choose", *files, *weighed], folder))
            bare.append(seconds([steelyard, "choose", "--improvement", "1%"], folder))
    middle, base = statistics.median(ours), statistics.median(bare)
    row = {
        "name": "steelyard choose, 1,214 machines / its start",
        "ours": middle,
        "theirs": base,
        "unit": "s",
    }
    row |= {"ratio": middle / base, "bar": f"<= {GOAL_S} s more", "met": middle - base <= GOAL_S}
    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
