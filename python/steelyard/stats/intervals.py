"""Intervals for a few repeats, and means of ratios.

The run is the replicate: these functions take one number a run and assume nothing about how the numbers
are distributed, because five runs cannot show it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MedianInterval:
    """A median and what is known about the one behind it. Values are in the unit of the input."""

    count: int
    """Values that went in."""
    median: float
    """Median of the values."""
    lowest: float
    """Smallest value."""
    highest: float
    """Largest value."""
    confidence: float
    """What was asked for, 0 to 1."""
    low: float | None
    """Lower end of the interval, ``None`` where no interval of that confidence exists."""
    high: float | None
    """Upper end of the interval, ``None`` where no interval of that confidence exists."""
    coverage: float
    """Exact probability that ``low`` to ``high`` holds the median; where there is no such interval, that of
    ``lowest`` to ``highest``, which is all that the values can give."""
    reason: str | None
    """Why there is no interval, ``None`` where there is one."""


def count_for(confidence: float) -> int:
    """Fewest values from which an interval for the median of this confidence exists.

    The widest interval, smallest to largest value, misses the median only if all values fall on one side
    of it: with probability ``2 ** (1 - n)``.

    >>> [count_for(confidence) for confidence in (0.5, 0.9, 0.95, 0.99)]
    [2, 5, 6, 8]
    """
    _check_confidence(confidence)
    count = 1
    while 1 - 2.0 ** (1 - count) < confidence:
        count += 1
    return count


def median_interval(values: Sequence[float], confidence: float = 0.95) -> MedianInterval:
    """Median of ``values`` with a distribution-free interval for the median that they were drawn from.

    The interval runs from the k-th smallest to the k-th largest value, with the largest k for which the
    coverage ``1 - 2 * BinomialCDF(k - 1; n, 1/2)`` reaches ``confidence`` (David and Nagaraja, Order
    Statistics, 3rd ed., section 7.1). It is exact for continuous values, conservative where they tie.

    >>> result = median_interval([10.0, 11.0, 12.0, 13.0, 14.0, 15.0])
    >>> result.median, result.low, result.high, result.coverage
    (12.5, 10.0, 15.0, 0.96875)
    >>> median_interval([10.0, 11.0, 12.0]).reason
    'an interval of 95 % confidence needs 6 values, 3 were given: smallest to largest covers 75 %'

    Raises:
        ValueError: if there are no values, one is not finite, or ``confidence`` is not inside 0 to 1.
    """
    _check_confidence(confidence)
    ordered = sorted(float(value) for value in values)
    count = len(ordered)
    if count == 0:
        raise ValueError("no values")
    if not all(math.isfinite(value) for value in ordered):
        raise ValueError("a value is not finite")
    middle = count // 2
    median = ordered[middle] if count % 2 else ordered[middle - 1] / 2 + ordered[middle] / 2
    rank = 0
    coverage = 1 - 2.0 ** (1 - count)
    while rank + 1 <= (count + 1) // 2 and _coverage(rank + 1, count) >= confidence:
        rank += 1
        coverage = _coverage(rank, count)
    reason = None
    if rank == 0:
        reason = (
            f"an interval of {confidence * 100:g} % confidence needs {count_for(confidence)} values, "
            f"{count} {'was' if count == 1 else 'were'} given: "
            + (
                f"smallest to largest covers {coverage * 100:.3g} %"
                if count > 1
                else "one says nothing of spread"
            )
        )
    return MedianInterval(
        count=count,
        median=median,
        lowest=ordered[0],
        highest=ordered[-1],
        confidence=confidence,
        low=ordered[rank - 1] if rank else None,
        high=ordered[count - rank] if rank else None,
        coverage=coverage,
        reason=reason,
    )


def geometric_mean(values: Iterable[float | None]) -> float | None:
    """Geometric mean of ratios, ``None`` when a member is missing or there are none.

    A mean over the members that happen to be there would favour the machine on which the bad ones failed,
    so that it is withheld rather than patched.

    >>> geometric_mean([2.0, 8.0])
    4.0
    >>> geometric_mean([2.0, None]) is None
    True

    Raises:
        ValueError: if a value is not a positive finite number.
    """
    members = list(values)
    present = [value for value in members if value is not None]
    if any(not math.isfinite(value) or value <= 0 for value in present):
        raise ValueError("a geometric mean takes positive finite numbers only")
    if not members or len(present) < len(members):
        return None
    return math.exp(math.fsum(math.log(value) for value in present) / len(present))


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence {confidence} is not between 0 and 1")


def _coverage(rank: int, count: int) -> float:
    """Probability that the median lies between the ``rank``-th smallest and largest of ``count``."""
    # Loading it takes longer than a whole report; few who load this module ask for an interval.
    from scipy.special import bdtr

    return float(1 - 2 * bdtr(rank - 1, count, 0.5))
