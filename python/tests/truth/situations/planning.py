"""Looking at every replicate, and how many replicates a decision needs."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from steelyard.stats.power import Need, pairs_needed, replicates_needed, variance_needed
from steelyard.stats.ratios import Effect
from steelyard.stats.sequential import student_quantile

from ..situation import Claim, Outcome, Random, Situation, Statistic

LEAST = 0.03
"""Smallest effect that matters."""


def _noise(random: Random, count: int, shape: str) -> np.ndarray:
    match shape:
        case "heavy":
            return np.asarray(random.standard_t(3, count) / 3**0.5)
        case "skewed":
            return np.asarray(random.exponential(1, count) - 1)
        case _:
            return np.asarray(random.standard_normal(count))


def _looks(
    random: Random,
    effect: float = 0.0,
    first: int = 5,
    last: int = 200,
    shape: str = "normal",
    fixed: bool = False,
) -> Outcome:
    """Look after every replicate whether the interval of a mean excludes 0, and stop when it does."""
    # Logarithms of a ratio, as those of an effect are.
    values = effect + 0.05 * _noise(random, last, shape)
    counts = np.arange(1, last + 1)
    means = np.cumsum(values) / counts
    squares = np.cumsum(values**2) / counts - means**2
    for count in range(first, last + 1):
        variance = float(squares[count - 1]) / (count - 1)
        found = Effect(math.exp(means[count - 1]), variance, float(count - 1), (count, count))
        ends = found.interval() if fixed else found.always_valid()
        if ends is not None and not ends[0] <= 1 <= ends[1]:
            return Outcome(True, width=float(count))
    return Outcome(False)


def _planned(
    random: Random,
    effect: float,
    pilot: int = 10,
    sd: tuple[float, float] = (0.05, 0.05),
    shape: str = "normal",
) -> Outcome:
    """Take as many replicates as the pilot's variance asks for, and look once whether the effect is found."""
    first = [scale * _noise(random, pilot, shape) for scale in sd]
    variances = [float(one.var(ddof=1)) / pilot for one in first]
    # Welch and Satterthwaite's degrees of freedom, as those of an effect.
    degrees = sum(variances) ** 2 / sum(one**2 / (pilot - 1) for one in variances)
    needed = variance_needed(LEAST, degrees=degrees)
    need: Need = replicates_needed((variances[0], variances[1]), (pilot, pilot), needed)
    counts = [min(count, 5000) for count in need.replicates]
    arms = [
        mean + scale * _noise(random, count, shape)
        for mean, scale, count in zip((0.0, effect), sd, counts, strict=True)
    ]
    errors = [float(one.var(ddof=1)) / len(one) for one in arms]
    half = student_quantile(0.975, sum(counts) - 2) * math.sqrt(sum(errors))
    return Outcome(abs(float(arms[1].mean() - arms[0].mean())) > half, width=float(sum(counts)))


def _planned_pairs(random: Random, effect: float, pilot: int = 10) -> Outcome:
    needed = variance_needed(LEAST, degrees=pilot - 1)
    variance = float((0.05 * random.standard_normal(pilot)).var(ddof=1)) / pilot
    count = pairs_needed(variance, (pilot, pilot), needed).replicates[0]
    values = effect + 0.05 * random.standard_normal(count)
    half = student_quantile(0.975, count - 1) * math.sqrt(float(values.var(ddof=1)) / count)
    return Outcome(abs(float(values.mean())) > half, width=float(count))


STATISTICS = (
    Statistic(
        name="Interval that is valid at all times",
        covers=(),
        about=(
            "Looking after every replicate, from the 5th to the 200th, and stopping at the first interval"
            " that excludes no effect. Width: replicates until then (median)."
        ),
        situations=(
            Situation("no effect, normal", Claim.FALSE, _looks, trials=1000, quick=100, before="4.9 %"),
            Situation(
                "no effect, heavy tails",
                Claim.FALSE,
                partial(_looks, shape="heavy"),
                trials=1000,
                quick=100,
                before="3.0 %",
            ),
            Situation(
                "no effect, exponential noise, looking from the 20th on",
                Claim.FALSE,
                partial(_looks, shape="skewed", first=20),
                trials=1000,
                quick=100,
            ),
            Situation(
                "no effect, exponential noise, looking from the 5th on",
                Claim.FOUND,
                partial(_looks, shape="skewed"),
                trials=1000,
                before="15 %",
                note="false alarms: five replicates are too few for noise this skewed",
            ),
            Situation(
                "no effect, looking from the 2nd replicate on",
                Claim.FALSE,
                partial(_looks, first=2),
                trials=1000,
                quick=100,
                before="9.4 %",
            ),
            Situation(
                "no effect, for comparison: the interval for one look, at every look",
                Claim.FOUND,
                partial(_looks, fixed=True),
                trials=500,
                note="not printed by any command",
            ),
            Situation(
                "an effect of half the noise found", Claim.FOUND, partial(_looks, effect=0.025), trials=500
            ),
        ),
    ),
    Statistic(
        name="Replicates that a decision needs",
        covers=("steelyard.stats.power.Need",),
        about=(
            "Replicates required after 10 pilot replicates of each arm, noise 5 %, smallest effect that"
            " matters 3 %, power 80 %. Width: replicates required (median)."
        ),
        situations=(
            Situation(
                "an effect of 3 %, two arms",
                Claim.FOUND,
                partial(_planned, effect=LEAST),
                before="73 %",
                trials=2000,
                quick=200,
                bar=0.75,
                note="the pilot's variance is itself uncertain",
            ),
            Situation(
                "an effect of 3 %, one arm 3 times as noisy",
                Claim.FOUND,
                partial(_planned, effect=LEAST, sd=(0.05, 0.15)),
                before="76 %",
                trials=2000,
                quick=200,
                bar=0.75,
            ),
            Situation(
                "an effect of 3 %, heavy tails",
                Claim.FOUND,
                partial(_planned, effect=LEAST, shape="heavy"),
                before="67 %",
                trials=2000,
                quick=200,
                bar=0.7,
            ),
            Situation(
                "an effect of 3 %, pairs",
                Claim.FOUND,
                partial(_planned_pairs, effect=LEAST),
                before="70 %",
                trials=2000,
                quick=200,
                bar=0.75,
            ),
            Situation("no effect", Claim.FALSE, partial(_planned, effect=0.0), trials=2000, quick=200),
        ),
    ),
)
