"""Where a response curve has its knee: the level beyond which it goes on much more flatly, or steeply.

In: levels of one factor, and the values of a metric in blocks, one of each level in a block. Out: `Knee`: the
place where the two straight lines meet that fit the curve best, with an interval, or the reason why there is
none.

Method. Values are taken in proportion to their block, so that what changes from block to block plays no part.
The place is the joint of the continuous two-line curve with the smallest sum of squares (D. Hudson, "Fitting
Segmented Curves Whose Join Points Have to Be Estimated", JASA 61, 1966), over the logarithm of the levels
where these are spaced by factors. Whether it bends at all is asked first: the largest of the studentized
changes of slope over all joints, against the same with the signs of whole blocks' residuals drawn at random
(exact for symmetric noise, however levels are correlated). The interval is that of a bootstrap of blocks.

Invariants: the same values give the same answer (seeded); units of levels and values do not matter.

Not here: which level to choose (``steelyard.experiment``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from steelyard.stats.sequential import student_quantile

Floats = npt.NDArray[np.float64]

FEWEST_LEVELS = 5
"""Two lines with a free joint have four parameters."""
FEWEST_BLOCKS = 6
"""Fewer give no p value below 0.03 however they come out."""
_SIGNIFICANCE = 0.05
_FLATTER = 0.5
"""A bend is a knee where one slope is at most this share of the other."""
_JOINTS = 121
_RESAMPLES = 999
_SEED = 20_261_125
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Knee:
    """The knee of a curve; ``at`` and its interval are None where ``reason`` says why."""

    at: float | None
    """In the unit of the levels."""
    low: float | None
    high: float | None
    confidence: float
    p_value: float | None
    """Chance of as strong a bend where the curve is straight; None where it could not be asked."""
    is_log: bool
    """Whether levels are spaced by factors, and the lines are straight over their logarithm."""
    before: float | None
    """Change of the metric, in proportion to its mean, over the whole range of levels at the slope before."""
    after: float | None
    """The same at the slope after."""
    reason: str | None = None


def knee(levels: Sequence[float], blocks: Sequence[Sequence[float]], *, confidence: float = 0.95) -> Knee:
    """Return the knee of the curve over ``levels``, from whole blocks with one value of each.

    >>> rise = [1.0, 2.0, 3.0, 4.0, 4.0, 4.0]
    >>> noise = [0.01, -0.02, 0.015, 0.0, -0.01, 0.005]
    >>> blocks = [[v + noise[(3 * i + j) % 6] for i, v in enumerate(rise)] for j in range(6)]
    >>> round(knee([1, 2, 3, 4, 5, 6], blocks).at, 1)
    4.0

    Raises ValueError for levels that are not ascending, and for values that are not positive and finite.
    """
    at = np.asarray(levels, dtype=np.float64)
    values = np.asarray(blocks, dtype=np.float64).reshape(-1, at.size)
    if not np.isfinite(at).all() or (np.diff(at) <= 0).any():
        raise ValueError("levels must be finite and ascending")
    if not (np.isfinite(values) & (values > 0)).all():
        raise ValueError("values must be positive and finite")
    is_log = _spaced_by_factors(at)

    def none(reason: str, p_value: float | None = None, slopes: tuple[float, float] | None = None) -> Knee:
        before, after = slopes or (None, None)
        return Knee(None, None, None, confidence, p_value, is_log, before, after, reason)

    if at.size < FEWEST_LEVELS:
        return none(f"fewer than {FEWEST_LEVELS} levels")
    if len(values) < FEWEST_BLOCKS:
        return none(f"fewer than {FEWEST_BLOCKS} whole blocks")
    place = np.log(at) if is_log else at
    place = (place - place[0]) / (place[-1] - place[0])
    shares = values / np.exp(np.log(values).mean(axis=1, keepdims=True))
    shares /= shares.mean()
    joints = np.linspace(place[1], place[-2], _JOINTS)
    lines = _Lines.at(place, joints)
    bends = shares @ lines.bend.T
    if float(bends.std(axis=0).max()) <= _ROUNDING:
        return none("the curve is the same in every block: its noise is not known")
    random = np.random.default_rng(_SEED)
    p_value = _chance(bends, random)
    mean = shares.mean(axis=0)
    best = int(lines.best(mean[None, :])[0])
    before, after = (float(one @ mean) for one in (lines.before[best], lines.after[best]))
    if p_value > _SIGNIFICANCE:
        return none("it may be straight: its bend may be chance", p_value)
    flat, steep = sorted((abs(before), abs(after)))
    if flat > _FLATTER * steep and before * after > 0:
        return none("it bends only a little: no slope is half of the other", p_value, (before, after))
    found = _resampled(shares, lines, joints, random)
    tail = (1 - confidence) / 2
    ends = np.quantile(found, [tail, 1 - tail])
    first, last = (math.log(at[0]), math.log(at[-1])) if is_log else (at[0], at[-1])

    def level(joint: float) -> float:
        value = first + joint * (last - first)
        return float(math.exp(value) if is_log else value)

    low, high = level(ends[0]), level(ends[1])
    return Knee(level(joints[best]), low, high, confidence, p_value, is_log, before, after)


def _spaced_by_factors(levels: Floats) -> bool:
    if levels[0] <= 0 or levels.size < 3:
        return False
    plain, logs = np.diff(levels), np.diff(np.log(levels))
    return float(logs.std() / logs.mean()) < float(plain.std() / plain.mean())


@dataclass(frozen=True, slots=True)
class _Lines:
    """Two lines that meet, for each joint: what of the values is left, and their slopes."""

    basis: Floats
    """Joint, level, 3: an orthonormal basis of the curves that the two lines can be."""
    before: Floats
    bend: Floats
    after: Floats

    @staticmethod
    def at(place: Floats, joints: Floats) -> _Lines:
        designs = np.stack(
            [np.column_stack([np.ones_like(place), place, np.maximum(place - one, 0)]) for one in joints]
        )
        inverses = np.linalg.pinv(designs)
        before, bend = inverses[:, 1, :], inverses[:, 2, :]
        return _Lines(np.linalg.qr(designs)[0], before, bend, before + bend)

    def best(self, means: Floats) -> npt.NDArray[np.int64]:
        """Return the joint that leaves the smallest sum of squares, of each row of means."""
        # In proportion to the spread, not to the level: else rounding decides between joints.
        centred = means - means.mean(axis=1, keepdims=True)
        return np.asarray(((centred @ self.basis) ** 2).sum(axis=2).argmax(axis=0))


def _chance(bends: Floats, random: np.random.Generator) -> float:
    count = len(bends)
    signs = random.choice([-1.0, 1.0], (_RESAMPLES, count))
    squares = (bends**2).sum(axis=0)

    def strongest(means: Floats) -> Floats:
        variances = np.maximum(squares - count * means**2, _ROUNDING**2) / (count - 1)
        return np.asarray((np.abs(means) / np.sqrt(variances / count)).max(axis=1))

    observed = float(strongest(bends.mean(axis=0)[None, :])[0])
    drawn = strongest(signs @ bends / count)
    return (1 + int((drawn >= observed * (1 - _ROUNDING)).sum())) / (1 + _RESAMPLES)


def _resampled(shares: Floats, lines: _Lines, joints: Floats, random: np.random.Generator) -> Floats:
    """Return the joints of resampled blocks."""
    count = len(shares)
    drawn = shares[random.integers(0, count, (_RESAMPLES, count))].mean(axis=1)
    mean = shares.mean(axis=0)
    # The spread of resampled means is too small, and its tails are a normal distribution's.
    tails = student_quantile(0.975, count - 1) / student_quantile(0.975, math.inf)
    drawn = mean + (drawn - mean) * math.sqrt(count / (count - 1)) * tails
    return joints[lines.best(drawn)]
