"""Where a response curve has its knee: the level beyond which it goes on much more flatly, or steeply.

In: levels of one factor, and the values of a metric in blocks, one of each level in a block. Out: `Knee`: the
place where the two straight lines meet that fit the curve best, with an interval, or the reason why there is
none.

Method. Values are taken in proportion to their block, so that what changes from block to block plays no part.
The place is the joint of the continuous two-line curve with the smallest sum of squares (D. Hudson, "Fitting
Segmented Curves Whose Join Points Have to Be Estimated", JASA 61, 1966), over the levels or over their
logarithm, whichever fits better. Whether it bends at all is asked first, of every curve without a knee that
is straight on some axes (`_STRAIGHT`): a line over doubling levels bends over their logarithm. The largest of
the studentized changes of slope over all joints stands against the same with the signs of whole blocks drawn
at random (exact for symmetric noise, however levels are correlated), and the largest of the p values counts.
The interval is that of a bootstrap of blocks, which may choose the other axis too.

A level may resemble itself from block to block (a placement that stays, a cache that was filled): blocks are
then no independent draws. The correlation is estimated from all levels together, and values are replaced by
their differences from what it makes of the block before (J. Prais and C. Winsten, "Trend Estimators and
Serial Correlation", Cowles Commission 383, 1954).

Where two lines leave more than noise the curve bends gradually. It then has a knee only where it bends the
same way over the levels and over their logarithm: what lies between a line over the one and over the other
has no place at which it bends.

Between the first two levels (or the last two) any joint fits as well as any other: such a knee is at or below
the second level (at or above the last but one), and its interval goes to the end.

Invariants: the same values give the same answer (seeded); units of levels and values do not matter; without
an order of blocks, neither does theirs.

Not here: which level to choose (``steelyard.experiment``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

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
_JOINTS = 120
_RESAMPLES = 999
_SEED = 20_261_125
_ROUNDING = 1e-9
_STRAIGHT = {
    (False, False): "a straight line",
    (True, False): "a straight line over the logarithm of the levels",
    (True, True): "a power of the levels",
    (False, True): "exponential",
}
"""Curves without a knee, by whether the levels and the values are taken as logarithms."""
_MOST_CORRELATED = 0.95
_CLEAR_ERRORS = 1.64
"""Standard errors from which a correlation is no chance: then one more of them is allowed for."""
_FEWEST_EFFECTIVE = 2.0
"""Independent blocks that say as much as those there are: with fewer, intervals do not hold."""


class Side(StrEnum):
    """On which side of ``Knee.at`` a knee is that no reading encloses."""

    AT_OR_BELOW = "at or below"
    AT_OR_ABOVE = "at or above"


@dataclass(frozen=True, slots=True)
class Knee:
    """The knee of a curve; ``at`` and its interval are None where ``reason`` says why."""

    at: float | None
    """In the unit of the levels, None where ``reason`` says why."""
    low: float | None
    """Lower end of its interval, None without a knee."""
    high: float | None
    """Upper end of it."""
    confidence: float
    """Of this interval."""
    p_value: float | None
    """Chance of as strong a bend where the curve has no knee; None where it could not be asked."""
    is_log: bool
    """Whether the lines are straight over the logarithm of the levels."""
    before: float | None
    """Change of the metric, in proportion to its mean, over the whole range of levels at the slope before."""
    after: float | None
    """The same at the slope after."""
    reason: str | None = None
    """Why there is no knee, None where there is one."""
    side: Side | None = None
    """Where the knee is when it lies between the first two or the last two levels; None inside of them."""
    is_gradual: bool = False
    """Whether two straight lines do not fit: the curve bends gradually, around ``at``."""
    correlation: float | None = None
    """Of a level's value with that of the block before, as it is allowed for; None without an order."""


def knee(
    levels: Sequence[float],
    blocks: Sequence[Sequence[float]],
    *,
    confidence: float = 0.95,
    in_order: bool = True,
) -> Knee:
    """Return the knee of the curve over ``levels``, from whole blocks with one value of each.

    Blocks are in the order of time, unless ``in_order`` is False: then they have none.

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
    if at.size < FEWEST_LEVELS:
        return _none(f"fewer than {FEWEST_LEVELS} levels", confidence)
    if len(values) < FEWEST_BLOCKS:
        return _none(f"fewer than {FEWEST_BLOCKS} whole blocks", confidence)
    logs = np.log(values) - np.log(values).mean(axis=1, keepdims=True)
    shares = np.exp(logs)
    shares /= shares.mean()
    if float(shares.std(axis=0).max()) <= _ROUNDING:
        return _none("the curve is the same in every block: its noise is not known", confidence)
    correlation = _correlation(shares) if in_order else None
    if not in_order:
        # Draws are of places: the same blocks in another order must give the same ones.
        order = np.lexsort(shares.T)
        shares, logs = shares[order], logs[order]
    axes = [False, True] if at[0] > 0 else [False]
    lines = {is_log: _Lines.over(at, is_log=is_log) for is_log in axes}
    random = np.random.default_rng(_SEED)
    independent = _Blocks.of(shares, correlation)
    if independent.count < _FEWEST_EFFECTIVE:
        return _none("blocks resemble the ones before them too much", confidence, correlation=correlation)
    chances = {
        (is_log, of_logs): _chance(
            _Blocks.of((logs if of_logs else shares) @ lines[is_log].bend.T, correlation), random
        )
        for is_log, of_logs in _STRAIGHT
        if is_log in lines
    }
    likeliest = max(chances, key=lambda one: chances[one])
    p_value = chances[likeliest]
    fits = _Fits(at, tuple(lines.values()))
    best = fits.best(independent.mean[None, :])[0]
    is_log, before, after = fits.slopes(best, independent.mean)

    def none(reason: str) -> Knee:
        return _none(reason, confidence, p_value, is_log, (before, after), correlation)

    if p_value > _SIGNIFICANCE:
        return none(f"it may be {_STRAIGHT[likeliest]}: its bend may be chance")
    flat, steep = sorted((abs(before), abs(after)))
    if flat > _FLATTER * steep and before * after > 0:
        return none("it bends only a little: no slope is half of the other")
    is_gradual = _chance(_Blocks.of(fits.rest(best, shares), correlation), random) <= _SIGNIFICANCE
    if is_gradual and len({math.copysign(1, one) for one in fits.bends(independent.mean)}) > 1:
        return none("it bends gradually: two straight lines do not fit it")
    found = fits.levels[fits.best(_resampled(independent, random))]
    tail = (1 - confidence) / 2
    low, high = np.quantile(found, [tail, 1 - tail], method="nearest").tolist()
    low, high = at[0] if low <= at[1] else low, at[-1] if high >= at[-2] else high
    if (low, high) == (at[0], at[-1]):
        return none("it bends, but the readings cannot tell where")
    place = float(fits.levels[best])
    return Knee(
        place,
        float(low),
        float(high),
        confidence,
        p_value,
        is_log,
        before,
        after,
        side=Side.AT_OR_BELOW if place <= at[1] else Side.AT_OR_ABOVE if place >= at[-2] else None,
        is_gradual=is_gradual,
        correlation=correlation,
    )


def spaced_by_factors(levels: Sequence[float]) -> bool:
    """Return whether ascending levels are closer to being spaced by factors than by differences.

    >>> spaced_by_factors([1, 2, 4, 8]), spaced_by_factors([0, 1, 2])
    (True, False)
    """
    at = np.asarray(levels, dtype=np.float64)
    if at.size < 3 or at[0] <= 0:
        return False
    plain, logs = np.diff(at), np.diff(np.log(at))
    return float(logs.std() / logs.mean()) < float(plain.std() / plain.mean())


def _none(
    reason: str,
    confidence: float,
    p_value: float | None = None,
    is_log: bool = False,
    slopes: tuple[float | None, float | None] = (None, None),
    correlation: float | None = None,
) -> Knee:
    return Knee(None, None, None, confidence, p_value, is_log, *slopes, reason, correlation=correlation)


@dataclass(frozen=True, slots=True)
class _Lines:
    """Two lines that meet, for each joint: what of the values is left, and their slopes."""

    is_log: bool
    joints: Floats
    """In the unit of the levels, from the second to the last but one, as many between each two of them."""
    basis: Floats
    """Joint, level, 3: an orthonormal basis of the curves that the two lines can be."""
    before: Floats
    bend: Floats
    after: Floats

    @staticmethod
    def over(levels: Floats, *, is_log: bool) -> _Lines:
        axis = np.log(levels) if is_log else levels
        inner = axis[1:-1]
        steps = math.ceil(_JOINTS / (inner.size - 1))
        joints = np.interp(np.arange((inner.size - 1) * steps + 1) / steps, np.arange(inner.size), inner)
        scale = axis[-1] - axis[0]
        place, knots = (axis - axis[0]) / scale, (joints - axis[0]) / scale
        designs = np.stack(
            [np.column_stack([np.ones_like(place), place, np.maximum(place - one, 0)]) for one in knots]
        )
        inverses = np.linalg.pinv(designs)
        before, bend = inverses[:, 1, :], inverses[:, 2, :]
        own = np.exp(joints) if is_log else joints
        # Logarithms there and back must not move the outer joints off their levels.
        own[[0, -1]] = levels[[1, -2]]
        return _Lines(is_log, own, np.linalg.qr(designs)[0], before, bend, before + bend)


class _Fits:
    """The two-line curves over all axes, one after another."""

    def __init__(self, at: Floats, lines: Sequence[_Lines]) -> None:
        self._lines = lines
        self._basis = np.concatenate([one.basis for one in lines])
        self.levels = np.concatenate([one.joints for one in lines])

    def best(self, means: Floats) -> npt.NDArray[np.int64]:
        """Return the curve that leaves the smallest sum of squares, of each row of means."""
        return np.asarray(_explained(self._basis, means).argmax(axis=0))

    def slopes(self, best: int, mean: Floats) -> tuple[bool, float, float]:
        """Return whether a curve is over the logarithm, and its slopes."""
        size = self._lines[0].joints.size
        one, place = self._lines[best // size], best % size
        return one.is_log, float(one.before[place] @ mean), float(one.after[place] @ mean)

    def bends(self, mean: Floats) -> list[float]:
        """Return the change of slope of the best curve over each axis."""
        places = [_explained(one.basis, mean[None, :]).argmax(axis=0)[0] for one in self._lines]
        return [float(one.bend[place] @ mean) for one, place in zip(self._lines, places, strict=True)]

    def rest(self, best: int, shares: Floats) -> Floats:
        """Return what a curve leaves of each block."""
        basis = self._basis[best]
        left = shares - (shares @ basis) @ basis.T
        # Levels at which it leaves next to nothing of any block say nothing, and would be divided by it.
        kept = left.std(axis=0) > 1e-3 * shares.std(axis=0).max()
        return np.asarray(left[:, kept])


def _explained(basis: Floats, means: Floats) -> Floats:
    """Return the sum of squares that each curve explains of each row of means: curve, row."""
    # In proportion to the spread, not to the level: else rounding decides between joints.
    centred = means - means.mean(axis=1, keepdims=True)
    return np.asarray(((centred @ basis) ** 2).sum(axis=2))


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Blocks of which each is independent of the one before, and what each has of the mean."""

    rows: Floats
    weights: Floats

    @staticmethod
    def of(rows: Floats, correlation: float | None) -> _Blocks:
        rho = correlation or 0.0
        first = math.sqrt(1 - rho**2)
        weights = np.full(len(rows), 1 - rho)
        weights[0] = first
        return _Blocks(np.concatenate([first * rows[:1], rows[1:] - rho * rows[:-1]]), weights)

    @property
    def count(self) -> float:
        """How many blocks without a correlation have a mean as certain."""
        return 1 + float((self.weights[1:] ** 2).sum()) / float(self.weights[0] ** 2)

    @property
    def mean(self) -> Floats:
        """The mean of each column that fits best."""
        return np.asarray(self.weights @ self.rows / (self.weights @ self.weights))


def _correlation(shares: Floats) -> float:
    """Return how far a level's values resemble those of the block before, of all levels together."""
    count = len(shares)
    spread = shares.std(axis=0)
    kept = spread > _ROUNDING
    left = (shares[:, kept] - shares[:, kept].mean(axis=0)) / spread[kept]
    seen = float((left[1:] * left[:-1]).sum() / (left**2).sum())
    # The sample's is too small by about (1 + 3 r) / n (Marriott and Pope 1954).
    shrinkage = max(1 - 3 / count, 0.25)
    error = math.sqrt(max(1 - seen**2, 0.0) / (count * max(left.shape[1] - 1, 1))) / shrinkage
    found = (seen + 1 / count) / shrinkage
    found += error if found > _CLEAR_ERRORS * error else 0.0
    return min(max(found, 0.0), _MOST_CORRELATED)


def _chance(blocks: _Blocks, random: np.random.Generator) -> float:
    """Return the chance of as large a studentized mean of any column where all means are 0."""
    count = len(blocks.rows)
    if blocks.rows.shape[1] == 0:
        return 1.0
    signs = random.choice([-1.0, 1.0], (_RESAMPLES, count))
    squares = (blocks.rows**2).sum(axis=0)
    total = blocks.weights @ blocks.weights

    def strongest(sums: Floats) -> Floats:
        explained = sums**2 / total
        left = np.maximum(squares - explained, count * _ROUNDING**2) / (count - 1)
        return np.asarray((explained / left).max(axis=1))

    observed = float(strongest((blocks.weights @ blocks.rows)[None, :])[0])
    resampled = strongest((signs * blocks.weights) @ blocks.rows)
    return (1 + int((resampled >= observed * (1 - _ROUNDING)).sum())) / (1 + _RESAMPLES)


def _resampled(blocks: _Blocks, random: np.random.Generator) -> Floats:
    """Return means of resampled blocks."""
    count, mean = len(blocks.rows), blocks.mean
    left = blocks.rows - blocks.weights[:, None] * mean
    # Drawn as counts: one product in place of a copy of every block that is deviations.
    places = random.integers(0, count, (_RESAMPLES, count))
    deviations = np.stack([blocks.weights @ left[one] for one in places]) / (blocks.weights @ blocks.weights)
    # The spread of resampled means is too small, and its tails are a normal distribution's.
    tails = student_quantile(0.975, count - 1) / student_quantile(0.975, math.inf)
    return np.asarray(mean + deviations * math.sqrt(count / (count - 1)) * tails)
