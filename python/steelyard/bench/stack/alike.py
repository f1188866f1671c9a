"""Whether equal work took equally long.

In: times of repetitions within a run. Out: a check for the verdict.
"""

import statistics
from collections.abc import Sequence

from steelyard.records import Check, Level

_SPREAD_RATIO = 0.10
"""Largest distance of two equal repetitions' times over their median that a result bears."""


def times_alike(times_s: Sequence[float], what: str) -> Check:
    """Return whether the repetitions, ``what`` in the plural, took equally long; one alone is suspect."""
    spread = (max(times_s) - min(times_s)) / statistics.median(times_s) if len(times_s) > 1 else None
    within = spread is not None and spread <= _SPREAD_RATIO
    claim = (
        f"one of the {what} shows no spread"
        if spread is None
        else f"the times of {len(times_s)} equal {what} are {spread:.1%} apart"
    )
    return Check(
        id=f"{what}-alike",
        level=Level.VALID if within else Level.SUSPECT,
        claim=claim,
        value=spread,
        bound=_SPREAD_RATIO,
        unit="ratio",
    )
