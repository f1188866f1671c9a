"""Shares of a fleet's cycles, differences of two samples of it, and the entropy of its functions.

The fleets are drawn otherwise than the product's model and its simulator have them: a few thousand machines,
each with one to four jobs of very unequal size and with a mix of its own, which it keeps all day; minutes
scatter around that mix. Truth is a sum over all machines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from steelyard.fleet.profiles.diff import DiffRow, judge
from steelyard.stats.entropy import bits_of, entropy_of
from steelyard.stats.shares import Clusters, Parts, shares_of

from ..situation import Claim, Outcome, Random, Situation, Statistic

Floats = NDArray[np.float64]
OWN, TAX = 12, 20
"""Functions of each job alone, and functions of the datacenter tax that all jobs share."""
SHOWN = 30
MACHINES = 4000


@dataclass(frozen=True)
class World:
    """A whole fleet: the size of each machine, its mix of functions, and the truth."""

    size: Floats
    mix: Floats

    @property
    def truth(self) -> Floats:
        """The share of each function of all cycles."""
        return np.asarray(self.size @ self.mix / self.size.sum())


@cache
def world(jobs: int) -> World:
    """Return a fleet of so many jobs, the popular ones on most machines."""
    random = np.random.default_rng([5, jobs])
    functions = jobs * OWN + TAX
    mixes = np.zeros((jobs, functions))
    for job in range(jobs):
        own = 1 / (1 + random.permutation(OWN)) ** 0.9
        tax = random.lognormal(0, 0.7, TAX) / (1 + np.arange(TAX)) ** 0.9
        ratio = random.uniform(0.18, 0.82)
        mixes[job, job * OWN : (job + 1) * OWN] = (1 - ratio) * own / own.sum()
        mixes[job, jobs * OWN :] = ratio * tax / tax.sum()
    popular = 1 / np.arange(1, jobs + 1) ** 0.8
    placed = np.zeros((MACHINES, jobs))
    for machine in range(MACHINES):
        count = min(jobs, int(random.integers(1, 5)))
        chosen = random.choice(jobs, count, replace=False, p=popular / popular.sum())
        placed[machine, chosen] = random.lognormal(0, 0.8, count)
    # Builds, shards and inputs differ by machine: each function by half of itself.
    used = placed @ mixes * random.gamma(4.0, 0.25, (MACHINES, functions))
    size = used.sum(axis=1) * random.lognormal(0, 0.3, MACHINES)
    return World(size, used / used.sum(axis=1, keepdims=True))


def machines_of(random: Random, fleet: World, count: int) -> NDArray[np.int64]:
    """Draw machines of a fleet."""
    return random.choice(MACHINES, count, replace=False)


def sampled(
    random: Random, size: Floats, mix: Floats, minutes: int, steadiness: float = 60.0
) -> tuple[Floats, NDArray[np.int64]]:
    """Return the samples of each function in minutes of the given machines, and the machine of each.

    ``steadiness`` says how little a minute strays from its machine's mix.
    """
    machine = random.integers(0, len(size), minutes)
    part = random.gamma(mix[machine] * steadiness + 1e-9)
    busy = random.lognormal(0, 0.4, minutes) * size[machine] / size.mean()
    count = random.poisson(100 * busy) + 1
    return random.multinomial(count, part / part.sum(axis=1, keepdims=True)).astype(float), machine


def by_machine(samples: Floats, machine: NDArray[np.int64], machines: int) -> Floats:
    """Return the sums of minutes by machine, those without any left out."""
    added = np.zeros((machines, samples.shape[1]))
    np.add.at(added, machine, samples)
    return added


def _samples_of(random: Random, jobs: int, machines: int, minutes: int, steadiness: float = 60.0) -> Floats:
    fleet = world(jobs)
    chosen = machines_of(random, fleet, machines)
    samples, machine = sampled(random, fleet.size[chosen], fleet.mix[chosen], minutes, steadiness)
    added = by_machine(samples, machine, machines)
    return added[added.sum(axis=1) > 0]


def share_trial(
    random: Random, *, jobs: int, machines: int, minutes: int, steadiness: float = 60.0
) -> Outcome:
    """Hold one of the rows that ``fleet top`` shows against the truth; silent trials are of no interval."""
    y = _samples_of(random, jobs, machines, minutes, steadiness)
    row = int(random.choice(np.argsort(-y.sum(axis=0))[:SHOWN]))
    x, y = y.sum(axis=1), y[:, [row]]
    by = x[:, None]
    products = (y, y * y, y * by, y**3, y * y * by, y * by * by)
    parts = Parts(*(one.sum(axis=0) for one in products))
    of = Clusters(len(x), float(x.sum()), float((x**2).sum()), float((x**3).sum()))
    found = shares_of(parts, of)
    truth = float(world(jobs).truth[row])
    if not np.isfinite(found.low[0]):
        return Outcome(None)
    low, high = float(found.low[0]), float(found.high[0])
    return Outcome(low <= truth <= high, width=(high - low) / float(found.ratio[0]))


def share_refused(random: Random, *, jobs: int, machines: int, minutes: int) -> Outcome:
    """Return whether nothing was stated."""
    return Outcome(share_trial(random, jobs=jobs, machines=machines, minutes=minutes).answer is None)


def entropy_trial(random: Random, *, jobs: int, machines: int, minutes: int) -> Outcome:
    """Hold the entropy of functions against that of the whole fleet."""
    y = _samples_of(random, jobs, machines, minutes)
    alone = (y > 0).sum(axis=0) == 1
    groups = np.zeros((20, y.shape[1]))
    np.add.at(groups, random.permutation(len(y)) % 20, y)
    found = entropy_of(groups.T, float(y[:, alone].sum() / y.sum()))
    truth = bits_of(world(jobs).truth)
    if found.low is None or found.high is None:
        return Outcome(None, found.value - truth)
    return Outcome(found.low <= truth <= found.high, found.value - truth, found.high - found.low)


def entropy_refused(random: Random, *, jobs: int, machines: int, minutes: int) -> Outcome:
    """Return whether nothing was stated."""
    return Outcome(entropy_trial(random, jobs=jobs, machines=machines, minutes=minutes).answer is None)


def _two_sides(
    random: Random, jobs: int, machines: tuple[int, int], is_same: bool, change: float
) -> tuple[Floats, Floats, int]:
    """Return samples by machine and function of A and of B, and the function that changed (or would have)."""
    fleet = world(jobs)
    function = int(np.argmax(fleet.truth[-TAX:])) + len(fleet.truth) - TAX
    first = machines_of(random, fleet, machines[0])
    second = first if is_same else machines_of(random, fleet, machines[1])
    # Between two days a tenth of the machines is given other jobs.
    moved = np.where(random.random(len(second)) < 0.1, machines_of(random, fleet, len(second)), second)
    mix = fleet.mix[moved].copy()
    mix[:, function] *= change
    sides = []
    for size, of, count in (
        (fleet.size[first], fleet.mix[first], machines[0]),
        (fleet.size[moved], mix / mix.sum(axis=1, keepdims=True), machines[1]),
    ):
        sides.append(by_machine(*sampled(random, size, of, 200), count))
    return sides[0], sides[1], function


def _judged(a: Floats, b: Floats, is_same: bool) -> tuple[DiffRow, ...]:
    """Return what ``fleet diff`` says of samples by machine, added up as the engine adds them up."""
    if is_same:
        ab, a_of_b, b_of_a = (a * b).sum(0), (a * b.sum(1)[:, None]).sum(0), (b * a.sum(1)[:, None]).sum(0)
        both = int(((a.sum(1) > 0) & (b.sum(1) > 0)).sum())
    else:
        ab = a_of_b = b_of_a = np.zeros(a.shape[1])
        both = 0
    of_a, of_b = a.sum(axis=1), b.sum(axis=1)
    zero = np.zeros(a.shape[1])
    sums = {
        "a": a.sum(axis=0),
        "b": b.sum(axis=0),
        "aa": (a**2).sum(axis=0),
        "bb": (b**2).sum(axis=0),
        "ab": ab,
        "a_of_a": (a * of_a[:, None]).sum(axis=0),
        "b_of_b": (b * of_b[:, None]).sum(axis=0),
        "a_of_b": a_of_b,
        "b_of_a": b_of_a,
    }
    table = pa.table(
        {
            "key": np.arange(a.shape[1]).astype(str),
            **sums,
            "a_samples": zero,
            "b_samples": zero,
            "machines": np.ones(a.shape[1], dtype=np.int64),
        }
    )
    size = {
        "a": of_a.sum(),
        "aa": (of_a**2).sum(),
        "aaa": (of_a**3).sum(),
        "b": of_b.sum(),
        "bb": (of_b**2).sum(),
        "bbb": (of_b**3).sum(),
        "ab": (of_a * of_b).sum() if is_same else 0.0,
        "a_machines": int((of_a > 0).sum()),
        "b_machines": int((of_b > 0).sum()),
        "both_machines": both,
    }
    return judge(table, size, {}, 0.95)


def diff_trial(
    random: Random, *, jobs: int, machines: tuple[int, int], is_same: bool = False, change: float = 1.0
) -> Outcome:
    """Return whether any change is reported, or of a true change whether it is that one."""
    a, b, function = _two_sides(random, jobs, machines, is_same, change)
    changes = [row for row in _judged(a, b, is_same) if row.is_change]
    return Outcome(any(row.key == str(function) for row in changes) if change != 1 else bool(changes))


def gap_trial(random: Random, *, jobs: int, machines: tuple[int, int], is_same: bool = False) -> Outcome:
    """Hold the interval of a difference, of one row that is judged, against none."""
    a, b, _ = _two_sides(random, jobs, machines, is_same, 1.0)
    rows = [row for row in _judged(a, b, is_same) if row.low_ratio is not None]
    if not rows:
        return Outcome(None)
    row = rows[int(random.integers(len(rows)))]
    assert row.low_ratio is not None
    assert row.high_ratio is not None
    return Outcome(
        row.low_ratio <= 0 <= row.high_ratio, width=(row.high_ratio - row.low_ratio) / max(row.a_ratio, 1e-6)
    )


def _trial(of: Callable[..., Outcome], **keywords: object) -> Callable[[Random], Outcome]:
    return partial(of, **keywords)


STATISTICS = (
    Statistic(
        name="Shares of a fleet's cycles",
        covers=("steelyard.fleet.profiles.shares.Share", "steelyard.stats.shares.Shares"),
        about=(
            "One of the 30 rows that `fleet top` shows; machines are the replicates. A row of fewer than 4"
            " effective machines has no interval. Width is relative to the share."
        ),
        situations=(
            Situation(
                "200 minutes of 3 machines",
                Claim.SILENT,
                _trial(share_refused, jobs=24, machines=3, minutes=200),
                before="holds 18.9 %",
                trials=400,
                quick=40,
            ),
            Situation(
                "200 minutes of 10 machines",
                Claim.HOLDS,
                _trial(share_trial, jobs=24, machines=10, minutes=200),
                before="37.1 %",
                trials=600,
                quick=80,
            ),
            Situation(
                "200 minutes of 50 machines",
                Claim.HOLDS,
                _trial(share_trial, jobs=24, machines=50, minutes=200),
                before="68.9 %",
                trials=500,
                quick=80,
            ),
            Situation(
                "200 minutes of 50 machines, 60 jobs",
                Claim.HOLDS,
                _trial(share_trial, jobs=60, machines=50, minutes=200),
                before="67.8 %",
                trials=400,
            ),
            Situation(
                "200 minutes of 200 machines",
                Claim.HOLDS,
                _trial(share_trial, jobs=24, machines=200, minutes=200),
                before="84.5 %",
                trials=500,
            ),
            Situation(
                "200 minutes of 20 machines, minutes far from their machine's mix",
                Claim.HOLDS,
                _trial(share_trial, jobs=24, machines=20, minutes=200, steadiness=5.0),
                before="63.2 %",
                trials=500,
            ),
            Situation(
                "40 minutes of 20 machines",
                Claim.HOLDS,
                _trial(share_trial, jobs=24, machines=20, minutes=40),
                before="67.5 %",
                trials=500,
            ),
        ),
    ),
    Statistic(
        name="Differences of two profiles of a fleet",
        covers=("steelyard.fleet.profiles.diff.DiffRow",),
        about=(
            "200 machine-minutes a side; a tenth of the machines gets other jobs between two days. A"
            " false alarm is any change among all rows, after Holm's correction. The change is in the hottest"
            " function that all jobs share."
        ),
        situations=(
            Situation(
                "the same fleet, 10 and 10 machines",
                Claim.FALSE,
                _trial(diff_trial, jobs=24, machines=(10, 10)),
                before="100 %",
                trials=200,
                quick=40,
            ),
            Situation(
                "the same fleet, 50 and 50 machines",
                Claim.FALSE,
                _trial(diff_trial, jobs=24, machines=(50, 50)),
                before="57 %",
                trials=200,
                quick=40,
            ),
            Situation(
                "the same fleet, 10 and 50 machines",
                Claim.FALSE,
                _trial(diff_trial, jobs=24, machines=(10, 50)),
                before="100 %",
                trials=200,
            ),
            Situation(
                "the same 10 machines on two days",
                Claim.FALSE,
                _trial(diff_trial, jobs=24, machines=(10, 10), is_same=True),
                before="55 %",
                trials=200,
            ),
            Situation(
                "the same 50 machines on two days",
                Claim.FALSE,
                _trial(diff_trial, jobs=24, machines=(50, 50), is_same=True),
                before="4 %",
                trials=200,
                quick=40,
            ),
            Situation(
                "one job, 10 and 10 machines",
                Claim.FALSE,
                _trial(diff_trial, jobs=1, machines=(10, 10)),
                before="100 %",
                trials=200,
            ),
            Situation(
                "interval of a row's difference, 10 and 10 machines",
                Claim.HOLDS,
                _trial(gap_trial, jobs=24, machines=(10, 10)),
                before="44 %",
                trials=200,
            ),
            Situation(
                "interval of a row's difference, 10 and 50 machines",
                Claim.HOLDS,
                _trial(gap_trial, jobs=24, machines=(10, 50)),
                before="61 %",
                trials=200,
            ),
            Situation(
                "interval of a row's difference, the same 50 machines",
                Claim.HOLDS,
                _trial(gap_trial, jobs=24, machines=(50, 50), is_same=True),
                before="95 %",
                trials=200,
            ),
            Situation(
                "a function doubled, 50 and 50 machines",
                Claim.FOUND,
                _trial(diff_trial, jobs=24, machines=(50, 50), change=2.0),
                before="88 %, with false alarms in 57 %",
                trials=200,
            ),
            Situation(
                "a function doubled, the same 10 machines",
                Claim.FOUND,
                _trial(diff_trial, jobs=24, machines=(10, 10), is_same=True, change=2.0),
                before="98 %, with false alarms in 55 %",
                trials=200,
            ),
            Situation(
                "a function 1.6 times, the same 50 machines",
                Claim.FOUND,
                _trial(diff_trial, jobs=24, machines=(50, 50), is_same=True, change=1.6),
                before="63 %, with false alarms in 4 %",
                trials=200,
            ),
            Situation(
                "a function 1.6 times, one job, 50 and 50 machines",
                Claim.FOUND,
                _trial(diff_trial, jobs=1, machines=(50, 50), change=1.6),
                before="84 %, with false alarms in 100 %",
                trials=200,
            ),
        ),
    ),
    Statistic(
        name="Entropy of a fleet's functions",
        covers=("steelyard.stats.entropy.Entropy",),
        about=(
            "In bits, against the entropy of the whole fleet's shares. The interval extends upwards by 1.5"
            " times the bias correction, so that its coverage exceeds 95 % where the correction is large."
        ),
        situations=(
            Situation(
                "5 minutes of 5 machines",
                Claim.SILENT,
                _trial(entropy_refused, jobs=24, machines=5, minutes=5),
                before="-1.51 bits, no interval",
                trials=300,
                quick=50,
            ),
            Situation(
                "20 minutes of 20 machines",
                Claim.HOLDS,
                _trial(entropy_trial, jobs=24, machines=20, minutes=20),
                before="-0.73 bits, no interval",
                trials=200,
                bar=0.93,
            ),
            Situation(
                "100 minutes of 100 machines",
                Claim.HOLDS,
                _trial(entropy_trial, jobs=24, machines=100, minutes=100),
                before="-0.22 bits, no interval",
                trials=200,
                quick=40,
                bar=0.93,
            ),
            Situation(
                "200 minutes of 10 machines",
                Claim.HOLDS,
                _trial(entropy_trial, jobs=24, machines=10, minutes=200),
                before="-0.59 bits, no interval",
                trials=200,
                bar=0.93,
            ),
            Situation(
                "200 minutes of 50 machines, 60 jobs",
                Claim.HOLDS,
                _trial(entropy_trial, jobs=60, machines=50, minutes=200),
                before="-0.45 bits, no interval",
                trials=200,
                bar=0.93,
            ),
            Situation(
                "1000 minutes of 400 machines",
                Claim.HOLDS,
                _trial(entropy_trial, jobs=24, machines=400, minutes=1000),
                before="-0.03 bits, no interval",
                trials=150,
                bar=0.93,
            ),
            Situation(
                "100 minutes of 100 machines: bias, bits",
                Claim.BIAS,
                _trial(entropy_trial, jobs=24, machines=100, minutes=100),
                before="-0.22",
                trials=200,
                bar=0.05,
            ),
        ),
    ),
)
