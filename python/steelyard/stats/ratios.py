"""Ratios of sums by group, and how sure they are, where samples of one machine are alike.

In: usage and work, summed for each arm (configuration), stratum (group) and cluster (the replicate: a
machine, a task). Out: effects: the ratio of two ratios of sums, with the variance of its logarithm.

A ratio of sums, ``R = sum(usage) / sum(work)``, is what a fleet pays for each unit of work; the mean of
ratios is not. Its variance is that of the residuals ``usage - R * work`` summed by cluster (the delta method;
W. G. Cochran, Sampling Techniques, 3rd ed., sections 6.3 and 9A.1), so a thousand samples of one machine are
one replicate. Strata are compared at one mix of work, that of arm 0.

Invariants: an effect without two replicates on each side has a value, no interval, and a reason. Nothing is
drawn at random.

Not here: which strata to use, and what follows from an effect (``fleet``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steelyard.stats.sequential import mixture_radius, student_quantile

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

LEAST_DEGREES = 1.0
"""Fewer degrees of freedom than this say nothing: intervals would be arbitrarily wide."""

WIDEST = 1000.0
"""An interval that reaches farther than this factor either way is none: it tells nothing."""

EFFECTIVE_RATIO = 0.75
"""Of the replicates that a stratum needs, as many must there be in effect, counted by their work."""


@dataclass(frozen=True, slots=True)
class Effect:
    """The ratio of two ratios of sums (above 1: arm 1 needs less than arm 0 for the same work)."""

    ratio: float
    log_variance: float | None
    """Variance of the ratio's natural logarithm, None with the reason in ``missing``."""
    degrees: float | None
    """Degrees of freedom of that variance (Welch and Satterthwaite); infinite where it is zero."""
    replicates: tuple[int, int]
    """Clusters in arm 0 and in arm 1."""
    missing: str | None = None

    def interval(self, confidence: float = 0.95) -> tuple[float, float] | None:
        """Return the interval for somebody who looks once, at a time fixed beforehand.

        None without a variance, and where it is so wide that it tells nothing (`WIDEST`).
        """
        if self.log_variance is None or self.degrees is None:
            return None
        radius = student_quantile((1 + confidence) / 2, self.degrees) * math.sqrt(self.log_variance)
        return self._around(radius)

    def always_valid(
        self, confidence: float = 0.95, *, expected_effect: float = 0.05
    ) -> tuple[float, float] | None:
        """Return the interval that valid at every look; None as of `interval`.

        ``expected_effect`` is the size of effects (on the logarithm) that it is tightest for; it must be
        fixed before the data are seen. See `mixture_radius`.
        """
        if self.log_variance is None or self.degrees is None:
            return None
        radius = mixture_radius(
            self.log_variance,
            degrees=self.degrees,
            confidence=confidence,
            expected_effect=expected_effect,
        )
        return self._around(radius)

    def _around(self, radius: float) -> tuple[float, float] | None:
        # Student's quantile grows beyond all bounds as the degrees of freedom of a few replicates fall.
        if radius > math.log(WIDEST):
            return None
        return self.ratio * math.exp(-radius), self.ratio * math.exp(radius)


@dataclass(frozen=True)
class ArmSums:
    """Sums of two arms in every stratum by cluster; each array has one element a (arm, stratum, cluster)."""

    arm: Integers
    stratum: Integers
    cluster: Integers
    usage: Floats
    work: Floats

    @classmethod
    def of(cls, arm: Integers, stratum: Integers, cluster: Integers, usage: Floats, work: Floats) -> ArmSums:
        """Return the sums of rows of which several may belong to one (arm, stratum, cluster).

        Raises ValueError for a value that is negative or not finite, or an arm other than 0 and 1.
        """
        if not (np.isfinite(usage).all() and np.isfinite(work).all()):
            raise ValueError("usage and work must be finite")
        if (usage < 0).any() or (work < 0).any():
            raise ValueError("usage and work must not be negative")
        if not np.isin(arm, (0, 1)).all():
            raise ValueError("there are two arms, 0 and 1")
        keys = np.stack([arm, stratum, cluster], axis=1).astype(np.int64)
        unique, place = np.unique(keys, axis=0, return_inverse=True)
        place = place.reshape(-1)
        used = np.bincount(place, weights=usage, minlength=len(unique)).astype(np.float64)
        done = np.bincount(place, weights=work, minlength=len(unique)).astype(np.float64)
        return cls(unique[:, 0], unique[:, 1], unique[:, 2], used, done)

    def only(self, keep: NDArray[np.bool_]) -> ArmSums:
        """Return the rows where ``keep`` is true."""
        return ArmSums(
            self.arm[keep], self.stratum[keep], self.cluster[keep], self.usage[keep], self.work[keep]
        )

    def in_strata(self, strata: Integers) -> ArmSums:
        """Return the rows of ``strata`` only."""
        return self.only(np.isin(self.stratum, strata))

    def without_strata(self) -> ArmSums:
        """Return the same with everything in one stratum."""
        return ArmSums.of(self.arm, np.zeros_like(self.stratum), self.cluster, self.usage, self.work)

    def sums(self, arm: int, stratum: int | None = None) -> tuple[float, float, int]:
        """Return usage, work and the number of clusters of an arm, of one stratum or of all."""
        keep = self.arm == arm
        if stratum is not None:
            keep &= self.stratum == stratum
        clusters = len(np.unique(self.cluster[keep]))
        return float(self.usage[keep].sum()), float(self.work[keep].sum()), clusters


def comparable_strata(sums: ArmSums, *, least_replicates: int = 2) -> Integers:
    """Return the strata in which both arms did work, used something, and have that many replicates.

    Replicates count by their work (L. Kish's effective number): of two, one that does nearly all of it is
    one.
    """
    cell, count = _cells(sums)
    usage = np.bincount(cell, weights=sums.usage, minlength=count)
    work = np.bincount(cell, weights=sums.work, minlength=count)
    share = sums.work / np.where(work > 0, work, 1.0)[cell]
    squares = np.bincount(cell, weights=share**2, minlength=count)
    rows = np.bincount(cell, minlength=count)
    enough = squares * EFFECTIVE_RATIO * least_replicates <= 1
    good = (usage > 0) & (work > 0) & (rows >= least_replicates) & (enough | (least_replicates == 1))
    stratum = np.zeros(count, dtype=np.int64)
    stratum[cell] = sums.stratum
    strata, arms = np.unique(stratum[good], return_counts=True)
    return np.asarray(strata[arms == 2], dtype=np.int64)


def stratum_effect(sums: ArmSums, stratum: int) -> Effect:
    """Return the effect within one stratum.

    Raises ValueError where an arm used nothing there or did no work.
    """
    return _effect(sums.in_strata(np.array([stratum])))


def total_effect(sums: ArmSums) -> Effect:
    """Return the effect of the totals, which mixes what the arms do with what they were given to do.

    Raises ValueError where an arm used nothing or did no work.
    """
    return _effect(sums.without_strata())


def reweighted_effect(sums: ArmSums) -> Effect:
    """Return the effect at arm 0's mix: what arm 0 used, over what arm 1 would use for the same work.

    The mix is taken as given: the effect is that on the work which was there. Work of different strata is
    never added, so that it may be in different units.

    Raises ValueError where an arm used nothing or did no work in a stratum.
    """
    return _effect(sums)


def arm_variances(sums: ArmSums) -> tuple[float, float] | None:
    """Return what each arm adds to the variance of the re-weighted effect; None where that has none.

    Where clusters hold both arms the two do not sum to the effect's variance, which also has their
    covariance.
    """
    _, parts = _influences(sums)
    variances = []
    for arm in (0, 1):
        variance, _, missing = _variance(sums, np.where(sums.arm == arm, parts, 0.0))
        if variance is None or missing is not None:
            return None
        variances.append(variance)
    return variances[0], variances[1]


def mix_effect(sums: ArmSums) -> Effect:
    """Return the ratio of the total effect to the re-weighted one: what the mixes alone do to the total.

    Its variance is at the mixes that were there: with every group's ratio known for sure, it is zero.
    """
    total, fair = total_effect(sums), reweighted_effect(sums)
    _, parts = _influences(sums)
    arm1 = sums.arm == 1
    usage1 = float(sums.usage[arm1].sum())
    # log(total) falls with arm 1's usage in all, log(re-weighted) with its usage at arm 0's mix; arm 0
    # cancels. `parts` of arm 1 are those of the latter, in residuals; the former's are the residuals over the
    # usage.
    residuals = _residuals(sums)
    mixed = np.where(arm1, -residuals / usage1 - parts, 0.0)
    variance, degrees, missing = _variance(sums, mixed)
    return Effect(total.ratio / fair.ratio, variance, degrees, fair.replicates, missing)


def _effect(sums: ArmSums) -> Effect:
    log_ratio, parts = _influences(sums)
    variance, degrees, missing = _variance(sums, parts)
    counts = (sums.sums(0)[2], sums.sums(1)[2])
    return Effect(math.exp(log_ratio), variance, degrees, counts, missing)


def _cells(sums: ArmSums) -> tuple[Integers, int]:
    """Return which (arm, stratum) each row is of, and how many there are."""
    unique, place = np.unique(2 * sums.stratum + sums.arm, return_inverse=True)
    return place.reshape(-1).astype(np.int64), len(unique)


def _residuals(sums: ArmSums) -> Floats:
    """Return usage less what the cell's own ratio predicts for the row's work."""
    cell, count = _cells(sums)
    usage = np.bincount(cell, weights=sums.usage, minlength=count)
    work = np.bincount(cell, weights=sums.work, minlength=count)
    return np.asarray(sums.usage - (usage / work)[cell] * sums.work, dtype=np.float64)


def _influences(sums: ArmSums) -> tuple[float, Floats]:
    """Return log(U0 / U1') and how much each row moves it, where U1' is arm 1's usage at arm 0's mix."""
    strata, at = np.unique(sums.stratum, return_inverse=True)
    at = at.reshape(-1)
    usage = np.zeros((2, len(strata)))
    work = np.zeros((2, len(strata)))
    np.add.at(usage, (sums.arm, at), sums.usage)
    np.add.at(work, (sums.arm, at), sums.work)
    if not len(strata) or (usage <= 0).any() or (work <= 0).any():
        raise ValueError("each arm must use something and do some work in every stratum")
    scale = work[0] / work[1]
    usage0, usage1 = float(usage[0].sum()), float((usage[1] * scale).sum())
    factor = np.where(sums.arm == 0, 1 / usage0, -scale[at] / usage1)
    return math.log(usage0 / usage1), np.asarray(factor * _residuals(sums), dtype=np.float64)


def _variance(sums: ArmSums, parts: Floats) -> tuple[float | None, float | None, str | None]:
    """Return the variance of a sum of ``parts`` by cluster, its degrees of freedom, or why there is none.

    Residuals are from a ratio that they had a part in and so are too small. Each cell's are scaled so that
    the variance is right for ratios that scatter alike whatever a cluster's work: by n / (n - 1) for equal
    work, and by more where few clusters did most of it. Those also count for fewer in the degrees of freedom.
    """
    cell, count = _cells(sums)
    work = np.bincount(cell, weights=sums.work, minlength=count)
    share = sums.work / work[cell]
    squares = np.bincount(cell, weights=share**2, minlength=count)
    own = np.bincount(cell, weights=share**2 * (1 - 2 * share), minlength=count) + squares**2
    moved = np.bincount(cell, weights=np.abs(parts), minlength=count) > 0
    degrees = 1 / squares - 1
    # The ends of floating point: one cluster with all the work has no degrees of freedom at all.
    alone = (own <= 1e-12 * squares) | (np.bincount(cell, minlength=count) < 2)
    arms = np.zeros(count, dtype=np.int64)
    arms[cell] = sums.arm
    if alone.any():
        which = " and ".join(f"configuration {arm + 1}" for arm in np.unique(arms[alone]).tolist())
        return None, None, f"one replicate of {which} in a group has no spread"
    if not moved.any():
        return 0.0, math.inf, None
    scaled = parts * np.sqrt(squares / own)[cell]
    _, cluster = np.unique(sums.cluster, return_inverse=True)
    variance = float((np.bincount(cluster.reshape(-1), weights=scaled) ** 2).sum())
    each = np.bincount(cell, weights=scaled**2, minlength=count)
    freedom = float(each.sum() ** 2 / (each**2 / np.maximum(degrees, 1e-9)).sum())
    if freedom < LEAST_DEGREES:
        return None, None, "one replicate does nearly all the work, so the spread is unknown"
    return variance, freedom, None
