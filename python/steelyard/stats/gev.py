"""The generalized extreme value distribution, fitted to a histogram.

In: the edges and counts of bins. Out: `GevFit`: shape, location, scale with standard errors, and how far the
fitted curve lies from the data. The shape is that of `scipy.stats.genextreme` (c), the negative of the xi
that CPI2's paper writes: its GEV(1.73, 0.133, -0.0534) has c = 0.0534.

Method: L-moments of the histogram (Hosking, Wallis and Wood, Technometrics 27, 1985), each bin taken as
uniform, then the likelihood of the bins' counts, whose curvature gives the standard errors of independent
samples. Counts may be weighted; standard errors then take the weights for samples.

Samples of one task are alike, and tasks are not: a histogram of ten tasks is ten draws, however many samples
it has. `clustered` takes the sandwich of that curvature and the sums of scores by task instead (Liang and
Zeger, Biometrika 73, 1986), with Student's t by Kish's effective number of tasks.

Invariants: a histogram that no curve fits gives None with a reason, never a curve: CPI of few distinct values
has a likeliest curve like any other, whose quantiles lie anywhere. The same holds for a quantile (`tail`)
that another share of the samples lies above than the curve says. With fewer than ``LEAST_TASKS`` tasks in
effect there are no errors and no intervals, with a reason.

Not here: which bins, and the sums by task (``fleet.cpi.distribution``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

_FEWEST_BINS = 6
_FEWEST_SAMPLES = 50
_TINY = 1e-300
_LARGEST_TAU = 0.9
_STEP = 2e-3
LARGEST_DISTANCE = 0.1
"""A curve further from the samples than this, and further than chance, does not describe them: beyond some
value lies a share of the samples that is wrong by 10 percentage points."""
_CHANCE_DISTANCE = 1.358
"""Times 1/sqrt(samples): what samples of the very curve stay below in 95 of 100 cases (Kolmogorov)."""
_TAIL_FACTOR = 2.0
"""How many times more, or fewer, samples than it says may lie above a quantile."""
_TAIL_CHANCE = 0.01
LEAST_TASKS = 8.0
"""Tasks, counted by their samples (Kish), that errors need."""
Interval = tuple[float, float]


@dataclass(frozen=True)
class Gev:
    """One distribution; ``shape`` is scipy's c."""

    shape: float
    """The shape: scipy's c."""
    location: float
    """Location of the curve."""
    scale: float
    """Scale of the curve."""

    def cdf(self, x: ArrayLike) -> Floats:
        """Return the probability of at most ``x``."""
        return np.exp(-self._reduced(x))

    def density(self, x: ArrayLike) -> Floats:
        """Return the probability density at ``x``."""
        reduced = self._reduced(x)
        with np.errstate(invalid="ignore", over="ignore"):
            density = np.power(reduced, 1 - self.shape) * np.exp(-reduced) / self.scale
        return np.where((reduced > 0) & np.isfinite(reduced), density, 0.0)

    def quantile(self, probability: float) -> float:
        """Return the value that a share ``probability`` (inside 0 to 1) of samples does not exceed."""
        reduced = -math.log(probability)
        if abs(self.shape) < 1e-12:
            return self.location - self.scale * math.log(reduced)
        return self.location + self.scale * (1 - math.pow(reduced, self.shape)) / self.shape

    @property
    def mean(self) -> float | None:
        """The distribution's mean; None where it has none."""
        from scipy.special import gamma

        if self.shape <= -1:
            return None
        if abs(self.shape) < 1e-12:
            return self.location + self.scale * float(np.euler_gamma)
        return float(self.location + self.scale * (1 - gamma(1 + self.shape)) / self.shape)

    @property
    def sd(self) -> float | None:
        """The distribution's standard deviation; None where it has none."""
        from scipy.special import gamma

        if self.shape <= -0.5:
            return None
        if abs(self.shape) < 1e-12:
            return self.scale * math.pi / math.sqrt(6)
        first, second = gamma(1 + self.shape), gamma(1 + 2 * self.shape)
        return float(self.scale * math.sqrt(second - first**2) / abs(self.shape))

    def _reduced(self, x: ArrayLike) -> Floats:
        """Return (1 - c z)^(1/c), of which the exponential of the negative is the distribution function."""
        z = (np.asarray(x, dtype=np.float64) - self.location) / self.scale
        if abs(self.shape) < 1e-12:
            with np.errstate(over="ignore"):
                return np.exp(-z)
        inside = np.maximum(1 - self.shape * z, 0.0)
        with np.errstate(divide="ignore", over="ignore"):
            return np.power(inside, 1 / self.shape)


@dataclass(frozen=True)
class GevFit:
    """A fitted curve. Errors are standard errors, None where there are none: of the likelihood, as if samples
    were independent, until `clustered` puts those by task in their place.
    """

    gev: Gev
    shape_error: float | None
    location_error: float | None
    scale_error: float | None
    samples: float
    distance: float
    """The largest distance of the two distribution functions at the bins' edges (Kolmogorov and Smirnov)."""
    tasks: float | None = None
    """Tasks that errors and intervals are by, counted by their samples; None for errors of the likelihood."""
    shape_interval: Interval | None = None
    """Of 95 %, for tasks like these; None without errors by task."""
    location_interval: Interval | None = None
    scale_interval: Interval | None = None
    errors_missing: str | None = None
    """Why there are no errors by task."""


@dataclass(frozen=True)
class TaskSums:
    """Sums over tasks of products of what each has: samples (or their weight) and `scores`."""

    count: float
    count_square: float
    products: Floats
    """3 by 3: the sum over tasks of the outer product of a task's sum of scores with itself."""

    @property
    def effective(self) -> float:
        """Tasks counted by their samples."""
        return self.count**2 / self.count_square if self.count_square > 0 else 0.0


@dataclass(frozen=True)
class Histogram:
    """Bins in order, not necessarily beside each other: [low, high) with a count (or weight) each."""

    low: Floats
    high: Floats
    count: Floats

    @classmethod
    def of(cls, low: ArrayLike, high: ArrayLike, count: ArrayLike) -> Histogram:
        """Return the histogram of bins in any order; empty ones are left out."""
        lows, highs, counts = (np.asarray(column, dtype=np.float64) for column in (low, high, count))
        if not (lows.shape == highs.shape == counts.shape) or not np.all(lows < highs) or np.any(counts < 0):
            raise ValueError("bins have a low and a higher end, and a count that is not negative")
        order = np.argsort(lows, kind="stable")
        order = order[counts[order] > 0]
        return cls(lows[order], highs[order], counts[order])

    @property
    def total(self) -> float:
        """All counts together."""
        return float(self.count.sum())


def fit_gev(histogram: Histogram) -> tuple[GevFit | None, str | None]:
    """Return the curve that fits best, or None and the reason why there is none."""
    if len(histogram.count) < _FEWEST_BINS:
        return None, f"{len(histogram.count)} bins have samples, fewer than {_FEWEST_BINS}"
    if histogram.total < _FEWEST_SAMPLES:
        return None, f"{histogram.total:.0f} samples, fewer than {_FEWEST_SAMPLES}"
    start = from_l_moments(*l_moments(histogram))
    if start is None:
        return None, "the histogram is too skewed for any such curve"
    curve = _most_likely(histogram, start)
    far = distance(histogram, curve)
    most = max(LARGEST_DISTANCE, chance_distance(histogram.total))
    if not far <= most:
        return None, f"no GEV fits: the nearest is {far:.2f} away from the samples (limit {most:.2g})"
    return GevFit(curve, *_standard_errors(histogram, curve), histogram.total, far), None


def tail(histogram: Histogram, fit: GevFit, probability: float) -> tuple[float | None, str | None]:
    """Return the curve's quantile, or None and the reason: the samples' share above it is another.

    The share may differ by a factor of ``_TAIL_FACTOR``, and by what chance explains (binomial).
    """
    from scipy.special import bdtr, bdtrc

    value = fit.gev.quantile(probability)
    if not math.isfinite(value):
        return None, f"no GEV fits the tail: its {probability:g} quantile is not finite"
    expected, count = 1 - probability, max(math.floor(histogram.total), 1)
    seen = share_above(histogram, value)
    above = round(seen * count)
    few, many = expected / _TAIL_FACTOR, min(_TAIL_FACTOR * expected, (1 + expected) / 2)
    too_few = float(bdtr(above, count, few)) < _TAIL_CHANCE
    too_many = above > 0 and float(bdtrc(above - 1, count, many)) < _TAIL_CHANCE
    if not too_few and not too_many:
        return value, None
    return None, (
        f"no GEV fits the tail: {_percent(seen)} of the samples lie above its {probability:g} quantile"
        f" ({value:.3g}), not {_percent(expected)}"
    )


def share_above(histogram: Histogram, value: float) -> float:
    """Return the share of the samples above ``value``, each bin taken as uniform; there is a bin."""
    part = np.clip((histogram.high - value) / (histogram.high - histogram.low), 0.0, 1.0)
    return float((part * histogram.count).sum() / histogram.total)


def sample_quantile(histogram: Histogram, probability: float) -> float:
    """Return the end of the bin in which the share ``probability`` of the samples is reached.

    The end, because a bin may hold one value many times: no sample of it may lie above.
    """
    reached = np.cumsum(histogram.count) / histogram.total
    place = int(np.searchsorted(reached, probability * (1 - 1e-12)))
    return float(histogram.high[min(place, len(reached) - 1)])


def chance_distance(samples: float) -> float:
    """Return the distance that independent samples of the very curve stay below in 95 of 100 cases."""
    return _CHANCE_DISTANCE / math.sqrt(samples)


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"


def l_moments(histogram: Histogram) -> tuple[float, float, float]:
    """Return the first two L-moments and the L-skewness of a histogram.

    >>> first, second, skewness = l_moments(Histogram.of([0.0], [1.0], [7.0]))
    >>> round(first, 12), round(second, 12), round(skewness, 12)
    (0.5, 0.166666666667, 0.0)
    """
    share = histogram.count / histogram.total
    below = np.concatenate([[0.0], np.cumsum(share)[:-1]])
    # Within a bin x and F are straight lines of each other: three points of Gauss are exact for x F^2.
    node = 0.5 + np.array([-math.sqrt(0.15), 0.0, math.sqrt(0.15)])
    weight = np.array([5.0, 8.0, 5.0]) / 18
    x = histogram.low[:, None] + node * (histogram.high - histogram.low)[:, None]
    f = below[:, None] + node * share[:, None]
    b0, b1, b2 = (float((share[:, None] * weight * x * f**power).sum()) for power in range(3))
    second = 2 * b1 - b0
    return b0, second, (6 * b2 - 6 * b1 + b0) / second


def from_l_moments(first: float, second: float, skewness: float) -> Gev | None:
    """Return the distribution that has these L-moments; None where none has.

    >>> gev = from_l_moments(*l_moments(Histogram.of([0.0], [1.0], [7.0])))
    >>> round(gev.mean, 9)
    0.5
    """
    from scipy.optimize import brentq
    from scipy.special import gamma

    def skewness_of(shape: float) -> float:
        # Both powers leave 1 by little where the shape is small.
        return float(2 * np.expm1(-shape * math.log(3)) / np.expm1(-shape * math.log(2)) - 3)

    if not (second > 0 and abs(skewness) < _LARGEST_TAU):
        return None
    low, high = -0.98, 20.0
    if not skewness_of(high) < skewness < skewness_of(low):
        return None
    shape = float(brentq(lambda c: skewness_of(c if c else 1e-9) - skewness, low, high, xtol=1e-13))
    shape = shape if abs(shape) > 1e-9 else 1e-9
    scale = second * shape / (-math.expm1(-shape * math.log(2)) * gamma(1 + shape))
    return Gev(shape, float(first - scale * (1 - gamma(1 + shape)) / shape), float(scale))


def distance(histogram: Histogram, gev: Gev) -> float:
    """Return the largest distance between the histogram's and the curve's distribution function."""
    reached = np.cumsum(histogram.count) / histogram.total
    before = np.concatenate([[0.0], reached[:-1]])
    return float(
        max(np.abs(reached - gev.cdf(histogram.high)).max(), np.abs(before - gev.cdf(histogram.low)).max())
    )


def _unlikelihood(histogram: Histogram, shape: float, location: float, scale: float) -> float:
    return -float(histogram.count @ _log_inside(histogram, Gev(shape, location, scale)))


def _most_likely(histogram: Histogram, start: Gev) -> Gev:
    from scipy.optimize import minimize

    # In units of the start, so that CPI and seconds per operation take the same steps.
    def cost(at: Floats) -> float:
        scale = start.scale * math.exp(float(at[2]))
        value = _unlikelihood(histogram, float(at[0]), start.location + start.scale * float(at[1]), scale)
        return value / histogram.total

    begin = np.array([start.shape, 0.0, 0.0])
    simplex = begin + np.vstack([np.zeros(3), 0.1 * np.eye(3)])
    options = {"initial_simplex": simplex, "xatol": 1e-7, "fatol": 1e-13, "maxiter": 2000}
    optimum = minimize(cost, begin, method="Nelder-Mead", options=options)
    best = optimum.x if optimum.fun <= cost(begin) else begin
    return Gev(
        float(best[0]), start.location + start.scale * float(best[1]), start.scale * math.exp(float(best[2]))
    )


def scores(histogram: Histogram, at: Gev) -> Floats:
    """Return how much the logarithm of each bin's probability moves with shape, location and scale.

    One row a bin; location and scale in units of the curve's scale.
    """
    unit = np.array([1.0, at.scale, at.scale])
    here = np.array([at.shape, at.location, at.scale])
    columns = []
    for step in _STEP * np.eye(3):
        ends = [_log_inside(histogram, Gev(*(here + way * step * unit).tolist())) for way in (1, -1)]
        columns.append((ends[0] - ends[1]) / (2 * _STEP))
    return np.stack(columns, axis=1)


def clustered(fit: GevFit, histogram: Histogram, tasks: TaskSums, confidence: float = 0.95) -> GevFit:
    """Return the fit with errors and intervals by task, or with the reason why it has none."""
    from scipy.special import stdtrit

    bare = replace(fit, shape_error=None, location_error=None, scale_error=None, tasks=tasks.effective)
    if tasks.effective < LEAST_TASKS:
        few = f"samples of {tasks.effective:.1f} tasks in effect: errors need {LEAST_TASKS:g}"
        return replace(bare, errors_missing=few)
    inverse = _inverse_curvature(histogram, fit.gev)
    if inverse is None:
        return replace(bare, errors_missing="the likelihood has no clear maximum")
    variances = np.diag(inverse @ tasks.products @ inverse) * tasks.effective / (tasks.effective - 1)
    if not np.all(np.isfinite(variances)) or np.any(variances < 0):
        return replace(bare, errors_missing="the likelihood has no clear maximum")
    errors = (np.sqrt(variances) * np.array([1.0, fit.gev.scale, fit.gev.scale])).tolist()
    t = float(stdtrit(tasks.effective - 1, (1 + confidence) / 2))
    spans = [
        (value - t * error, value + t * error)
        for value, error in zip((fit.gev.shape, fit.gev.location, fit.gev.scale), errors, strict=True)
    ]
    return replace(
        bare,
        shape_error=errors[0],
        location_error=errors[1],
        scale_error=errors[2],
        shape_interval=spans[0],
        location_interval=spans[1],
        scale_interval=spans[2],
    )


def _log_inside(histogram: Histogram, gev: Gev) -> Floats:
    return np.asarray(np.log(np.maximum(gev.cdf(histogram.high) - gev.cdf(histogram.low), _TINY)))


def _standard_errors(histogram: Histogram, at: Gev) -> tuple[float | None, float | None, float | None]:
    """Return standard errors from the curvature of the likelihood."""
    inverse = _inverse_curvature(histogram, at)
    if inverse is None:
        return None, None, None
    shape, location, scale = (np.sqrt(np.diag(inverse)) * np.array([1.0, at.scale, at.scale])).tolist()
    return shape, location, scale


def _inverse_curvature(histogram: Histogram, at: Gev) -> Floats | None:
    """Return the inverse of the likelihood's curvature, by central differences, in the units of `scores`."""
    unit = np.array([1.0, at.scale, at.scale])
    here = np.array([at.shape, at.location, at.scale])

    def cost(shift: Floats) -> float:
        return _unlikelihood(histogram, *(here + shift * unit).tolist())

    curvature = np.empty((3, 3))
    eye = _STEP * np.eye(3)
    for i in range(3):
        for j in range(3):
            ends = (
                cost(eye[i] + eye[j]) - cost(eye[i] - eye[j]) - cost(eye[j] - eye[i]) + cost(-eye[i] - eye[j])
            )
            curvature[i, j] = ends / (4 * _STEP**2)
    try:
        inverse = np.linalg.inv(curvature)
    except np.linalg.LinAlgError:
        return None
    variances = np.diag(inverse)
    if not np.all(np.isfinite(variances)) or np.any(variances <= 0):
        return None
    return np.asarray(inverse)
