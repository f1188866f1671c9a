"""Change points of results over sessions."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from steelyard.stats.trends import trend_of

from ..situation import Claim, Outcome, Random, Situation, Statistic
from .steadiness import noise

Series = NDArray[np.float64]
_DEVIATION = 0.02


def _normal(random: Random, count: int) -> Series:
    return random.standard_normal(count)


def _heavy(random: Random, count: int) -> Series:
    """Student's t with 2 degrees of freedom: now and then a day far off."""
    return np.asarray(random.standard_t(2, count))


def _two_modes(random: Random, count: int) -> Series:
    """Each boot has one of two levels, as memory happens to lie."""
    return np.where(random.random(count) < 0.3, -3.0, 0.0) + 0.5 * random.standard_normal(count)


def _clustered(random: Random, count: int) -> Series:
    """Whole-numbered results, many of them equal."""
    return np.round(random.standard_normal(count))


def _noisier(random: Random, count: int) -> Series:
    """The second half varies three times as much."""
    return random.standard_normal(count) * np.where(np.arange(count) < count // 2, 1.0, 3.0)


def _outliers(random: Random, count: int) -> Series:
    """One or two days that lost most, next to each other."""
    values = random.standard_normal(count)
    at = int(random.integers(0, count - 2))
    values[at : at + int(random.integers(1, 3))] -= 20
    return values


def _correlated(random: Random, count: int, correlation: float) -> Series:
    return noise(random, count, correlation)


def _false(random: Random, count: int, kind: object) -> Outcome:
    assert callable(kind)
    values = 1000 * np.exp(_DEVIATION * kind(random, count))
    return Outcome(bool(trend_of(values.tolist()).changes))


def _sessions(random: Random, count: int) -> Outcome:
    """Several runs a session, sessions that differ more than their runs."""
    days = _DEVIATION * random.standard_normal(count)
    many = random.integers(1, 6, count)
    values = [
        1000 * float(np.exp(day + 0.003 * random.standard_normal()))
        for day, runs in zip(days, many, strict=True)
        for _ in range(int(runs))
    ]
    labels = [at for at, runs in enumerate(many) for _ in range(int(runs))]
    return Outcome(bool(trend_of(values, labels).changes))


def _step(random: Random, count: int, size: float, kind: object, at_ratio: float = 0.6) -> Series:
    assert callable(kind)
    change = np.where(np.arange(count) >= round(at_ratio * count), np.log1p(size), 0.0)
    return np.asarray(1000 * np.exp(_DEVIATION * kind(random, count) + change))


def _found(random: Random, count: int, size: float, kind: object) -> Outcome:
    """One change, within two sessions of where it is."""
    found = trend_of(_step(random, count, size, kind).tolist())
    truth = round(0.6 * count)
    return Outcome(len(found.changes) == 1 and abs(found.changes[0].at - truth) <= 2)


def _holds(random: Random, count: int, size: float, kind: object) -> Outcome:
    found = trend_of(_step(random, count, size, kind).tolist())
    if len(found.changes) != 1:
        return Outcome(None)
    (change,) = found.changes
    return Outcome(
        change.low <= 1 + size <= change.high,
        change.ratio - (1 + size),
        (change.high - change.low) / (1 + size),
    )


def _there_and_back(random: Random, count: int) -> Outcome:
    """A regression that is repaired: both changes, each within two sessions."""
    begin, end = count // 3, 2 * count // 3
    here = (np.arange(count) >= begin) & (np.arange(count) < end)
    values = 1000 * np.exp(_DEVIATION * random.standard_normal(count) + np.where(here, np.log(0.92), 0.0))
    found = [change.at for change in trend_of(values.tolist()).changes]
    return Outcome(len(found) == 2 and abs(found[0] - begin) <= 2 and abs(found[1] - end) <= 2)


_WORLDS = (
    ("normal noise", _normal),
    ("days far off (Student's t, 2 degrees)", _heavy),
    ("two levels by boot", _two_modes),
    ("many equal results", _clustered),
    ("noise that triples", _noisier),
    ("one or two outliers", _outliers),
    ("correlation of days 0.3", partial(_correlated, correlation=0.3)),
    ("correlation of days 0.6", partial(_correlated, correlation=0.6)),
)
_LIMIT = "correlation of days 0.6"

STATISTICS = (
    Statistic(
        "Changes of a trend",
        ("steelyard.stats.trends.Change",),
        (
            *(
                Situation(
                    f"no change, {count} sessions, {name}",
                    Claim.FALSE,
                    partial(_false, count=count, kind=kind),
                    trials=300,
                    quick=10 if count == 30 and kind is _normal else 0,
                    is_limit=name == _LIMIT,
                    note="a few days that resemble each other look like a level" if name == _LIMIT else "",
                )
                for name, kind in _WORLDS
                for count in (10, 30, 100)
            ),
            Situation(
                "no change, 30 sessions of 1 to 5 runs", Claim.FALSE, partial(_sessions, count=30), trials=300
            ),
            *(
                Situation(
                    f"a change of {size:+.0%} at 2 % noise, {count} sessions, {name}",
                    Claim.FOUND,
                    partial(_found, count=count, size=size, kind=kind),
                    trials=200,
                    quick=5 if bar else 0,
                    bar=bar,
                )
                for size, count, name, kind, bar in (
                    (-0.05, 10, "normal noise", _normal, None),
                    (-0.05, 20, "normal noise", _normal, None),
                    (-0.05, 50, "normal noise", _normal, 0.8),
                    (-0.02, 50, "normal noise", _normal, None),
                    (0.1, 20, "days far off", _heavy, None),
                    (-0.05, 50, "correlation of days 0.3", partial(_correlated, correlation=0.3), None),
                )
            ),
            Situation(
                "8 % lower in the middle third of 30 sessions",
                Claim.FOUND,
                partial(_there_and_back, count=30),
                trials=200,
            ),
            *(
                Situation(
                    f"the ratio of a change of {size:+.0%}, {count} sessions, {name}",
                    Claim.HOLDS,
                    partial(_holds, count=count, size=size, kind=kind),
                    trials=300,
                    quick=5 if kind is _normal else 0,
                    bar=0.9,
                )
                for size, count, name, kind in (
                    (-0.05, 20, "normal noise", _normal),
                    (-0.1, 30, "days far off", _heavy),
                    (-0.05, 50, "correlation of days 0.3", partial(_correlated, correlation=0.3)),
                )
            ),
        ),
        "Sessions in their order; a change of level is named or not. The results of a session are one draw.",
    ),
)
