"""Shares of a population that was sampled in clusters, and how sure they are: shares of a fleet's cycles,
with machines as clusters.

In: sums over clusters of the part's weight y and of all weight x, up to their third powers. Out: the share
sum(y) / sum(x) with its interval, as arrays: one element a share.

The share is a ratio of sums, whose residuals e = y - p x by cluster give its variance (Cochran, Sampling
Techniques, 3rd ed., 6.4 and 9A.3), scaled for the part that each cluster has in p, which is right for shares
that scatter alike whatever a cluster's weight (the bias-reduced linearization of Bell and McCaffrey, Survey
Methodology 28, 2002); degrees of freedom are Kish's effective number of clusters less 1.

A part is often held by few clusters: most have none of it and some much, so that the estimate is skewed. The
interval is the hull of two, both with Student's t: on the logit, and with the skewness of the residuals taken
out by Hall's transformation (P. Hall, Journal of the Royal Statistical Society B 54, 1992). Neither alone
holds where clusters are few.

Invariants: a part that fewer than ``LEAST_HOLDERS`` clusters make up in effect, or all but the part, has no
interval: whether others have it is not known from so few.

Not here: how sums are made (``fleet.profiles.shares``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
LEAST_HOLDERS = 4.0
"""Clusters, counted by their weight (Kish), that must make up a part before an interval is stated."""
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Clusters:
    """Sums of the weight x over clusters: what shares are of."""

    count: int
    weight: float
    square: float
    cube: float

    @property
    def effective(self) -> float:
        """The number of clusters counted by their weight (L. Kish, Survey Sampling, 1965)."""
        return self.weight**2 / self.square if self.square > 0 else 0.0

    @property
    def degrees(self) -> float:
        """Degrees of freedom of a variance between them; 0 where one has nearly all of the weight."""
        return max(0.0, self.effective - 1)

    @property
    def correction(self) -> float:
        """What squared residuals are to be multiplied with: n / (n - 1) for clusters of equal weight."""
        if self.degrees < _ROUNDING:
            return np.inf
        squares, cubes = self.square / self.weight**2, self.cube / self.weight**3
        own = squares - 2 * cubes + squares**2
        return squares / own if own > _ROUNDING * squares else np.inf


@dataclass(frozen=True)
class Parts:
    """Sums over clusters of products of a part's weight y and the weight x of all; one element a part."""

    y: Floats
    yy: Floats
    yx: Floats
    yyy: Floats
    yyx: Floats
    yxx: Floats


@dataclass(frozen=True)
class Shares:
    """Shares with intervals; one element a part, NaN where nothing is stated."""

    ratio: Floats
    low: Floats
    high: Floats
    error: Floats
    """Standard error; NaN with fewer than two clusters."""
    holders: Floats
    """Clusters in effect that make up the part, or all but the part where these are fewer."""


def holders(total: Floats, square: Floats) -> Floats:
    """Return how many clusters make up a weight, counted by their part of it."""
    # Squared shares: a square of the total may be beyond what a float holds.
    with np.errstate(all="ignore"):
        effective = 1 / (square / total / total)
    return np.where(np.isfinite(effective), effective, 0.0)


def shares_of(parts: Parts, of: Clusters, confidence: float = 0.95) -> Shares:
    """Return the shares of ``parts`` in ``of``."""
    from scipy.special import expit, logit, stdtrit

    with np.errstate(all="ignore"):
        ratio = np.clip(parts.y / of.weight, 0.0, 1.0)
        rest = of.weight - parts.y
        of_rest = holders(rest, of.square - 2 * parts.yx + parts.yy)
        of_part = holders(parts.y, parts.yy)
        # Nothing is left of a share of 1, and rounding leaves a trace of it.
        is_all = rest <= _ROUNDING * of.weight
        held = np.where(is_all, of_part, np.minimum(of_part, of_rest))
        nothing = np.full_like(ratio, np.nan)
        if of.degrees < _ROUNDING or not np.isfinite(of.correction):
            return Shares(ratio, nothing, nothing, nothing, held)
        spread = parts.yy - 2 * ratio * parts.yx + ratio**2 * of.square
        spread = np.where(spread > _ROUNDING * parts.yy, spread, 0.0)
        error = np.sqrt(spread * of.correction) / of.weight
        third = parts.yyy - 3 * ratio * parts.yyx + 3 * ratio**2 * parts.yxx - ratio**3 * of.cube
        # Of the residuals, over the root of their number; rounding aside it is never beyond 1. A tail is on
        # the side of 1/2: the other way it is chance, and would take an interval of few clusters to the end.
        skew = np.where(spread > 0, third / spread / np.sqrt(spread), 0.0)
        skew = np.where(ratio <= 0.5, np.clip(skew, 0.0, 1.0), np.clip(skew, -1.0, 0.0))
        t = float(stdtrit(of.degrees, (1 + confidence) / 2))
        reach = t * error / (ratio * (1 - ratio))
        low = np.fmin(expit(logit(ratio) - reach), ratio - without_skew(t, skew) * error)
        high = np.fmax(expit(logit(ratio) + reach), ratio - without_skew(-t, skew) * error)
        # Clusters that agree to the last digit: no more is known than that so many do (Wilson).
        agree = t * t / (of.effective + t * t)
        middle = ratio + agree * (0.5 - ratio)
        wilson = agree * np.sqrt(ratio * (1 - ratio) * of.effective / (t * t) + 0.25)
        low = np.where(spread > 0, low, middle - wilson)
        high = np.where(spread > 0, high, middle + wilson)
        known = (held >= LEAST_HOLDERS * (1 - _ROUNDING)) & np.isfinite(error)
        low, high = (np.where(known, np.clip(end, 0.0, 1.0), np.nan) for end in (low, high))
        return Shares(ratio, np.minimum(low, ratio), np.maximum(high, ratio), error, held)


def without_skew(z: float, skew: Floats) -> Floats:
    """Return what a studentized mean with this skewness is where Hall's transformation of it is ``z``.

    The transformation is T + g T^2 / 3 + g^2 T^3 / 27 + g / 6 with g the skewness of one draw over the root
    of their number; it rises with T everywhere, so that its inverse is known in closed form.

    >>> without_skew(1.96, np.array([0.0])).round(3).tolist()
    [1.96]
    """
    small = np.abs(skew) < 1e-6
    g = np.where(small, 1.0, skew)
    return np.where(small, z, 3 * (np.cbrt(1 + g * (z - g / 6)) - 1) / g)
