"""Warm-ups that were not over in their time: whether the measure phase shows that they are."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from steelyard.analyze.verdict import WarmUp, has_settled_later
from steelyard.stats import steady

from ..situation import Claim, Outcome, Random, Situation, Statistic
from .steadiness import noise

_OFF_RATIO = 0.07
"""By how much the mean over the measure phase is below the level that is approached."""


def _is_taken_for_settled(
    lengths: tuple[int, int], deviation: float, correlation: float, slowness: float | None, random: Random
) -> Outcome:
    """Approach a level of 100 in ``slowness`` times the measure phase, or be there all the time."""
    warmup, count = lengths
    values = np.full(warmup + count, 100.0)
    if slowness is not None:
        time = np.arange(-warmup, count)
        below = 100 * _OFF_RATIO / (slowness * (1 - math.exp(-1 / slowness)))
        values = np.maximum(values - below * np.exp(-time / (slowness * count)), 5.0)
    values += deviation * noise(random, warmup + count, correlation)
    before = WarmUp(False, float(warmup), "not settled", tuple(values[:warmup]))
    return Outcome(has_settled_later(before, steady.check(values[warmup:].tolist())))


def _approach(
    lengths: tuple[int, int],
    deviation: float,
    correlation: float,
    slowness: float,
    quick: int = 0,
    *,
    is_limit: bool = False,
) -> Situation:
    trial = partial(_is_taken_for_settled, lengths, deviation, correlation, slowness)
    name = (
        f"mean {100 * _OFF_RATIO:.0f} % below, time constant {slowness:g} of the measure phase,"
        f" {lengths[0]} + {lengths[1]} intervals, noise {deviation:g} %, correlation {correlation:g}"
    )
    return Situation(name, Claim.FALSE, trial, quick=quick, is_limit=is_limit)


def _there(lengths: tuple[int, int], deviation: float, correlation: float, bar: float | None) -> Situation:
    trial = partial(_is_taken_for_settled, lengths, deviation, correlation, None)
    name = (
        f"settled all the time, {lengths[0]} + {lengths[1]} intervals, noise {deviation:g} %,"
        f" correlation {correlation:g}"
    )
    return Situation(name, Claim.FOUND, trial, quick=40 if bar else 0, bar=bar)


STATISTICS = (
    Statistic(
        name="Warm-ups that end in the measure phase",
        covers=(),
        about="Where a warm-up's own time did not show that it was over, the check passes if that and the"
        " measure phase together do. A false alarm is a pass while the measured mean is 7 % below where it"
        " goes; detected is a pass where nothing changes.",
        situations=(
            *(
                _approach(lengths, deviation, correlation, slowness, quick=40 if slowness == 0.6 else 0)
                for lengths in ((20, 30), (60, 60))
                for deviation, correlation in ((5, 0.0), (10, 0.5))
                for slowness in (0.1, 0.3, 0.6)
            ),
            _approach((60, 60), 5, 0.0, 1.0, is_limit=True),
            _approach((60, 60), 10, 0.0, 1.0, is_limit=True),
            _approach((60, 60), 5, 0.0, 3.0, is_limit=True),
            _there((60, 60), 5, 0.0, 0.9),
            _there((60, 60), 10, 0.0, 0.75),
            _there((60, 60), 10, 0.5, None),
            _there((20, 30), 5, 0.0, None),
        ),
    ),
)
