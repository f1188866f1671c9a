"""The knee of a response curve, from blocks that hold every level once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from steelyard.stats.knees import Knee, knee

from ..situation import Claim, Outcome, Random, Situation, Statistic

LEVELS = np.arange(1.0, 10.0)
DOUBLING = 2.0 ** np.arange(0, 8)
Curve = Callable[[np.ndarray], np.ndarray]


def _joined(levels: np.ndarray) -> np.ndarray:
    """Rises by half up to 4.3, then stays."""
    return 1 + 0.15 * np.minimum(levels - 1, 3.3)


def _weak(levels: np.ndarray) -> np.ndarray:
    """Rises by a fifth up to 4.3, then stays."""
    return 1 + 0.06 * np.minimum(levels - 1, 3.3)


def _steeper(levels: np.ndarray) -> np.ndarray:
    """A latency that rises from 6.6 on."""
    return 1 + 0.02 * levels + 0.3 * np.maximum(levels - 6.6, 0)


def _first(levels: np.ndarray) -> np.ndarray:
    """Falls by a tenth a level from 1.8 on."""
    return 10 - np.maximum(levels - 1.8, 0)


def _last(levels: np.ndarray) -> np.ndarray:
    """Rises by a third a level from 8.4 on."""
    return 1 + 0.33 * np.maximum(levels - 8.4, 0)


def _eight(levels: np.ndarray) -> np.ndarray:
    """Throughput of n threads on 8 CPUs."""
    return np.minimum(levels, 8)


def _straight(levels: np.ndarray) -> np.ndarray:
    return 1 + 0.5 * levels


def _power(levels: np.ndarray) -> np.ndarray:
    return np.asarray(levels**0.7)


def _law(levels: np.ndarray) -> np.ndarray:
    """Amdahl's law with a serial share of 5 %: it has no corner."""
    return np.asarray(levels / (1 + 0.05 * (levels - 1)))


def _flat(levels: np.ndarray) -> np.ndarray:
    return np.ones_like(levels)


def _asked(
    random: Random,
    curve: Curve,
    blocks: int,
    noise: float,
    levels: np.ndarray = LEVELS,
    drift: float = 0.0,
    correlation: float = 0.0,
) -> Knee:
    """Draw values of whole blocks, each level correlated with itself in the block before, and ask."""
    draws = random.standard_normal((blocks, levels.size))
    for block in range(1, blocks):
        draws[block] = correlation * draws[block - 1] + (1 - correlation**2) ** 0.5 * draws[block]
    values = curve(levels) * np.exp(noise * draws + drift * random.standard_normal((blocks, 1)))
    return knee(levels.tolist(), values.tolist())


def _holds(random: Random, *, truth: float, levels: np.ndarray = LEVELS, **options: object) -> Outcome:
    found = _asked(random, levels=levels, **options)  # type: ignore[arg-type]
    if found.low is None or found.high is None or found.at is None:
        return Outcome(None)
    # Half of what the joints that are tried are apart.
    step = float(np.diff(levels).min()) / 36
    return Outcome(found.low - step <= truth <= found.high + step, found.at - truth, found.high - found.low)


def _named(random: Random, **options: object) -> Outcome:
    return Outcome(_asked(random, **options).at is not None)  # type: ignore[arg-type]


def _unbent(random: Random, **options: object) -> Outcome:
    return Outcome(_asked(random, **options).at is None)  # type: ignore[arg-type]


def _gradual(random: Random, **options: object) -> Outcome:
    return Outcome(_asked(random, **options).is_gradual)  # type: ignore[arg-type]


def _few(random: Random) -> Outcome:
    return Outcome(_asked(random, _joined, 5, 0.02).at is None)


def _row(name: str, claim: Claim, trial: Callable[..., Outcome], **rest: object) -> Situation:
    """Make a row; what a situation does not know is of the draw."""
    known = ("before", "bar", "trials", "quick", "note")
    own = {"trials": 400, **{key: rest.pop(key) for key in known if key in rest}}
    return Situation(name, claim, partial(trial, **rest), **own)  # type: ignore[arg-type]


STATISTICS = (
    Statistic(
        name="Knee of a response curve",
        covers=("steelyard.stats.knees.Knee",),
        about="Levels 1 to 9, or 1 to 128 by doubling; a value of each in every block. The truth is the"
        " corner that the curve is made with. A knee is named where the curve is no line, power or"
        " exponential, and one slope is at most half of the other. `trials` says how often one is named.",
        situations=(
            _row(
                "rises by half, then stays, noise 3 %, 8 blocks",
                Claim.HOLDS,
                _holds,
                truth=4.3,
                curve=_joined,
                blocks=8,
                noise=0.03,
                quick=60,
                bar=0.93,
            ),
            _row(
                "rises by half, then stays, noise 3 %, 20 blocks",
                Claim.HOLDS,
                _holds,
                truth=4.3,
                curve=_joined,
                blocks=20,
                noise=0.03,
            ),
            _row(
                "rises from 6.6 on, noise 5 %, blocks vary by 10 %, 12 blocks",
                Claim.HOLDS,
                _holds,
                truth=6.6,
                curve=_steeper,
                blocks=12,
                noise=0.05,
                drift=0.1,
                bar=0.93,
            ),
            _row(
                "throughput of 1 to 128 threads on 8 CPUs, noise 3 %, 8 blocks",
                Claim.HOLDS,
                _holds,
                truth=8.0,
                curve=_eight,
                levels=DOUBLING,
                blocks=8,
                noise=0.03,
                before="0.2 %",
                bar=0.93,
            ),
            _row(
                "between the first two levels, noise 2 %, 8 blocks",
                Claim.HOLDS,
                _holds,
                truth=1.8,
                curve=_first,
                blocks=8,
                noise=0.02,
                before="0 %",
                bar=0.93,
            ),
            _row(
                "between the last two levels, noise 2 %, 8 blocks",
                Claim.HOLDS,
                _holds,
                truth=8.4,
                curve=_last,
                blocks=8,
                noise=0.02,
                before="0 %",
                bar=0.93,
            ),
            _row(
                "rises by half, then stays, levels correlated by 0.5 in time, 8 blocks",
                Claim.HOLDS,
                _holds,
                truth=4.3,
                curve=_joined,
                blocks=8,
                noise=0.03,
                correlation=0.5,
                bar=0.93,
            ),
            _row(
                "flat, noise 3 %, 20 blocks",
                Claim.FALSE,
                _named,
                curve=_flat,
                blocks=20,
                noise=0.03,
                trials=1000,
                quick=60,
            ),
            *(
                _row(
                    f"flat, levels correlated by {correlation} in time, 20 blocks",
                    Claim.FALSE,
                    _named,
                    curve=_flat,
                    blocks=20,
                    noise=0.03,
                    correlation=correlation,
                    before=before,
                    trials=1000,
                )
                for correlation, before in ((0.5, "39 %"), (0.8, "84 %"))
            ),
            _row(
                "a straight line over doubling levels, noise 3 %, 8 blocks",
                Claim.FALSE,
                _named,
                curve=_straight,
                levels=DOUBLING,
                blocks=8,
                noise=0.03,
                before="100 %",
                quick=60,
            ),
            _row(
                "a power of 0.7 over doubling levels, noise 3 %, 8 blocks",
                Claim.FALSE,
                _named,
                curve=_power,
                levels=DOUBLING,
                blocks=8,
                noise=0.03,
            ),
            _row(
                "a corner called gradual: rises by half, then stays, noise 3 %, 20 blocks",
                Claim.FALSE,
                _gradual,
                curve=_joined,
                blocks=20,
                noise=0.03,
            ),
            _row(
                "no corner: serial share of 5 % over doubling levels, noise 3 %, 8 blocks",
                Claim.SILENT,
                _unbent,
                curve=_law,
                levels=DOUBLING,
                blocks=8,
                noise=0.03,
                trials=200,
            ),
            _row(
                "rises by half, then stays, noise 3 %, 8 blocks: named",
                Claim.FOUND,
                _named,
                curve=_joined,
                blocks=8,
                noise=0.03,
                bar=0.95,
                trials=200,
            ),
            _row(
                "rises by a fifth, then stays, noise 3 %, 12 blocks: named",
                Claim.FOUND,
                _named,
                curve=_weak,
                blocks=12,
                noise=0.03,
                bar=0.8,
                trials=200,
            ),
            _row(
                "rises by half, then stays, levels correlated by 0.8 in time, 20 blocks: named",
                Claim.FOUND,
                _named,
                curve=_joined,
                blocks=20,
                noise=0.03,
                correlation=0.8,
                bar=0.8,
                trials=200,
            ),
            Situation("5 blocks", Claim.SILENT, _few, trials=100, quick=20),
        ),
    ),
)
