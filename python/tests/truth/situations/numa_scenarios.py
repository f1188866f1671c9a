"""Verdicts of NUMA experiments, and whether production and laboratory agree, where the truth is known."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from steelyard.bench.manifest import this_process
from steelyard.experiment.numa.design import pairs_of
from steelyard.experiment.numa.production import Agreement, Agrees, Cost, compare
from steelyard.experiment.numa.verdict import Matters, Verdict, verdicts
from steelyard.fleet.effects import stratified_effect
from steelyard.records import Clock, RunStatus
from steelyard.records.experiment import (
    Experiment,
    ExperimentArm,
    ExperimentMetric,
    ExperimentPlacement,
    ExperimentPlan,
    ExperimentTrial,
)

from ..situation import Claim, Outcome, Random, Situation, Statistic

_LEAST = 0.01
_LOOKS = 60
_SCORE = 0.5
_MACHINES, _EACH = 40, 20
_NOTHING = {1: 1.0, 2: 1.0, 3: 1.0}
_SAID = (Matters.LOCALITY, Matters.CACHE, Matters.OTHER)


def _arms() -> list[ExperimentArm]:
    places = [
        ExperimentPlacement(scenario=number, cpus="", memory_nodes="", local_ratio=local)
        for number, local in ((1, 1.0), (2, 0.5), (3, 0.0))
    ]
    return [
        ExperimentArm(name=str(place.scenario), settings={}, command=[], placement=place) for place in places
    ]


_ARMS = _arms()
_PLAN = ExperimentPlan(
    seed=1,
    blocks=_LOOKS,
    least_effect_ratio=_LEAST,
    confidence=0.95,
    stop_early=False,
    timeout_s=1.0,
    pairs=pairs_of(_ARMS),
)
_EMPTY = Experiment(
    experiment_id="simulated",
    benchmark=None,
    tier=None,
    hooks=[],
    factor="scenario",
    arms=_ARMS,
    metric=ExperimentMetric(name="rate", unit="1/s", better="higher"),
    plan=_PLAN,
    status=RunStatus.COMPLETE,
    steelyard_version="",
    command=[],
    clock=Clock.now(),
    orchestrator=this_process(),
    trials=[],
)


def _trials(random: Random, means: Mapping[int, float], blocks: int, noise: float) -> list[ExperimentTrial]:
    """Draw trials; a block has a level of its own."""
    levels = random.lognormal(0.0, 0.05, blocks)
    return [
        ExperimentTrial(
            block=block,
            arm=str(number),
            begin_ns=0,
            end_ns=0,
            value=float(levels[block] * mean * random.lognormal(0.0, noise)),
        )
        for block in range(blocks)
        for number, mean in means.items()
    ]


def _verdict(trials: list[ExperimentTrial], *, is_over: bool = True) -> Verdict:
    return verdicts(_EMPTY.model_copy(update={"trials": trials}), is_over=is_over)[0]


def _said(random: Random, blocks: int) -> Outcome:
    return Outcome(_verdict(_trials(random, _NOTHING, blocks, 0.02)).matters in _SAID)


def _peeked(random: Random) -> Outcome:
    """Look after every block, and stop at the first verdict that there is a difference."""
    trials = _trials(random, _NOTHING, _LOOKS, 0.02)
    for blocks in range(4, _LOOKS + 1):
        if _verdict(trials[: 3 * blocks], is_over=False).matters in _SAID:
            return Outcome(True)
    return Outcome(False)


def _finds(random: Random, means: Mapping[int, float], matters: Matters, best: int) -> Outcome:
    found = _verdict(_trials(random, means, 20, 0.02))
    return Outcome(found.matters is matters and found.best is not None and found.best.scenario == best)


def _mistaken(random: Random, means: Mapping[int, float], matters: Matters) -> Outcome:
    """Return whether it names another cause than the true one."""
    return Outcome(_verdict(_trials(random, means, 12, 0.02)).matters not in (matters, Matters.UNDECIDED))


def _agreement(random: Random, production: float, laboratory: float) -> Agreement | None:
    """Draw samples of a fleet with that cost at the score, and a load test with the other one."""
    machine = np.repeat(np.arange(_MACHINES), _EACH)
    stratum = random.integers(0, 3, machine.size)
    x = 0.5 * random.beta(2, 2, _MACHINES)[machine] + 0.5 * random.random(machine.size)
    y = (1 + (production - 1) / (1 - _SCORE) * x) * random.lognormal(0, 0.05, machine.size)
    y *= random.gamma(400.0, 1 / 400, _MACHINES)[machine]
    keys, group = np.unique(np.stack([stratum, machine]), axis=1, return_inverse=True)
    columns = {"n": np.ones(x.size), "x": x, "xx": x * x, "y": y, "xy": x * y}
    sums = {name: np.bincount(group.ravel(), weights=values) for name, values in columns.items()}
    effect = stratified_effect(keys[0], keys[1], sums)
    pair = _verdict(_trials(random, {1: 1.0, 2: 1.0, 3: 1 / laboratory}, 16, 0.02)).pair_of(1, 3)
    if effect is None or pair is None or pair.ratio is None or pair.low is None or pair.high is None:
        return None
    return compare(
        Cost(*effect.at(1 - _SCORE)),
        Cost(1 / pair.ratio, 1 / pair.high, 1 / pair.low),
        scenario=3,
        score=_SCORE,
        least_effect_ratio=_LEAST,
    )


def _quotient(random: Random, production: float, laboratory: float) -> Outcome:
    found = _agreement(random, production, laboratory)
    truth = laboratory / production
    if found is None or found.low is None or found.high is None:
        return Outcome(None)
    return Outcome(found.low <= truth <= found.high, found.ratio / truth - 1, found.high - found.low)


def _says(random: Random, production: float, laboratory: float, agrees: Agrees) -> Outcome:
    found = _agreement(random, production, laboratory)
    return Outcome(None if found is None else found.agrees is agrees)


_DOCS, _SHARING, _CONTENDING = (
    {1: 1.0, 2: 0.95, 3: 0.88},
    {1: 1.0, 2: 0.9, 3: 0.95},
    {1: 1.0, 2: 1.05, 3: 0.9},
)

STATISTICS = (
    Statistic(
        name="NUMA scenarios",
        covers=("steelyard.experiment.numa.production.Agreement",),
        about="Three placements in blocks with a noise of 2 %: what is said to matter more. Production and"
        " laboratory: 40 machines of a fleet beside a load test of 16 blocks.",
        situations=(
            Situation(
                "no placement matters, 20 blocks",
                Claim.FALSE,
                partial(_said, blocks=20),
                trials=1000,
                quick=100,
            ),
            Situation(
                f"no placement matters, seen at each of {_LOOKS} blocks", Claim.FALSE, _peeked, trials=200
            ),
            Situation(
                "5 % for half remote, 12 % for all: locality, scenario 1",
                Claim.FOUND,
                partial(_finds, means=_DOCS, matters=Matters.LOCALITY, best=1),
                trials=400,
                quick=60,
                bar=0.8,
            ),
            Situation(
                "all remote beats half remote by 5 %: cache sharing, scenario 1",
                Claim.FOUND,
                partial(_finds, means=_SHARING, matters=Matters.CACHE, best=1),
                trials=400,
                quick=60,
                bar=0.8,
            ),
            Situation(
                "two caches gain 5 % with half remote: cache sharing, scenario 2",
                Claim.FOUND,
                partial(_finds, means=_CONTENDING, matters=Matters.CACHE, best=2),
                trials=400,
                bar=0.8,
            ),
            Situation(
                "another cause is named than locality, 12 blocks",
                Claim.FALSE,
                partial(_mistaken, means=_DOCS, matters=Matters.LOCALITY),
                trials=400,
            ),
            Situation(
                "another cause is named than cache sharing, 12 blocks",
                Claim.FALSE,
                partial(_mistaken, means=_SHARING, matters=Matters.CACHE),
                trials=400,
            ),
            Situation(
                "laboratory over production, 12 % in both",
                Claim.HOLDS,
                partial(_quotient, production=1.12, laboratory=1.12),
                trials=400,
                quick=60,
                bar=0.93,
            ),
            Situation(
                "laboratory over production, 3 % and 12 %",
                Claim.HOLDS,
                partial(_quotient, production=1.03, laboratory=1.12),
                trials=400,
                bar=0.93,
            ),
            Situation(
                "said to disagree, 12 % in both",
                Claim.FALSE,
                partial(_says, production=1.12, laboratory=1.12, agrees=Agrees.DISAGREE),
                trials=400,
                quick=60,
            ),
            Situation(
                "said to disagree, no effect in either",
                Claim.FALSE,
                partial(_says, production=1.0, laboratory=1.0, agrees=Agrees.DISAGREE),
                trials=400,
            ),
            Situation(
                "said to disagree, a cost of 12 % and a gain of 8 %",
                Claim.FOUND,
                partial(_says, production=1.12, laboratory=0.92, agrees=Agrees.DISAGREE),
                trials=400,
                bar=0.8,
            ),
        ),
    ),
)
