"""Whether a pair "must not share", where nothing interferes and where something does."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa

from steelyard.fleet.placement.pair import MUST_NOT, Slowdown, observe

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
        drawn = np.array([_two_states(random) for _ in range(300)])
        cpi = drawn[np.maximum.accumulate(np.where(changes, np.arange(300), 0))]
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

STATISTICS = (
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
