"""Contention of jobs that were never seen together, predicted from where each presses."""

from __future__ import annotations

from functools import partial

import numpy as np

from steelyard.analyze.pressure.contention import predict
from steelyard.fleet.effects import Effect
from steelyard.fleet.pressure import RESOURCES

from ..situation import Claim, Outcome, Random, Situation, Statistic

_Uses = dict[str, float | None]


def _fleet(
    random: Random, jobs: int, seen: float, error: float, own: float, law: str = "product"
) -> tuple[dict[tuple[str, str], float], dict[tuple[str, str], Effect], dict[str, _Uses], list[str]]:
    """Draw jobs' uses and what each pair does: by the law, and by what no resource tells (sd ``own``)."""
    names = [f"job-{index}" for index in range(jobs)]
    use = random.lognormal(0, 0.7, (jobs, len(RESOURCES)))
    theta = np.where(random.random(len(RESOURCES)) < 0.5, random.exponential(0.04, len(RESOURCES)), 0.0)
    truth, observed = {}, {}
    for j, name in enumerate(names):
        for k, other in enumerate(names):
            if j == k:
                continue
            if law == "product":
                value = float((theta * use[j] * use[k]).sum())
            elif law == "unrelated":
                value = 0.1
            else:
                value = float((theta * np.minimum(2.5, use[j] * use[k])).sum())
            truth[name, other] = value + own * random.standard_normal()
            if random.random() < seen:
                told = truth[name, other] + error * random.standard_normal()
                observed[name, other] = Effect(told, None, None, error, None, 1000, 1, 50)
    uses = {name: dict(zip(RESOURCES, use[index].tolist(), strict=True)) for index, name in enumerate(names)}
    return truth, observed, uses, names


def _holds(random: Random, **options: object) -> Outcome:
    truth, observed, uses, names = _fleet(random, **options)  # type: ignore[arg-type]
    _, made = predict(observed, uses, names)
    if not made:
        return Outcome(None)
    # One pair a fleet: those of one fleet share their errors.
    key = sorted(made)[int(random.integers(len(made)))]
    one = made[key]
    return Outcome(one.low <= truth[key] <= one.high, one.value - truth[key], one.high - one.low)


def _silent(random: Random, **options: object) -> Outcome:
    _, observed, uses, names = _fleet(random, **options)  # type: ignore[arg-type]
    return Outcome(not predict(observed, uses, names)[1])


def _situation(name: str, **options: object) -> Situation:
    bar = 0.93 if options["error"] >= options["own"] else None  # type: ignore[operator]
    note = "conservative: the noise of observation is in it" if bar else ""
    return Situation(name, Claim.HOLDS, partial(_holds, **options), trials=800, quick=120, bar=bar, note=note)


STATISTICS = (
    Statistic(
        name="Contention of a pair never seen together",
        covers=("steelyard.analyze.pressure.contention.Prediction",),
        about=(
            "Slow-down beside a job, predicted from observed pairs. Usage differs by a factor of 2"
            " between jobs; the part that resources do not explain has sd 2 % unless stated."
        ),
        situations=(
            _situation("8 jobs, half of 56 pairs seen, each to 1 %", jobs=8, seen=0.5, error=0.01, own=0.02),
            _situation(
                "12 jobs, 30 % of 132 pairs seen, each to 3 %", jobs=12, seen=0.3, error=0.03, own=0.02
            ),
            _situation("6 jobs, half of 30 pairs seen", jobs=6, seen=0.5, error=0.01, own=0.02),
            _situation("nothing but the law (sd 0.1 %)", jobs=10, seen=0.5, error=0.005, own=0.001),
            _situation(
                "the law is another: use saturates", jobs=10, seen=0.5, error=0.01, own=0.02, law="least"
            ),
            Situation(
                "contention has nothing to do with resources",
                Claim.SILENT,
                partial(_silent, jobs=10, seen=0.5, error=0.02, own=0.05, law="unrelated"),
                trials=300,
                quick=40,
            ),
        ),
    ),
)
