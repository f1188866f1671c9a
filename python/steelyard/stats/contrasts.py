"""By how much one arm of an experiment differs from another, from values taken in blocks.

In: the values of two arms, one of each in a block, in the order of time. Out: `Contrast`: the ratio of the
second to the first (the geometric mean over the blocks), an interval for who looks once, at the end, and one
for who looks whenever he likes.

Method. A block holds one value of each arm, so that whatever changes from block to block (drift, time of
day, neighbours) leaves the ratio within a block alone; blocks are the replicates. Both intervals are of the
mean of the logarithms of these ratios. The interval at the end is Student's, joined with a bootstrap of whole
blocks (studentized; B. Efron and R. Tibshirani, "An Introduction to the Bootstrap", 1993, 12.5): a few
large values of one arm make either of them too short at one end. The other is ``sequential.aimed_radius``.
Where blocks resemble the ones before them (``serial``), both are widened to what as many independent blocks
say. Few blocks cannot show whether they do: the interval for every look, which would stop at the moment at
which they agree by chance, is wide enough below `FEW_BLOCKS` for the correlation that they may have.

Where a value is the mean of intervals of its trial, there are two levels, and the bootstrap draws from both:
blocks, then intervals within their trials, in stretches that keep the likeness of neighbours (D. Politis and
J. Romano, "A Circular Block-Resampling Procedure for Stationary Data", 1992).

Invariants: values are positive; of several contrasts each is stated at a confidence at which all hold
together (Bonferroni).

Not here: who goes first in a block, and what the answer is called (``steelyard.experiment``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import numpy.typing as npt

from steelyard.stats.power import variance_needed
from steelyard.stats.sequential import aimed_radius, student_quantile
from steelyard.stats.serial import Serial, serial

Intervals = Sequence[Sequence[float]]
"""Of each block's trial, in the order of time."""
Floats = npt.NDArray[np.float64]

FEWEST_BLOCKS = 4
"""Before, a deviation is too uncertain for any interval."""
FEW_BLOCKS = 32
"""Before, a correlation of 0.5 is overlooked more than once in ten times."""
_ALLOWED_ERRORS = 0.5
"""Standard errors beyond the correlation that is seen, which few blocks are allowed for: fewer let more
experiments stop by chance, more cost blocks where nothing is correlated (docs/journal/0199)."""
_POOL = 199
"""Means of a trial that are drawn from its intervals."""
_BOOTSTRAP_BLOCKS = 10
"""Before, studentized bootstraps of normal values are twice as wide as Student's interval, or more."""
_ALLOWANCE = 1.08
"""By how much the variance must be smaller because the interval at the end is joined of two, and because
independent blocks are taken for correlated ones by chance (docs/truth.md)."""
_RESAMPLES = 999
_SEED = 20_261_124
_WIDEST = math.log(100)
"""A wider interval says nothing, and its ends may leave the range of numbers."""
_RELATIVE_ROUNDING = 1e-9
"""Deviations of log-ratios below this are what rounding leaves of a ratio that is always the same."""
CONSTANT_BLOCKS = 8
"""Blocks of one and the same ratio that show it to be no chance: with 95 %, fewer than a third of all blocks
differ (0.69 to the power of 8)."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """One arm beside another. Intervals are None where ``reason`` says why."""

    ratio: float
    """Geometric mean over the blocks of the second arm's value over the first's."""
    low: float | None
    """Ends of the interval that holds for one look at the end."""
    high: float | None
    always_low: float | None
    """Ends of the interval that holds at every look."""
    always_high: float | None
    confidence: float
    """Of each interval: that of all contrasts together is what was asked for."""
    blocks: int
    effective_blocks: float
    """Independent blocks that say as much."""
    correlation: float | None
    """Of a block's log-ratio with the one before; None below three blocks."""
    correlation_p_value: float | None
    deviation: float | None
    """Standard deviation of the log-ratio of one block."""
    reason: str | None = None
    caution: str | None = None
    """What the intervals leave out; None where that is nothing."""


def contrast(
    first: Sequence[float],
    second: Sequence[float],
    *,
    least_effect: float,
    confidence: float = 0.95,
    comparisons: int = 1,
    at_end: bool = True,
    within: tuple[Intervals, Intervals] | None = None,
) -> Contrast:
    """Return how ``second`` compares with ``first``, value by value of the same blocks.

    ``least_effect`` is the smallest effect that matters, as a difference of logarithms (0.01: about 1 %); it
    must be fixed before the values are seen. ``comparisons`` is how many contrasts are stated together.
    Without ``at_end`` the interval for one look is left out, which takes most of the time. ``within`` are the
    intervals that the values of either arm are means of, block by block.

    >>> same = contrast([100.0, 101.0, 99.0, 100.0], [102.0, 101.0, 101.0, 101.0], least_effect=0.01)
    >>> round(same.ratio, 3), round(same.low, 3), round(same.high, 3)
    (1.013, 0.997, 1.028)

    Raises ValueError for values that are not positive and finite, or arms of different length.
    """
    logs = _log_ratios(first, second)
    count = logs.size
    each = 1 - (1 - confidence) / comparisons
    ratio = math.exp(float(logs.mean()))
    likeness = serial(logs.tolist()) if count >= 3 else None
    effective = likeness.effective_count if likeness is not None else float(count)
    deviation = float(logs.std(ddof=1)) if count > 1 else None

    def answer(
        ends: tuple[float | None, float | None],
        always: float | None,
        reason: str | None = None,
        caution: str | None = None,
    ) -> Contrast:
        return Contrast(
            ratio=ratio,
            low=ends[0],
            high=ends[1],
            always_low=None if always is None else ratio * math.exp(-always),
            always_high=None if always is None else ratio * math.exp(always),
            confidence=each,
            blocks=count,
            effective_blocks=effective,
            correlation=likeness.correlation if likeness is not None else None,
            correlation_p_value=likeness.p_value if likeness is not None else None,
            deviation=deviation,
            reason=reason,
            caution=caution,
        )

    if deviation is None or count < FEWEST_BLOCKS:
        return answer((None, None), None, f"fewer than {FEWEST_BLOCKS} blocks")
    if deviation <= _RELATIVE_ROUNDING:
        if count < CONSTANT_BLOCKS:
            why = f"the ratio is the same in all {count} blocks: its noise is not known"
            return answer((None, None), None, f"{why} below {CONSTANT_BLOCKS} of them")
        # Counts of instructions or bytes are so: what is not known of them is what the last digit hides.
        hidden = _hidden_by_rounding([*first, *second])
        ends = (ratio * math.exp(-hidden), ratio * math.exp(hidden))
        caution = (
            f"the same in all {count} blocks: what happens in fewer than 1 of {count / 3:.0f} may not have"
            " been seen, and the interval is what rounding hides"
        )
        return answer(ends if at_end else (None, None), hidden, caution=caution)
    if effective < FEWEST_BLOCKS:
        return answer((None, None), None, "blocks resemble the ones before them too much")
    variance = deviation**2 / effective
    degrees = effective - 1
    seen, freedom = (variance, degrees) if likeness is None else _allowed(deviation, likeness, count)
    radius = aimed_radius(seen, least_effect=least_effect, degrees=freedom, confidence=each)
    always = radius if radius < _WIDEST else None
    too_wide = "the interval is wider than a factor of 100"
    if not at_end:
        return answer((None, None), always, None if always is not None else too_wide)
    pools = None if within is None else _pools(*within)
    low, high = _interval(logs, math.sqrt(count / effective), degrees, each, pools)
    if high - low > _WIDEST:
        return answer((None, None), None, too_wide)
    return answer((math.exp(low), math.exp(high)), always, None if always is not None else too_wide)


def _hidden_by_rounding(values: Sequence[float]) -> float:
    """Return how far rounding to the last digit that is written can move a ratio of two of ``values``, as a
    difference of logarithms; whole numbers are exact to a half.

    >>> round(_hidden_by_rounding([303.0, 310.0]), 5), round(_hidden_by_rounding([0.3, 0.4]), 3)
    (0.0033, 0.308)
    """
    exponents = (Decimal(repr(float(value))).normalize().as_tuple().exponent for value in values)
    unit = 10.0 ** min(0, *(exponent for exponent in exponents if isinstance(exponent, int)))
    return 2 * math.log1p(unit / 2 / min(values))


def _allowed(deviation: float, likeness: Serial, count: int) -> tuple[float, float]:
    """Return the variance of the mean and its degrees of freedom, for whoever stops when it pleases him."""
    if likeness.effective_count < count or count >= FEW_BLOCKS:
        return deviation**2 / likeness.effective_count, likeness.effective_count - 1
    seen = likeness.correlation
    correlation = min(seen + _ALLOWED_ERRORS * math.sqrt((1 - seen**2) / count), 0.95)
    effective = _effective(correlation, count)
    # Of correlated values the deviation is too small.
    unbiased = (count - 1) / (count * (1 - 1 / effective))
    return unbiased * deviation**2 / effective, count - 1


def _effective(correlation: float, count: int) -> float:
    """Return how many independent values have a mean of the same variance, where likeness fades as r^j."""
    return count / (1 + 2 * sum((1 - j / count) * correlation**j for j in range(1, count)))


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
    logs: Floats, widening: float, degrees: float, confidence: float, pools: Floats | None
) -> tuple[float, float]:
    """Return the ends of the interval for one look, of the mean of the logarithms.

    ``pools`` are what blocks may have had by their own intervals.
    """
    count = logs.size
    mean = float(logs.mean())
    error = widening * float(logs.std(ddof=1)) / math.sqrt(count)
    below = above = student_quantile((1 + confidence) / 2, degrees)
    if count >= _BOOTSTRAP_BLOCKS:
        random = np.random.default_rng(_SEED)
        blocks = random.integers(0, count, (_RESAMPLES, count))
        drawn = logs[blocks] if pools is None else pools[blocks, random.integers(0, _POOL, blocks.shape)]
        errors = drawn.std(axis=1, ddof=1) / math.sqrt(count)
        varied = errors > 0
        quotients = (drawn.mean(axis=1)[varied] - mean) / errors[varied]
        tail = (1 - confidence) / 2
        lowest, highest = np.quantile(quotients, [tail, 1 - tail]).tolist()
        below, above = max(below, highest), max(above, -lowest)
    return mean - below * error, mean + above * error


def blocks_needed(
    deviation: float,
    least_effect: float,
    *,
    confidence: float = 0.95,
    comparisons: int = 1,
    power: float = 0.8,
    at_every_look: bool = False,
    degrees: float = math.inf,
) -> int:
    """Return in how many blocks an effect of that size is found with probability ``power``.

    ``deviation`` is that of the log-ratio of one block, known with ``degrees`` of freedom. For who looks at
    every block the count is an upper bound: it asks that the interval excludes 1 at the last look, and allows
    for the correlation that few blocks may have.

    >>> blocks_needed(0.02 * 2**0.5, 0.01), blocks_needed(0.02 * 2**0.5, 0.01, at_every_look=True)
    (68, 122)

    Raises ValueError for arguments outside their range.
    """
    from scipy.optimize import brentq

    if deviation <= 0:
        raise ValueError("needs a positive deviation")
    each = 1 - (1 - confidence) / comparisons
    variance = variance_needed(least_effect, confidence=each, power=power, degrees=degrees)
    if at_every_look:
        behind = student_quantile(power, degrees)

        def beyond(error: float) -> float:
            radius = aimed_radius(error**2, least_effect=least_effect, confidence=each)
            return radius + behind * error - least_effect

        variance = float(brentq(beyond, least_effect * 1e-3, least_effect)) ** 2
    count = max(FEWEST_BLOCKS, math.ceil(_ALLOWANCE * deviation**2 / variance - 1e-9))
    if not at_every_look or count >= FEW_BLOCKS:
        return count
    independent = count
    while count < FEW_BLOCKS:
        # Half of a normal distribution's absolute value: what is seen by chance where nothing is correlated.
        by_chance = Serial(0.4 / math.sqrt(count), 1.0, float(count))
        allowed, _ = _allowed(1.0, by_chance, count)
        if allowed <= 1 / independent:
            break
        count += 1
    return count
