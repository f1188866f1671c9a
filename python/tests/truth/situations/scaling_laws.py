"""Scaling curves: intervals of the Universal Scalability Law, the function that grew, curves called flat."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from steelyard.analyze.profiles.hot_functions import FunctionShares
from steelyard.analyze.scaling.curve import Observation, steps_of
from steelyard.analyze.scaling.limits import limits_of
from steelyard.analyze.scaling.scaling import analyse
from steelyard.stats.scaling.curve import CurveFit, fit_curve

from ..situation import Claim, Outcome, Random, Situation, Statistic

_UP_TO_64 = (1, 2, 4, 8, 16, 32, 64)
_UP_TO_16 = (1, 2, 4, 8, 16)
_CONTENDED = (0.05, 0.001)
"""Contention and coherency of a program with a lock: its peak is at 31 CPUs."""
_AMDAHL = (0.03, 0.0)

_READ = "it also holds what was read at one CPU"

Noise = Callable[[Random, int, int], np.ndarray]
"""Factors of throughput by step and block."""


def _even(random: Random, steps: int, blocks: int, sd: float = 0.02) -> np.ndarray:
    return np.exp(sd * random.standard_normal((steps, blocks)))


def _uneven(random: Random, steps: int, blocks: int) -> np.ndarray:
    """The noise grows from 1 % on one CPU to 8 % on all."""
    return np.exp(np.linspace(0.01, 0.08, steps)[:, None] * random.standard_normal((steps, blocks)))


def _drifting(random: Random, steps: int, blocks: int) -> np.ndarray:
    """The machine is faster and slower by 5 % from block to block."""
    return _even(random, steps, blocks) * np.exp(0.05 * random.standard_normal(blocks))


def _heavy(random: Random, steps: int, blocks: int) -> np.ndarray:
    return np.exp(0.02 * random.standard_t(3, (steps, blocks)))


def _draw(
    random: Random, law: tuple[float, float], cpus: tuple[int, ...], blocks: int, noise: Noise
) -> CurveFit:
    count = np.array(cpus, dtype=float)
    curve = 1000 * count / (1 + law[0] * (count - 1) + law[1] * count * (count - 1))
    values = curve[:, None] * noise(random, len(cpus), blocks)
    return fit_curve({step: list(row) for step, row in zip(cpus, values, strict=True)})


def _truth(law: tuple[float, float], name: str) -> float:
    peak = math.sqrt((1 - law[0]) / law[1]) if law[1] else math.inf
    return {"rate": 1000.0, "contention": law[0], "coherency": law[1], "peak": peak}[name]


def _holds(
    random: Random, name: str, law: tuple[float, float], cpus: tuple[int, ...], blocks: int, noise: Noise
) -> Outcome:
    found = getattr(_draw(random, law, cpus, blocks, noise).law, name)
    truth = _truth(law, name)
    if found.low is None or (name == "peak" and not found.is_identified):
        return Outcome(None)
    finite = math.isfinite(truth) and math.isfinite(found.high) and truth > 0
    return Outcome(
        found.low <= truth <= found.high,
        (found.value - truth) / truth if finite and math.isfinite(found.value) else None,
        (found.high - found.low) / truth if finite else None,
    )


def _peaks(random: Random, law: tuple[float, float], cpus: tuple[int, ...], blocks: int) -> Outcome:
    return Outcome(_draw(random, law, cpus, blocks, _even).law.peak.is_identified)


def _names(random: Random) -> Outcome:
    """Return whether contention or coherency is stated where three close steps cannot separate them."""
    found = _draw(random, (0.02, 0.002), (1, 2, 3), 3, _even).law
    return Outcome(not found.contention.is_identified and not found.coherency.is_identified)


def _two_steps(random: Random) -> Outcome:
    found = _draw(random, _CONTENDED, (1, 2), 8, _even).law
    return Outcome(found.contention.value is None and found.peak.low is None)


def _named(random: Random, samples: tuple[int, int], growth: float) -> Outcome:
    """Return whether a function is named; the 20th of 200 is ``growth`` times as much on all CPUs."""
    low = 1 / np.arange(1, 201)
    high = low.copy()
    high[19] *= growth
    counts = [
        random.multinomial(size, shares / shares.sum())
        for size, shares in zip(samples, (low, high), strict=True)
    ]
    ends = [
        FunctionShares.of_samples({f"f{at}": int(count) for at, count in enumerate(one)}) for one in counts
    ]
    steps = steps_of([Observation(1, 0, 100.0), Observation(8, 0, 500.0)])
    grown = analyse(steps, low=ends[0], high=ends[1]).grown
    return Outcome(grown is not None and (growth == 1 or grown.function == "f19"))


def _called_flat(random: Random, gain: float, sd: float) -> Outcome:
    """Return whether a curve is called flat of which each doubling of the CPUs gains ``gain``."""
    rows = [
        Observation(2**step, block, float(100 * gain**step * math.exp(sd * random.standard_normal())))
        for step in range(7)
        for block in range(5)
    ]
    return Outcome(bool(limits_of(steps_of(rows))))


def _interval(
    parameter: str,
    about: str,
    law: tuple[float, float] = _CONTENDED,
    cpus: tuple[int, ...] = _UP_TO_64,
    blocks: int = 5,
    noise: Noise = _even,
    **more: object,
) -> Situation:
    return Situation(
        f"{parameter}: {about}, {len(cpus)} steps, {blocks} {'block' if blocks == 1 else 'blocks'}",
        Claim.HOLDS,
        partial(_holds, name=parameter, law=law, cpus=cpus, blocks=blocks, noise=noise),
        trials=200,
        **more,  # type: ignore[arg-type]
    )


STATISTICS = (
    Statistic(
        name="Scalability law",
        covers=("steelyard.stats.scaling.law.Parameter", "steelyard.stats.scaling.law.LawFit"),
        about="Throughput at 1, 2, 4 ... CPUs, fitted in logarithms with parameters of at least 0. Intervals"
        " are of a parametric bootstrap, where the law is the model that holds; a peak is stated where"
        " readings fall, or where the law alone explains them and its peak is near.",
        situations=(
            _interval("rate", "sd 2 %", bar=0.93, note=_READ),
            *(_interval(one, "sd 2 %", quick=60) for one in ("contention", "coherency", "peak")),
            *(_interval(one, "sd 2 %", blocks=3) for one in ("contention", "coherency")),
            _interval("rate", "sd 2 %", blocks=1, bar=0.93, note=_READ),
            *(_interval(one, "sd 2 %", blocks=1) for one in ("contention", "coherency", "peak")),
            *(
                _interval(one, "sd 1 % to 8 %", noise=_uneven, bar=0.93)
                for one in ("contention", "coherency", "peak")
            ),
            _interval("rate", "blocks differ by 5 %", noise=_drifting, bar=0.93, note=_READ),
            _interval("contention", "blocks differ by 5 %", noise=_drifting),
            *(
                _interval(one, "Student's with 3 degrees", noise=_heavy, bar=0.93)
                for one in ("contention", "peak")
            ),
            *(
                _interval(one, "sd 10 %", noise=partial(_even, sd=0.1), bar=0.93)
                for one in ("contention", "peak")
            ),
            # At the bound of a parameter its interval holds it unless it is excluded, which is one tail.
            _interval("coherency", "no coherency, sd 2 %", law=_AMDAHL, bar=0.93, quick=60),
            _interval("contention", "no coherency, sd 2 %", law=_AMDAHL, bar=0.93),
            _interval("contention", "linear, sd 2 %", law=(0.0, 0.0), cpus=_UP_TO_16, bar=0.93),
            Situation(
                "a peak where there is none, no coherency, 7 steps, 5 blocks",
                Claim.FALSE,
                partial(_peaks, law=_AMDAHL, cpus=_UP_TO_64, blocks=5),
                trials=200,
                quick=60,
            ),
            Situation(
                "a peak where there is none, linear, 5 steps, 3 blocks",
                Claim.FALSE,
                partial(_peaks, law=(0.0, 0.0), cpus=_UP_TO_16, blocks=3),
                trials=200,
            ),
            Situation(
                "a peak at 31 CPUs, 7 steps up to 64, 5 blocks",
                Claim.FOUND,
                partial(_peaks, law=_CONTENDED, cpus=_UP_TO_64, blocks=5),
                trials=200,
                bar=0.95,
            ),
            Situation(
                "3 steps, of 1 to 3 CPUs: which of the two terms", Claim.SILENT, _names, trials=200, quick=40
            ),
            Situation("2 steps", Claim.SILENT, _two_steps, trials=100, quick=20),
        ),
    ),
    Statistic(
        name="Function that grew most",
        covers=(),
        about="Profiles of the fewest and the most CPUs. The function that added most is named unless"
        " independent samples of equal programs would do so, too.",
        situations=(
            Situation(
                "the same program, 300 and 2,000 samples",
                Claim.FALSE,
                partial(_named, samples=(300, 2000), growth=1.0),
                trials=1000,
                quick=100,
            ),
            Situation(
                "the same program, 5,000 samples each",
                Claim.FALSE,
                partial(_named, samples=(5000, 5000), growth=1.0),
                trials=1000,
            ),
            Situation(
                "a function of 0.9 % that becomes 8 %, 300 and 2,000 samples",
                Claim.FOUND,
                partial(_named, samples=(300, 2000), growth=10.0),
                trials=500,
                quick=50,
                bar=0.9,
            ),
        ),
    ),
    Statistic(
        name="Curve called flat",
        covers=(),
        about="Throughput at 1, 2, 4 ... 64 CPUs in 5 blocks.",
        situations=(
            Situation(
                "each doubling gains 30 %, noise 5 %",
                Claim.FALSE,
                partial(_called_flat, gain=1.3, sd=0.05),
                trials=1000,
                quick=100,
            ),
            Situation(
                "no doubling gains anything, noise 5 %",
                Claim.FOUND,
                partial(_called_flat, gain=1.0, sd=0.05),
                trials=1000,
                bar=0.9,
            ),
        ),
    ),
)
