"""Health checks beside earlier ones: whether a healthy machine is left alone and a loss is found."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from steelyard.analyze.health.comparison import compare_figures
from steelyard.analyze.health.figures import Figure

from ..situation import Claim, Outcome, Random, Situation, Statistic

FAMILIES = (
    ("latency-core", 12, "lower"),
    ("latency-shared", 6, "lower"),
    ("latency-memory", 4, "lower"),
    ("bandwidth", 6, "higher"),
    ("core-to-core", 3, "lower"),
    ("disk", 11, "higher"),
    ("loopback", 4, "lower"),
)
"""Figures of a check of a small machine: 46."""
REPEATS = 7


def _check(
    random: Random,
    between: float,
    within: float,
    shared: float = 0.0,
    heavy: bool = False,
    bursts: float = 0.0,
    slow: float = 1.0,
) -> list[Figure]:
    """Measure a machine whose figures are 100, with noise between checks and within one."""
    figures = []
    common = random.standard_normal()
    for family, count, better in FAMILIES:
        for index in range(count):
            own = random.standard_t(3) / 3**0.5 if heavy else random.standard_normal()
            level = between * (shared**0.5 * common + (1 - shared) ** 0.5 * own)
            level += math.log(slow) if family == "latency-memory" else 0.0
            repeats = 100 * np.exp(level + within * random.standard_normal(REPEATS))
            if random.random() < bursts:
                # A neighbour for the time of this figure, and of all its repeats.
                repeats = repeats * (1.4 if better == "lower" else 1 / 1.4)
            ordered = np.sort(repeats)
            middle = float(ordered[REPEATS // 2])
            name = f"{family}-{index}"
            ends = float(ordered[0]), float(ordered[-1])
            figures.append(Figure(name, name, family, "ns", better, middle, *ends))
    return figures


def _alerts(
    random: Random, earlier: int = 6, slow: float = 1.0, within: float = 0.01, **options: float
) -> set[str]:
    history = [_check(random, within=within, **options) for _ in range(earlier)]  # type: ignore[arg-type]
    now = _check(random, within=within, slow=slow, **options)  # type: ignore[arg-type]
    past = {figure.id: before for figure, *before in zip(now, *history, strict=True)}
    return {row.figure.family for row in compare_figures(now, past) if row.state == "worse"}


def _false(random: Random, **options: float) -> Outcome:
    return Outcome(bool(_alerts(random, **options)))


def _found(random: Random, **options: float) -> Outcome:
    return Outcome("latency-memory" in _alerts(random, **options))


def _situation(name: str, before: str, **options: float) -> Situation:
    return Situation(name, Claim.FALSE, partial(_false, **options), trials=300, quick=40, before=before)


STATISTICS = (
    Statistic(
        name="Health check against earlier ones",
        covers=("steelyard.analyze.health.figures.Figure", "steelyard.analyze.health.comparison.Compared"),
        about=(
            "A check of 46 figures, each a median of 7 repeats with 1 % of noise, beside 6 earlier checks;"
            " the count is of checks with any alert."
        ),
        situations=(
            _situation("noise of 1.5 % between checks", "2.7 %", between=0.015),
            _situation("noise of 3 % between checks", "33 %", between=0.03),
            _situation("noise of 6 % between checks", "67 %", between=0.06),
            _situation("noise of 3 %, heavy tails", "37 %", between=0.03, heavy=True),
            _situation("noise of 5 %, common to all figures", "29 %", between=0.05, shared=0.9),
            _situation("noise of 1.5 %, one earlier check", "0 %", between=0.015, earlier=1),
            _situation("noise of 3 %, one earlier check", "13 %", between=0.03, earlier=1),
            _situation("noise of 6 %, one earlier check", "84 %", between=0.06, earlier=1),
            Situation(
                "memory 25 % slower found, noise of 1.5 %, one earlier check",
                Claim.FOUND,
                partial(_found, between=0.015, slow=1.25, earlier=1),
                trials=200,
            ),
            _situation("noise of 3 %, two earlier checks", "71 %", between=0.03, earlier=2),
            _situation("noise of 1.5 %, repeats differ by 10 %", "2 %", between=0.015, within=0.1),
            Situation(
                "memory 25 % slower found, noise of 1.5 %",
                Claim.FOUND,
                partial(_found, between=0.015, slow=1.25),
                trials=200,
                before="100 %",
            ),
            Situation(
                "memory 25 % slower found, noise of 3 %",
                Claim.FOUND,
                partial(_found, between=0.03, slow=1.25),
                trials=200,
                before="100 %",
            ),
            Situation(
                "memory 25 % slower found, noise of 6 %",
                Claim.FOUND,
                partial(_found, between=0.06, slow=1.25),
                trials=200,
                before="99 %",
            ),
        ),
    ),
)
