"""The knee of a response curve, from blocks that hold every level once."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np

from steelyard.stats.knees import knee

from ..situation import Claim, Outcome, Random, Situation, Statistic

LEVELS = np.arange(1.0, 10.0)
Curve = Callable[[np.ndarray], np.ndarray]


def _joined(levels: np.ndarray) -> np.ndarray:
    """Rises by half up to 4.3, then stays."""
    return 1 + 0.15 * np.minimum(levels - 1, 3.3)


def _gradual(levels: np.ndarray) -> np.ndarray:
    """Saturates without a corner."""
    return 1.5 - 0.5 * np.exp(-(levels - 1) / 2)


def _steeper(levels: np.ndarray) -> np.ndarray:
    """A latency that rises from 6.6 on."""
    return 1 + 0.02 * levels + 0.3 * np.maximum(levels - 6.6, 0)


def _straight(levels: np.ndarray) -> np.ndarray:
    return 1 + 0.05 * levels


def _flat(levels: np.ndarray) -> np.ndarray:
    return np.ones_like(levels)


def _draw(random: Random, curve: Curve, blocks: int, noise: float, drift: bool) -> np.ndarray:
    levels = curve(LEVELS) * np.exp(noise * random.standard_normal((blocks, LEVELS.size)))
    block = np.exp(0.1 * random.standard_normal((blocks, 1))) if drift else 1.0
    return np.asarray(levels * block)


@lru_cache
def _truth(curve: Curve) -> float:
    """The joint of the two lines that fit the curve itself best."""
    exact = curve(LEVELS)
    least, place = np.inf, 0.0
    for joint in np.linspace(LEVELS[1], LEVELS[-2], 2001):
        design = np.column_stack([np.ones_like(LEVELS), LEVELS, np.maximum(LEVELS - joint, 0)])
        rest = exact - design @ np.linalg.lstsq(design, exact, rcond=None)[0]
        if rest @ rest < least:
            least, place = float(rest @ rest), float(joint)
    return place


def _holds(random: Random, curve: Curve, blocks: int, noise: float, drift: bool = False) -> Outcome:
    found = knee(LEVELS.tolist(), _draw(random, curve, blocks, noise, drift).tolist())
    if found.low is None or found.high is None or found.at is None:
        return Outcome(None)
    truth = _truth(curve)
    # The joints that are tried are this far apart.
    step = (LEVELS[-2] - LEVELS[1]) / 120 / 2
    return Outcome(found.low - step <= truth <= found.high + step, found.at - truth, found.high - found.low)


def _named(random: Random, curve: Curve, blocks: int, noise: float) -> Outcome:
    found = knee(LEVELS.tolist(), _draw(random, curve, blocks, noise, drift=False).tolist())
    return Outcome(found.at is not None)


def _few(random: Random) -> Outcome:
    return Outcome(knee(LEVELS.tolist(), _draw(random, _joined, 5, 0.02, drift=False).tolist()).at is None)


STATISTICS = (
    Statistic(
        name="Knee of a response curve",
        covers=("steelyard.stats.knees.Knee",),
        about="Nine levels, a value of each in every block. The truth is the joint of the two lines that fit"
        " the curve without noise best. A knee is named where the bend is significant and one slope is at"
        " most half of the other.",
        situations=(
            Situation(
                "rises by half, then stays, noise 3 %, 8 blocks",
                Claim.HOLDS,
                partial(_holds, curve=_joined, blocks=8, noise=0.03),
                trials=1000,
                quick=60,
            ),
            Situation(
                "rises by half, then stays, noise 3 %, 20 blocks",
                Claim.HOLDS,
                partial(_holds, curve=_joined, blocks=20, noise=0.03),
                trials=1000,
            ),
            Situation(
                "saturates without a corner, noise 3 %, 20 blocks",
                Claim.HOLDS,
                partial(_holds, curve=_gradual, blocks=20, noise=0.03),
                trials=1000,
            ),
            Situation(
                "rises from 6.6 on, noise 5 %, blocks vary by 10 %, 12 blocks",
                Claim.HOLDS,
                partial(_holds, curve=_steeper, blocks=12, noise=0.05, drift=True),
                trials=1000,
                bar=0.93,
            ),
            Situation(
                "straight, noise 3 %, 8 blocks",
                Claim.FALSE,
                partial(_named, curve=_straight, blocks=8, noise=0.03),
                trials=1000,
                quick=60,
            ),
            Situation(
                "flat, noise 3 %, 20 blocks",
                Claim.FALSE,
                partial(_named, curve=_flat, blocks=20, noise=0.03),
                trials=1000,
            ),
            Situation(
                "rises by half, then stays, noise 3 %, 8 blocks: named",
                Claim.FOUND,
                partial(_named, curve=_joined, blocks=8, noise=0.03),
                trials=500,
                bar=0.95,
            ),
            Situation("5 blocks", Claim.SILENT, _few, trials=100, quick=20),
        ),
    ),
)
