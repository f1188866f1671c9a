#!/usr/bin/env python3
"""How far off projections are on real machines, how often their intervals hold, and how long they take.

A bar a line: processors never seen, each left out alone; a single score scaled in the same way; one machine
of the processor measured; the learning curve; `steelyard project` beside the start of the command. The
machines are those of ../shared/data/servers, without which nothing is measured.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from steelyard.decide.projection.problem import Question
from steelyard.decide.projection.project import project
from steelyard.decide.projection.result import Projection
from steelyard.decide.tables import MachineTable, read_table

MACHINES = Path(__file__).resolve().parents[3] / "shared" / "data" / "servers" / "machines.csv"
PRODUCTION = ("web_*", "redis_*")
BARS = {"web_1k_per_s": (0.14, 0.50), "redis_set_per_s": (None, None)}
"""Median and 90th percentile of |projected / measured - 1|, where the vendors are those that were learned."""
COVERAGE = (0.75, 0.88)
SIBLING = 0.05
GOAL_S = 10.0
_DRAWS = 3


def row(name: str, ours: float, bar: float | None, unit: str = "ratio") -> None:
    """Print one figure, and whether it meets its bar."""
    line: dict[str, object] = {"name": name, "ours": round(ours, 4), "unit": unit}
    if bar is not None:
        line |= {"bar": f"<= {bar}", "met": ours <= bar}
    print(json.dumps(line), flush=True)


def errors(table: MachineTable, target: str) -> None:
    """Measure the error on processors never seen, and the coverage of intervals."""
    question = Question(targets=(target,), without=PRODUCTION, every_group=True, explain=True, learning=True)
    found = project(table, question)
    error = found.error
    assert error is not None
    assert error.coverage_ratio is not None
    median, p90 = BARS[target]
    row(f"{target}, processor never seen: median error", error.median_error_ratio, median)
    row(f"{target}, processor never seen: 90th percentile", error.p90_error_ratio, p90)
    low, high = COVERAGE
    held = error.coverage_ratio
    line = {"name": f"{target}: share inside intervals of 80 %", "ours": round(held, 4), "unit": "ratio"}
    print(json.dumps(line | {"bar": f"{low} to {high}", "met": low <= held <= high}), flush=True)
    single_scores(found, target)
    for point in found.learning:
        row(f"{target}, {point.groups} processors known: median error", point.median_error_ratio, None)


def single_scores(found: Projection, target: str) -> None:
    """Print what a single score says, scaled by the other processors."""
    for worth in found.worths:
        if worth.name in ("geekbench6_multi", "passmark_cpu_mark"):
            assert worth.scaled_median_error_ratio is not None
            assert worth.scaled_p90_error_ratio is not None
            row(f"{target} by {worth.name} alone: median error", worth.scaled_median_error_ratio, None)
            row(f"{target} by {worth.name} alone: 90th percentile", worth.scaled_p90_error_ratio, None)


def siblings(table: MachineTable, target: str) -> None:
    """Measure the error on a processor of which one machine is known: a few draws of that machine."""
    random = np.random.default_rng(1)
    truth = {one.name: one.results[target].value for one in table.machines if target in one.results}
    families: dict[str, list[str]] = {}
    for one in table.machines:
        if one.name in truth:
            families.setdefault(str(one.attributes["processor"]), []).append(one.name)
    chosen = [names for names in families.values() if len(names) >= 3]
    off: list[float] = []
    for draw in range(_DRAWS):
        # A third of the processors at a time, so that most are known.
        for part in range(3):
            asked: set[str] = set()
            for names in chosen[part::3]:
                known = str(random.choice(names))
                asked |= set(names) - {known}
            machines = tuple(
                replace(one, results={k: v for k, v in one.results.items() if k != target})
                if one.name in asked
                else one
                for one in table.machines
            )
            question = Question(targets=(target,), without=PRODUCTION, compares_suites=False)
            found = project(replace(table, machines=machines), question)
            off += [
                abs(one.projected / truth[one.name] - 1)
                for one in found.machines
                if one.name in asked and one.projected is not None
            ]
        del draw
    row(f"{target}, one machine of the processor known: median error", float(np.median(off)), SIBLING)
    row(f"{target}, one machine of the processor known: 90th percentile", float(np.quantile(off, 0.9)), None)


def seconds(command: Sequence[str], folder: str) -> float:
    """Return how long ``command`` took."""
    began_s = time.perf_counter()
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began_s


def main() -> None:
    """Measure everything, a line each."""
    if not MACHINES.exists():
        print(json.dumps({"name": "project", "skipped": f"{MACHINES} is not here"}))
        return
    table = read_table([MACHINES])
    for target in BARS:
        errors(table, target)
        siblings(table, target)
    steelyard = str(Path(sys.executable).parent / "steelyard")
    with tempfile.TemporaryDirectory() as folder:
        command = [steelyard, "project", str(MACHINES), "--target", "web_1k_per_s"]
        row("steelyard project, 1,214 machines x 18 results", seconds(command, folder), GOAL_S, "s")
        score = min(seconds([steelyard, "score", str(MACHINES)], folder) for _ in range(5))
        start = min(seconds([steelyard, "score", "--help"], folder) for _ in range(5))
        row("steelyard score, 1,214 machines, beside start-up", score - start, 1.0, "s")


if __name__ == "__main__":
    main()
