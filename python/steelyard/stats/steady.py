"""Whether a series has settled, and whether it stayed so.

In: one number for each interval of equal length (hit ratio or requests of each second). Out: ``Settled``
for a warm-up, judged while it lasts, and ``Steadiness`` for a measure phase, judged when it is over.

The two ask opposite questions, and so they are tested opposite ways round:

* A warm-up is over only when the data show that what is left to come is small. That is an equivalence
  test: the *confidence bound* of the drift must lie within the tolerance. (The usual test, "no significant
  trend", passes every series that is short or noisy enough.) An exponential approach is also extrapolated:
  a slow one drifts little over the windows seen and may still have far to go.
* A measure phase is unsteady when a drift or a level shift is both real (significant with the
  autocorrelation allowed for) and large enough to matter (above the tolerance).

"Not settled" and "cannot be told" are answers. What neither can see is a change that is too slow to show
in the noise of the windows given; the rates at which they err are shown by simulation in their tests.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FEWEST_WINDOWS = 8
"""Below this, a slope, a variance and an autocorrelation cannot be estimated from one series."""

_UNCERTAIN = 1.5
"""Times the tolerance to which a mean must be known: its uncertainty is itself an estimate from few values,
so that the bound lies between what is harmless and twice that."""

Series = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Settled:
    """A plateau that a series has reached. ``level`` is in the unit of the series."""

    index: int
    """First value of the plateau, as far as the rule looked back."""
    level: float
    """Mean over the plateau."""
    drift_ratio: float
    """Fitted change over the plateau, over its level."""
    drift_bound_ratio: float
    """The largest such change that the values allow, 95 % one-sided."""
    remaining_ratio: float
    """What an exponential approach would still add beyond the last value, over the level; 0 where no trend
    can be told from noise."""


@dataclass(frozen=True, slots=True)
class Steadiness:
    """Whether a series kept its level."""

    steady: bool | None
    """``None`` when the values cannot tell."""
    reason: str
    """One sentence with the figures."""
    drift_ratio: float | None
    """Change over the series by a straight line, over the median; ``None`` when it cannot be told."""
    changepoint_index: int | None
    """First value after the level shift, ``None`` when there is none."""
    shift_ratio: float | None
    """Level after the shift minus level before, over the median; ``None`` when there is none."""
    uncertainty_ratio: float | None = None
    """Half of the 95 % interval of the mean, over the mean; ``None`` when it cannot be told."""


def settled(values: Sequence[float], *, tolerance_ratio: float = 0.02, windows: int = 10) -> Settled | None:
    """The plateau on which ``values`` end, or ``None`` while there is none.

    Looks at the last third of all values, but at least ``windows`` of them, and where those are too noisy to
    tell, at twice as many. A share of the whole, because a stretch of fixed length calls any approach settled
    that is slow enough. The longer stretch that passes is the plateau. A stretch passes when

    1. the one-sided 95 % bound of its drift (least squares, standard error for first-order autocorrelated
       residuals) is at most ``tolerance_ratio`` of its level, and
    2. where it drifts by more than noise explains, an exponential through the means of thirds (Aitken's
       delta-squared), of the stretch and of the whole series, has at most ``tolerance_ratio`` left to go.

    >>> approach = [1 - 0.9 * 0.8**i for i in range(60)]
    >>> settled(approach[:15]) is None
    True
    >>> settled(approach).index <= 50
    True

    Raises:
        ValueError: if ``windows`` is below ``FEWEST_WINDOWS`` or ``tolerance_ratio`` is not positive.
    """
    if windows < FEWEST_WINDOWS:
        raise ValueError(f"windows must be at least {FEWEST_WINDOWS}, not {windows}")
    if not tolerance_ratio > 0:
        raise ValueError(f"tolerance_ratio must be positive, not {tolerance_ratio}")
    series = _finite(values)
    shortest = max(windows, -(-len(series) // 3))
    for length in (2 * shortest, shortest):
        if length <= len(series):
            found = _plateau(series, len(series) - length, tolerance_ratio)
            if found is not None:
                return found
    return None


def check(
    values: Sequence[float], *, tolerance_ratio: float = 0.05, significance: float = 0.01
) -> Steadiness:
    """Whether ``values`` kept one level from first to last, so that their mean is that level.

    Unsteady means: a straight line through them changes by more than ``tolerance_ratio`` of their median
    and that slope is significant, or their level shifts by more than ``tolerance_ratio`` at some moment and
    the shift is significant (CUSUM test, Ploberger and Kraemer 1992, against Kolmogorov's distribution).
    Both allow for first-order autocorrelation. Each test errs with probability ``significance``. A drift that
    may be chance is none. Where the values scatter so much that their mean is not known to one and a half
    times the tolerance, the question is open: ``steady`` is ``None``. Rates of error: docs/journal/0170.

    >>> check([100.0, 101.0, 99.0, 100.5] * 5).steady
    True
    >>> result = check([100.0, 101.0, 99.0] * 4 + [80.0, 81.0, 79.0] * 4)
    >>> result.steady, result.changepoint_index
    (False, 12)
    >>> check([1.0, 2.0]).steady is None
    True
    """
    series = _finite(values)
    if len(series) < FEWEST_WINDOWS:
        return Steadiness(
            None, f"{len(series)} intervals cannot tell; {FEWEST_WINDOWS} can", None, None, None
        )
    level = abs(float(np.median(series)))
    if level == 0:
        if np.ptp(series) == 0:
            return Steadiness(True, "zero throughout", 0.0, None, None)
        return Steadiness(
            None, "the median is zero, so that no change can be put in proportion", None, None, None
        )
    line = _Line.fit(series, is_cautious=True)
    drift_ratio = line.drift / level
    drifts = abs(drift_ratio) > tolerance_ratio and line.p_value() < significance
    index, shift, p_value = _level_shift(series)
    shift_ratio = shift / level
    shifts = abs(shift_ratio) > tolerance_ratio and p_value < significance
    uncertainty = _uncertainty(series) / level
    # A steep line also has a best changepoint, in its middle: the better fit of the two names the cause.
    if shifts and (not drifts or _residual_sum(series, index) < line.residual_sum):
        reason = f"the level shifts by {shift_ratio * 100:+.1f} % at interval {index} of {len(series)}"
        return Steadiness(False, reason, drift_ratio, index, shift_ratio, uncertainty)
    if drifts:
        reason = f"the level drifts by {drift_ratio * 100:+.1f} % over {len(series)} intervals"
        return Steadiness(False, reason, drift_ratio, None, None, uncertainty)
    if uncertainty > _UNCERTAIN * tolerance_ratio:
        reason = (
            f"{len(series)} intervals scatter too much: their mean is known to {uncertainty * 100:.1f} % only"
        )
        return Steadiness(None, reason, drift_ratio, None, None, uncertainty)
    chance = ", which may be chance" if abs(drift_ratio) > tolerance_ratio else ""
    reason = (
        f"drift {drift_ratio * 100:+.1f} % over {len(series)} intervals{chance}, no level shift; "
        f"the mean is known to {uncertainty * 100:.1f} %"
    )
    return Steadiness(True, reason, drift_ratio, None, None, uncertainty)


def has_trend(values: Sequence[float], *, significance: float = 0.01) -> bool | None:
    """Whether a straight line through ``values`` has a slope that noise does not explain.

    Says nothing about size: use ``check`` to judge a measure phase. ``None`` when the values cannot tell.

    >>> has_trend([float(i) + (i % 3) for i in range(30)]), has_trend([1.0, 2.0, 1.5] * 10)
    (True, False)
    """
    series = _finite(values)
    if len(series) < FEWEST_WINDOWS:
        return None
    return _Line.fit(series).p_value() < significance


@dataclass(frozen=True, slots=True)
class _Line:
    """A least-squares line through equally spaced values."""

    drift: float
    """Change from the first to the last value by the line."""
    standard_error: float
    """Of ``drift``, with first-order autocorrelation allowed for."""
    freedom: float
    """Effective degrees of freedom."""
    residual_sum: float
    """Sum of squared residuals."""

    @staticmethod
    def fit(series: Series, *, is_cautious: bool = False) -> _Line:
        count = len(series)
        time = np.arange(count) - (count - 1) / 2
        spread = float(time @ time)
        centred = series - series.mean()
        slope = float(time @ centred) / spread
        residuals = centred - slope * time
        residual_sum = float(residuals @ residuals)
        inflation = _inflation(residuals, fitted=2, is_cautious=is_cautious)
        # Fewer independent values also mean fewer degrees of freedom.
        freedom = max(count / inflation - 2, 2.0)
        variance = residual_sum / (count - 2) * inflation
        error = math.sqrt(variance / spread) * (count - 1)
        return _Line(slope * (count - 1), error, freedom, residual_sum)

    def p_value(self) -> float:
        """Two-sided, of no drift."""
        if self.standard_error == 0:
            return 0.0 if self.drift else 1.0
        from scipy.special import stdtr

        return float(2 * stdtr(self.freedom, -abs(self.drift) / self.standard_error))

    def bound(self) -> float:
        """The largest size of drift that a one-sided 95 % interval allows."""
        from scipy.special import stdtrit

        return abs(self.drift) + float(stdtrit(self.freedom, 0.95)) * self.standard_error


def _plateau(series: Series, first: int, tolerance_ratio: float) -> Settled | None:
    stretch = series[first:]
    level = float(stretch.mean())
    if level == 0:
        return Settled(first, 0.0, 0.0, 0.0, 0.0) if np.ptp(stretch) == 0 else None
    line = _Line.fit(stretch)
    bound_ratio = line.bound() / abs(level)
    if bound_ratio > tolerance_ratio:
        return None
    remaining_ratio = 0.0
    if line.p_value() < 0.1:
        # The stretch alone tells the ratio of the approach badly where noise is near its drift; the whole
        # series tells it well, unless it began with something else. The slower of the two is believed.
        remaining_ratio = max(_remaining(stretch), _remaining(series)) / abs(level)
        if remaining_ratio > tolerance_ratio:
            return None
    return Settled(first, level, line.drift / abs(level), bound_ratio, remaining_ratio)


def _remaining(series: Series) -> float:
    """What an exponential through the means of thirds has left to go, infinite if it does not slow down."""
    third = len(series) // 3
    begin, middle, end = (
        float(part.mean())
        for part in (series[-3 * third : -2 * third], series[-2 * third : -third], series[-third:])
    )
    before, after = middle - begin, end - middle
    if before == 0:
        return 0.0 if after == 0 else math.inf
    ratio = after / before
    if ratio <= 0:
        return abs(after)
    return math.inf if ratio >= 1 else abs(after) * ratio / (1 - ratio)


def _inflation(residuals: Series, fitted: int, *, is_cautious: bool = False) -> float:
    """Factor by which autocorrelation raises the variance of a mean or a slope: (1 + r) / (1 - r).

    The sample's r is too small on short series, by about ``(fitted + (fitted + 2) r) / n`` where ``fitted``
    parameters were taken out (Marriott and Pope 1954 for the mean, extended to a line); that is put back.
    Negative autocorrelation is not credited. ``is_cautious`` adds one standard error of r, 1 / sqrt(n): a
    short series whose r comes out too small by chance would otherwise make a change of level out of noise.
    """
    count = len(residuals)
    power = float(residuals @ residuals)
    # Residuals at rounding level carry no information about their correlation.
    if power <= 1e-24:
        return 1.0
    sample = float(residuals[1:] @ residuals[:-1]) / power
    corrected = (sample + fitted / count) / (1 - (fitted + 2) / count)
    if is_cautious:
        corrected += 1 / math.sqrt(count)
    correlation = min(max(corrected, 0.0), 0.9)
    return (1 + correlation) / (1 - correlation)


def _level_shift(series: Series) -> tuple[int, float, float]:
    """The best changepoint, the shift there, and the chance of as large a CUSUM without any shift."""
    count = len(series)
    sums = np.cumsum(series - series.mean())[:-1]
    # The CUSUM peaks at the shift; its own maximum is also the estimate of where it is.
    index = int(np.argmax(np.abs(sums))) + 1
    before, after = series[:index], series[index:]
    shift = float(after.mean() - before.mean())
    residuals = np.concatenate([before - before.mean(), after - after.mean()])
    # Choosing the changepoint takes out more than two means do: 4 keeps the error rate of the simulations.
    variance = float(residuals @ residuals) / (count - 2) * _inflation(residuals, fitted=4, is_cautious=True)
    if variance == 0:
        return index, shift, 0.0 if shift else 1.0
    statistic = float(np.abs(sums).max()) / math.sqrt(variance * count)
    from scipy.special import kolmogorov

    return index, shift, float(kolmogorov(statistic))


def _uncertainty(series: Series) -> float:
    """Return half of the 95 % interval of the mean, with first-order autocorrelation allowed for.

    By the sample's r as it is: corrected for short series it errs less on average and more from case to case.
    """
    count = len(series)
    residuals = series - series.mean()
    power = float(residuals @ residuals)
    if power == 0:
        return 0.0
    sample = float(residuals[1:] @ residuals[:-1]) / power
    correlation = min(max(sample, 0.0), 0.9)
    inflation = (1 + correlation) / (1 - correlation)
    return 2 * math.sqrt(power / (count - 1) * inflation / count)


def _residual_sum(series: Series, index: int) -> float:
    before, after = series[:index], series[index:]
    return float(((before - before.mean()) ** 2).sum() + ((after - after.mean()) ** 2).sum())


def _finite(values: Sequence[float]) -> Series:
    series = np.asarray(values, dtype=np.float64)
    if not np.isfinite(series).all():
        raise ValueError("a value is not finite")
    return series
