"""Whether equal work took equally long.

In: times of repetitions within a run. Out: a check for the verdict.
"""

import statistics
from collections.abc import Sequence

from steelyard.analyze import checks
from steelyard.records import Check


def times_alike(times_s: Sequence[float], what: str) -> Check:
    """Return whether the repetitions, ``what`` in the plural, took equally long; one alone is suspect."""
    spread = (max(times_s) - min(times_s)) / statistics.median(times_s) if len(times_s) > 1 else None
    claim = (
        f"one of the {what} shows no spread"
        if spread is None
        else f"the times of {len(times_s)} equal {what} are {spread:.1%} apart"
    )
    return checks.measured(f"{what}-alike", spread, claim)
