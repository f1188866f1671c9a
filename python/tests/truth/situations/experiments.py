"""Whole experiments, trial by trial in time, ended by the rule that ends them, as `steelyard experiment`
does."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from steelyard.experiment.answers import DECIDED, answers
from steelyard.experiment.design import orders
from steelyard.experiment.outcomes import ArmAnswer, GuardOutcome, Outcome
from steelyard.records import RunStatus
from steelyard.records.experiment import (
    Experiment,
    ExperimentArm,
    ExperimentGuard,
    ExperimentMetric,
    ExperimentPlan,
    ExperimentTrial,
)
from steelyard.records.run import Orchestrator
from steelyard.records.values import Clock

from ..situation import Claim, Random, Situation, Statistic
from ..situation import Outcome as Came

_BLOCKS = 40
_NOISE = 0.02
_SECOND = 1_000_000_000

World = Callable[[Random, np.ndarray], np.ndarray]
"""What happens to the logarithm of the metric of each trial; 1 where a trial is one of b."""


def _calm(random: Random, is_b: np.ndarray) -> np.ndarray:
    return np.zeros(is_b.size)


def _first_is_slow(random: Random, is_b: np.ndarray) -> np.ndarray:
    """The first trial of each block is 5 % slower."""
    return np.where(np.arange(is_b.size) % 2 == 0, -0.05, 0.0)


def _after_b(random: Random, is_b: np.ndarray) -> np.ndarray:
    """Whatever follows b is 5 % slower."""
    return np.concatenate([[0.0], -0.05 * is_b[:-1]])


def _cycle(random: Random, is_b: np.ndarray, period: float) -> np.ndarray:
    time = np.arange(is_b.size)
    return np.asarray(0.05 * np.sin(2 * np.pi * (time / period + random.random())))


def _drift(random: Random, is_b: np.ndarray) -> np.ndarray:
    """A fifth is lost, and a cycle of 24 trials swings by a tenth."""
    time = np.arange(is_b.size)
    return np.asarray(-0.2 * time / time.size + 0.1 * np.sin(2 * np.pi * time / 24))


def _bursts(random: Random, is_b: np.ndarray) -> np.ndarray:
    """Neighbours come for some trials, one time in five, and take a fifth on average."""
    lost, trial = np.zeros(is_b.size), 0
    while trial < is_b.size:
        trial += 1 + int(random.exponential(20))
        length = 1 + int(random.exponential(4))
        lost[trial : trial + length] = random.exponential(0.2)
        trial += length
    return -lost


def _wandering(random: Random, is_b: np.ndarray) -> np.ndarray:
    """The machine wanders from trial to trial, with a correlation of 0.8."""
    found, here = [], 0.0
    for step in _NOISE * random.standard_normal(is_b.size):
        here = 0.8 * here + float(step)
        found.append(here)
    return np.array(found)


def _noisy(random: Random, is_b: np.ndarray) -> np.ndarray:
    return 0.3 * random.standard_normal(is_b.size)


def _collapsing(random: Random, is_b: np.ndarray) -> np.ndarray:
    """One trial of b in ten loses half; b makes up for it in the others."""
    hit = is_b * (random.random(is_b.size) < 0.1)
    return np.asarray(hit * math.log(0.5) + is_b * 0.1 * math.log(2))


def _of_arm_b(random: Random, is_b: np.ndarray) -> np.ndarray:
    """Likeness of neighbours in time that one arm has and the other has not."""
    return is_b * _wandering(random, is_b) * 2


def _experiment(
    random: Random,
    world: World,
    effect: float,
    *,
    noise: float = _NOISE,
    blocks: int = _BLOCKS,
    to_the_end: bool = False,
    failing: float = 0.0,
    guard: Callable[[Random, np.ndarray], np.ndarray] | None = None,
) -> Experiment:
    """Return an experiment whose trials were all made, in the order that the product draws."""
    plan = ExperimentPlan(
        seed=int(random.integers(1 << 30)),
        blocks=blocks,
        least_effect_ratio=0.01,
        confidence=0.95,
        stop_early=not to_the_end,
        timeout_s=60,
        guards=[] if guard is None else [ExperimentGuard(name="g", margin_ratio=0.05, better="lower")],
    )
    order = [(block, arm) for block, arms in enumerate(orders(["a", "b"], blocks, plan.seed)) for arm in arms]
    is_b = np.array([arm == "b" for _, arm in order], dtype=np.float64)
    logs = math.log1p(effect) * is_b + noise * random.standard_normal(is_b.size) + world(random, is_b)
    values = 1000 * np.exp(logs)
    lost = random.random(is_b.size) < failing
    guards = None if guard is None else guard(random, is_b)
    trials = [
        ExperimentTrial(
            block=block,
            arm=arm,
            begin_ns=place * _SECOND,
            end_ns=(place + 1) * _SECOND,
            value=None if lost[place] else float(values[place]),
            reason="it failed" if lost[place] else None,
            readings={} if guards is None else {"g": float(guards[place])},
        )
        for place, (block, arm) in enumerate(order)
    ]
    return Experiment(
        experiment_id="e",
        benchmark=None,
        tier=None,
        hooks=[],
        factor="arm",
        arms=[ExperimentArm(name=name, settings={}, command=["true"]) for name in ("a", "b")],
        metric=ExperimentMetric(name="rate", unit="1/s", better="higher"),
        plan=plan,
        status=RunStatus.RUNNING,
        steelyard_version="0",
        command=["steelyard"],
        clock=Clock(realtime_ns=0, monotonic_ns=0),
        orchestrator=Orchestrator(pid=1, start_ticks=1, boot_id="0"),
        trials=trials,
    )


def three_arms(random: Random, after: float, to_the_end: bool = False) -> Experiment:
    """Three equal arms; whatever follows the last one differs by ``after``."""
    names = ["a", "b", "c"]
    base = _experiment(random, _calm, 0.0, to_the_end=to_the_end)
    made = [(block, arm) for block, arms in enumerate(orders(names, _BLOCKS, base.plan.seed)) for arm in arms]
    is_after = np.array([False, *(arm == "c" for _, arm in made[:-1])])
    values = 1000 * np.exp(after * is_after + _NOISE * random.standard_normal(len(made)))
    trials = [
        base.trials[0].model_copy(
            update={
                "block": block,
                "arm": arm,
                "begin_ns": place * _SECOND,
                "end_ns": (place + 1) * _SECOND,
                "value": float(values[place]),
            }
        )
        for place, (block, arm) in enumerate(made)
    ]
    arms = [base.arms[0].model_copy(update={"name": name}) for name in names]
    return base.model_copy(update={"arms": arms, "trials": trials})


def _any_named(random: Random, after: float, to_the_end: bool = False) -> Came:
    """Whether any of three equal arms is called better or worse than the first."""
    whole = three_arms(random, after, to_the_end)
    looks = [] if to_the_end else range(1, _BLOCKS)
    for block in looks:
        so_far = whole.model_copy(update={"trials": whole.trials[: 3 * block]})
        found = answers(so_far, is_over=False)
        if all(answer.is_known for answer in found):
            whole = so_far.model_copy(update={"status_reason": DECIDED})
            break
    return Came(any(answer.outcome in _NAMED for answer in answers(whole, is_over=True)))


def _ended(whole: Experiment) -> ArmAnswer:
    """Return the answer with which an experiment ends that would have these trials."""
    if whole.plan.stop_early:
        for block in range(1, whole.plan.blocks):
            so_far = whole.model_copy(update={"trials": whole.trials[: 2 * block]})
            (answer,) = answers(so_far, is_over=False)
            if answer.is_known:
                ended = so_far.model_copy(update={"status_reason": DECIDED})
                return answers(ended, is_over=True)[0]
    return answers(whole, is_over=True)[0]


_NAMED = (Outcome.BETTER, Outcome.WORSE)


def _named(random: Random, world: World, **more: object) -> Came:
    """Whether one of two equal arms is called better or worse."""
    answer = _ended(_experiment(random, world, 0.0, **more))  # type: ignore[arg-type]
    width = None if answer.low is None or answer.high is None else answer.high - answer.low
    return Came(answer.outcome in _NAMED, width=width)


def _holds(random: Random, world: World, effect: float, **more: object) -> Came:
    answer = _ended(_experiment(random, world, effect, **more))  # type: ignore[arg-type]
    if answer.low is None or answer.high is None or answer.ratio is None:
        return Came(None)
    return Came(answer.low <= 1 + effect <= answer.high, answer.ratio - 1 - effect, answer.high - answer.low)


def _found(random: Random, world: World, effect: float, within: int = _BLOCKS, **more: object) -> Came:
    """Whether b is called better, after so many blocks at most."""
    answer = _ended(_experiment(random, world, effect, **more))  # type: ignore[arg-type]
    return Came(answer.outcome is Outcome.BETTER and answer.blocks <= within)


def _unreliable(random: Random, failing: float) -> Came:
    answer = _ended(_experiment(random, _calm, 0.05, failing=failing))
    return Came(answer.outcome is Outcome.UNRELIABLE)


def _often_fails(random: Random) -> Came:
    whole = _experiment(random, _calm, 0.05, to_the_end=True)
    trials = [
        trial.model_copy(update={"value": None, "reason": "it failed"})
        if trial.arm == "b" and random.random() < 0.3
        else trial
        for trial in whole.trials
    ]
    return Came(_ended(whole.model_copy(update={"trials": trials})).outcome is Outcome.UNRELIABLE)


def _errors(random: Random, is_b: np.ndarray, rates: tuple[float, float], burst: float) -> np.ndarray:
    """Errors of each trial; with a burst, a rate that is itself exponential."""
    rate = np.where(is_b > 0, rates[1], rates[0])
    if burst:
        rate = rate * random.gamma(1 / burst, burst, is_b.size)
    return random.poisson(rate).astype(np.float64)


def _steady(random: Random, is_b: np.ndarray, rates: tuple[float, float]) -> np.ndarray:
    return np.where(is_b > 0, rates[1], rates[0])


def _guarded(
    random: Random,
    guard: Callable[[Random, np.ndarray], np.ndarray],
    outcome: GuardOutcome,
    blocks: int = 12,
) -> Came:
    whole = _experiment(random, _calm, 0.05, guard=guard, to_the_end=True, blocks=blocks)
    (found,) = answers(whole, is_over=True)[0].guards
    return Came(found.outcome is outcome)


def _no_effect(name: str, world: World, *, trials: int = 300, quick: int = 0, **more: object) -> Situation:
    keys = ("before", "is_limit", "note", "bar")
    row = {key: more.pop(key) for key in keys if key in more}
    return Situation(
        f"no effect, {name}",
        Claim.FALSE,
        partial(_named, world=world, **more),
        trials=trials,
        quick=quick,
        **row,  # type: ignore[arg-type]
    )


def _power(effect: float, within: int, bar: float, before: str) -> Situation:
    return Situation(
        f"{effect:.0%} at 2 % noise, found by {within} blocks",
        Claim.FOUND,
        partial(_found, world=_calm, effect=effect, within=within),
        trials=600 if effect < 0.05 else 200,
        quick=20,
        bar=bar,
        before=before,
    )


def _errors_of_b(random: Random, rates: tuple[float, float]) -> Came:
    """Whether the interval of a guardrail's ratio holds the true one, where nothing is unbounded."""
    guard = partial(_errors, rates=rates, burst=1.0)
    whole = _experiment(random, _calm, 0.0, guard=guard, to_the_end=True, blocks=20)
    (found,) = answers(whole, is_over=True)[0].guards
    if found.low is None or found.high is None or found.ratio is None:
        return Came(None)
    truth = rates[1] / rates[0]
    return Came(found.low <= truth <= found.high, width=(found.high - found.low) / truth)


def _carried(random: Random) -> Came:
    effect = answers(_experiment(random, _after_b, 0.0, to_the_end=True), is_over=True)[0].carry_over
    if effect is None:
        return Came(None)
    truth = math.exp(-0.05)
    return Came(effect.low <= truth <= effect.high, effect.ratio - truth, effect.high - effect.low)


_FEW_AND_MANY = partial(_errors, rates=(0.3, 30.0), burst=0.0)
_ALIKE = partial(_errors, rates=(3.0, 3.0), burst=1.0)

STATISTICS = (
    Statistic(
        name="Whole experiments",
        covers=(
            "steelyard.experiment.outcomes.ArmAnswer",
            "steelyard.experiment.outcomes.GuardAnswer",
            "steelyard.stats.contrasts.Effect",
            "steelyard.stats.fieller.MeansRatio",
        ),
        about="Up to 40 blocks of two arms in the order that `steelyard experiment` draws, ended at the look"
        " that decides, unless all blocks are made (`--to-the-end`). Effects of the place within a block and"
        " of the arm before are fitted and taken out.",
        situations=(
            _no_effect("noise of 2 %", _calm, trials=1500, quick=30),
            _no_effect("noise of 2 %, `--to-the-end`", _calm, to_the_end=True, quick=30),
            _no_effect("noise of 30 %", _noisy),
            _no_effect("the first trial of a block 5 % slower", _first_is_slow),
            _no_effect("what follows b is 5 % slower", _after_b, trials=600, before="19 %", quick=30),
            *(
                Situation(
                    f"three arms, {words}",
                    Claim.FALSE,
                    partial(_any_named, after=after, to_the_end=to_the_end),
                    trials=trials,
                    quick=quick,
                    before=before,
                )
                for words, after, to_the_end, trials, quick, before in (
                    ("what follows one of them is 5 % slower", -0.05, False, 300, 10, "12 %"),
                    ("what follows one of them is 5 % slower, `--to-the-end`", -0.05, True, 600, 60, ""),
                    ("nothing carries over, `--to-the-end`", 0.0, True, 600, 60, ""),
                )
            ),
            _no_effect(
                "what follows b is 5 % slower, `--to-the-end`", _after_b, to_the_end=True, before="59 %"
            ),
            _no_effect(
                "a cycle of 3 trials",
                partial(_cycle, period=3),
                is_limit=True,
                note="few blocks cannot show a cycle; orders that are drawn make it noise in many",
            ),
            _no_effect("a cycle of 4 trials", partial(_cycle, period=4), before="14 %", quick=30),
            _no_effect("a cycle of 5 trials", partial(_cycle, period=5)),
            _no_effect(
                "a cycle of 8 trials", partial(_cycle, period=8), is_limit=True, note="as of 3 trials"
            ),
            _no_effect("drift by a fifth and a cycle of 24", _drift),
            _no_effect("neighbours for several trials", _bursts),
            _no_effect("a machine that wanders, correlation 0.8", _wandering),
            _no_effect(
                "b alone wanders, correlation 0.8",
                _of_arm_b,
                is_limit=True,
                note="few blocks cannot show that they resemble each other",
            ),
            _no_effect(
                "one trial of b in ten loses half, which the others make up for",
                _collapsing,
                before="33 to 46 %",
                is_limit=True,
                note="what has not been seen yet is in no interval; how rare it can be is said beside it",
            ),
            Situation(
                "5 %, noise of 2 %, `--to-the-end`",
                Claim.HOLDS,
                partial(_holds, world=_calm, effect=0.05, to_the_end=True),
                trials=600,
                quick=50,
            ),
            Situation(
                "3 %, what follows b is 5 % slower, `--to-the-end`",
                Claim.HOLDS,
                partial(_holds, world=_after_b, effect=0.03, to_the_end=True),
                trials=600,
            ),
            _power(0.3, 5, 0.5, "7 blocks in the median"),
            _power(0.1, 6, 0.5, "7 blocks"),
            _power(0.05, 9, 0.5, "12 blocks"),
            _power(0.03, 16, 0.5, "20 blocks"),
            _power(0.02, 24, 0.5, "31 blocks"),
            _power(0.01, 40, 0.45, "29 %"),
            Situation(
                "3 %, the first trial of a block 5 % slower",
                Claim.FOUND,
                partial(_found, world=_first_is_slow, effect=0.03),
                trials=200,
                bar=0.9,
                before="28 %",
            ),
            Situation(
                "5 % of the trials of either arm fail, b 5 % better: unreliable",
                Claim.FALSE,
                partial(_unreliable, failing=0.05),
                trials=400,
                quick=20,
                before="36 to 43 %",
            ),
            Situation(
                "30 % of the trials of b fail, 40 blocks: unreliable",
                Claim.FOUND,
                _often_fails,
                trials=200,
                quick=20,
                bar=0.9,
            ),
            Situation(
                "guardrail: 0.3 errors a trial against 30, 12 blocks: breached",
                Claim.FOUND,
                partial(_guarded, guard=_FEW_AND_MANY, outcome=GuardOutcome.BREACHED),
                trials=200,
                quick=20,
                bar=0.95,
                before="0 %",
            ),
            Situation(
                "guardrail: bursts of 3 errors a trial against 5, 20 blocks",
                Claim.HOLDS,
                partial(_errors_of_b, rates=(3.0, 5.0)),
                trials=600,
                quick=50,
                bar=0.93,
                note="the metric and the guardrail hold together",
            ),
            Situation(
                "5 % slower after b: the carry-over, of 99 %",
                Claim.HOLDS,
                _carried,
                trials=600,
                quick=50,
                bar=0.97,
            ),
            Situation(
                "guardrail: p99 always 10 against 12, 12 blocks: breached",
                Claim.FOUND,
                partial(_guarded, guard=partial(_steady, rates=(10.0, 12.0)), outcome=GuardOutcome.BREACHED),
                trials=20,
                quick=5,
                bar=0.95,
                before="0 %",
            ),
            Situation(
                "guardrail: no error in any trial, 12 blocks: kept",
                Claim.FOUND,
                partial(_guarded, guard=partial(_steady, rates=(0.0, 0.0)), outcome=GuardOutcome.KEPT),
                trials=20,
                quick=5,
                bar=0.95,
                before="0 %",
            ),
            Situation(
                "guardrail: bursts of 3 errors a trial in both arms, 12 blocks: breached",
                Claim.FALSE,
                partial(_guarded, guard=_ALIKE, outcome=GuardOutcome.BREACHED),
                trials=600,
                quick=20,
            ),
        ),
    ),
)
