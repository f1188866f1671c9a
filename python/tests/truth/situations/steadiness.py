"""Measure phases that kept their level, and such that did not."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from steelyard.stats import steady

from ..situation import Claim, Outcome, Random, Situation, Statistic

Series = NDArray[np.float64]


def noise(random: Random, count: int, correlation: float) -> Series:
    """Stationary first-order autocorrelated noise of standard deviation 1."""
    shocks = random.standard_normal(count)
    shocks[1:] *= np.sqrt(1 - correlation**2)
    for index in range(1, count):
        shocks[index] += correlation * shocks[index - 1]
    return shocks


_OPEN = "unsteady alone is counted: the mean is not known to 7.5 %, which is said in some of the trials"


def _flat(count: int) -> Series:
    return np.zeros(count)


def _drift(count: int) -> Series:
    return np.linspace(0.0, 20.0, count)


def _shift(count: int) -> Series:
    return np.where(np.arange(count) < count // 3, 0.0, -20.0)


def _dip(count: int) -> Series:
    first, width = round(0.45 * count), max(1, count // 10)
    return np.where((np.arange(count) >= first) & (np.arange(count) < first + width), -20.0, 0.0)


def _sine(count: int, cycles: float) -> Series:
    return np.asarray(20 * np.sin(2 * np.pi * cycles * np.arange(count) / count))


def _objects(
    random: Random,
    count: int,
    deviation: float,
    correlation: float,
    is_open_false: bool,
    change: object = _flat,
) -> Outcome:
    assert callable(change)
    values = 100 + change(count) + deviation * noise(random, count, correlation)
    answer = steady.check(values.tolist()).steady
    return Outcome(answer is not True if is_open_false else answer is False)


def _skewed(random: Random) -> Outcome:
    values = 100 * random.lognormal(0.0, 0.15, 60)
    return Outcome(steady.check(values.tolist()).steady is not True)


def _stalls(random: Random, count: int, is_open_false: bool) -> Outcome:
    """Single intervals that lose most, as pauses of garbage collectors or compactions make."""
    values = 100 + 3 * random.standard_normal(count) - 60 * (random.random(count) < 0.05)
    answer = steady.check(values.tolist()).steady
    return Outcome(answer is not True if is_open_false else answer is False)


def _long_memory(random: Random) -> Outcome:
    """The sum of a quick and a slow process: not first-order."""
    values = 100 + 3 * noise(random, 180, 0.3) + 2 * noise(random, 180, 0.9)
    return Outcome(steady.check(values.tolist()).steady is not True)


def _alike(
    count: int,
    deviation: float,
    correlation: float,
    before: str,
    quick: int = 0,
    *,
    is_open_false: bool = True,
) -> Situation:
    trial = partial(
        _objects, count=count, deviation=deviation, correlation=correlation, is_open_false=is_open_false
    )
    memory = f"correlation {correlation:g}" if correlation else "independent"
    name = f"no change, {count} intervals, noise {deviation:g} %, {memory}"
    note = "" if is_open_false else _OPEN
    return Situation(name, Claim.FALSE, trial, trials=500, quick=quick, before=before, note=note)


def _with_stalls(count: int, before: str, *, is_open_false: bool = True) -> Situation:
    name = f"no change, {count} intervals, 5 % of them lose 60 %"
    trial = partial(_stalls, count=count, is_open_false=is_open_false)
    note = "" if is_open_false else _OPEN
    return Situation(name, Claim.FALSE, trial, trials=500, before=before, note=note)


def _found(
    what: str,
    change: Callable[[int], Series],
    count: int,
    noise: tuple[float, float],
    before: str,
    bar: float | None = None,
) -> Situation:
    deviation, correlation = noise
    trial = partial(
        _objects,
        count=count,
        deviation=deviation,
        correlation=correlation,
        is_open_false=False,
        change=change,
    )
    memory = f"correlation {correlation:g}" if correlation else "independent"
    name = f"{what}, {count} intervals, noise {deviation:g} %, {memory}"
    return Situation(name, Claim.FOUND, trial, trials=200, quick=20 if bar else 0, before=before, bar=bar)


_TWO, _FIVE = partial(_sine, cycles=2.0), partial(_sine, cycles=5.0)

STATISTICS = (
    Statistic(
        name="Steadiness of a measure phase",
        covers=("steelyard.stats.steady.Steadiness", "steelyard.stats.shapes.Shape"),
        about="Unless noted, a false alarm is any answer but steady; detected is the answer unsteady.",
        situations=(
            _alike(10, 10, 0.0, "30.2%", 200),
            _alike(20, 10, 0.0, "2.2%"),
            _alike(60, 5, 0.6, "1.4%"),
            _alike(10, 3, 0.8, "4.2%"),
            _alike(20, 3, 0.8, "4.4%"),
            _alike(60, 5, 0.8, "3.2%", 200),
            _alike(180, 5, 0.8, "0.8%"),
            _alike(20, 3, 0.9, "3.1%"),
            _alike(60, 3, 0.9, "1.9%"),
            _alike(60, 5, 0.9, "8.7%", 200),
            _alike(180, 5, 0.9, "1.9%"),
            _alike(60, 10, 0.8, "25% (with open ones)", is_open_false=False),
            _alike(60, 10, 0.9, "5.4%", is_open_false=False),
            _alike(180, 10, 0.9, "", is_open_false=False),
            Situation(
                "no change, 60 intervals, lognormal, sd 15 %",
                Claim.FALSE,
                _skewed,
                trials=500,
                quick=100,
                before="0.4%",
            ),
            _with_stalls(20, "3.0%", is_open_false=False),
            _with_stalls(60, "0.4%"),
            _with_stalls(180, "0.2%"),
            Situation(
                "no change, 180 intervals, quick and slow noise together",
                Claim.FALSE,
                _long_memory,
                trials=500,
                before="2.5%",
            ),
            _found("20 % less for a tenth of the run", _dip, 60, (3, 0.0), "0.0%", 0.95),
            _found("20 % less for a tenth of the run", _dip, 60, (5, 0.3), "0.0%"),
            _found("20 % less for a tenth of the run", _dip, 180, (5, 0.6), "0.0%"),
            _found("sine of 20 %, two periods", _TWO, 60, (5, 0.0), "0.0%", 0.95),
            _found("sine of 20 %, five periods", _FIVE, 60, (5, 0.6), "0.0%", 0.9),
            _found("sine of 20 %, five periods", _FIVE, 180, (5, 0.8), "0.0%"),
            _found("drift of 20 %", _drift, 10, (3, 0.0), "54.0%"),
            _found("drift of 20 %", _drift, 20, (3, 0.6), "34.7%"),
            _found("drift of 20 %", _drift, 60, (5, 0.3), "99.0%"),
            _found("drift of 20 %", _drift, 60, (5, 0.8), "29.0%"),
            _found("20 % less from a third on", _shift, 10, (3, 0.0), "49.7%"),
            _found("20 % less from a third on", _shift, 20, (3, 0.6), "65.7%"),
            _found("20 % less from a third on", _shift, 60, (5, 0.3), "100.0%"),
            _found("20 % less from a third on", _shift, 60, (5, 0.8), "69.0%"),
        ),
    ),
)
