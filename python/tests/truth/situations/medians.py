"""Medians of a few repeats."""

from __future__ import annotations

from steelyard.stats.intervals import median_interval

from ..situation import Claim, Outcome, Random, Situation, Statistic


def _normal(random: Random) -> Outcome:
    return _holds(100 + 3 * random.standard_normal(8), 100.0)


def _skewed(random: Random) -> Outcome:
    return _holds(100 * random.lognormal(0.0, 0.3, 12), 100.0)


def _few(random: Random) -> Outcome:
    found = median_interval(list(100 + random.standard_normal(5)))
    return Outcome(found.low is None)


def _holds(values: object, truth: float) -> Outcome:
    found = median_interval(list(values))  # type: ignore[call-overload]
    if found.low is None or found.high is None:
        return Outcome(None)
    return Outcome(
        found.low <= truth <= found.high, found.median / truth - 1, (found.high - found.low) / truth
    )


STATISTICS = (
    Statistic(
        name="Median of repeats",
        covers=("steelyard.stats.intervals.MedianInterval",),
        about="Order statistics: exact for independent runs, whatever their distribution.",
        situations=(
            Situation("8 runs, normal, sd 3 %", Claim.HOLDS, _normal, trials=2000, quick=400),
            Situation("12 runs, lognormal, sd 30 %", Claim.HOLDS, _skewed, trials=2000, quick=400),
            Situation("5 runs", Claim.SILENT, _few, trials=200, quick=50),
        ),
    ),
)
