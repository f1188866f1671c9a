#!/usr/bin/env python3
"""Trials until a tuning is within 0.5 % of the optimum, beside exhaustive search.

    bench_tuning.py [--seeds N]

Tunes the made-up service of the tests (eight knobs that interact, 34,560 combinations, noise of 1 % a trial)
by the code that tunes a machine. Exhaustive search tries every combination equally often and takes the best
mean: as often as brings it within 0.5 % in as many seeds as the tuning. Prints one JSON object a line, as
benches/run.py asks.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

from tests.tune.surface import Surface, combinations, optimum, throughput, tune, tuning

NEAR, NOISE, BAR = 0.005, 0.01, 0.1
MOST_REPEATS = 64


def main() -> None:
    """Tune with each seed, then search exhaustively with as much success."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    arguments = parser.parse_args()
    best = optimum()
    for strategy in ("one-at-a-time", "hill-climb"):
        trials, near = [], 0
        for seed in range(arguments.seeds):
            surface = Surface(np.random.default_rng(seed), NOISE)
            record = tune(surface, tuning(seed, strategy, blocks=100))
            trials.append(surface.trials)
            near += throughput(record.chosen) >= (1 - NEAR) * best
        share = near / arguments.seeds
        repeats, exhaustive = exhaustive_search(best, share)
        median = float(np.median(trials))
        print(
            json.dumps(
                {
                    "name": f"trials to within 0.5 % of the optimum, {strategy}, beside exhaustive search",
                    "ours": median,
                    "theirs": exhaustive,
                    "unit": "trials",
                    "ratio": median / exhaustive,
                    "bar": f"<= {BAR:g} x",
                    "met": median <= BAR * exhaustive,
                    "note": f"within 0.5 % in {share:.0%} of {arguments.seeds} seeds; exhaustive search with"
                    f" {repeats} trials of each combination",
                }
            ),
            flush=True,
        )


def exhaustive_search(best: float, share: float) -> tuple[int, int]:
    """Return how often each combination is tried, and all trials, for as much success."""
    values = combinations()
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
