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


@dataclass(frozen=True, slots=True)
class RatioInterval:
    """An interval for the ratio of two medians; both ends are ``None`` where there is none."""

    low: float | None
    """Lower end."""
    high: float | None
    """Upper end."""
    confidence: float
    """What was asked for, 0 to 1."""
    counts: tuple[int, int]
    """Values above and below the fraction bar."""
    needed: tuple[int, int]
    """Fewest values on either side, each alone raised, from which there is one."""


def median_ratio_interval(
    above: Sequence[float], below: Sequence[float], confidence: float = 0.95
) -> RatioInterval:
    """Interval for the median behind ``above`` over that behind ``below``, with the noise of both.

    Both sides have an interval for their median, and the ends of one are divided by those of the other. Two
    independent series hold their medians with the product of their coverages, and then the quotient holds the
    ratio: the coverages are chosen, by the counts alone, so that the product is at least ``confidence``. That
    is conservative, because the ratio is often held when one of the medians is not.

    >>> runs = [100.0, 101.0, 102.0, 103.0, 104.0, 105.0, 106.0]
    >>> found = median_ratio_interval([2 * run for run in runs], runs)
    >>> round(found.low, 3), round(found.high, 3)
    (1.887, 2.12)
    >>> few = median_ratio_interval([100.0], runs)
    >>> few.low, few.needed
    (None, (6, 7))

    Raises:
        ValueError: if a value is not a positive finite number, or ``confidence`` is not inside 0 to 1.
    """
    _check_confidence(confidence)
    if any(not math.isfinite(value) or value <= 0 for value in (*above, *below)):
        raise ValueError("a ratio of medians takes positive finite numbers only")
    counts = len(above), len(below)
    needed = _needed(counts[1], counts[0], confidence), _needed(counts[0], counts[1], confidence)
    none = RatioInterval(None, None, confidence, counts, needed)
    full = [1 - 2.0 ** (1 - count) for count in counts]
    if not all(counts) or full[0] * full[1] < confidence:
        return none
    each = math.sqrt(confidence)
    # A side that is too short for its share gives all it has, and the other makes up for it.
    shares = [min(each, whole) for whole in full]
    if shares[0] < each or shares[1] < each:
        shares = [share if share < each else confidence / min(full) for share in shares]
    ours, theirs = (
        median_interval(values, share * (1 - 1e-12))
        for values, share in zip((above, below), shares, strict=True)
    )
    if ours.low is None or ours.high is None or theirs.low is None or theirs.high is None:
        return none
    return RatioInterval(ours.low / theirs.high, ours.high / theirs.low, confidence, counts, needed)


def _needed(other: int, count: int, confidence: float) -> int:
    """Return the fewest values beside ``other`` ones from which there is an interval.

    Where ``other`` are too few however many stand beside them, the fewest that both sides need.
    """
    whole = 1 - 2.0 ** (1 - other) if other else 0.0
    return count_for(confidence / whole) if whole > confidence else count_for(math.sqrt(confidence))


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
