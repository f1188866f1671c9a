"""Whether machines with a neighbour differ by more than machines do anyway: an effect's permutation test.

In: the sums of ``effects``, and the group (platform) within which machines are alike. Out: `Permuted`: a p
value and a standard error that rest on the spread of *all* machines. The sandwich of ``effects`` rests on
those that decide: nine machines that all happen to be in the slower of two states have no spread, and are no
proof.

Method. The estimating equation at no effect is split for each machine: its mean residual times how much of x
it has (between machines), and what is left (within the machine). Under no effect machines of a group may
swap residuals (E. Pitman, "Significance Tests Which May Be Applied to Samples from Any Populations", JRSS
Supplement 4, 1937), and what is within a machine may change its sign. p is that of permutations drawn at
random; where fewer than `_FEW` of these are as far away, and from `MANY` machines with the neighbour on, it
is a Pearson curve of type III with the exact mean, variance and skewness of all of them (as Winkler and
others, NeuroImage 141, 2016), but never below one in the number of different arrangements.

A machine's minutes with the neighbour may be one stretch, in which its CPI stays in one state: a stretch
counts for one draw from all minutes of the machine, and a longer one for a draw each `STRETCH` samples.

Invariants: the same sums give the same answer (seeded).

Not here: the effect (``effects``), Holm's correction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
_DRAWS = 1999
_MOST_CELLS = 4_000_000
"""Permuted values at most: of very many machines fewer permutations are drawn."""
_FEW = 10
MANY = 20
"""Machines with the neighbour from which the curve stands for the permutations: below, they are drawn."""
STRETCH = 30
"""Samples one after another that may say no more than one of them."""
_SEED = 20_261_128


@dataclass(frozen=True)
class Permuted:
    """What the spread of all machines says of an effect."""

    p_value: float | None
    """Of no effect, two-sided; None where it was not asked for."""
    standard_error: float
    """Of the effect, were machines, and stretches of their minutes, to differ as they do without it."""


def permuted(
    strata: Ids,
    clusters: Ids,
    groups: Ids,
    sums: Mapping[str, Floats],
    value: float,
    *,
    with_p_value: bool = True,
) -> Permuted:
    """Return how an effect of ``value`` stands among permutations; the p value takes most of the time.

    ``strata``, ``clusters`` and ``groups`` number each row; ``sums`` are those of
    ``effects.stratified_effect`` with x of 0 or 1 in each sample, that of y^2 as ``yy``, and how many
    stretches of x of 1 begin as ``starts``; x must differ in some stratum.
    """
    left = _split(strata, clusters, groups, sums, value).beside_scaled(value)
    p_value = _p_value(_split(strata, clusters, groups, sums, 0.0)) if with_p_value else None
    return Permuted(p_value, math.sqrt(left.moments()[0] + left.more_within) / left.jacobian)


@dataclass(frozen=True)
class _Machines:
    """Of each machine: its group, mean residual, part of x, and what is left within it."""

    group: Ids
    residual: Floats
    exposure: Floats
    beside_ratio: Floats
    """Share of its samples with the neighbour."""
    within: Floats
    more_within: float
    """Variance of what is within machines, by stretches, beyond the sum of its squares; 0 at least."""
    jacobian: float
    """What the estimating equation changes by for an effect of 1."""
    arrangements: float
    """Logarithm of the number of different ones."""

    def beside_scaled(self, value: float) -> _Machines:
        """Return the same with residuals in proportion to the level that the neighbour makes."""
        level = np.maximum(1 + value * self.beside_ratio, 0.1)
        return replace(self, residual=self.residual / level, exposure=self.exposure * level)

    @property
    def total(self) -> float:
        return float((self.residual * self.exposure).sum() + self.within.sum())

    @property
    def expected(self) -> float:
        """The total's mean over all permutations."""
        groups = [self.group == one for one in np.unique(self.group)]
        return float(sum(self.residual[here].mean() * self.exposure[here].sum() for here in groups))

    def moments(self) -> tuple[float, float]:
        """Return the variance and the third moment of the total over all permutations."""
        variance, third = float((self.within**2).sum()), 0.0
        for one in np.unique(self.group):
            here = self.group == one
            count = int(here.sum())
            if count < 2:
                continue
            a, b = (each[here] - each[here].mean() for each in (self.residual, self.exposure))
            variance += float((a**2).sum() * (b**2).sum()) / (count - 1)
            if count > 2:
                third += count * float((a**3).sum() * (b**3).sum()) / ((count - 1) * (count - 2))
        return variance, third


def _split(strata: Ids, clusters: Ids, groups: Ids, sums: Mapping[str, Floats], value: float) -> _Machines:
    _, at = np.unique(strata, return_inverse=True)
    n, x, y = (np.bincount(at, weights=sums[name]) for name in ("n", "x", "y"))
    share = x / n
    used = ((share > 0) & (share < 1) & (y > 0))[at]
    at, clusters, groups = at[used], clusters[used], groups[used]
    rows = {name: sums[name][used] for name in ("n", "x", "y", "xy", "yy", "starts")}
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        # Each sample's residual y (1 + a x_s) / y_s - 1 - a (x - x_s), summed over samples, and times x.
        scale = ((1 + value * share) * n / y)[at]
        e = rows["y"] * scale - rows["n"] - value * rows["x"]
        xe = rows["xy"] * scale - rows["x"] - value * rows["x"]
    _, first, machine = np.unique(clusters, return_index=True, return_inverse=True)
    group: Ids = groups[first]
    centred = rows["x"] - rows["n"] * share[at]
    samples = np.bincount(machine, weights=rows["n"])
    exposure = np.asarray(np.bincount(machine, weights=centred), dtype=np.float64)
    residual = np.asarray(np.bincount(machine, weights=e) / samples)
    each = np.bincount(machine, weights=xe - share[at] * e)
    beside = np.bincount(machine, weights=rows["x"])
    within = np.asarray(each - residual * exposure)
    # Each sample's residual at no effect, squared: (y / y_s - 1)^2.
    level = (n / y)[at]
    squared = rows["yy"] * level**2 - 2 * rows["y"] * level + rows["n"]
    spread = np.maximum(0.0, np.bincount(machine, weights=squared) / samples - residual**2)
    apart = samples - beside
    parts = (np.maximum(beside, 1), np.maximum(apart, 1))
    starts = np.bincount(machine, weights=rows["starts"])
    per_draw = sum(1 / np.maximum(1 + (count - 1) / STRETCH, np.minimum(starts, count)) for count in parts)
    by_stretches = float(((beside * apart / samples) ** 2 * spread * per_draw).sum())
    more_within = max(0.0, by_stretches - float((within**2).sum()))
    mixed = (beside > 0) & (beside < samples)
    squares = rows["x"] * (1 - 2 * share[at]) + rows["n"] * share[at] ** 2
    jacobian = float((squares / (1 + value * share[at])).sum())
    arrangements = float(mixed.sum()) * math.log(2)
    for one in np.unique(group):
        here = group == one
        count, chosen = int((here & ~mixed).sum()), int((here & ~mixed & (beside > 0)).sum())
        arrangements += math.lgamma(count + 1) - math.lgamma(chosen + 1) - math.lgamma(count - chosen + 1)
    return _Machines(group, residual, exposure, beside / samples, within, more_within, jacobian, arrangements)


def _p_value(machines: _Machines) -> float:
    variance, third = machines.moments()
    total = machines.total - machines.expected
    if not (variance > 0 and math.isfinite(total)):
        return 1.0
    wide = math.erfc(abs(total) / math.sqrt(2 * (variance + machines.more_within)))
    curve = _pearson(abs(total) / math.sqrt(variance), math.copysign(third, third * total) / variance**1.5)
    curve = max(curve, 2 * math.exp(-machines.arrangements))
    if int((machines.beside_ratio > 0).sum()) >= MANY:
        return max(wide, curve)
    draws = max(min(_DRAWS, _MOST_CELLS // len(machines.residual)), 99)
    totals = _random_totals(machines, draws)
    beyond = int((math.copysign(1, total) * totals >= abs(total) * (1 - 1e-9)).sum())
    by_chance = min(1.0, 2 * (1 + beyond) / (1 + draws))
    return max(wide, by_chance if beyond >= _FEW else min(by_chance, curve))


def _random_totals(machines: _Machines, draws: int) -> Floats:
    """Return the total, less its mean, of permutations drawn at random."""
    random = np.random.default_rng(_SEED)
    totals = np.zeros(draws)
    for one in np.unique(machines.group):
        here = np.flatnonzero(machines.group == one)
        orders = random.permuted(np.tile(machines.residual[here], (draws, 1)), axis=1)
        totals += orders @ machines.exposure[here]
    mixed = machines.within[machines.within != 0]
    signs = random.choice([-1.0, 1.0], (draws, len(mixed)))
    return np.asarray(totals - machines.expected + signs @ mixed)


def _pearson(z: float, skewness: float) -> float:
    """Return twice the chance of more than ``z`` standard deviations, of Pearson's type III.

    It is a gamma variable of this skewness, or its mirror image.

    >>> round(_pearson(1.96, 0.0), 3), round(_pearson(1.96, 1.0), 3), round(_pearson(1.96, -1.0), 3)
    (0.05, 0.089, 0.0)
    """
    from scipy.special import gammainc, gammaincc

    if abs(skewness) < 1e-3:
        return math.erfc(z / math.sqrt(2))
    shape = 4 / skewness**2
    place = max(shape + math.copysign(1, skewness) * math.sqrt(shape) * z, 0.0)
    return 2 * float(gammaincc(shape, place) if skewness > 0 else gammainc(shape, place))
