"""Whether units went to configurations as they were meant to: the sample-ratio mismatch test.

In: counts of units. Out: Pearson's chi-square with its p-value. An experiment whose arms have other shares
than were declared has lost or moved units for a reason, and that reason is often the effect itself; arms that
are mixed otherwise in one group than in another cannot be compared by their totals.

Where counts are small or units fall into several groups, the p-value comes from permuted assignments with a
fixed seed, so that the same data give the same answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

LEAST_EXPECTED = 5.0
"""Below this expected count the chi-square distribution is not to be trusted (W. G. Cochran, 1954)."""

PERMUTATIONS = 1999
"""Permuted assignments: the smallest p-value that they can give is 0.0005."""
LEAST_DEGREES = 1.0
"""With fewer degrees of freedom a share of work is not tested."""


@dataclass(frozen=True)
class Mismatch:
    """The result of one test."""

    statistic: float
    degrees: int
    p_value: float
    method: str
    """``chi-square``, ``permutation``, or of work ``share of work`` and ``shares of work``."""
    expected: Floats
    """Expected counts, in the shape of the observed ones."""


def split_mismatch(counts: Sequence[int], shares: Sequence[float]) -> Mismatch:
    """Test counts of units by arm against the declared shares, which need not sum to 1.

    >>> round(split_mismatch([821, 779], [1, 1]).p_value, 4)
    0.2937

    Raises ValueError where the two do not fit, or a share is not positive.
    """
    from scipy.special import chdtrc

    observed = np.asarray(counts, dtype=np.float64)
    declared = np.asarray(shares, dtype=np.float64)
    if observed.shape != declared.shape or len(observed) < 2 or (declared <= 0).any() or observed.sum() <= 0:
        raise ValueError("needs a count and a positive share for each of two or more arms")
    expected = observed.sum() * declared / declared.sum()
    statistic = float(((observed - expected) ** 2 / expected).sum())
    degrees = len(observed) - 1
    if expected.min() >= LEAST_EXPECTED:
        return Mismatch(statistic, degrees, float(chdtrc(degrees, statistic)), "chi-square", expected)
    simulated_counts = np.random.default_rng(0).multinomial(
        int(observed.sum()), declared / declared.sum(), size=PERMUTATIONS
    )
    statistics = ((simulated_counts - expected) ** 2 / expected).sum(axis=1)
    return Mismatch(statistic, degrees, _p_value(statistics, statistic), "permutation", expected)


def uneven_split(counts: Integers) -> Mismatch:
    """Test whether arms (rows) have the same share in each group (columns), each unit in one group.

    Groups without units are left out. Raises ValueError with fewer than two arms or groups.
    """
    from scipy.special import chdtrc

    observed = np.asarray(counts, dtype=np.float64)
    observed = observed[:, observed.sum(axis=0) > 0]
    observed = observed[observed.sum(axis=1) > 0]
    if observed.shape[0] < 2 or observed.shape[1] < 2:
        raise ValueError("needs two arms and two groups")
    expected = _expected(observed)
    statistic = float(((observed - expected) ** 2 / expected).sum())
    degrees = (observed.shape[0] - 1) * (observed.shape[1] - 1)
    if expected.min() >= LEAST_EXPECTED:
        return Mismatch(statistic, degrees, float(chdtrc(degrees, statistic)), "chi-square", expected)
    rng = np.random.default_rng(0)
    columns = observed.sum(axis=0).astype(np.int64)
    statistics = np.zeros(PERMUTATIONS)
    for at in range(PERMUTATIONS):
        left, tables = columns.copy(), np.zeros_like(observed)
        for arm, size in enumerate(observed.sum(axis=1).astype(np.int64)):
            tables[arm] = rng.multivariate_hypergeometric(left, size)
            left = left - tables[arm].astype(np.int64)
        statistics[at] = ((tables - expected) ** 2 / expected).sum()
    return Mismatch(statistic, degrees, _p_value(statistics, statistic), "permutation", expected)


def uneven_units(arm: Integers, unit: Integers, group: Integers) -> Mismatch:
    """Test the same for units that are each of one arm, but may be in several groups at once.

    The elements say that ``unit`` of ``arm`` (0 or 1) is in ``group``. Counts of groups then depend on each
    other, so arms are permuted among units. Raises ValueError where a unit has two arms, or with fewer than
    two arms or groups.
    """
    units, at = np.unique(unit, return_inverse=True)
    groups, place = np.unique(group, return_inverse=True)
    arms = np.zeros(len(units), dtype=np.int64)
    arms[at.reshape(-1)] = arm
    if (arms[at.reshape(-1)] != arm).any():
        raise ValueError("a unit has two arms")
    if len(groups) < 2 or arms.min() == arms.max():
        raise ValueError("needs two arms and two groups")
    present = np.zeros((len(units), len(groups)))
    present[at.reshape(-1), place.reshape(-1)] = 1
    in_group, in_second = present.sum(axis=0), float((arms == 1).mean())
    expected = np.stack([in_group * (1 - in_second), in_group * in_second])

    def statistic_of(second: Floats) -> Floats:
        off = (second - expected[1]) ** 2
        return np.asarray((off / expected[1] + off / expected[0]).sum(axis=-1))

    statistic = float(statistic_of((arms == 1).astype(np.float64) @ present))
    rng = np.random.default_rng(0)
    simulated = np.array([statistic_of(rng.permutation(arms) @ present) for _ in range(PERMUTATIONS)])
    return Mismatch(statistic, len(groups) - 1, _p_value(simulated, statistic), "permutation", expected)


def share_mismatch(first: Floats, second: Floats, share: float) -> Mismatch:
    """Test whether arm 1 did the declared share of all work, where replicates serve both arms.

    One element is what a replicate did for arm 0 and for arm 1. The share is a ratio of sums, whose residuals
    by replicate give its variance, scaled for the part that each replicate has in it, with Student's
    distribution by Kish's effective number of replicates.

    Raises ValueError for fewer than three replicates, no work, or a share outside 0 to 1.
    """
    from scipy.special import stdtr

    every = first + second
    total = float(every.sum())
    if len(first) < 3 or total <= 0 or not 0 < share < 1:
        raise ValueError("needs three replicates that did work, and a share between 0 and 1")
    observed = float(second.sum()) / total
    influence = (second - observed * every) / total
    size = every / total
    squares, cubes = float((size**2).sum()), float((size**3).sum())
    own = squares - 2 * cubes + squares**2
    freedom = 1 / squares - 1
    if freedom < LEAST_DEGREES or own <= 0:
        raise ValueError("one replicate does nearly all the work")
    variance = float((influence**2).sum()) * squares / own
    expected = np.array([(1 - share) * total, share * total])
    if variance <= 1e-24:
        p_value = 1.0 if math.isclose(observed, share, rel_tol=1e-9) else 0.0
        return Mismatch(math.inf if p_value == 0 else 0.0, round(freedom), p_value, "share of work", expected)
    statistic = (observed - share) / math.sqrt(variance)
    p_value = float(2 * stdtr(freedom, -abs(statistic)))
    return Mismatch(statistic, round(freedom), p_value, "share of work", expected)


def uneven_shares(first: Floats, second: Floats) -> Mismatch:
    """Test whether arm 1 did the same share of the work in every group, where replicates serve both arms.

    Rows are replicates, columns groups. Wald's test of the shares' differences from the share of all, with
    their covariance from what each replicate moves them by, and Hotelling's F distribution for few
    replicates.

    Raises ValueError with fewer than two groups, or too few replicates for that many groups.
    """
    from scipy.special import fdtrc

    every = first + second
    keep = every.sum(axis=0) > 0
    first, second, every = first[:, keep], second[:, keep], every[:, keep]
    count, groups = every.shape
    if groups < 2 or count <= groups:
        raise ValueError("needs two groups, and more replicates than groups")
    shares = second.sum(axis=0) / every.sum(axis=0)
    overall = float(second.sum() / every.sum())
    own = (second - shares * every) / every.sum(axis=0)
    common = (second.sum(axis=1) - overall * every.sum(axis=1)) / every.sum()
    # One difference follows from the others, weighted by work: the last is left out.
    moved = (own - common[:, None])[:, :-1]
    apart = (shares - overall)[:-1]
    covariance = moved.T @ moved * count / (count - 1)
    expected = np.stack([every.sum(axis=0) * (1 - overall), every.sum(axis=0) * overall])
    degrees = groups - 1
    statistic = float(apart @ np.linalg.pinv(covariance, hermitian=True) @ apart)
    if not np.any(np.abs(apart) > 1e-12):
        return Mismatch(0.0, degrees, 1.0, "shares of work", expected)
    if not covariance.any():
        return Mismatch(math.inf, degrees, 0.0, "shares of work", expected)
    scaled = statistic * (count - degrees) / (degrees * (count - 1))
    p_value = float(fdtrc(degrees, count - degrees, scaled))
    return Mismatch(statistic, degrees, p_value, "shares of work", expected)


def _expected(observed: Floats) -> Floats:
    return np.asarray(np.outer(observed.sum(axis=1), observed.sum(axis=0)) / observed.sum())


def _p_value(simulated: Floats, statistic: float) -> float:
    # Equal statistics differ in their last digits; the observed assignment is one of those possible.
    reached = int((simulated >= statistic - 1e-9 * max(1.0, math.fabs(statistic))).sum())
    return (reached + 1) / (len(simulated) + 1)
