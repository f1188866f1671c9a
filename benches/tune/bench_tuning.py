#!/usr/bin/env python3
"""Trials until a tuning is within 0.5 % of the optimum, beside exhaustive search.

    bench_tuning.py [--seeds N]

Tunes the made-up server of the tests by the code that tunes a machine, with a noise of 1 % a trial, twice.
Four of its knobs, 240 combinations, whose best levels depend on each other: hill climbing beside the
product's own exhaustive search, which drops combinations that are far behind. All nine, 64,800
combinations, of which the product refuses to try all: beside a simulated search that tries every
combination equally often and takes the best mean, as often as brings it within 0.5 % in as many seeds as
the tuning. Prints one JSON object a line, as benches/run.py asks.
"""

import argparse
import json
import math
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

from tests.tune.surface import LEVELS, Surface, combinations, optimum, throughput, tune, tuning

NEAR, NOISE, BAR = 0.005, 0.01, 0.1
MOST_REPEATS = 64
SOME = ("prefetchers", "uncore_frequency", "core_frequency", "code_data_ways")


def main() -> None:
    """Tune with each seed, then search exhaustively with as much success."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--exhaustive-seeds", type=int, default=5)
    arguments = parser.parse_args()
    some = {name: LEVELS[name] for name in SOME}
    count = math.prod(map(len, some.values()))
    climbed, share = tuned(some, "hill-climb", arguments.seeds)
    exhausted, exhausted_share = tuned(some, "exhaustive", arguments.exhaustive_seeds)
    show(
        f"hill climb beside the product's exhaustive search, {count} combinations",
        climbed,
        exhausted,
        f"within 0.5 % in {share:.0%} of {arguments.seeds} seeds; exhaustive search, which drops what is far"
        f" behind, in {exhausted_share:.0%} of {arguments.exhaustive_seeds}",
        # Races of combinations need far fewer trials than a search that tries each equally often.
        bar=1.0,
    )
    climbed, share = tuned(LEVELS, "hill-climb", arguments.seeds)
    repeats, exhausted = simulated(share)
    show(
        f"hill climb beside a simulated exhaustive search, {exhausted // repeats} combinations",
        climbed,
        exhausted,
        f"within 0.5 % in {share:.0%} of {arguments.seeds} seeds; exhaustive search with {repeats} trials of"
        " each combination",
    )


def show(name: str, ours: float, theirs: float, note: str, bar: float = BAR) -> None:
    """Print one row."""
    row = {
        "name": f"trials to within 0.5 % of the optimum, {name}",
        "ours": ours,
        "theirs": theirs,
        "unit": "trials",
        "ratio": ours / theirs,
        "bar": f"<= {bar:g} x",
        "met": ours <= bar * theirs,
        "note": note,
    }
    print(json.dumps(row), flush=True)


def tuned(known: dict[str, tuple[str, ...]], strategy: str, seeds: int) -> tuple[float, float]:
    """Return the median of the trials, and in how many of the seeds the optimum was found."""
    best, trials, near = optimum(known=known), [], 0
    for seed in range(seeds):
        surface = Surface(np.random.default_rng(seed), NOISE)
        record = tune(surface, tuning(seed, strategy, blocks=100, known=known))
        trials.append(surface.trials)
        near += throughput(record.chosen) >= (1 - NEAR) * best
    return float(np.median(trials)), near / seeds


def simulated(share: float) -> tuple[int, int]:
    """Return how often each combination is tried, and all trials, for as much success."""
    best, values = optimum(), combinations()
    random = np.random.default_rng(1)
    seeds = 100
    for repeats in range(1, MOST_REPEATS + 1):
        near = 0
        for _ in range(seeds):
            seen = np.log(values) + NOISE / repeats**0.5 * random.standard_normal(values.size)
            near += values[int(np.argmax(seen))] >= (1 - NEAR) * best
        if near >= share * seeds:
            break
    return repeats, repeats * values.size


if __name__ == "__main__":
    main()
