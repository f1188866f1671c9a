"""Arms of an experiment, block by block, in worlds that know no order of trials: one look, at the end."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from steelyard.stats.contrasts import blocks_needed, contrast

from ..situation import Claim, Outcome, Random, Situation, Statistic
from .steadiness import noise

_LEAST = 0.01
"""The effect that matters: 1 %."""
Draw = Callable[[Random, int], "tuple[np.ndarray, np.ndarray]"]
"""Values of two equal arms in that many blocks, with medians and means alike."""


def _normal(random: Random, blocks: int) -> tuple[np.ndarray, np.ndarray]:
    first, second = 1 + 0.02 * random.standard_normal((2, blocks))
    return first, second


def _lognormal(random: Random, blocks: int) -> tuple[np.ndarray, np.ndarray]:
    first, second = random.lognormal(0.0, 0.3, (2, blocks))
    return first, second


def _heavy(random: Random, blocks: int) -> tuple[np.ndarray, np.ndarray]:
    first, second = np.exp(0.02 * random.standard_t(3, (2, blocks)))
    return first, second


def _bursts(random: Random, blocks: int) -> tuple[np.ndarray, np.ndarray]:
    """One value in seven is lowered by a neighbour, by up to two thirds."""
    burst = random.random((2, blocks)) < 1 / 7
    first, second = np.exp(
        0.01 * random.standard_normal((2, blocks)) - burst * random.exponential(0.3, (2, blocks))
    )
    return first, second


def _rounded(random: Random, blocks: int) -> tuple[np.ndarray, np.ndarray]:
    first, second = np.round(100 + 2 * random.standard_normal((2, blocks)))
    return first, second


def _drifting(random: Random, blocks: int) -> tuple[np.ndarray, np.ndarray]:
    """A machine that loses a fifth and swings by a tenth; which arm goes first is drawn."""
    time = np.arange(2 * blocks)
    level = 1 - 0.2 * time / time.size + 0.1 * np.sin(2 * np.pi * time / 24)
    values = (level * (1 + 0.02 * random.standard_normal(time.size))).reshape(blocks, 2)
    # As ``steelyard.experiment.design`` does: a pair of blocks has either order once.
    swapped = np.repeat(random.random((blocks + 1) // 2) < 0.5, 2)[:blocks] ^ (np.arange(blocks) % 2 == 1)
    values[swapped] = values[swapped][:, ::-1]
    return values[:, 0], values[:, 1]


def _correlated(random: Random, blocks: int) -> tuple[np.ndarray, np.ndarray]:
    """The ratio itself wanders: one arm is hit by what lasts several blocks."""
    return np.ones(blocks), np.exp(0.03 * noise(random, blocks, 0.5))


def _rare(random: Random, blocks: int) -> tuple[np.ndarray, np.ndarray]:
    """One arm alone loses a fifth, on average, in one block of five."""
    hit = random.random(blocks) < 0.2
    logs = 0.01 * random.standard_normal((2, blocks))
    logs[1] -= hit * random.exponential(0.2, blocks) - 0.04
    return np.exp(logs[0]), np.exp(logs[1])


def _holds(random: Random, draw: Draw, blocks: int) -> Outcome:
    found = contrast(*draw(random, blocks))
    if found.low is None or found.high is None:
        return Outcome(None)
    return Outcome(found.low <= 1 <= found.high, found.ratio - 1, found.high - found.low)


def _intervals(random: Random, blocks: int, between: float) -> Outcome:
    """Trials of 30 intervals that resemble their neighbours, whose means are the values."""
    level = 1 + between * random.standard_normal((2, blocks))
    inside = 0.05 * np.array([[noise(random, 30, 0.5) for _ in range(blocks)] for _ in range(2)])
    first, second = (level[:, :, None] * (1 + inside)).tolist()
    values = [[float(np.mean(one)) for one in arm] for arm in (first, second)]
    found = contrast(*values, within=(first, second))
    if found.low is None or found.high is None:
        return Outcome(None)
    return Outcome(found.low <= 1 <= found.high, found.ratio - 1, found.high - found.low)


def _found(random: Random) -> Outcome:
    """An effect of 1 % at a noise of 2 %, in the number of blocks that was promised."""
    first, second = _normal(random, blocks_needed(0.02 * 2**0.5, _LEAST))
    seen = contrast(first, second * np.exp(_LEAST))
    return Outcome(seen.low is not None and seen.low > 1, seen.ratio / np.exp(_LEAST) - 1)


def _sweep(random: Random) -> Outcome:
    """Five levels that make no difference, each beside the first."""
    base = 1 + 0.02 * random.standard_normal(20)
    for _ in range(4):
        seen = contrast(base, 1 + 0.02 * random.standard_normal(20), confidence=1 - 0.05 / 4)
        if seen.low is not None and seen.high is not None and not seen.low <= 1 <= seen.high:
            return Outcome(True)
    return Outcome(False)


def _few(random: Random) -> Outcome:
    return Outcome(contrast(*_normal(random, 3)).low is None)


def _constant(random: Random) -> Outcome:
    level = float(random.uniform(1, 100))
    seen = contrast([level] * 7, [level * 2] * 7)
    return Outcome(seen.low is None)


def _counts(random: Random) -> Outcome:
    """Instructions, or bytes: a count that is 3 % less in each block."""
    level = float(random.integers(10_000, 10_000_000))
    seen = contrast([level] * 12, [float(round(0.97 * level))] * 12)
    return Outcome(seen.high is not None and seen.high < 1)


def _one_digit(random: Random) -> Outcome:
    """Times that a program prints with one digit after the point, the same in each block."""
    first = float(random.uniform(1, 9))
    truth = float(random.uniform(0.95, 1.05))
    shown = [round(first, 1)], [round(first * truth, 1)]
    seen = contrast(shown[0] * 12, shown[1] * 12)
    if seen.low is None or seen.high is None:
        return Outcome(None)
    return Outcome(seen.low <= truth <= seen.high, error=seen.ratio - truth, width=seen.high - seen.low)


def _collapses(random: Random) -> Outcome:
    """A count that never varies but in one block of twenty, where it is a third less."""
    hit = random.uniform(size=12) < 0.05
    second = np.where(hit, 2 / 3, 1.0) * 1_000_000
    truth = math.exp(0.05 * math.log(2 / 3))
    seen = contrast([1_000_000.0] * 12, second.tolist())
    if seen.low is None or seen.high is None:
        return Outcome(None)
    return Outcome(seen.low <= truth <= seen.high, error=seen.ratio - truth, width=seen.high - seen.low)


def _one_look(name: str, draw: Draw, blocks: int, *, quick: int = 0, **more: object) -> Situation:
    return Situation(
        f"{name}, {blocks} blocks",
        Claim.HOLDS,
        partial(_holds, draw=draw, blocks=blocks),
        trials=2000,
        quick=quick,
        **more,  # type: ignore[arg-type]
    )


def _two_levels(name: str, between: float, blocks: int, *, quick: int = 0) -> Situation:
    return Situation(
        f"means of 30 intervals correlated by 0.5, noise {name}, {blocks} blocks",
        Claim.HOLDS,
        partial(_intervals, between=between, blocks=blocks),
        trials=1000,
        quick=quick,
    )


STATISTICS = (
    Statistic(
        name="Arms of an experiment",
        covers=("steelyard.stats.contrasts.Contrast",),
        about="Blocks with a value of each arm, whose order within the block is not given: one look, at the"
        " end. The interval joins Student's with a studentized bootstrap.",
        situations=(
            _one_look("normal, sd 2 %", _normal, 6, quick=300),
            _one_look("normal, sd 2 %", _normal, 12, quick=300),
            _one_look("normal, sd 2 %", _normal, 40),
            _one_look("lognormal, sd 30 %", _lognormal, 12, quick=300),
            _one_look("Student's with 3 degrees, 2 %", _heavy, 20),
            _one_look("bursts in either arm", _bursts, 20, bar=0.93),
            _one_look("rounded to 50 values", _rounded, 12),
            _one_look("drift by a fifth and a cycle of 24", _drifting, 20, bar=0.93, quick=200),
            _one_look("ratio correlated by 0.5", _correlated, 60, bar=0.93),
            _one_look(
                "ratio correlated by 0.5",
                _correlated,
                20,
                is_limit=True,
                note="where the correlation is overlooked: so few blocks cannot show it",
            ),
            _one_look("one arm alone is hit, by a fifth in one block of five", _rare, 60, bar=0.90),
            _one_look(
                "one arm alone is hit, by a fifth in one block of five",
                _rare,
                12,
                is_limit=True,
                note="what has not been seen yet is in no interval",
            ),
            _two_levels("within trials alone", 0.0, 12, quick=100),
            _two_levels("within and between trials", 0.015, 12),
            _two_levels("within and between trials", 0.015, 40),
            _two_levels("between trials mostly", 0.05, 20),
            Situation(
                "1 % at 2 % noise in the promised blocks, one look",
                Claim.FOUND,
                _found,
                trials=2000,
                quick=200,
                bar=0.8,
            ),
            Situation(
                "five levels without effect, any of them named", Claim.FALSE, _sweep, trials=1000, quick=100
            ),
            Situation("3 blocks", Claim.SILENT, _few, trials=200, quick=50),
            Situation("the same ratio in 7 blocks", Claim.SILENT, _constant, trials=100, quick=20),
            Situation(
                "counts that never vary, 3 % less, 12 blocks",
                Claim.FOUND,
                _counts,
                trials=200,
                quick=50,
                bar=0.95,
            ),
            Situation(
                "figures that never vary, with one digit after the point, 12 blocks",
                Claim.HOLDS,
                _one_digit,
                trials=500,
                quick=100,
                bar=0.93,
            ),
            Situation(
                "a count that never varies but in one block of 20, where it is a third less, 12 blocks",
                Claim.HOLDS,
                _collapses,
                trials=1000,
                is_limit=True,
                note="what has not been seen yet is in no interval, which is said beside it",
            ),
        ),
    ),
)
