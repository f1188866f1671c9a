#!/usr/bin/env python3
"""What the hooks counters, topdown and profile cost a run of TaoBench: throughput with and without them.

Pairs of short runs follow each other, one with the hooks and one without, in random order within the pair, so
that a drift of the machine meets both alike. A cost is one minus the ratio of a pair; the figure is the
median over the pairs, with a distribution-free interval that minds whether a pair resembles the one before.
An interval that holds the bar decides nothing, and says so. Requests per CPU second of the server are judged
beside requests per second: neighbours take less of them.

Prints one JSON object a line, as benches/run.py asks.
"""

import json
import os
import random
import sys
import tempfile
from pathlib import Path

from steelyard.bench.launch import Request, execute
from steelyard.bench.progress import Silence
from steelyard.stats.intervals import MedianInterval, median_interval

PAIRS = int(os.environ.get("STEELYARD_BENCH_PAIRS", "20"))
SECONDS = float(os.environ.get("STEELYARD_BENCH_SECONDS", "4"))
BAR = 0.01
HOOKS = ("counters", "topdown", "profile")
METRICS = {
    "requests_per_s": "throughput",
    "requests_per_server_cpu_s": "requests per CPU second of the server",
}
SETTINGS = {"memory": "16MiB", "warmup_min": "1", "warmup_max": "2", "measure": f"{SECONDS:g}"}


def measure(folder: Path, *, has_hooks: bool) -> tuple[dict[str, float], float]:
    """Make one run; return its metrics, and the share of the machine's CPU time that the hooks used."""
    off = () if has_hooks else tuple(f"{name}:enabled=false" for name in HOOKS)
    request = Request("tao", tier="smoke", chosen=SETTINGS, hooks=off, out=folder)
    [attempt] = execute(request, progress=Silence()).attempts
    if attempt.error is not None:
        sys.exit(f"bench_hooks: a run failed: {attempt.error.message}")
    found = {}
    for name in METRICS:
        value = attempt.run.metrics[name].value
        if value is None:
            sys.exit(f"bench_hooks: {name} is missing: {attempt.run.metrics[name].missing}")
        found[name] = value
    ratios = []
    for name in HOOKS:
        about = attempt.run.hooks.get(name)
        ratio = about.get("cpu_ratio") if isinstance(about, dict) else None
        ratios += [float(ratio)] if isinstance(ratio, int | float) else []
    return found, sum(ratios)


def judge(cost: MedianInterval) -> bool | None:
    """Return whether the cost is within the bar; None where the interval does not say."""
    if cost.low is None or cost.high is None:
        return None
    return True if cost.high <= BAR else False if cost.low > BAR else None


def row(name: str, words: str, costs: list[float], used: list[float]) -> dict[str, object]:
    """Return the row of one metric."""
    cost = median_interval(costs, in_order=True)
    met = judge(cost)
    if cost.low is None or cost.high is None:
        note = f"{len(costs)} pairs of {SECONDS:g} s, no interval: {cost.reason}"
    else:
        low, high = cost.low * 100, cost.high * 100
        note = f"{len(costs)} pairs of {SECONDS:g} s, 95 % interval {low:.2f} to {high:.2f} %"
    if met is None:
        note += "; undecided"
    own = median_interval(used).median * 100
    return {
        "name": f"hooks of every run: {words} that they cost tao ({name})",
        "ours": cost.median * 100,
        "theirs": None,
        "unit": "%",
        "ratio": 1 - cost.median,
        "bar": "<= 1 %",
        "met": met,
        "note": f"{note}; their processes used {own:.2f} % of the machine's CPU time",
    }


def main() -> None:
    """Measure and print the rows."""
    order = random.Random(20)  # noqa: S311 - an order, not a secret
    costs: dict[str, list[float]] = {name: [] for name in METRICS}
    used = []
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), has_hooks=True)  # The first of all finds cold files.
        for pair in range(PAIRS):
            found = {}
            for has_hooks in order.sample((True, False), 2):
                found[has_hooks], ratio = measure(Path(folder), has_hooks=has_hooks)
                used += [ratio] if has_hooks else []
            for name in METRICS:
                costs[name].append(1 - found[True][name] / found[False][name])
            print(f"pair {pair + 1}: {costs['requests_per_s'][-1] * 100:+.2f} %", file=sys.stderr)
    for name, words in METRICS.items():
        print(json.dumps(row(name, words, costs[name], used)), flush=True)


if __name__ == "__main__":
    main()
