"""The ratio of two means of values that may be 0, such as errors, with an interval.

In: values of two arms, block by block. Out: `MeansRatio`. A count of errors is 0 in many blocks, where a
ratio within the block does not exist; the ratio of the means does, unless the first arm's are all 0.

Not here: ratios within blocks (``contrasts``), which noise that both arms share leaves alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from steelyard.stats.sequential import student_quantile

FEWEST_ZEROS = 8
"""Blocks without any event in either arm that tell something: with 95 %, fewer than a third of all blocks
have one."""


@dataclass(frozen=True, slots=True)
class MeansRatio:
    """Mean of the second arm over that of the first."""

    ratio: float
    """Infinite where the first arm's values are all 0."""
    low: float | None
    """Ends of the interval, the upper one infinite where the data do not bound it; None where ``reason`` says
    why."""
    high: float | None
    reason: str | None = None


def means_ratio(first: Sequence[float], second: Sequence[float], *, confidence: float = 0.95) -> MeansRatio:
    """Return the ratio of the means of ``second`` and ``first``, whose values are of the same blocks.

    The interval is Fieller's (E. Fieller, "Some Problems in Interval Estimation", JRSS B 16, 1954): all r for
    which Student's test on second - r first does not tell the mean from 0. Blocks are the replicates, so that
    errors that come in bursts weigh as the noise that they are; a Poisson test would take each of them for an
    event of its own.

    >>> found = means_ratio([0, 1, 0, 1, 0, 0, 1, 0], [28, 30, 31, 33, 29, 30, 27, 32])
    >>> found.ratio, found.low > 10
    (80.0, True)
    >>> means_ratio([0.0] * 8, [0.0] * 8).high
    1.0

    Raises ValueError for negative or infinite values, or arms of different length.
    """
    ours, theirs = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if ours.shape != theirs.shape or ours.ndim != 1 or ours.size < 2:
        raise ValueError("needs as many values of one arm as of the other, and at least two")
    if not (np.isfinite(ours) & np.isfinite(theirs) & (ours >= 0) & (theirs >= 0)).all():
        raise ValueError("values must not be negative or infinite")
    count = ours.size
    if not ours.any() and not theirs.any():
        if count < FEWEST_ZEROS:
            return MeansRatio(1.0, None, None, f"0 in all {count} blocks of both arms, below {FEWEST_ZEROS}")
        return MeansRatio(1.0, 1.0, 1.0)
    # Of the scale of the values nothing depends.
    scale = max(float(ours.max()), float(theirs.max()))
    ours, theirs = ours / scale, theirs / scale
    mean, other = float(ours.mean()), float(theirs.mean())
    square = student_quantile((1 + confidence) / 2, count - 1) ** 2 / count
    covariance = np.cov(ours, theirs)
    first_term = mean**2 - square * float(covariance[0, 0])
    middle = mean * other - square * float(covariance[0, 1])
    last = other**2 - square * float(covariance[1, 1])
    ratio = other / mean if mean > 0 else math.inf
    if mean == 0:
        # Whatever the ratio is, it is larger than any number, if there is anything in the second arm at all.
        return MeansRatio(ratio, math.inf if last > 0 else 0.0, math.inf)
    root = math.sqrt(max(middle**2 - first_term * last, 0.0))
    if first_term > 0:
        return MeansRatio(ratio, max((middle - root) / first_term, 0.0), (middle + root) / first_term)
    # The first arm's mean cannot be distinguished from 0, so that nothing bounds the ratio above.
    if last <= 0 or middle**2 <= first_term * last:
        return MeansRatio(ratio, 0.0, math.inf)
    low = (middle - root) / first_term if first_term else last / (2 * middle)
    return MeansRatio(ratio, max(low, 0.0), math.inf)
