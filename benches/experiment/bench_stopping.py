#!/usr/bin/env python3
"""Blocks that an experiment needs that stops when it knows, beside one of fixed length.

    bench_stopping.py [--trials N] [--power P]

Simulates an effect of 1 % at a noise of 2 % a value. The experiment of fixed length has as many blocks as
find the effect with probability P. The other is looked at after every block and stops when its interval
excludes "no effect"; it may have as many blocks as let it find the effect with the same probability.
Prints one JSON object a line, as benches/run.py asks: the median block at which it stops, over the fixed
length.
"""

import argparse
import json
import math

import numpy as np

from steelyard.stats.contrasts import FEWEST_BLOCKS, blocks_needed, contrast

EFFECT, NOISE, BAR = 0.01, 0.02, 0.7
MOST = 400


def stops_at(random: np.random.Generator) -> float:
    """Return the block at which an experiment finds the effect, infinity if it does not."""
    first = 1 + NOISE * random.standard_normal(MOST)
    second = (1 + NOISE * random.standard_normal(MOST)) * math.exp(EFFECT)
    for count in range(FEWEST_BLOCKS, MOST + 1):
        seen = contrast(first[:count], second[:count], least_effect=EFFECT, at_end=False)
        if seen.always_low is not None and seen.always_low > 1:
            return float(count)
    return math.inf


def main() -> None:
    """Simulate, and compare at each power."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--power", type=float, nargs="+", default=[0.8, 0.9, 0.95])
    arguments = parser.parse_args()
    generators = [np.random.default_rng(one) for one in np.random.SeedSequence(1).spawn(arguments.trials)]
    stops = np.sort([stops_at(random) for random in generators])
    for power in arguments.power:
        # Cut off there, this share of the experiments has found the effect.
        most = stops[math.ceil(power * stops.size) - 1]
        median = float(np.median(np.minimum(stops, most)))
        fixed = blocks_needed(NOISE * math.sqrt(2), EFFECT, power=power)
        print(
            json.dumps(
                {
                    "name": f"blocks until a 1 % effect is found, power {power:g}: stopping when known",
                    "ours": median,
                    "theirs": fixed,
                    "unit": "blocks",
                    "ratio": median / fixed,
                    "bar": f"<= {BAR:g} x",
                    "met": median <= BAR * fixed,
                    "note": f"at most {most:.0f} blocks",
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
