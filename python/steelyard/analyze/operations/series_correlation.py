"""Whether two series over time move together, and by how much one lags behind the other.

In: an application's series (operations, latency) and one of telemetry, each with its own times. Out:
`Correlation`: the normalised cross-correlation at each lag with its interval, the lag at which it is
largest in amount, and whether it is distinguishable from what unrelated series would show.

Method. Both series are averaged into bins of one width on the same clock. At lag k the correlation is
Pearson's over the pairs (x(t), y(t + k)) whose two bins are known: at k > 0 y follows x. Neighbouring
values of a series resemble each other, so n pairs are worth fewer: for two unrelated series the variance of
r is (1/n) sum over j of rho_x(j) rho_y(j) (Bartlett 1935), of which

    n_effective = n / (1 + 2 sum over j >= 1 of (1 - j/n) rho_x(j) rho_y(j))

is the estimate that Pyper and Peterman (1998) recommend, with lags up to n/5 and never more than n. The
interval is Fisher's, with Student's quantile for n_effective - 2 degrees of freedom, because n_effective is
an estimate: tanh(atanh r ± t / sqrt(n_effective - 3)). Two series that only rise correlate whatever they are,
and lags of a fifth see too little of it; so the interval reaches over the same one of what remains of both
without a cubic polynomial in time. Looking at many lags finds something by chance; the best one is judged at
the confidence that Bonferroni's correction leaves each.

Invariants: a constant series, or too few pairs, has no correlation and the reason, never 0. Correlation is no
cause: a lag says what came first, not why.

Not here: reading series from logs or services.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard.stats.sequential import student_quantile

Floats = NDArray[np.float64]

FEWEST_PAIRS = 8
"""Below it an interval covers nearly everything."""
_AUTOCORRELATION_SHARE = 5
_TREND = 3
"""Degree of the polynomial that is a trend."""
_ALMOST_ONE = 1 - 1e-12


@dataclass(frozen=True)
class TimeSeries:
    """Values at times of CLOCK_MONOTONIC; NaN for what is missing."""

    name: str
    unit: str
    time_ns: NDArray[np.int64]
    value: Floats

    def __post_init__(self) -> None:
        if self.time_ns.ndim != 1 or self.time_ns.shape != self.value.shape:
            raise ValueError(f"{self.name}: {self.time_ns.shape} times for {self.value.shape} values")

    @classmethod
    def of(cls, name: str, unit: str, time_ns: ArrayLike, value: ArrayLike) -> TimeSeries:
        """Return a series of anything that numpy takes."""
        return cls(name, unit, np.asarray(time_ns, dtype=np.int64), np.asarray(value, dtype=np.float64))


@dataclass(frozen=True, slots=True)
class AtLag:
    """The correlation at one lag."""

    lag_ns: int
    """How much later the second series is taken: positive where it follows the first."""
    r: float | None
    """The correlation."""
    low: float | None
    """Lower end of the interval at this lag alone."""
    high: float | None
    """Upper end of it."""
    pairs: int
    """Values that are compared."""
    effective_pairs: float | None
    """Independent ones that say as much."""
    missing: str | None = None
    """Why there is none."""


@dataclass(frozen=True)
class Correlation:
    """Two series compared over lags."""

    first: str
    second: str
    bin_ns: int
    confidence: float
    lags: tuple[AtLag, ...]
    best: AtLag | None
    """Where the correlation is largest in amount, None where none is known."""
    distinguishable: bool | None
    """Whether the best lag differs from no correlation, looking at all lags; None where there is no best."""
    missing: str | None = None
    low: float | None = None
    """Lower end of the best lag's interval, wide enough for having looked at all lags."""
    high: float | None = None
    looked_at: int = 0
    """Lags with a correlation, among which the best was chosen."""

    @property
    def claim(self) -> str:
        """The result in a sentence."""
        if self.best is None or self.best.r is None:
            return f"{self.first} and {self.second}: {self.missing}"
        if not self.distinguishable:
            return f"{self.first} and {self.second}: no correlation that chance does not give"
        seconds = self.best.lag_ns / 1e9
        order = "at once"
        if seconds > 0:
            order = f"{self.second} follows {self.first} by {seconds:g} s"
        elif seconds < 0:
            order = f"{self.first} follows {self.second} by {-seconds:g} s"
        return f"{self.first} and {self.second} correlate at {self.best.r:.2f}, {order}"


def correlate(
    first: TimeSeries,
    second: TimeSeries,
    *,
    most_lag_ns: int = 0,
    bin_ns: int | None = None,
    confidence: float = 0.95,
    best_only: bool = False,
) -> Correlation:
    """Return the correlation of two series at every lag up to ``most_lag_ns`` either way.

    ``bin_ns`` is the wider of the two series' median distances unless given. With ``best_only`` the answer
    holds the best lag alone, which is found in a hundredth of the time.

    Raises ValueError for a negative lag, a bin that is not positive or a confidence outside 0..1.
    """
    if most_lag_ns < 0 or not 0 < confidence < 1 or (bin_ns is not None and bin_ns <= 0):
        raise ValueError("a lag is not negative, a bin positive, a confidence between 0 and 1")
    width = bin_ns or max(_step(first), _step(second))
    binned = grids(first, second, width) if width else None
    if binned is None or width is None:
        reason = "the series do not overlap in time, or one has no two values"
        return Correlation(first.name, second.name, width or 0, confidence, (), None, None, reason)
    most = min(most_lag_ns // width, len(binned[0]) - 1)
    chosen = list(range(-most, most + 1))
    looked_at = None
    if best_only:
        rs = {lag: coefficient(*_shifted(binned[0], binned[1], lag)) for lag in chosen}
        having = [(lag, abs(r)) for lag, r in rs.items() if r is not None]
        looked_at = len(having)
        chosen = [max(having, key=lambda pair: (pair[1], -abs(pair[0])))[0]] if having else [0]
    lags = tuple(
        at_lag(binned[0], binned[1], lag, lag_ns=lag * width, confidence=confidence) for lag in chosen
    )
    known = [each for each in lags if each.r is not None]
    if not known:
        middle = lags[len(lags) // 2]
        return Correlation(first.name, second.name, width, confidence, lags, None, None, middle.missing)
    best = max(known, key=lambda each: (abs(each.r or 0.0), -abs(each.lag_ns)))
    looked_at = looked_at or len(known)
    lone = 1 - (1 - confidence) / looked_at
    low, high = best.low, best.high
    if looked_at > 1 and low is not None:
        low, high = _widened(binned, best, width, lone)
    return Correlation(
        first.name,
        second.name,
        width,
        confidence,
        lags,
        best,
        low is not None and (low > 0 or (high or 0) < 0),
        low=low,
        high=high,
        looked_at=looked_at,
    )


def _widened(
    binned: tuple[Floats, Floats], best: AtLag, width: int, confidence: float
) -> tuple[float | None, float | None]:
    """Return the interval of the best lag at another confidence."""
    again = at_lag(binned[0], binned[1], best.lag_ns // width, confidence=confidence)
    return again.low, again.high


def _step(series: TimeSeries) -> int:
    """Return the median distance of a series' known values, 0 where there are no two."""
    times = np.unique(series.time_ns[np.isfinite(series.value)])
    return max(1, int(np.median(np.diff(times)))) if len(times) > 1 else 0


def grids(first: TimeSeries, second: TimeSeries, width: int) -> tuple[Floats, Floats] | None:
    """Return both series as means of the same bins over the time that both cover, NaN for empty bins."""
    spans = []
    for series in (first, second):
        times = series.time_ns[np.isfinite(series.value)]
        if len(times) < 2:
            return None
        spans.append((int(times.min()), int(times.max())))
    begin, end = max(span[0] for span in spans), min(span[1] for span in spans)
    if end <= begin:
        return None
    count = (end - begin) // width + 1
    return _bin(first, begin, width, count), _bin(second, begin, width, count)


def _bin(series: TimeSeries, begin: int, width: int, count: int) -> Floats:
    places = (series.time_ns - begin) // width
    keep = np.isfinite(series.value) & (series.time_ns >= begin) & (places < count)
    sums = np.bincount(places[keep], weights=series.value[keep], minlength=count)
    seen = np.bincount(places[keep], minlength=count)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(seen > 0, sums / seen, np.nan)


def at_lag(
    first: Floats, second: Floats, lag: int, *, lag_ns: int | None = None, confidence: float = 0.95
) -> AtLag:
    """Return the correlation of ``first[t]`` and ``second[t + lag]``, equally spaced, NaN for gaps."""
    shift = lag if lag_ns is None else lag_ns
    x, y = _shifted(first, second, lag)
    both = np.isfinite(x) & np.isfinite(y)
    pairs = int(both.sum())
    if pairs < FEWEST_PAIRS:
        reason = f"{pairs} pairs of values, fewer than {FEWEST_PAIRS}"
        return AtLag(shift, None, None, None, pairs, None, reason)
    # Gaps stay gaps, so that neighbours are neighbours in time.
    x, y = np.where(both, x, np.nan), np.where(both, y, np.nan)
    dx, dy = x - np.nanmean(x), y - np.nanmean(y)
    # A constant's deviations are rounding errors of its mean.
    for name, values, deviations in (("first", x, dx), ("second", y, dy)):
        if np.nanmax(np.abs(deviations)) <= 1e-12 * np.nanmax(np.abs(values)):
            return AtLag(shift, None, None, None, pairs, None, f"the {name} series is constant")
    # Scaled, so that squares of very small deviations do not vanish.
    dx, dy = dx / np.nanmax(np.abs(dx)), dy / np.nanmax(np.abs(dy))
    r = float(np.nansum(dx * dy) / math.sqrt(float(np.nansum(dx**2)) * float(np.nansum(dy**2))))
    r = min(1.0, max(-1.0, r))
    effective = effective_pairs(dx, dy)
    low, high = interval_of(r, effective, dx, dy, confidence)
    missing = None if low is not None else f"the pairs are worth {effective:.1f} independent ones"
    return AtLag(shift, r, low, high, pairs, effective, missing)


def _shifted(first: Floats, second: Floats, lag: int) -> tuple[Floats, Floats]:
    """Return the parts of two series that meet when the second is taken ``lag`` steps later."""
    count = max(min(len(first), len(second)), abs(lag))
    return first[max(0, -lag) : count - max(0, lag)], second[max(0, lag) : count - max(0, -lag)]


def coefficient(x: Floats, y: Floats) -> float | None:
    """Return Pearson's r of the pairs of which both are known, None where `at_lag` has none."""
    both = np.isfinite(x) & np.isfinite(y)
    if int(both.sum()) < FEWEST_PAIRS:
        return None
    parts = []
    for values in (x[both], y[both]):
        deviations = values - values.mean()
        largest = float(np.abs(deviations).max())
        if largest <= 1e-12 * float(np.abs(values).max()):
            return None
        parts.append(deviations / largest)
    first, second = parts
    r = float(first @ second) / math.sqrt(float(first @ first) * float(second @ second))
    return min(1.0, max(-1.0, r))


def effective_pairs(dx: Floats, dy: Floats) -> float:
    """Return what the pairs of two series are worth in independent ones (see the module).

    ``dx`` and ``dy`` are deviations from the mean, or from a trend, with NaN for gaps.
    """
    pairs = int((np.isfinite(dx) & np.isfinite(dy)).sum())
    most = min(max(1, pairs // _AUTOCORRELATION_SHARE), len(dx) - 1)
    lags = np.arange(1, most + 1)
    products = autocorrelations(dx, most)[1:] * autocorrelations(dy, most)[1:]
    total = float(np.sum((1 - lags / pairs) * products))
    return pairs / max(1.0, 1 + 2 * total)


def interval_of(
    r: float, effective: float, dx: Floats, dy: Floats, confidence: float
) -> tuple[float | None, float | None]:
    """Return the interval of a correlation that holds with the series' trends and without them.

    Two series that only rise correlate whatever they are: a trend is one event, however many readings it has.
    So the interval reaches over Fisher's of the series and Fisher's of what remains of them without a cubic
    polynomial.
    """
    low, high = _interval(r, effective, confidence)
    both = np.isfinite(dx) & np.isfinite(dy)
    if low is None or high is None or int(both.sum()) < FEWEST_PAIRS:
        return low, high
    x, y = (_without_trend(deviations, both) for deviations in (dx, dy))
    if x is None or y is None:
        # Nothing remains without the trend, so nothing is known beside it.
        return min(low, 0.0), max(high, 0.0)
    rest = float(np.nansum(x * y) / math.sqrt(float(np.nansum(x**2)) * float(np.nansum(y**2))))
    worth = effective_pairs(x, y) - _TREND
    rest_low, rest_high = _interval(rest, worth, confidence)
    if rest_low is None or rest_high is None:
        return min(low, 0.0), max(high, 0.0)
    return min(low, rest_low), max(high, rest_high)


def _without_trend(values: Floats, known: NDArray[np.bool_]) -> Floats | None:
    """Return what remains of values without their trend, None where that is nothing."""
    time = np.linspace(-1, 1, len(values))
    shape = np.polynomial.legendre.legvander(time, _TREND)
    weights, *_ = np.linalg.lstsq(shape[known], values[known], rcond=None)
    remainder = np.where(known, values - shape @ weights, np.nan)
    largest = float(np.nanmax(np.abs(remainder)))
    return None if largest <= 1e-9 else remainder / largest


def autocorrelations(deviations: Floats, most: int) -> Floats:
    """Return a series' correlation with itself 0 to ``most`` steps later, from its deviations, NaN for gaps.

    Sums of products are over all known values, as Box and Jenkins estimate it: over the few that overlap at
    long lags they would be noise.
    """
    values = np.nan_to_num(deviations, nan=0.0)
    # Twice the length: what wraps around meets zeros.
    spectrum = np.fft.rfft(values, 2 * len(values))
    sums = np.fft.irfft(spectrum * np.conj(spectrum), 2 * len(values))[: most + 1]
    return np.asarray(sums / sums[0], dtype=np.float64)


def _interval(r: float, effective: float, confidence: float) -> tuple[float | None, float | None]:
    """Return Fisher's interval, none from three independent pairs or fewer."""
    if effective <= 3:
        return None, None
    middle = math.atanh(min(_ALMOST_ONE, max(-_ALMOST_ONE, r)))
    half = student_quantile(0.5 + confidence / 2, effective - 2) / math.sqrt(effective - 3)
    return math.tanh(middle - half), math.tanh(middle + half)


def strongest(correlations: Sequence[Correlation]) -> list[Correlation]:
    """Return the distinguishable correlations, the strongest first; each is tested alone."""
    kept = [each for each in correlations if each.distinguishable and each.best is not None]
    return sorted(kept, key=lambda each: -abs((each.best.r if each.best else None) or 0.0))
