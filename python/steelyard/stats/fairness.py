"""How evenly a whole is shared: pure functions of positive numbers."""

import math
from collections.abc import Sequence


def jain_index(shares: Sequence[float]) -> float:
    """Return Jain's fairness index: 1 when all are equal, 1/n when one has everything.

    (sum x)^2 / (n sum x^2); Jain, Chiu and Hawe, "A quantitative measure of fairness", DEC TR-301, 1984.

    >>> jain_index([3.0, 3.0, 3.0]), jain_index([1.0, 0.0, 0.0, 0.0])
    (1.0, 0.25)

    Raises:
        ValueError: if there are no shares, one is negative, or all are zero.
    """
    if not shares or any(share < 0 for share in shares) or not any(shares):
        raise ValueError("fairness takes shares that are not negative and not all zero")
    return math.fsum(shares) ** 2 / (len(shares) * math.fsum(share * share for share in shares))


def min_max_ratio(shares: Sequence[float]) -> float:
    """Return the smallest share over the largest.

    >>> min_max_ratio([2.0, 4.0])
    0.5
    """
    if not shares or max(shares) <= 0:
        raise ValueError("a ratio needs a largest share above zero")
    return min(shares) / max(shares)
