"""Medians of a few repeats."""

from __future__ import annotations

from functools import partial

from steelyard.stats.intervals import median_interval
from steelyard.stats.serial import FEW

from ..situation import Claim, Outcome, Random, Situation, Statistic
from .steadiness import noise


def _normal(random: Random) -> Outcome:
    return _holds(100 + 3 * random.standard_normal(8), 100.0)


def _skewed(random: Random) -> Outcome:
    return _holds(100 * random.lognormal(0.0, 0.3, 12), 100.0)


def _alone(random: Random) -> Outcome:
    """Independent runs, eight to thirty."""
    values = 100 + 3 * random.standard_normal(int(random.integers(8, 31)))
    found = median_interval(list(values), in_order=True)
    return Outcome(found.effective_count is not None and found.effective_count < found.count)


def _in_time(random: Random, count: int, correlation: float, power: bool) -> Outcome:
    values = noise(random, count, correlation)
    found = median_interval((100 + 3 * values).tolist(), in_order=True)
    if power:
        return Outcome(found.effective_count is not None and found.effective_count < count)
    if found.low is None or found.high is None:
        return Outcome(None)
    return Outcome(found.low <= 100 <= found.high, width=(found.high - found.low) / 100)


def _correlated(
    count: int, correlation: float, before: str, is_limit: bool = False, quick: int = 0
) -> tuple[Situation, Situation]:
    name = f"{count} runs, correlation {correlation:g} from one to the next"
    holds = partial(_in_time, count=count, correlation=correlation, power=False)
    notices = partial(_in_time, count=count, correlation=correlation, power=True)
    note = "" if not is_limit else _FEW_NOTE if count < FEW else _STRONG_NOTE
    return (
        Situation(
            name,
            Claim.HOLDS,
            holds,
            trials=1000,
            quick=quick,
            before=before,
            is_limit=is_limit,
            note=note,
        ),
        Situation(f"noticed: {name}", Claim.FOUND, notices, trials=500, before="not tested for"),
    )


_FEW_NOTE = "where the test overlooks it: beside the interval stands that so few runs cannot show it"
_STRONG_NOTE = "withheld where noticed in full; a short series shows its correlation too small"


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
        covers=("steelyard.stats.intervals.MedianInterval", "steelyard.stats.serial.Serial"),
        about="Order statistics: exact for independent runs of any distribution. If successive runs are"
        " correlated, the interval is widened or missing.",
        situations=(
            Situation("8 runs, normal, sd 3 %", Claim.HOLDS, _normal, trials=2000, quick=400),
            Situation("12 runs, lognormal, sd 30 %", Claim.HOLDS, _skewed, trials=2000, quick=400),
            Situation("5 runs", Claim.SILENT, _few, trials=200, quick=50),
            Situation(
                "independent runs taken for correlated ones", Claim.FALSE, _alone, trials=1000, quick=200
            ),
            *_correlated(8, 0.5, "92%", is_limit=True),
            *_correlated(12, 0.5, "83%", is_limit=True),
            *_correlated(20, 0.5, "82%", is_limit=True),
            *_correlated(30, 0.5, "82%", quick=200),
            *_correlated(60, 0.5, "84%", quick=200),
            *_correlated(30, 0.8, "57%", is_limit=True),
            *_correlated(60, 0.8, "66%", is_limit=True),
            *_correlated(120, 0.8, "56%"),
        ),
    ),
)
