"""Whether repeats one after another resemble each other, and what they are worth if they do.

In: values in the order of time. Out: `Serial`. A machine that warms up, a neighbour that comes and goes, a
file system that fills: runs made one after another are then no independent draws, and an interval that takes
them for such is too narrow.

Not here: the interval (``intervals``); dense series such as the seconds of one run (``steady``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SIGNIFICANCE = 0.05
"""Chance that independent values are taken for correlated ones, and their interval widened or withheld."""
FEW = 20
"""Below so many values a correlation of 0.5 is overlooked more often than noticed (docs/truth.md)."""
_ORDERS = 999
_SEED = 20_261_123


@dataclass(frozen=True, slots=True)
class Serial:
    """How far values resemble the ones before them."""

    correlation: float
    """Of the normal scores of their ranks with the one before, corrected for short series; 0 at least."""
    p_value: float
    """Chance of as large a one in a random order of the same values."""
    effective_count: float
    """Independent values that tell as much about the median; the count where the p value is above
    `SIGNIFICANCE`."""


def serial(values: Sequence[float]) -> Serial:
    """Return how far values resemble the ones before them, by ranks and a permutation test.

    For normal scores whose correlation falls off as r^j, the share of values below the median has the
    variance of ``n / (1 + 2 sum (1 - j/n) (2/pi) asin(r^j))`` independent ones (J. Gastwirth and
    H. Rubin, "Effect of Dependence on the Level of Some One-Sample Tests", JASA 66, 1971).

    >>> serial([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]).effective_count < 4
    True

    Raises ValueError for fewer than three values.
    """
    # Loading them takes longer than a whole report; few ask for an interval.
    import numpy as np
    from scipy.special import ndtri

    count = len(values)
    if count < 3:
        raise ValueError("a correlation in time needs three values")
    scores = ndtri((_ranks(values) - 0.375) / (count + 0.25))
    scores = scores - scores.mean()
    power = float(scores @ scores)
    if power == 0:
        return Serial(0.0, 1.0, float(count))
    orders = np.random.default_rng(_SEED).permuted(np.tile(scores, (_ORDERS, 1)), axis=1)
    observed = float(scores[1:] @ scores[:-1]) / power
    by_chance = (orders[:, 1:] * orders[:, :-1]).sum(axis=1) / power
    p_value = (1 + int((by_chance >= observed - 1e-12).sum())) / (1 + _ORDERS)
    # The sample's is too small by about (1 + 3 r) / n (Marriott and Pope 1954).
    correlation = min(max((observed + 1 / count) / max(1 - 3 / count, 0.25), 0.0), 0.95)
    if p_value > SIGNIFICANCE:
        return Serial(correlation, p_value, float(count))
    # One standard error more: what is noticed is to be allowed for in full.
    allowed = min(correlation + math.sqrt((1 - correlation**2) / count), 0.95)
    total = sum((1 - j / count) * 2 / math.pi * math.asin(allowed**j) for j in range(1, count))
    return Serial(correlation, p_value, count / (1 + 2 * total))


def _ranks(values: Sequence[float]) -> NDArray[np.float64]:
    """Return the ranks of values, from 1; equal ones have the mean of theirs.

    >>> _ranks([10.0, 30.0, 10.0]).tolist()
    [1.5, 3.0, 1.5]
    """
    import numpy as np

    _, place, counts = np.unique(
        np.asarray(values, dtype=np.float64), return_inverse=True, return_counts=True
    )
    last = np.cumsum(counts)
    ranks: NDArray[np.float64] = (last - (counts - 1) / 2)[place.reshape(-1)]
    return ranks
