"""Whether a series has settled, and whether it stayed so.

In: one number for each interval of equal length (hit ratio or requests of each second). Out: ``Settled``
for a warm-up, judged while it lasts, and ``Steadiness`` for a measure phase, judged when it is over.

The two ask opposite questions, and so they are tested opposite ways round:

* A warm-up is over only when the data show that what is left to come is small. That is an equivalence
  test: the *confidence bound* of the drift must lie within the tolerance. (The usual test, "no significant
  trend", passes every series that is short or noisy enough.) An exponential approach is also extrapolated:
  a slow one drifts little over the windows seen and may still have far to go.
* A measure phase is unsteady when a drift, a level shift, a dip or a cycle is both real (stronger than noise
  with the series' own autocorrelation shows, ``shapes``) and large enough to matter.

"Not settled" and "unknown" are answers. What neither can see is a change that is too slow to show
in the noise of the windows given; how often they err, and what they find: docs/truth.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from steelyard.stats import shapes

FEWEST_WINDOWS = 8
"""Below this, a slope, a variance and an autocorrelation cannot be estimated from one series."""

_UNCERTAIN = 1.5
"""Times the tolerance to which a mean must be known, so that the bound is between what is harmless and
twice that. The uncertainty is an estimate from few values: it must be beyond with 95 % confidence."""
_SWING = 2.0
"""Times the tolerance from which a dip or a cycle matters: the mean over the run moves by less."""

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
    can be distinguished from noise."""


@dataclass(frozen=True, slots=True)
class Steadiness:
    """Whether a series kept its level."""

    steady: bool | None
    """``None`` when the values cannot tell."""
    reason: str
    """One sentence with the figures."""
    drift_ratio: float | None
    """Change over the series by a straight line, over the median; ``None`` when it is unknown."""
    changepoint_index: int | None
    """First value after the level shift, ``None`` when there is none."""
    shift_ratio: float | None
    """Level after the shift minus level before, over the median; ``None`` when there is none."""
    uncertainty_ratio: float | None = None
    """Half of the 95 % interval of the mean, over the median; ``None`` when it is unknown."""
    dip_ratio: float | None = None
    """Level of a stretch inside minus that around it, over the median; ``None`` where there is none."""
    dip_indices: tuple[int, int] | None = None
    """First value of that stretch, and first after it."""
    cycle_ratio: float | None = None
    """Amplitude of a cycle, half of what is between crest and trough, over the median; ``None`` when there
    is none."""
    cycle_period: float | None = None
    """Values from crest to crest."""
    values: tuple[float, ...] = ()
    """The series."""


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
            plateau = _plateau(series, len(series) - length, tolerance_ratio)
            if plateau is not None:
                return plateau
    return None


def check(
    values: Sequence[float], *, tolerance_ratio: float = 0.05, significance: float = 0.03
) -> Steadiness:
    """Whether ``values`` kept one level from first to last, so that their mean is that level.

    Unsteady means that one of these is there and significant (``shapes.chance``): a straight line or a level
    shift by more than ``tolerance_ratio`` of the median, or a dip (or rise) for a stretch of up to half of
    the values, or a cycle, by more than twice that. The reason names the one that fits best. All tests
    together err with probability ``significance``, also where neighbours are correlated by up to 0.9. A drift
    that may be chance is none. Where the values scatter so much that their mean is not known to one and a
    half times the tolerance, the question is open: ``steady`` is ``None``.

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
            None,
            f"{len(series)} intervals are too few; at least {FEWEST_WINDOWS} are needed",
            None,
            None,
            None,
        )
    level = abs(float(np.median(series)))
    if level == 0:
        if np.ptp(series) == 0:
            return Steadiness(True, "zero throughout", 0.0, None, None)
        return Steadiness(
            None, "the median is zero, so that no change can be put in proportion", None, None, None
        )
    fits = [shapes.best(series, kind) for kind in shapes.KINDS]
    drift_ratio = fits[0].size / level
    uncertainty = _uncertainty(series)
    # Only what is large enough to matter is asked about: chance is simulated, which takes time.
    real = [
        fit
        for fit in fits
        if abs(fit.size) > tolerance_ratio * (_SWING if fit.kind in (shapes.DIP, shapes.CYCLE) else 1) * level
        and shapes.chance(series, fit.kind) < significance / len(fits)
    ]
    answer = Steadiness(
        None, "", drift_ratio, None, None, uncertainty / level, values=tuple(map(float, series))
    )
    if real:
        # A steep line also has a best step, and a step a best cycle: what fits best is the cause.
        return _unsteady(answer, min(real, key=lambda fit: fit.residual_sum), len(series), level)
    known = f"the mean is known to {uncertainty / level * 100:.1f} %"
    if uncertainty * _least_share(len(series) - 1) > _UNCERTAIN * tolerance_ratio * level:
        return replace(answer, reason=f"{len(series)} intervals vary too much: {known} only")
    chance = ", which may be chance" if abs(drift_ratio) > tolerance_ratio else ""
    reason = f"drift {drift_ratio * 100:+.1f} % over {len(series)} intervals{chance}, no level shift; {known}"
    return replace(answer, steady=True, reason=reason)


def _unsteady(answer: Steadiness, shape: shapes.Shape, count: int, level: float) -> Steadiness:
    ratio = shape.size / level
    change = f"by {ratio * 100:+.1f} %"
    if shape.kind == shapes.LINE:
        return replace(answer, steady=False, reason=f"the level drifts {change} over {count} intervals")
    if shape.kind == shapes.STEP:
        reason = f"the level shifts {change} at interval {shape.first} of {count}"
        return replace(answer, steady=False, reason=reason, changepoint_index=shape.first, shift_ratio=ratio)
    if shape.kind == shapes.DIP:
        verb = "dips" if ratio < 0 else "rises"
        reason = f"the level {verb} {change} from interval {shape.first} to {shape.end} of {count}"
        return replace(
            answer, steady=False, reason=reason, dip_ratio=ratio, dip_indices=(shape.first, shape.end)
        )
    reason = f"the level goes up and down by {ratio * 100:.1f} % every {shape.period:.3g} intervals"
    return replace(answer, steady=False, reason=reason, cycle_ratio=ratio, cycle_period=shape.period)


def has_trend(values: Sequence[float], *, significance: float = 0.03) -> bool | None:
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

    @staticmethod
    def fit(series: Series) -> _Line:
        count = len(series)
        time = np.arange(count) - (count - 1) / 2
        spread = float(time @ time)
        centred = series - series.mean()
        slope = float(time @ centred) / spread
        residuals = centred - slope * time
        inflation = _inflation(residuals, fitted=2)
        # Fewer independent values also mean fewer degrees of freedom.
        freedom = max(count / inflation - 2, 2.0)
        variance = float(residuals @ residuals) / (count - 2) * inflation
        error = math.sqrt(variance / spread) * (count - 1)
        return _Line(slope * (count - 1), error, freedom)

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
        # The stretch alone shows the ratio of the approach badly where noise is near its drift; the whole
        # series shows it well, unless it began with something else. The slower of the two is believed.
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


def _inflation(residuals: Series, fitted: int) -> float:
    """Factor by which autocorrelation raises the variance of a mean or a slope: (1 + r) / (1 - r).

    The sample's r is too small on short series, by about ``(fitted + (fitted + 2) r) / n`` where ``fitted``
    parameters were taken out (Marriott and Pope 1954 for the mean, extended to a line); that is put back.
    Negative autocorrelation is not credited.
    """
    count = len(residuals)
    power = float(residuals @ residuals)
    # Residuals at rounding level carry no information about their correlation.
    if power <= 1e-24:
        return 1.0
    sample = float(residuals[1:] @ residuals[:-1]) / power
    corrected = (sample + fitted / count) / (1 - (fitted + 2) / count)
    correlation = min(max(corrected, 0.0), 0.9)
    return (1 + correlation) / (1 - correlation)


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


def _least_share(freedom: int) -> float:
    """Return the lower 95 % bound of a normal standard deviation over its estimate."""
    from scipy.special import chdtri

    return math.sqrt(freedom / float(chdtri(freedom, 0.05)))


def _finite(values: Sequence[float]) -> Series:
    series = np.asarray(values, dtype=np.float64)
    if not np.isfinite(series).all():
        raise ValueError("a value is not finite")
    return series
