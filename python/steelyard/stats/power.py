"""How many replicates a decision needs.

In: the variance of the logarithm of an effect, by arm, and the smallest effect that matters. Out: counts. The
effect that was seen plays no part: power at the effect that was seen is only another form of its p-value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from steelyard.stats.sequential import mixture_radius, student_quantile


@dataclass(frozen=True, slots=True)
class Need:
    """What it takes to tell an effect of the smallest size that matters from none."""

    enough: bool
    """Whether what there is suffices."""
    replicates: tuple[int, int]
    """Replicates of arm 0 and arm 1 in all, counting those that are there."""
    more: tuple[int, int]
    """How many more than are there."""


def variance_needed(
    least_effect: float,
    *,
    confidence: float = 0.95,
    power: float = 0.8,
    always_valid_for: float | None = None,
    degrees: float = math.inf,
) -> float:
    """Return the largest variance at which an effect of that size is found with probability ``power``.

    An interval finds it when its half width and the deviation times z(power) stay below the effect. For one
    look half the width is z(1 - alpha/2) deviations, so that the variance is (effect / (z + z))^2; with
    ``always_valid_for`` it is that of `mixture_radius` with this expected effect, at the end of the
    collection. The variance that it is compared with is known with ``degrees`` of freedom: Student's
    quantiles take the place of the normal ones (Julious and Owen, Statistics in Medicine 25, 2006), without
    which ten replicates would give a power of 0.7 for 0.8.

    >>> round(variance_needed(0.01) ** 0.5, 6), round(variance_needed(0.01, always_valid_for=0.05) ** 0.5, 6)
    (0.003569, 0.002309)

    Raises ValueError for arguments outside their range.
    """
    from scipy.optimize import brentq

    if least_effect <= 0 or not 0 < confidence < 1 or not 0.5 <= power < 1:
        raise ValueError("needs a positive effect, a confidence and a power between 0 and 1")
    behind = student_quantile(power, degrees)
    once = (least_effect / (student_quantile((1 + confidence) / 2, degrees) + behind)) ** 2
    if always_valid_for is None:
        return once

    def beyond(deviation: float) -> float:
        # At the end there are many more degrees of freedom than now.
        radius = mixture_radius(deviation**2, confidence=confidence, expected_effect=always_valid_for or 1.0)
        return radius + behind * deviation - least_effect

    return float(brentq(beyond, least_effect * 1e-6, least_effect)) ** 2


def replicates_needed(
    variances: tuple[float, float],
    replicates: tuple[int, int],
    target: float,
) -> Need:
    """Return how many replicates bring the sum of the two arms' variances down to ``target``.

    Each arm's variance falls as one over its replicates. Only arm 1, which is being tried, grows where that
    suffices; else both grow until they share the variance as it costs fewest replicates in all.

    >>> replicates_needed((0.0, 0.01), (1000, 10), 0.001)
    Need(enough=False, replicates=(1000, 100), more=(0, 90))
    """
    first, second = variances
    if first + second <= target:
        return Need(True, replicates, (0, 0))
    # n0 * v0 is the variance of one replicate of arm 0; the cheapest split is by its square root.
    unit0, unit1 = first * replicates[0], second * replicates[1]
    grow_one = math.inf if first >= target else unit1 / (target - first)
    least = (math.sqrt(unit0) + math.sqrt(unit1)) / target
    both = (math.sqrt(unit0) * least, math.sqrt(unit1) * least)
    if both[0] <= replicates[0] or grow_one <= 2 * both[1]:
        total = (replicates[0], math.ceil(grow_one - 1e-9))
    else:
        total = (math.ceil(both[0] - 1e-9), max(replicates[1], math.ceil(both[1] - 1e-9)))
    return Need(False, total, (total[0] - replicates[0], total[1] - replicates[1]))


def pairs_needed(variance: float, replicates: tuple[int, int], target: float) -> Need:
    """Return how many replicates bring ``variance`` down to ``target`` where each serves both arms.

    >>> pairs_needed(0.01, (10, 10), 0.001)
    Need(enough=False, replicates=(100, 100), more=(90, 90))
    """
    if variance <= target:
        return Need(True, replicates, (0, 0))
    first, second = (math.ceil(count * variance / target - 1e-9) for count in replicates)
    return Need(False, (first, second), (first - replicates[0], second - replicates[1]))
