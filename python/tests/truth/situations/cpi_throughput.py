"""Whether CPI stands for throughput: the slope of cost over CPI, and the verdict from it."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from steelyard.fleet.cpi.throughput import FLOOR, SPAN_S, following_of_sums

from ..situation import Claim, Outcome, Random, Situation, Statistic


def _wander(random: Random, count: int, memory: float) -> NDArray[np.float64]:
    """Return a series of variance 1 whose neighbours correlate at ``memory``."""
    noise = random.standard_normal(count + 200)
    return np.asarray(lfilter([(1 - memory**2) ** 0.5], [1, -memory], noise)[200:])


def _following(
    random: Random,
    elasticity: float,
    spans: int = 144,
    memory: float = 0.0,
    path_memory: float | None = None,
    daily: float = 0.0,
    heavy: bool = False,
    path_sd: float = 0.05,
    missing: float = 0.0,
):
    """Draw a job whose CPI wanders by 5 %; its operations cost ``elasticity`` of that, and path length."""
    hours = np.arange(spans) * SPAN_S / 3600
    cpi = 0.05 * _wander(random, spans, memory) + daily * np.sin(2 * np.pi * hours / 24)
    path = _wander(random, spans, memory if path_memory is None else path_memory)
    if heavy:
        path = random.standard_t(3, spans) / 3**0.5
    cost = elasticity * cpi + path_sd * path
    load = np.exp(0.3 * _wander(random, spans, 0.9))
    seconds = np.full(spans, 600.0 * 40)
    operations = 1000 * seconds * load
    cycles = operations * 2e6 * np.exp(cost)
    sums = {
        "operations": operations,
        "instructions": cycles / (1.4 * np.exp(cpi)),
        "cycles": cycles,
        "seconds": seconds,
        "span": np.arange(spans) * float(SPAN_S),
    }
    kept = random.random(spans) >= missing
    return following_of_sums("job", "platform", {name: one[kept] for name, one in sums.items()})


def _holds(random: Random, elasticity: float = 0.8, **options: float) -> Outcome:
    slope = _following(random, elasticity, **options).elasticity  # type: ignore[arg-type]
    if slope is None or slope.low is None or slope.high is None:
        return Outcome(None)
    return Outcome(slope.low <= elasticity <= slope.high, slope.value - elasticity, slope.high - slope.low)


def _says(random: Random, verdict: str, elasticity: float, **options: float) -> Outcome:
    return Outcome(_following(random, elasticity, **options).verdict == verdict)  # type: ignore[arg-type]


def _situation(name: str, before: str, **options: float) -> Situation:
    return Situation(name, Claim.HOLDS, partial(_holds, **options), trials=1000, quick=200, before=before)


STATISTICS = (
    Statistic(
        name="CPI and throughput",
        covers=("steelyard.fleet.cpi.throughput.Slope", "steelyard.fleet.cpi.throughput.Following"),
        about=(
            "Elasticity of the cost of an operation over CPI, from sums over spans of 10 minutes; CPI varies"
            f" by 5 % unless stated. The answer is 'follows' from {FLOOR:g} on."
        ),
        situations=(
            _situation("a day, nothing correlated", "95 %, width 0.35"),
            _situation("2 hours (12 spans)", "94 %, width 1.3", spans=12),
            _situation("6 hours, AR(1) 0.5", "94 %, width 0.81", spans=36, memory=0.5),
            _situation("a day, AR(1) 0.8", "92 %, width 0.66", memory=0.8),
            _situation("a week, AR(1) 0.95", "95 %, width 0.54", spans=1008, memory=0.95),
            _situation(
                "a day, CPI AR(1) 0.9, path length not", "99 %, width 0.65", memory=0.9, path_memory=0.0
            ),
            _situation(
                "2 days, CPI with the hour (5 %), path AR(1) 0.9",
                "90 %, width 0.41",
                spans=288,
                daily=0.05,
                path_memory=0.9,
            ),
            _situation("a day, path length heavy-tailed", "96 %, width 0.32", heavy=True),
            _situation(
                "a day, a third of the spans missing, AR(1) 0.8", "90 %, width 0.61", memory=0.8, missing=0.33
            ),
            Situation(
                f"'follows' at an elasticity of {FLOOR - 0.1:g}, a day, AR(1) 0.8",
                Claim.FALSE,
                partial(_says, verdict="follows", elasticity=FLOOR - 0.1, memory=0.8),
                trials=1000,
                quick=200,
                before="0.3 %",
            ),
            Situation(
                f"'does not follow' at {FLOOR + 0.1:g}, 6 hours, AR(1) 0.8",
                Claim.FALSE,
                partial(_says, verdict="does not follow", elasticity=FLOOR + 0.1, spans=36, memory=0.8),
                trials=1000,
                quick=200,
                before="4.4 %",
            ),
            Situation(
                "'follows' found at 1, a day, AR(1) 0.8",
                Claim.FOUND,
                partial(_says, verdict="follows", elasticity=1.0, memory=0.8),
                trials=500,
                before="82 %",
            ),
            Situation(
                "'does not follow' found at 0, a day, AR(1) 0.8",
                Claim.FOUND,
                partial(_says, verdict="does not follow", elasticity=0.0, memory=0.8),
                trials=500,
                before="83 %",
            ),
        ),
    ),
)
