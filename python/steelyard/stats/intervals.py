"""Intervals for a few repeats, and means of ratios.

The run is the replicate: these functions take one number a run. An interval for a median assumes nothing
about how the numbers are distributed, because five runs cannot show it; that for a ratio compares means of
logarithms and is tried with numbers of every kind in docs/truth.md.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from steelyard.stats.serial import FEW, serial
from steelyard.stats.sessions import SessionSpread


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
    correlation: float | None = None
    """Of a value with the one before, by ranks; ``None`` where it was not requested or is unknown."""
    correlation_p_value: float | None = None
    """Chance of as large a correlation if the order of the values means nothing."""
    effective_count: float | None = None
    """What the values are worth in independent ones; ``count`` where they were not found to be correlated."""

    @property
    def is_order_open(self) -> bool:
        """Whether the interval holds only if the values are independent, which so few cannot show."""
        return self.low is not None and self.effective_count is not None and self.count < FEW


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


def median_interval(
    values: Sequence[float], confidence: float = 0.95, *, in_order: bool = False
) -> MedianInterval:
    """Median of ``values`` with a distribution-free interval for the median that they were drawn from.

    The interval runs from the k-th smallest to the k-th largest value, with the largest k for which the
    coverage ``1 - 2 * BinomialCDF(k - 1; n, 1/2)`` reaches ``confidence`` (David and Nagaraja, Order
    Statistics, 3rd ed., section 7.1). It is exact for continuous, independent values, conservative where they
    tie.

    With ``in_order`` the values are in the order of time, and it is tested whether each resembles the one
    before
    (``serial``). Where they do, the interval is that of as many values as they are worth, or there is none.
    Few values cannot show it (``is_order_open``).

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
    correlation = serial(values) if in_order and count >= count_for(confidence) else None
    worth = count if correlation is None else correlation.effective_count
    rank = 0
    coverage = _coverage(1, count, worth)
    enough = worth >= min(count, count_for(confidence))
    while enough and rank + 1 <= (count + 1) // 2 and _coverage(rank + 1, count, worth) >= confidence:
        rank += 1
        coverage = _coverage(rank, count, worth)
    reason = None
    if rank == 0 and correlation is not None and worth < count:
        reason = (
            f"each of the {count} values resembles the one before (correlation"
            f" {correlation.correlation:.2f}): they are worth {worth:.1f} independent ones, and an interval"
            f" of {confidence * 100:g} % confidence needs {count_for(confidence)}"
        )
    elif rank == 0:
        reason = _too_few(count, confidence)
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
        correlation=None if correlation is None else correlation.correlation,
        correlation_p_value=None if correlation is None else correlation.p_value,
        effective_count=None if correlation is None else worth,
    )


def _too_few(count: int, confidence: float) -> str:
    widest = f"smallest to largest covers {100 - 100 * 2.0 ** (1 - count):.3g} %"
    return (
        f"an interval of {confidence * 100:g} % confidence needs {count_for(confidence)} values, "
        f"{count} {'was' if count == 1 else 'were'} given: "
        + (widest if count > 1 else "one value has no spread")
    )


@dataclass(frozen=True, slots=True)
class RatioInterval:
    """An interval for how many times as large one series is as another; ``None`` ends where there is none."""

    low: float | None
    """Lower end."""
    high: float | None
    """Upper end."""
    confidence: float
    """What was asked for, 0 to 1."""
    counts: tuple[int, int]
    """Values above and below the fraction bar."""
    reason: str | None = None
    """Why there is no interval though the values suffice, ``None`` where there is one or they do not."""
    sessions: int | None = None
    """Earlier sessions whose spread it has, ``None`` where it is of one session alone."""


RATIO_COUNT = 3
"""Fewest values on either side of a ratio from which there is an interval. With two on one side it would
hold 90 % at a nominal 95 % where that side is the noisier one (journal 0185)."""


def ratio_interval(
    above: Sequence[float],
    below: Sequence[float],
    confidence: float = 0.95,
    between: SessionSpread | None = None,
) -> RatioInterval:
    """Interval for how many times as large ``above`` is as ``below``, with the noise of both.

    See ``mean_ratio_interval``, of which this is the case of one member.

    >>> found = ratio_interval([210.0, 200.0, 190.0], [98.0, 100.0, 102.0])
    >>> round(found.low, 2), round(found.high, 2)
    (1.79, 2.23)
    >>> ratio_interval([100.0], [98.0, 100.0, 102.0]).low is None
    True

    Raises:
        ValueError: if a value is not a positive finite number, or ``confidence`` is not inside 0 to 1.
    """
    return mean_ratio_interval([(above, below)], confidence, between)


def mean_ratio_interval(
    members: Sequence[tuple[Sequence[float], Sequence[float]]],
    confidence: float = 0.95,
    between: SessionSpread | None = None,
) -> RatioInterval:
    """Interval for the geometric mean, over ``members``, of the ratio of their first series to their second.

    The logarithms of the values are compared, so that a ratio is a difference and the geometric mean a mean.
    A pass over the members is the replicate: the n-th values of all members were measured together and may
    share their noise, so that their mean is taken before its variance. Where the members have not the same
    number of values, the deviations of the members are taken to agree wholly, which is the widest.

    Half of the width is the larger of two, by Student's t: with a variance for each side (Welch, The
    generalization of "Student's" problem, Biometrika 34, 1947), which holds when one side is noisier, and
    with one for both, which holds when the few values of a side are alike by chance. The interval is
    widened to the ratio of the medians where that lies outside of it.

    ``between`` is how sessions differ: each side is one, and the interval is no narrower than that between
    two of them. It is also an interval of fewer values, where the sessions had no more.

    Raises:
        ValueError: if a value is not a positive finite number, or ``confidence`` is not inside 0 to 1.
    """
    _check_confidence(confidence)
    series = [values for pair in members for values in pair]
    if any(not math.isfinite(value) or value <= 0 for values in series for value in values):
        raise ValueError("a ratio takes positive finite numbers only")
    counts = tuple(min((len(pair[side]) for pair in members), default=0) for side in (0, 1))
    spread = between if between is not None and min(counts) >= min(RATIO_COUNT, between.runs) else None
    if min(counts) < (RATIO_COUNT if spread is None else 1):
        return RatioInterval(None, None, confidence, (counts[0], counts[1]))
    ours, theirs = (_passes([pair[side] for pair in members]) for side in (0, 1))
    half = _half_width(ours, theirs, confidence) if min(counts) >= RATIO_COUNT else 0.0
    if spread is not None:
        half = max(half, spread.half_width(confidence))
    if half == 0:
        alike = "the values of either side are all the same"
        return RatioInterval(None, None, confidence, (counts[0], counts[1]), alike)
    difference = ours.mean - theirs.mean
    middle = ours.median - theirs.median
    return RatioInterval(
        low=math.exp(min(difference - half, middle)),
        high=math.exp(max(difference + half, middle)),
        confidence=confidence,
        counts=(counts[0], counts[1]),
        sessions=None if spread is None else spread.sessions,
    )


@dataclass(frozen=True, slots=True)
class _Side:
    """Logarithms of one side of a ratio, a mean over the members each."""

    count: int
    mean: float
    median: float
    variance: float
    """Of one pass."""


def _passes(members: Sequence[Sequence[float]]) -> _Side:
    logs = [[math.log(value) for value in values] for values in members]
    count = min(len(values) for values in logs)
    if all(len(values) == count for values in logs):
        passes = [statistics.fmean(values) for values in zip(*logs, strict=True)]
        variance = statistics.variance(passes) if count > 1 else 0.0
    else:
        deviations = [statistics.stdev(values) if len(values) > 1 else 0.0 for values in logs]
        variance = statistics.fmean(deviations) ** 2
    return _Side(
        count,
        statistics.fmean(statistics.fmean(values) for values in logs),
        statistics.fmean(math.log(statistics.median(values)) for values in members),
        variance,
    )


def _half_width(ours: _Side, theirs: _Side, confidence: float) -> float:
    """Return half of the width of the interval for the difference of two means."""
    # Loading it takes longer than a whole report; few who load this module ask for an interval.
    from scipy.special import stdtrit

    freedom = (ours.count - 1, theirs.count - 1)
    errors = (ours.variance / ours.count, theirs.variance / theirs.count)
    if not sum(errors):
        return 0.0
    own = sum(errors) ** 2 / (errors[0] ** 2 / freedom[0] + errors[1] ** 2 / freedom[1])
    pooled = (ours.variance * freedom[0] + theirs.variance * freedom[1]) / sum(freedom)
    quantile = 0.5 + confidence / 2
    return max(
        float(stdtrit(own, quantile)) * math.sqrt(sum(errors)),
        float(stdtrit(sum(freedom), quantile)) * math.sqrt(pooled / ours.count + pooled / theirs.count),
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


_SUMMED = 100
"""Values up to which the binomial distribution is summed up."""


def _coverage(rank: int, count: int, worth: float) -> float:
    """Probability that the median is between the ``rank``-th smallest and largest of ``count``.

    Of values that are worth fewer, ``rank`` is taken in proportion: the binomial distribution by its
    continuous form, the incomplete beta function.
    """
    if count == 1:
        return 0.0
    if worth == count <= _SUMMED:
        return float(1 - 2 * sum(math.comb(count, below) for below in range(rank)) / 2**count)
    # Loading it takes longer than a whole report; few intervals are of values that resemble the one before.
    from scipy.special import betainc

    share = rank * worth / count
    return float(1 - 2 * betainc(max(worth - share + 1, 1e-9), share, 0.5))
