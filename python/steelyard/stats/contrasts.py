"""By how much one arm of an experiment differs from another, from values taken in blocks.

In: the values of two arms, one of each in a block, and in which order they were made. Out: `Contrast`: the
ratio of the second to the first (the geometric mean over the blocks), with an interval.

Method. A block holds one value of each arm, so that whatever changes from block to block (drift, time of
day, neighbours) leaves the ratio within a block alone. The interval is of the mean of the logarithms of these
ratios, after two effects of the order are taken out:

- *Position.* Who is tried later in a block may be slower or faster (a disk that fills, a first run that warms
  caches). Its effect is fitted to the places of both arms, which a pair of blocks swaps.
- *Carry-over.* Who follows the second arm may be slower or faster than who follows the first one. Its effect
  is fitted to all trials of pairs of blocks, with a level and a drift of each pair (B. Jones and M. Kenward,
  "Design and Analysis of Cross-Over Trials", 2003). Without it, an arm that leaves the machine worse off
  would win.

The replicates are the blocks, or pairs of blocks where both of a pair are alike: what comes and goes within
four trials counts once then. The interval is Student's; at a last look it is joined with a bootstrap of
whole replicates (studentized; B. Efron and R. Tibshirani, "An Introduction to the Bootstrap", 1993, 12.5):
a few large values of one arm make either of them too short at one end. Where replicates resemble the ones
before them (``serial``), it is widened to what as many independent ones say.

Where a value is the mean of intervals of its trial, there are two levels, and the bootstrap draws from both:
replicates, then intervals within their trials, in stretches that keep the likeness of neighbours (D. Politis
and J. Romano, "A Circular Block-Resampling Procedure for Stationary Data", 1992).

Not here: when an experiment is looked at (``sequential``), who goes first in a block, and what the answer is
called (``steelyard.experiment``).
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
import numpy.typing as npt

from steelyard.stats.sequential import last_confidence, student_quantile
from steelyard.stats.serial import serial

Intervals = Sequence[Sequence[float]]
"""Of each block's trial, in the order of time."""
Floats = npt.NDArray[np.float64]

FEWEST_BLOCKS = 4
"""Before, a deviation is too uncertain for any interval."""
_FEWEST_EFFECTIVE = 4.0
"""Blocks that resemble the ones before them are worth no fewer independent ones, unless they do so beyond
chance."""
_NO_CHANCE = 0.01
"""A p value up to this is beyond chance: there is no interval then."""
_PAIRED_BLOCKS = 10
"""Before, it cannot be seen whether the blocks of a pair are alike."""
_ALIKE = 1.28
"""Standard errors of the correlation within pairs from which they are taken for alike: independent blocks are
in one of ten experiments, which costs little, and alike ones are seldom overlooked."""
_CARRY_BLOCKS = 8
"""Before, a carry-over is too uncertain to be taken out."""
_POOL = 199
"""Means of a trial that are drawn from its intervals."""
_BOOTSTRAP_REPLICATES = 10
"""Before, studentized bootstraps of normal values are twice as wide as Student's interval, or more."""
_ALLOWANCE = 1.08
"""By how much the variance must be smaller because the interval at the end is joined of two, and because
independent blocks are taken for correlated ones by chance (docs/truth.md)."""
_RESAMPLES = 999
_SEED = 20_261_124
_WIDEST = math.log(1e6)
"""A wider interval says nothing, and its ends may leave the range of numbers."""
_RELATIVE_ROUNDING = 1e-9
"""Deviations of log-ratios below this are what rounding leaves of a ratio that is always the same."""
_SINGULAR = 1e8
"""Condition of effects that cannot be separated."""
CONSTANT_BLOCKS = 8
"""Blocks of one and the same ratio that show it to be no chance: with 95 %, fewer than a third of all blocks
differ (0.69 to the power of 8)."""


@dataclass(frozen=True, slots=True)
class Order:
    """In which order the trials of the blocks were made."""

    lags: Sequence[int]
    """Of each block, how many trials after the first arm's the second arm's was made; negative: before."""
    before: Sequence[int | None] | None = None
    """Of each block, the arm of the trial just before it: 0 the first, 1 the second, None where there was
    none. None as a whole where there are other arms, or trials run at the same time."""


@dataclass(frozen=True, slots=True)
class Effect:
    """An effect of the order, as a ratio with an interval of 99 %: 1 is none."""

    ratio: float
    """1 is none."""
    low: float
    """Lower end of its interval."""
    high: float
    """Upper end of it."""

    is_taken_out: bool = True
    """Whether the answer is without it: one within its error is left where it is."""

    @property
    def is_there(self) -> bool:
        """Whether the interval excludes none."""
        return not self.low <= 1 <= self.high


@dataclass(frozen=True, slots=True)
class Contrast:
    """One arm beside another."""

    ratio: float
    """Geometric mean over the blocks of the second arm's value over the first's, without effects of the
    order."""
    low: float | None
    """Ends of the interval; None where ``reason`` says why."""
    high: float | None
    confidence: float
    blocks: int
    effective_blocks: float
    """Independent blocks that say as much."""
    correlation: float | None
    """Of a block's log-ratio with the one before; None below three blocks, and where they have no order."""
    correlation_p_value: float | None
    deviation: float | None
    """Standard deviation of the log-ratio of one block."""
    reason: str | None = None
    caution: str | None = None
    """What the interval leaves out; None where that is nothing."""
    position: Effect | None = None
    """Of a trial that was made one later within its block; None where the order is not known."""
    carry_over: Effect | None = None
    """Of a trial before it of the second arm rather than of the first one; None where that is not known."""


def contrast(
    first: Sequence[float],
    second: Sequence[float],
    *,
    confidence: float = 0.95,
    order: Order | None = None,
    in_order: bool = True,
    is_last: bool = True,
    within: tuple[Intervals, Intervals] | None = None,
) -> Contrast:
    """Return how ``second`` compares with ``first``, value by value of the same blocks.

    ``order`` is the order of the trials, where it is known. Without ``in_order`` blocks have no order in
    time: the same blocks in another order give the same answer, and none resembles the one before.
    ``is_last`` is for a single look or the last one, whose interval is joined with a bootstrap. ``within``
    are the intervals that the values of either arm are means of, block by block.

    >>> same = contrast([100.0, 101.0, 99.0, 100.0], [102.0, 101.0, 101.0, 101.0])
    >>> round(same.ratio, 3), round(same.low, 3), round(same.high, 3)
    (1.013, 0.997, 1.028)

    Raises ValueError for values that are not positive and finite, or arms of different length.
    """
    logs = _log_ratios(first, second)
    if not in_order:
        places = np.argsort(logs, kind="stable")
        logs = logs[places]
        first, second = ([values[at] for at in places] for values in (first, second))
        within = within and ([within[0][at] for at in places], [within[1][at] for at in places])
    count = logs.size
    if count < FEWEST_BLOCKS:
        return _unknown(logs, confidence, f"fewer than {FEWEST_BLOCKS} blocks")
    if float(logs.std(ddof=1)) <= _RELATIVE_ROUNDING:
        return _constant(logs, [*first, *second], confidence)
    pools = None if within is None else _pools(*within)
    adjusted = _adjusted(logs, np.log(np.asarray(first, dtype=np.float64)), order, in_order=in_order)
    seen = adjusted.replicates
    if float(seen.std(ddof=1)) <= _RELATIVE_ROUNDING:
        return _constant(np.full(count, seen.mean()), [*first, *second], confidence)
    likeness = serial(seen.tolist()) if in_order and seen.size >= 3 else None
    effective = float(seen.size)
    if likeness is not None:
        # Chance makes a few blocks look alike now and then: then a much wider interval, rather than none.
        is_chance = likeness.p_value > _NO_CHANCE
        effective = max(likeness.effective_count, min(effective, _FEWEST_EFFECTIVE) if is_chance else 0.0)
    size = count / seen.size
    found = Contrast(
        ratio=math.exp(float(seen.mean())),
        low=None,
        high=None,
        confidence=confidence,
        blocks=count,
        effective_blocks=effective * size,
        correlation=likeness.correlation if likeness is not None else None,
        correlation_p_value=likeness.p_value if likeness is not None else None,
        deviation=float(seen.std(ddof=1)) * math.sqrt(size),
        position=adjusted.position,
        carry_over=adjusted.carry_over,
    )
    if effective < min(_FEWEST_EFFECTIVE, seen.size):
        return replace(found, reason="blocks resemble the ones before them too much")
    degrees = max(effective - 1 - adjusted.fitted, 1.0)
    if pools is not None:
        pools = pools + adjusted.shifts[:, None]
        pools = _paired(pools) if seen.size < count else pools
    widening = adjusted.widening * math.sqrt(seen.size / effective)
    low, high = _interval(seen, widening, degrees, confidence, pools, is_last=is_last)
    if high - low > _WIDEST:
        return replace(found, reason="the interval is wider than a factor of a million")
    return replace(found, low=math.exp(low), high=math.exp(high))


def _unknown(logs: Floats, confidence: float, reason: str) -> Contrast:
    return Contrast(
        ratio=math.exp(float(logs.mean())),
        low=None,
        high=None,
        confidence=confidence,
        blocks=logs.size,
        effective_blocks=float(logs.size),
        correlation=None,
        correlation_p_value=None,
        deviation=float(logs.std(ddof=1)) if logs.size > 1 else None,
        reason=reason,
    )


def _constant(logs: Floats, values: Sequence[float], confidence: float) -> Contrast:
    """Return the answer where every block has the same ratio.

    Counts of instructions or bytes are so: what is not known of them is what the last digit hides.
    """
    count = logs.size
    if count < CONSTANT_BLOCKS:
        why = f"the ratio is the same in all {count} blocks: its noise is not known"
        return _unknown(logs, confidence, f"{why} below {CONSTANT_BLOCKS} of them")
    found, hidden = _unknown(logs, confidence, ""), _hidden_by_rounding(values)
    caution = (
        f"the same in all {count} blocks: what happens in fewer than 1 of {count / 3:.0f} may not have"
        " been seen, and the interval is what rounding hides"
    )
    ends = (found.ratio * math.exp(-hidden), found.ratio * math.exp(hidden))
    return replace(found, low=ends[0], high=ends[1], reason=None, caution=caution)


@dataclass(frozen=True, slots=True)
class _Adjusted:
    """Log-ratios without the effects of the order."""

    replicates: Floats
    """Of blocks, or of pairs of blocks."""
    shifts: Floats
    """What was added to the log-ratio of each block."""
    fitted: int
    """Effects that cost a degree of freedom."""
    widening: float
    """Of the mean's error, for what is not known of the effects."""
    position: Effect | None = None
    carry_over: Effect | None = None


def _adjusted(logs: Floats, base: Floats, order: Order | None, *, in_order: bool) -> _Adjusted:
    count = logs.size
    if order is None:
        is_paired = in_order and _are_alike(logs)
        return _Adjusted(_paired(logs) if is_paired else logs, np.zeros(count), 0, 1.0)
    carry, carried = _carry_over(logs, base, order) if count >= _CARRY_BLOCKS else (None, np.zeros(count))
    if carry is None or abs(carry.log) < carry.error:
        # One that is within its error shifts the mean by less than a quarter of it; taking it out adds noise.
        carried = np.zeros(count)
    raw, logs = logs, logs if carry is None else logs - carry.log * carried
    lags = np.asarray(order.lags, dtype=np.float64)
    position, squares = None, float(((lags - lags.mean()) ** 2).sum())
    if squares > 0:
        slope = float((lags - lags.mean()) @ logs) / squares
        logs = logs - slope * lags
        error = math.sqrt(float(((logs - logs.mean()) ** 2).sum()) / (count - 2) / squares)
        position = _Slope(slope, error, count - 2)
    is_paired = in_order and _are_alike(logs)
    # Of the mean's variance, beside that of the blocks: what the two effects add where they are not balanced.
    variance = float(logs.var(ddof=1 if position is None else 2)) / count
    added = 0.0 if position is None else (lags.mean() * position.error) ** 2
    added += 0.0 if carry is None else (carried.mean() * carry.error) ** 2
    return _Adjusted(
        _paired(logs) if is_paired else logs,
        logs - raw,
        0 if is_paired or position is None else 1,
        math.sqrt(1 + (added / variance if variance > 0 else 0.0))
        * (1.0 if is_paired or position is None else _lost_degree(count)),
        None if position is None else position.effect(),
        None if carry is None else carry.effect(is_taken_out=bool(carried.any())),
    )


def _lost_degree(count: int) -> float:
    """Return what makes the usual deviation of ``count`` values that of residuals with one effect fitted."""
    return math.sqrt((count - 1) / (count - 2))


@dataclass(frozen=True, slots=True)
class _Slope:
    """A fitted effect on a logarithm."""

    log: float
    error: float
    degrees: int

    def effect(self, *, is_taken_out: bool = True) -> Effect:
        radius = student_quantile(0.995, self.degrees) * self.error
        ratio, low, high = (
            math.exp(min(max(self.log + by, -_WIDEST), _WIDEST)) for by in (0.0, -radius, radius)
        )
        return Effect(ratio, low, high, is_taken_out)


def _carry_over(logs: Floats, base: Floats, order: Order) -> tuple[_Slope | None, Floats]:
    """Return the effect of following the second arm, and how many times each block's log-ratio has it.

    Of the trials of pairs of blocks, with a level and a drift of each pair, and the effect of the arm.
    """
    count = logs.size
    nothing = np.zeros(count)
    if order.before is None:
        return None, nothing
    is_swapped = np.asarray(order.lags) < 0
    follows = np.array([arm == 1 for arm in order.before])
    # Who follows the second arm: the first trial of a block by what was before it, the other by the first.
    of_first = np.where(is_swapped, True, follows).astype(np.float64)
    of_second = np.where(is_swapped, follows, False).astype(np.float64)
    carried = of_second - of_first
    whole = count - count % 2
    # Trials in the order of time, four to a pair of blocks.
    values = np.where(is_swapped, base + logs, base), np.where(is_swapped, base, base + logs)
    arms = is_swapped.astype(np.float64), (~is_swapped).astype(np.float64)
    after = np.where(is_swapped, of_second, of_first), np.where(is_swapped, of_first, of_second)
    trials = [np.stack(each, axis=1)[:whole].reshape(-1, 4) for each in (values, arms, after)]
    trials.append(np.broadcast_to(np.arange(4.0), trials[0].shape))
    level, *effects = (each - each.mean(axis=1, keepdims=True) for each in trials)
    design = np.stack([each.ravel() for each in effects], axis=1)
    squares = design.T @ design
    degrees = level.size - level.shape[0] - design.shape[1]
    if degrees < 1 or np.linalg.cond(squares) > _SINGULAR:
        return None, nothing
    fitted = np.linalg.solve(squares, design.T @ level.ravel())
    rest = level.ravel() - design @ fitted
    error = math.sqrt(float(rest @ rest) / degrees * float(np.linalg.inv(squares)[1, 1]))
    return _Slope(float(fitted[1]), error, degrees), carried


def _are_alike(logs: Floats) -> bool:
    """Return whether the blocks of a pair resemble each other, where blocks else do not those before."""
    pairs = logs.size // 2
    if logs.size < _PAIRED_BLOCKS or serial(logs.tolist()).effective_count < logs.size:
        return False
    left = logs[: 2 * pairs].reshape(pairs, 2) - logs.mean()
    correlation = float((left[:, 0] * left[:, 1]).sum()) / max(float((left**2).sum()) / 2, 1e-300)
    return correlation * math.sqrt(pairs) > _ALIKE


def _paired(values: Floats) -> Floats:
    """Return the means of pairs of neighbours, along the first axis; the last one of three, if need be."""
    pairs = values.shape[0] // 2
    ends = [*range(2, 2 * pairs, 2)]
    return np.asarray([part.mean(axis=0) for part in np.split(values, ends)])


def _hidden_by_rounding(values: Sequence[float]) -> float:
    """Return how far rounding to the last digit that is written can move a ratio of two of ``values``, as a
    difference of logarithms; whole numbers are exact to a half.

    >>> round(_hidden_by_rounding([303.0, 310.0]), 5), round(_hidden_by_rounding([0.3, 0.4]), 3)
    (0.0033, 0.308)
    """
    exponents = (Decimal(repr(float(value))).normalize().as_tuple().exponent for value in values)
    unit = 10.0 ** min(0, *(exponent for exponent in exponents if isinstance(exponent, int)))
    return 2 * math.log1p(unit / 2 / min(values))


def _pools(first: Intervals, second: Intervals) -> Floats:
    """Return, for each block, log-ratios of means that are drawn from the intervals of its two trials."""
    random = np.random.default_rng(_SEED)
    pools = [
        np.log(_means(theirs, random)) - np.log(_means(ours, random))
        for ours, theirs in zip(first, second, strict=True)
    ]
    return np.asarray(pools)


def _means(intervals: Sequence[float], random: np.random.Generator) -> Floats:
    """Return means of stretches of intervals, drawn as often as fill a trial; the end joins the beginning."""
    values = np.asarray(intervals, dtype=np.float64)
    length = math.ceil(values.size ** (1 / 3))
    starts = random.integers(0, values.size, (_POOL, math.ceil(values.size / length)))
    places = (starts[:, :, None] + np.arange(length)).reshape(_POOL, -1)[:, : values.size] % values.size
    return np.asarray(values[places].mean(axis=1))


def _log_ratios(first: Sequence[float], second: Sequence[float]) -> Floats:
    ours, theirs = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if ours.shape != theirs.shape or ours.ndim != 1 or ours.size == 0:
        raise ValueError("needs as many values of one arm as of the other, and at least one")
    if not (np.isfinite(ours) & np.isfinite(theirs) & (ours > 0) & (theirs > 0)).all():
        raise ValueError("values must be positive and finite")
    return np.asarray(np.log(theirs) - np.log(ours))


def _interval(
    seen: Floats, widening: float, degrees: float, confidence: float, pools: Floats | None, *, is_last: bool
) -> tuple[float, float]:
    """Return the ends of the interval of the mean of the logarithms.

    ``pools`` are what replicates may have had by their own intervals.
    """
    count = seen.size
    mean = float(seen.mean())
    error = widening * float(seen.std(ddof=1)) / math.sqrt(count)
    below = above = student_quantile((1 + confidence) / 2, degrees)
    if is_last and count >= _BOOTSTRAP_REPLICATES:
        random = np.random.default_rng(_SEED)
        places = random.integers(0, count, (_RESAMPLES, count))
        resamples = seen[places]
        if pools is not None:
            resamples = pools[places, random.integers(0, _POOL, places.shape)]
        errors = resamples.std(axis=1, ddof=1) / math.sqrt(count)
        varied = errors > 0
        centre = mean if pools is None else float(pools.mean())
        quotients = (resamples.mean(axis=1)[varied] - centre) / errors[varied]
        tail = (1 - confidence) / 2
        lowest, highest = np.quantile(quotients, [tail, 1 - tail]).tolist()
        below, above = max(below, highest), max(above, -lowest)
    return mean - below * error, mean + above * error


def blocks_needed(
    deviation: float,
    least_effect: float,
    *,
    confidence: float = 0.95,
    power: float = 0.8,
    has_looks: bool = False,
    degrees: float = math.inf,
) -> int:
    """Return in how many blocks an effect of that size is found with probability ``power``.

    ``deviation`` is that of the log-ratio of one block, known with ``degrees`` of freedom. An experiment that
    ``has_looks`` at less than all blocks needs a few more of them; how much earlier it may end is left out.

    >>> blocks_needed(0.02 * 2**0.5, 0.01), blocks_needed(0.02 * 2**0.5, 0.01, has_looks=True)
    (70, 84)

    Raises ValueError for arguments outside their range.
    """
    if deviation <= 0 or least_effect <= 0 or not 0 < confidence < 1 or not 0.5 <= power < 1:
        raise ValueError("needs a positive deviation and effect, and a confidence and power between 0 and 1")
    behind = student_quantile(power, degrees)

    def fewest(at_last: float) -> int:
        def suffices(count: int) -> bool:
            reach = student_quantile((1 + at_last) / 2, count - 2) + behind
            return reach * deviation * math.sqrt(_ALLOWANCE / count) <= least_effect

        most = FEWEST_BLOCKS
        while not suffices(most):
            most *= 2
        return bisect.bisect_left(range(most + 1), True, lo=max(FEWEST_BLOCKS, most // 2), key=suffices)

    count = fewest(confidence)
    if not has_looks:
        return count
    # What the looks before take of the chance to err hardly depends on how many blocks there are.
    about = 2 ** round(math.log2(count))
    return fewest(last_confidence(about, about, confidence))


def chance_found(
    deviation: float, effect: float, blocks: int, *, confidence: float = 0.95, has_looks: bool = False
) -> float:
    """Return the chance that so many blocks find an effect of that size (its logarithm).

    ``deviation`` is that of the log-ratio of one block; the power of Student's t, by the noncentral t.

    >>> round(chance_found(0.02 * 2**0.5, 0.01, 70), 2), round(chance_found(0.02 * 2**0.5, 0.02, 40), 2)
    (0.8, 0.99)

    Raises ValueError for arguments outside their range.
    """
    if deviation <= 0 or effect <= 0 or blocks < FEWEST_BLOCKS or not 0 < confidence < 1:
        raise ValueError("needs a positive deviation and effect, enough blocks, and a confidence below 1")
    # Loaded when it is needed: it takes longer than a command's help.
    from scipy.special import nctdtr

    last = last_confidence(blocks, blocks, confidence) if has_looks else confidence
    away = effect / (deviation * math.sqrt(_ALLOWANCE / blocks))
    return float(1.0 - nctdtr(blocks - 2, away, student_quantile((1 + last) / 2, blocks - 2)))
