"""Whether a pair "must not share", and what contention is predicted for jobs never seen together."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa

from steelyard.analyze.pressure.contention import predict
from steelyard.fleet.effects import Effect
from steelyard.fleet.placement.pair import MUST_NOT, Slowdown, observe
from steelyard.fleet.pressure import RESOURCES

from ..situation import Claim, Outcome, Random, Situation, Statistic

Draw = Callable[[Random], float]
_Row = tuple[float, float, float, float, float]
"""Of one machine: samples, their sum of CPI and of its square; samples and sum with the other job."""
World = Callable[[Random, float], list[_Row]]
"""A job's machines, of which those with the other job have that many times the CPI."""


def _two_states(random: Random) -> float:
    return 2.39 if random.random() < 0.82 else 1.5


def _alike(random: Random) -> float:
    return float(1.5 * np.exp(0.05 * random.standard_normal()))


def _apart(random: Random, factor: float, *, alone: int, beside: int, draw: Draw) -> list[_Row]:
    """Machines with the other job, and machines without it, three samples each."""
    cpi = np.array([draw(random) for _ in range(alone + beside)])
    there = np.arange(alone + beside) >= alone
    cpi = np.where(there, factor * cpi, cpi)
    return [(3, 3 * c, 3 * c * c, 3 * t, 3 * c * t) for c, t in zip(cpi, there.astype(float), strict=True)]


def _stretch(random: Random, factor: float, *, machines: int, minutes: int, stay: int) -> list[_Row]:
    """Machines on which the other job is for one stretch of 300 minutes; states last ``stay`` minutes."""
    rows = []
    for _ in range(machines):
        changes = random.random(300) < 1 / stay
        changes[0] = True
        states = np.array([_two_states(random) for _ in range(300)])
        cpi = states[np.maximum.accumulate(np.where(changes, np.arange(300), 0))]
        begin = int(random.integers(0, 301 - minutes))
        cpi[begin : begin + minutes] *= factor
        part = cpi[begin : begin + minutes]
        rows.append((300.0, float(cpi.sum()), float((cpi**2).sum()), float(minutes), float(part.sum())))
    return rows


def _asked(random: Random, jobs: int, world: World, factor: float = 1.0) -> list[Slowdown]:
    """Return what the command says of each job beside ``b``, which slows down the first by ``factor``."""
    keys = ("job", "platform", "load", "machine")
    whole: list[tuple[object, ...]] = [("b", "p", -1, f"b-{at}", 3.0, 3.0, 3.0) for at in range(3)]
    beside: list[tuple[object, ...]] = []
    names = [f"a{at}" for at in range(jobs)]
    for job in names:
        for at, (n, y, yy, with_n, with_y) in enumerate(world(random, factor if job == names[0] else 1.0)):
            whole.append((job, "p", -1, f"{job}-{at}", n, y, yy))
            if with_n:
                beside.append((job, "p", -1, f"{job}-{at}", "b", with_n, with_y, 1.0))
    tables = [
        pa.table(dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True)))
        for columns, rows in (((*keys, "n", "y", "yy"), whole), ((*keys, "beside", "n", "y", "s"), beside))
    ]
    return [one for one in observe(*tables, [*names, "b"]) if one.beside == "b"]


def false_store(random: Random, **how: object) -> Outcome:
    """Return whether any pair of the store is said not to share."""
    return Outcome(any(one.verdict == MUST_NOT for one in _asked(random, **how)))  # type: ignore[arg-type]


def one_pair(random: Random, **how: object) -> Outcome:
    """Return whether the first pair of the store is said not to share."""
    return Outcome(_asked(random, **how)[0].verdict == MUST_NOT)  # type: ignore[arg-type]


def holds(random: Random, *, truth: float, **how: object) -> Outcome:
    """Hold the interval of the first pair's ratio against the truth."""
    low, high = _asked(random, **how)[0].interval  # type: ignore[arg-type]
    if low is None or high is None:
        return Outcome(None)
    return Outcome(low <= truth <= high, width=high - low)


_STATES = {"draw": _two_states}
_ALIKE = {"draw": _alike}

_VERDICTS = (
    Statistic(
        name="A pair that must not share",
        covers=("steelyard.fleet.permutation.Permuted",),
        about="`fleet pair`: CPI beside another job over CPI without it. In two states, CPI is 2.39 with"
        " chance 0.82, else 1.5. False: any pair of the store.",
        situations=(
            Situation(
                "no interference, two states, 40 jobs, 9 machines of 129 beside",
                Claim.FALSE,
                partial(false_store, jobs=40, world=partial(_apart, alone=120, beside=9, **_STATES)),
                before="98 %",
                trials=100,
                quick=8,
            ),
            Situation(
                "no interference, two states, 40 jobs, 20 machines of 140 beside",
                Claim.FALSE,
                partial(false_store, jobs=40, world=partial(_apart, alone=120, beside=20, **_STATES)),
                before="38 %",
                trials=60,
            ),
            Situation(
                "no interference, two states of 10 minutes, 20 jobs on 12 machines, 3 minutes beside",
                Claim.FALSE,
                partial(
                    false_store,
                    jobs=20,
                    world=partial(_stretch, machines=12, minutes=3, stay=10),
                ),
                before="85 %",
                trials=80,
            ),
            Situation(
                "no interference, machines differ by 5 %, 40 jobs, 4 machines of 34 beside",
                Claim.FALSE,
                partial(false_store, jobs=40, world=partial(_apart, alone=30, beside=4, **_ALIKE)),
                trials=80,
            ),
            Situation(
                "CPI x1.3, machines differ by 5 %, one of 40 jobs, 4 machines of 34 beside",
                Claim.FOUND,
                partial(one_pair, jobs=40, factor=1.3, world=partial(_apart, alone=30, beside=4, **_ALIKE)),
                before="25 %",
                trials=40,
                bar=0.9,
            ),
            Situation(
                "CPI x1.3, two states, one of 40 jobs, 9 machines of 129 beside",
                Claim.FOUND,
                partial(one_pair, jobs=40, factor=1.3, world=partial(_apart, alone=120, beside=9, **_STATES)),
                before="45 %",
                trials=40,
                bar=0.8,
            ),
            Situation(
                "CPI x1.3, two states of 30 minutes, one of 20 jobs on 12 machines, 60 minutes beside",
                Claim.FOUND,
                partial(
                    one_pair,
                    jobs=20,
                    factor=1.3,
                    world=partial(_stretch, machines=12, minutes=60, stay=30),
                ),
                before="98 %, with false alarms in 85 %",
                trials=40,
                bar=0.7,
            ),
            Situation(
                "CPI x1.3, two states, 9 machines of 129 beside: the ratio",
                Claim.HOLDS,
                partial(
                    holds,
                    truth=1.3,
                    jobs=1,
                    factor=1.3,
                    world=partial(_apart, alone=120, beside=9, **_STATES),
                ),
                before="80 %",
                bar=0.93,
                note="wider where all nine are in one state",
            ),
            Situation(
                "CPI x1.3, two states of 30 minutes, 12 machines, 15 minutes beside: the ratio",
                Claim.HOLDS,
                partial(
                    holds,
                    truth=1.3,
                    jobs=1,
                    factor=1.3,
                    world=partial(_stretch, machines=12, minutes=15, stay=30),
                ),
                before="88 %",
                bar=0.93,
            ),
        ),
    ),
)


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
                estimate = truth[name, other] + error * random.standard_normal()
                observed[name, other] = Effect(estimate, None, None, error, None, 1000, 1, 50)
    uses = {name: dict(zip(RESOURCES, use[index].tolist(), strict=True)) for index, name in enumerate(names)}
    return truth, observed, uses, names


def _holds(random: Random, new: bool = False, **options: object) -> Outcome:
    """``new`` is whether one job of the pair was seen beside no other."""
    truth, observed, uses, names = _fleet(random, **options)  # type: ignore[arg-type]
    if new:
        observed = {pair: one for pair, one in observed.items() if names[0] not in pair}
    _, made = predict(observed, uses, names)
    if new:
        made = {pair: one for pair, one in made.items() if names[0] in pair}
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


_PREDICTED = (
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
            *(
                Situation(
                    f"{jobs} jobs, one of them new, every other pair seen, each to 1 %{words}",
                    Claim.HOLDS,
                    partial(_holds, new=True, jobs=jobs, seen=1.0, error=0.01, own=0.02, law=law),
                    trials=800,
                    quick=60,
                    before="83-93 %",
                )
                for jobs, law, words in (
                    (5, "product", ""),
                    (8, "product", ""),
                    (8, "least", "; use saturates"),
                )
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


STATISTICS = (*_PREDICTED, *_VERDICTS)
