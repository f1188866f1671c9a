"""Correlation of two series in time, and of operations with a machine's telemetry."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from steelyard.analyze.operations.series_correlation import TimeSeries, at_lag
from steelyard.analyze.operations.telemetry_correlation import compare

from ..situation import Claim, Outcome, Random, Situation, Statistic

Series = NDArray[np.float64]
Make = Callable[[Random, int], Series]
SECOND = 1_000_000_000


def _memory(random: Random, count: int, phi: float) -> Series:
    shocks = random.standard_normal(count)
    shocks[1:] *= np.sqrt(1 - phi**2)
    for index in range(1, count):
        shocks[index] += phi * shocks[index - 1]
    return shocks


def _trend(random: Random, count: int) -> Series:
    """A line with noise: memory that fills up, a load that is raised."""
    slope = random.choice([-1, 1]) * random.uniform(1.0, 5.0)
    return np.asarray(slope * np.linspace(-1, 1, count) + random.standard_normal(count))


def _approach(random: Random, count: int) -> Series:
    """An exponential approach with noise: what warms up."""
    constant = random.uniform(0.1, 0.5) * count
    return np.asarray(
        -4 * np.exp(-np.arange(count) / constant) + random.uniform(0.2, 0.8) * random.standard_normal(count)
    )


def _walk(random: Random, count: int) -> Series:
    return np.cumsum(random.standard_normal(count))


def _bursts(random: Random, count: int) -> Series:
    return np.asarray((random.random(count) < 0.1) * random.exponential(10, count))


_AR5, _AR9 = partial(_memory, phi=0.5), partial(_memory, phi=0.9)


def _unrelated(random: Random, count: int, make: Make) -> Outcome:
    found = at_lag(make(random, count), make(random, count), 0)
    if found.low is None or found.high is None:
        return Outcome(None)
    return Outcome(found.low > 0 or found.high < 0, width=found.high - found.low)


def _related(random: Random, count: int, make: Make, own: Make, r: float, holds: bool) -> Outcome:
    """Two series of which a share is common; with the same memory, so that their correlation is ``r``."""
    common = make(random, count)
    first = np.sqrt(r) * common + np.sqrt(1 - r) * own(random, count)
    second = np.sqrt(r) * common + np.sqrt(1 - r) * own(random, count)
    found = at_lag(first, second, 0)
    if found.low is None or found.high is None:
        return Outcome(None if holds else False)
    if holds:
        return Outcome(found.low <= r <= found.high, width=found.high - found.low)
    return Outcome(found.low > 0)


def _telemetry(random: Random, count: int, make: Make) -> Outcome:
    """Operations beside twelve series that have nothing to do with them."""

    def series(name: str, values: Series) -> TimeSeries:
        return TimeSeries.of(name, "1", np.arange(count) * SECOND, values)

    kinds = (_AR5, _AR9, _trend, _walk, _bursts, _approach)
    others = [("x", series(f"{at}", kinds[at % 6](random, count))) for at in range(12)]
    found = compare(series("operations", make(random, count)), others, span_ns=count * SECOND)
    return Outcome(bool(found.found))


def _cause(random: Random) -> Outcome:
    """One of twelve series slows the operations three seconds later."""

    def series(name: str, values: Series) -> TimeSeries:
        return TimeSeries.of(name, "1", np.arange(60) * SECOND, values)

    cause = _AR5(random, 63)
    operations = -cause[:60] + _AR5(random, 60)
    others = [("x", series(f"{at}", _AR5(random, 60))) for at in range(11)]
    found = compare(
        series("operations", operations), [*others, ("x", series("cause", cause[3:]))], span_ns=60 * SECOND
    )
    return Outcome(any(one.name == "cause" for one in found.found))


def _alone(name: str, count: int, make: Make, before: str, bar: float | None = None) -> Situation:
    trial = partial(_unrelated, count=count, make=make)
    return Situation(
        f"two unrelated series, {name}, {count} readings",
        Claim.FALSE,
        trial,
        trials=1000,
        quick=100,
        before=before,
        bar=bar,
    )


def _both(name: str, count: int, make: Make, own: Make, before: str) -> tuple[Situation, Situation]:
    what = f"correlation 0.6, {name}, {count} readings"
    holds = partial(_related, count=count, make=make, own=own, r=0.6, holds=True)
    finds = partial(_related, count=count, make=make, own=own, r=0.6, holds=False)
    held, power = before.split("/")
    return (
        Situation(
            f"interval: {what}",
            Claim.HOLDS,
            holds,
            trials=600,
            quick=100,
            before=held,
            bar=0.93,
            note="reaches over that of the series and that of what remains without their trends",
        ),
        Situation(f"found: {what}", Claim.FOUND, finds, trials=400, before=power),
    )


STATISTICS = (
    Statistic(
        name="Correlation of two series",
        covers=(
            "steelyard.analyze.operations.series_correlation.AtLag",
            "steelyard.analyze.operations.series_correlation.Correlation",
        ),
        about="At one lag; correlated if the interval excludes 0.",
        situations=(
            _alone("independent readings", 30, partial(_memory, phi=0.0), "3.7%"),
            _alone("correlation 0.5 in time", 30, _AR5, "6.5%"),
            _alone("correlation 0.9 in time", 30, _AR9, "9.1%"),
            _alone("correlation 0.9 in time", 120, _AR9, "6.9%"),
            _alone("trends with noise", 30, _trend, "76.0%"),
            _alone("trends with noise", 120, _trend, "95.5%"),
            _alone("random walks", 30, _walk, "13.4%"),
            _alone("random walks", 120, _walk, "13.8%"),
            _alone("exponential approaches", 30, _approach, "96.3%"),
            _alone("exponential approaches", 120, _approach, "99.9%"),
            _alone("bursts", 30, _bursts, "5.6%"),
            *_both(
                "independent readings",
                30,
                partial(_memory, phi=0.0),
                partial(_memory, phi=0.0),
                "96.0%/95.5%",
            ),
            *_both("correlation 0.5 in time", 30, _AR5, _AR5, "93.3%/86.5%"),
            *_both("correlation 0.9 in time", 120, _AR9, _AR9, "92.5%/81.5%"),
            *_both("correlation 0.9 in time", 300, _AR9, _AR9, "93.5%/98.8%"),
        ),
    ),
    Statistic(
        name="What of the telemetry moves with operations",
        covers=(
            "steelyard.analyze.operations.telemetry_correlation.Moving",
            "steelyard.analyze.operations.telemetry_correlation.Correlates",
        ),
        about="Twelve unrelated series at lags up to a fifth of the phase; any reported one is false.",
        situations=(
            *(
                Situation(
                    f"operations: {name}, 60 readings",
                    Claim.FALSE,
                    partial(_telemetry, count=60, make=make),
                    trials=60,
                    before=before,
                )
                for name, make, before in (
                    ("correlation 0.5 in time", _AR5, "0.0%"),
                    ("trends with noise", _trend, "0.0%"),
                    ("random walks", _walk, "0.0%"),
                    ("exponential approaches", _approach, "8.7%"),
                    ("bursts", _bursts, "0.0%"),
                )
            ),
            Situation(
                "found: one of twelve series explains half of the operations, 60 readings",
                Claim.FOUND,
                _cause,
                trials=60,
                before="85.0%",
            ),
        ),
    ),
)
