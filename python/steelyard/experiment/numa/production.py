"""Whether a load test confirms what a fleet shows of the same job.

In: the effect of locality on a figure of a job in production (``fleet.numa``), the verdict of its load test.
Out: an `Agreement` for each scenario with remote memory.

Both are costs over the cost with all memory local: in production at the NUMA score of the scenario, within
platform and load of the machine; in the laboratory the inverse of performance. They come from different
machines and days, so that their intervals are independent; the interval of their quotient follows from both
by the method of variance estimates recovery (G. Zou and A. Donner, Statistics in Medicine 27, 2008).

Not here: the intervals themselves (``fleet.effects``, ``stats.contrasts``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from steelyard._base import ResultSaysNoError
from steelyard.experiment.numa.verdict import Verdict
from steelyard.fleet.numa.locality import METRICS, Locality

PREFERRED = ("cpu_per_operation", "cpi", "latency_mean", "latency_p99", "cpu_use")
"""Figures of production in the order in which they are compared with a load test: CPU time per request is the
one that depends least on what users ask for."""
PAPER_REMOTE_SCORE = 0.5
"""The score of all remote memory where the distance is not known: one hop of 20 over 10."""


class Agrees(StrEnum):
    """What production and laboratory say together."""

    AGREE = "agree"
    DISAGREE = "disagree"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Cost:
    """A cost over that with all memory local: 1.12 is 12 % more."""

    ratio: float
    """1.12 is 12 % more."""
    low: float | None
    """Lower end of its interval, None where there is none."""
    high: float | None
    """Upper end of it."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Production beside laboratory, in one scenario."""

    scenario: int
    """2 or 3."""
    score: float
    """NUMA score of the scenario, at which production is read."""
    production: Cost
    """What the fleet shows, within platform and load."""
    laboratory: Cost
    """What the load test shows."""
    ratio: float
    """The laboratory's cost over production's."""
    low: float | None
    """Lower end of the interval of 95 % of ``ratio``, None where one side has none."""
    high: float | None
    """Upper end of it."""
    agrees: Agrees
    """Whether they say the same."""
    why: str
    """Why, in words."""


@dataclass(frozen=True, slots=True)
class Production:
    """A fleet's finding of the same job."""

    job: str
    """The job."""
    metric: str
    """The figure of it, as `steelyard fleet numa` names it."""
    agreements: Sequence[Agreement]
    """By scenario with remote memory."""


def compare(
    production: Cost, laboratory: Cost, *, scenario: int, score: float, least_effect_ratio: float
) -> Agreement:
    """Return whether two costs say the same, given the smallest effect that matters."""
    ratio = laboratory.ratio / production.ratio
    ends = _quotient(production, laboratory)
    agrees, why = _agrees(production, laboratory, ends, least_effect_ratio)
    low, high = ends if ends is not None else (None, None)
    return Agreement(scenario, score, production, laboratory, ratio, low, high, agrees, why)


def _quotient(production: Cost, laboratory: Cost) -> tuple[float, float] | None:
    """Return the interval of laboratory over production."""
    ends = (production.low, production.high, laboratory.low, laboratory.high)
    if any(end is None or end <= 0 for end in ends):
        return None
    below, above, low, high = (math.log(end) for end in ends if end is not None)
    middle, own = math.log(production.ratio), math.log(laboratory.ratio)
    difference = own - middle
    down, up = math.hypot(own - low, above - middle), math.hypot(high - own, middle - below)
    return math.exp(difference - down), math.exp(difference + up)


def _side(cost: Cost) -> int:
    """Return 1 where remote memory is known to cost, -1 where it is known to gain, else 0."""
    if cost.low is not None and cost.low > 1:
        return 1
    return -1 if cost.high is not None and cost.high < 1 else 0


def _agrees(
    production: Cost, laboratory: Cost, quotient: tuple[float, float] | None, least: float
) -> tuple[Agrees, str]:
    if quotient is None:
        return Agrees.UNDECIDED, "one of both has no interval"
    ours, theirs = _side(laboratory), _side(production)
    differs = not quotient[0] <= 1 <= quotient[1]
    if ours and ours == theirs:
        way = "costs" if ours > 0 else "gains"
        if not differs:
            return Agrees.AGREE, f"remote memory {way} in both, by amounts that chance may part"
        more = "more" if (quotient[0] > 1) == (ours > 0) else "less"
        return Agrees.AGREE, f"remote memory {way} in both, {more} in the laboratory"
    if ours and theirs:
        return Agrees.DISAGREE, "one shows a cost of remote memory, the other a gain"
    if differs:
        where = "the laboratory" if quotient[0] > 1 else "production"
        return Agrees.DISAGREE, f"remote memory costs more in {where} than in the other, by more than chance"
    small = [
        cost.low is not None
        and cost.high is not None
        and 1 / (1 + least) < cost.low
        and cost.high < 1 + least
        for cost in (production, laboratory)
    ]
    if all(small):
        return Agrees.AGREE, "neither shows an effect that matters"
    return Agrees.UNDECIDED, "the intervals allow both"


def finding_of(localities: Sequence[Locality], job: str, metric: str | None) -> Locality:
    """Return the effect of locality on a figure of a job: the one named, else the first of `PREFERRED`.

    Raises ResultSaysNoError where the fleet has none.
    """
    own = {each.metric: each for each in localities if each.job == job}
    if not own:
        raise ResultSaysNoError(
            f"the fleet shows no effect of locality on {job}",
            hint="steelyard fleet numa lists the jobs that have one; scores have to differ within a job",
        )
    if metric is not None:
        if metric not in own:
            raise ResultSaysNoError(
                f"{job} has no {METRICS.get(metric, metric)} in the store", hint=f"it has {', '.join(own)}"
            )
        return own[metric]
    with_interval = [name for name in PREFERRED if name in own and own[name].effect.low is not None]
    return own[next(iter(with_interval), next(name for name in PREFERRED if name in own))]


def agreements(locality: Locality, alone: Verdict, *, least_effect_ratio: float) -> list[Agreement]:
    """Return production beside laboratory, in each scenario alone that has remote memory."""
    found = []
    for other in (2, 3):
        pair, placement = alone.pair_of(1, other), alone.cluster.arms[other].placement
        if pair is None or pair.ratio is None or placement is None:
            continue
        local = placement.local_ratio
        score = placement.score
        if score is None:
            score = local + (1 - local) * PAPER_REMOTE_SCORE
        laboratory = Cost(
            1 / pair.ratio,
            None if pair.high is None else 1 / pair.high,
            None if pair.low is None else 1 / pair.low,
        )
        production = Cost(*locality.effect.at(1 - score))
        if production.ratio <= 0:
            continue
        found.append(
            compare(
                production,
                laboratory,
                scenario=placement.scenario,
                score=score,
                least_effect_ratio=least_effect_ratio,
            )
        )
    return found
