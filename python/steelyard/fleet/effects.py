"""How much something changes a figure, compared only among samples that are alike otherwise.

In: sums of each (stratum, cluster): samples n, and the sums of x, x^2, y and xy, where y is the figure (CPI,
CPU time, latency) and x what may change it (1 - NUMA score; whether another job is on the machine). Out:
`Effect`, a in

    y = base_s (1 + a x),    base_s free in each stratum s,

with an interval that is robust to samples of one cluster (a machine) being alike.

The estimate solves  sum_s S_xy,s (1 + a x_s) / y_s = a sum_s S_xx,s  with the strata's means x_s, y_s and
their centred sums of products: the moment equation of the model above with each stratum's base profiled out,
which is linear in a. Its variance is the sandwich over clusters (Liang and Zeger, Biometrika 73, 1986), each
cluster's residuals scaled for the part that they have in a (Bell and McCaffrey, Survey Methodology 28, 2002;
Cameron and Miller, Journal of Human Resources 50, 2015). Degrees of freedom are the effective number of
clusters less 1, counted by how much of the estimate each decides: the mean of its part of the variance of x
and of its part where the whole cluster is off by one factor.

Invariants: a stratum in which x does not differ says nothing and takes no part; with fewer than
``LEAST_DEGREES`` degrees of freedom there is no interval, with the reason.

Not here: the sums (``numa.locality``, ``placement.pair``), which engines make.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
LEAST_DEGREES = 1.5
"""With fewer degrees of freedom an interval would say nothing."""
_ROUNDING = 1e-12
_SUMS = ("n", "x", "xx", "y", "xy")


@dataclass(frozen=True)
class Effect:
    """What x does to y: y at x = 1 is ``1 + value`` times y at x = 0."""

    value: float
    """The effect, less 1."""
    low: float | None
    """Lower end of the interval, None where there is none."""
    high: float | None
    """Upper end of it."""
    standard_error: float | None
    """Of ``value``."""
    p_value: float | None
    """Of no effect, two-sided."""
    samples: int
    """Samples in strata that take part."""
    strata: int
    """Strata that take part."""
    machines: int
    """Clusters of samples: machines."""
    reason: str = ""
    """Why there is no interval."""
    freedom: float | None = None
    """Degrees of freedom of the interval."""

    def at(self, x: float) -> tuple[float, float | None, float | None]:
        """Return the ratio of y at ``x`` to y at 0, with its interval."""
        ends = [None if end is None else 1 + end * x for end in (self.low, self.high)]
        return 1 + self.value * x, ends[0], ends[1]


def stratified_effect(
    strata: Ids,
    clusters: Ids,
    sums: Mapping[str, Floats],
    confidence: float = 0.95,
    freedom: int | None = None,
) -> Effect | None:
    """Return the effect of x on y within strata, or None where x differs in no stratum.

    ``strata`` and ``clusters`` number each row, ``sums`` holds ``n``, ``x``, ``xx``, ``y`` and ``xy`` of it.
    ``freedom`` are degrees of freedom at most, where few clusters have an x of their own kind.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return _stratified(strata, clusters, sums, confidence, freedom)


def _stratified(
    strata: Ids, clusters: Ids, sums: Mapping[str, Floats], confidence: float, freedom: int | None
) -> Effect | None:
    if not len(strata):
        return None
    _, strata = np.unique(strata, return_inverse=True)
    total = {name: np.bincount(strata, weights=sums[name]) for name in _SUMS}
    n = total["n"]
    x_mean, y_mean = total["x"] / n, total["y"] / n
    s_xx = np.maximum(0.0, total["xx"] - n * x_mean**2)
    s_xy = total["xy"] - n * x_mean * y_mean
    # Rounding leaves a trace of variance where there is none.
    used = (s_xx > 1e-9 * np.maximum(total["xx"], 1e-300)) & (y_mean > 0) & (n > 1)
    if not used.any():
        return None
    slope = np.where(used, s_xy / np.where(used, y_mean, 1.0), 0.0)
    jacobian = float((s_xx[used] - (slope * x_mean)[used]).sum())
    # Sums that are not finite say nothing either.
    if not 0 < jacobian < np.inf:
        return None
    value = float(slope[used].sum()) / jacobian
    if not np.isfinite(value):
        return None
    scale = np.where(used, (1 + value * x_mean) / np.where(used, y_mean, 1.0), 0.0)
    shift = np.where(used, slope / n, 0.0)
    keep = used[strata]
    influence = _influence(
        strata[keep], {k: v[keep] for k, v in sums.items()}, x_mean, y_mean, scale, shift, value
    )
    _, which = np.unique(clusters[keep], return_inverse=True)
    count = int(which.max()) + 1
    bare = Effect(
        value=value,
        low=None,
        high=None,
        standard_error=None,
        p_value=None,
        samples=round(float(n[used].sum())),
        strata=int(used.sum()),
        machines=count,
    )
    if count < 2:
        return replace(bare, reason="samples of one machine only")
    part, degrees = _leverage(which, strata[keep], {k: v[keep] for k, v in sums.items()}, x_mean)
    degrees = min(degrees, np.inf if freedom is None else freedom)
    if degrees < LEAST_DEGREES:
        return replace(
            bare, reason=f"samples of {count} machines, of which few decide: too few for an interval"
        )
    of_cluster = np.bincount(which, weights=influence)
    variance = float((of_cluster**2 / (1 - part)).sum()) / jacobian**2
    return _with_interval(bare, variance, confidence, degrees)


def _leverage(which: Ids, strata: Ids, sums: Mapping[str, Floats], x_mean: Floats) -> tuple[Floats, float]:
    """Return each cluster's part of the variance of x, and the degrees of freedom between clusters."""
    mean, n, x = x_mean[strata], sums["n"], sums["x"]
    squares = np.bincount(which, weights=np.maximum(0.0, sums["xx"] - 2 * mean * x + n * mean**2))
    whole = np.bincount(which, weights=x - n * mean) ** 2
    part = squares / squares.sum()
    # Where every cluster has the same x, none is off by more than its part.
    shifted = whole / whole.sum() if whole.sum() > _ROUNDING * squares.sum() else part
    both = (part + shifted) / 2
    degrees = 1 / float((both**2).sum()) - 1
    return np.minimum(part, 1 - _ROUNDING), degrees


def _influence(
    strata: Ids,
    sums: Mapping[str, Floats],
    x_mean: Floats,
    y_mean: Floats,
    scale: Floats,
    shift: Floats,
    value: float,
) -> Floats:
    """Return each row's part of the estimating equation: the sum of e (x - x_s - shift_s) with the residual
    e = scale_s (y - y_s) - a (x - x_s), where shift_s = S_xy / (n y_s) is what estimating base_s adds.
    """
    xm, ym, s, h = x_mean[strata], y_mean[strata], scale[strata], shift[strata]
    n, x, xx, y, xy = (sums[name] for name in _SUMS)
    x_centred, y_centred = x - n * xm, y - n * ym
    xx_centred = xx - 2 * xm * x + n * xm**2
    xy_centred = xy - xm * y - ym * x + n * xm * ym
    result: Floats = s * xy_centred - value * xx_centred - h * (s * y_centred - value * x_centred)
    return result


def wider(effect: Effect, standard_error: float, p_value: float | None, confidence: float = 0.95) -> Effect:
    """Return an effect with the larger of its own and this standard error, and with this p value if any."""
    own = effect.standard_error
    if effect.low is None or effect.high is None or own is None or not standard_error > own:
        return effect if p_value is None else replace(effect, p_value=p_value)
    freedom = np.inf if effect.freedom is None else effect.freedom
    one = _with_interval(effect, standard_error**2, confidence, freedom)
    return one if p_value is None else replace(one, p_value=p_value)


def _with_interval(bare: Effect, variance: float, confidence: float, freedom: float) -> Effect:
    from scipy.special import stdtr, stdtrit

    error = variance**0.5
    if error < _ROUNDING and abs(bare.value) < _ROUNDING:
        # A figure that never changes: what is left of it is rounding, and no effect.
        error, bare = 0.0, replace(bare, value=0.0)
    reach = float(stdtrit(freedom, (1 + confidence) / 2)) * error
    p_value = 0.0 if bare.value else 1.0
    if error > 0:
        p_value = float(2 * stdtr(freedom, -abs(bare.value) / error))
    return replace(
        bare,
        low=bare.value - reach,
        high=bare.value + reach,
        standard_error=error,
        p_value=p_value,
        freedom=freedom,
    )


def correlation(strata: Ids, sums: Mapping[str, Floats]) -> float | None:
    """Return Pearson's correlation of x and y within strata, each stratum's y over its own mean; None where
    one of them does not differ. ``sums`` holds ``yy`` beside the others.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        value = _correlation(strata, sums)
    return value if value is not None and np.isfinite(value) else None


def _correlation(strata: Ids, sums: Mapping[str, Floats]) -> float | None:
    if not len(strata):
        return None
    _, strata = np.unique(strata, return_inverse=True)
    n, x, xx, y, xy, yy = (np.bincount(strata, weights=sums[name]) for name in (*_SUMS, "yy"))
    some = (n > 0) & (y > 0)
    n, x, xx, y, xy, yy = (part[some] for part in (n, x, xx, y, xy, yy))
    mean = y / n
    s_xx, s_yy = (xx - x * x / n).sum(), ((yy - y * y / n) / mean**2).sum()
    s_xy = ((xy - x * y / n) / mean).sum()
    if s_xx <= 1e-12 * abs(xx.sum()) or s_yy <= 1e-12 * abs((yy / mean**2).sum()):
        return None
    return float(s_xy / (s_xx * s_yy) ** 0.5)


def holm(p_values: Floats) -> Floats:
    """Return p-values adjusted for being several (Holm, Scandinavian Journal of Statistics 6, 1979).

    >>> holm(np.array([0.01, 0.04, 0.03])).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values)
    steps = p_values[order] * np.arange(len(p_values), 0, -1)
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(steps)) if len(p_values) else []
    return adjusted
