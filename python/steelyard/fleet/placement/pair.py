"""Which jobs can share a machine and which must not.

In: ``task_samples``, and where jobs press (``pressure``). Out: `PairAnswer`: for each job the slow-down of
its CPI beside each other job, with intervals; for pairs that were hardly ever seen together, a prediction
that is marked as one; and a verdict for each pair.

A slow-down is: a victim's CPI in minutes with the other job on its machine against minutes without,
within the same platform and 5 % of machine load (``effects``), machines being the independent draws, and
Holm's correction over all of them. Interval and p rest on the spread of all machines too, not only of the few
with the other job (``permutation``): machines may have states, and be in one of them by chance. At equal
load, so that it is the other job's company and not its CPU time that is compared; other neighbours come and
go as they do.

Invariants: nothing is observed of a pair with fewer than `LEAST_MACHINES` machines with and without; a
prediction never becomes "must not" or "may" unless its own error allows it.

Not here: sums (``company``), predicting (``analyze.pressure.contention``), moving jobs (``inputs``), drawing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from steelyard._base import ResultSaysNoError
from steelyard._base.documents import NOT_PRINTED, printed
from steelyard.analyze.pressure.contention import Prediction, Skill, over, predict, together
from steelyard.fleet.effects import Effect, Floats, holm, stratified_effect, wider
from steelyard.fleet.numa.locality import CPI_SOURCE, LEAST_USE
from steelyard.fleet.permutation import permuted
from steelyard.fleet.placement.company import beside, by_neighbour, numbered, whole
from steelyard.fleet.pressure import RESOURCES, JobPressure
from steelyard.telemetry.engine import fetch, floats

LEAST_MACHINES = 3
TOLERANCE = 0.05
"""A slow-down of CPI below which sharing is called harmless."""
ALPHA = 0.05
EVERY_PAIR_OF = 60
"""Jobs up to which every pair is answered; of more jobs, the pairs that were seen together."""
MUST_NOT, MAY, UNCLEAR = "must not", "may", "unclear"


@dataclass(frozen=True)
class Slowdown:
    """What one job's CPI does beside another."""

    job: str
    """The job."""
    beside: str
    """The other one."""
    effect: Effect | None = field(metadata=NOT_PRINTED)
    """Observed; None where it was not seen enough."""
    p_adjusted: float | None
    """Of no effect, after Holm's correction over all that were observed."""
    machines_with: int
    """Machines on which it was seen beside the other."""
    machines_without: int
    """Machines on which it was seen without it."""
    predicted: Prediction | None = field(metadata=NOT_PRINTED)

    @property
    @printed
    def samples(self) -> int | None:
        """Return the samples that the ratio was observed in, None where it was not."""
        return None if self.effect is None else self.effect.samples

    @property
    @printed
    def low(self) -> float | None:
        """Return the lower end of the interval of ``cpi_ratio``."""
        return self.interval[0]

    @property
    @printed
    def high(self) -> float | None:
        """Return the upper end of it."""
        return self.interval[1]

    @property
    @printed
    def cpi_ratio(self) -> float | None:
        """CPI beside the other job over CPI without it: observed if it was, else predicted."""
        if self.effect is not None:
            return 1 + self.effect.value
        return None if self.predicted is None else 1 + self.predicted.value

    @property
    def interval(self) -> tuple[float | None, float | None]:
        """The interval of `cpi_ratio`."""
        effect = self.effect or self.predicted
        if effect is None or effect.low is None or effect.high is None:
            return None, None
        return 1 + effect.low, 1 + effect.high

    @property
    @printed
    def source(self) -> str:
        """``observed``, ``predicted`` or ``unknown``."""
        return (
            "observed"
            if self.effect is not None
            else "predicted"
            if self.predicted is not None
            else "unknown"
        )

    @property
    @printed
    def verdict(self) -> str:
        """Whether this job suffers: ``must not``, ``may`` or ``unclear``."""
        low, high = self.interval
        if low is None or high is None:
            return UNCLEAR
        sure = self.p_adjusted is None or self.p_adjusted <= ALPHA
        if sure and low > 1 and (self.cpi_ratio or 1) > 1 + TOLERANCE:
            return MUST_NOT
        return MAY if high < 1 + TOLERANCE else UNCLEAR


@dataclass(frozen=True)
class Pair:
    """Two jobs on one machine."""

    first: Slowdown = field(metadata=NOT_PRINTED)
    second: Slowdown = field(metadata=NOT_PRINTED)
    resource_ratios: dict[str, float]
    """Sum of the mean shares of each limit, of those that both tell."""
    over: tuple[str, ...]
    """Resources whose sum is past the threshold."""

    @property
    @printed
    def jobs(self) -> tuple[str, str]:
        """Return the two jobs."""
        return self.first.job, self.second.job

    @property
    @printed
    def verdict(self) -> str:
        """The worse of both directions; past a threshold they must not share either."""
        verdicts = {self.first.verdict, self.second.verdict}
        if MUST_NOT in verdicts or self.over:
            return MUST_NOT
        return UNCLEAR if UNCLEAR in verdicts else MAY

    @property
    @printed
    def source(self) -> str:
        """What the verdict stands on: what condemns the pair, else the weaker of both directions."""
        order = ("observed", "predicted", "unknown")
        both = (self.first, self.second)
        condemning = [slowdown.source for slowdown in both if slowdown.verdict == MUST_NOT]
        if condemning:
            return min(condemning, key=order.index)
        return "limits" if self.over else max((slowdown.source for slowdown in both), key=order.index)

    @property
    @printed
    def reason(self) -> str:
        """Why, in words."""
        reasons = [
            f"{RESOURCES[name]} together {self.resource_ratios[name]:.0%} of the limit" for name in self.over
        ]
        for slowdown in (self.first, self.second):
            if slowdown.verdict == MUST_NOT and slowdown.cpi_ratio is not None:
                reasons.append(f"{slowdown.job} has {slowdown.cpi_ratio:.2f}x its CPI ({slowdown.source})")
        if self.verdict == UNCLEAR:
            for slowdown in (self.first, self.second):
                if slowdown.source == "unknown":
                    reasons.append(f"nothing is known of {slowdown.job} beside {slowdown.beside}")
                elif slowdown.verdict == UNCLEAR:
                    low, high = slowdown.interval
                    reasons.append(
                        f"{slowdown.job} may have {low or 0:.2f}x to {high or 0:.2f}x its CPI"
                        f" ({slowdown.source})"
                    )
        return "; ".join(reasons) or f"each keeps its CPI within {TOLERANCE:.0%} ({self.source})"


@dataclass(frozen=True)
class PairAnswer:
    """The answer of ``fleet pair``."""

    KIND: ClassVar[str] = "fleet_pair"

    jobs: tuple[str, ...]
    """The jobs that were asked about."""
    slowdowns: tuple[Slowdown, ...]
    """What each job's CPI does beside another."""
    pairs: tuple[Pair, ...]
    """Those that must not share first, then by the worst slow-down."""
    prediction: Skill
    """How good predictions are."""
    pairs_not_seen: int = 0
    """Pairs beside those: never seen together, and too many to list."""

    @property
    @printed
    def tolerance_ratio(self) -> float:
        """Return the slow-down of CPI below which sharing is called harmless."""
        return TOLERANCE

    @property
    @printed
    def alpha(self) -> float:
        """Return the chance of one false slow-down among all."""
        return ALPHA


def pair(task_samples: Any, pressures: Sequence[JobPressure], jobs: Sequence[str] = ()) -> PairAnswer:
    """Answer who can share. ``jobs`` limits the victims and their company.

    Raises ResultSaysNoError when no task has a CPI.
    """
    t = task_samples.filter(task_samples.job.isin(list(jobs))) if jobs else task_samples
    order = fetch(numbered(t).order_by("number"))["job"].to_pylist()
    all_sums, with_sums = fetch(whole(t)), by_neighbour(fetch(beside(t)), order)
    if not len(all_sums):
        raise ResultSaysNoError(_no_cpi(task_samples))
    names = tuple(sorted({pressure.job for pressure in pressures if not jobs or pressure.job in jobs}))
    observed = observe(all_sums, with_sums, names)
    known = {
        (slowdown.job, slowdown.beside): slowdown.effect
        for slowdown in observed
        if slowdown.effect is not None
    }
    asked = [(slowdown.job, slowdown.beside) for slowdown in observed]
    uses = {pressure.job: pressure.means() for pressure in pressures}
    skill, predictions = predict(known, uses, names, asked)
    slowdowns = tuple(
        slowdown
        if slowdown.effect is not None
        else Slowdown(
            slowdown.job,
            slowdown.beside,
            None,
            None,
            slowdown.machines_with,
            slowdown.machines_without,
            predictions.get((slowdown.job, slowdown.beside)),
        )
        for slowdown in observed
    )
    pairs = _pairs(slowdowns, pressures)
    return PairAnswer(names, slowdowns, pairs, skill, len(names) * (len(names) - 1) // 2 - len(pairs))


def _no_cpi(task_samples: Any) -> str:
    """Say why no sample of a task counts."""
    t = task_samples
    counts = fetch(
        t.aggregate(
            cpi=(t.cpi > 0).sum(),
            low=((t.cpi > 0) & (t.cpu_s / t.window_s < LEAST_USE)).sum(),
            other=((t.cpi > 0) & t.cpi_source.notnull() & (t.cpi_source != CPI_SOURCE)).sum(),
        )
    )
    sums = [floats(counts[name])[0] for name in ("cpi", "low", "other")]
    # The sum over no rows is null.
    known, low, other = (int(value) if value > 0 else 0 for value in sums)
    if not known:
        return "no task has a CPI: contention cannot be measured"
    if other == known:
        return f"no task has a CPI from {CPI_SOURCE}: contention cannot be measured"
    return (
        f"no task with a CPI uses {LEAST_USE} CPUs or more ({low:,} of {known:,} samples use less): so little"
        " use does not tell contention"
    )


def observe(all_sums: Any, with_sums: Any, names: Sequence[str]) -> list[Slowdown]:
    """Return ordered pairs of ``names`` with what was observed, from the Arrow tables of the sums.

    All of them up to `EVERY_PAIR_OF` names; of more, those that were on one machine in one minute.
    """
    places = _Places(all_sums, with_sums)
    rows: list[tuple[str, str, Effect | None, int, int]] = []
    for job, other in _asked(names, places.seen()):
        rows.append((job, other, *places.effect(job, other)))
    tested = [at for at, row in enumerate(rows) if row[2] is not None and row[2].p_value is not None]
    p_values = np.array([_p_value(rows[at][2]) for at in tested], dtype=np.float64)
    adjusted = dict(zip(tested, holm(p_values).tolist(), strict=True))
    return [
        Slowdown(job, other, effect, adjusted.get(at), with_it, without, None)
        for at, (job, other, effect, with_it, without) in enumerate(rows)
    ]


def _asked(names: Sequence[str], seen: set[tuple[str, str]]) -> list[tuple[str, str]]:
    if len(names) <= EVERY_PAIR_OF:
        return [(job, other) for job in names for other in names if job != other]
    known = set(names)
    both = {(a, b) for a, b in seen if a in known and b in known}
    return sorted(both | {(b, a) for a, b in both})


def _p_value(effect: Effect | None) -> float:
    return 1.0 if effect is None or effect.p_value is None else effect.p_value


class _Places:
    """The sums of each job, where it stood (platform, load, machine), as arrays."""

    def __init__(self, all_sums: Any, with_sums: Any) -> None:
        keys = ("platform", "load", "machine")
        numbers = {name: self._numbers(all_sums, with_sums, name) for name in (*keys, "job")}
        length = len(all_sums)
        loads = int(numbers["load"].max()) + 1
        machines = int(numbers["machine"].max()) + 1
        strata = numbers["platform"] * loads + numbers["load"]
        place = strata * machines + numbers["machine"]
        self._names = {name: at for at, name in enumerate(self._job_names)}
        self._all = {
            "strata": strata[:length],
            "machine": numbers["machine"][:length],
            "platform": numbers["platform"][:length],
            "place": place[:length],
        }
        self._n, self._y = self._sums(all_sums)
        self._yy = floats(all_sums["yy"])
        self._job = numbers["job"][:length]
        self._with_place, self._with_job = place[length:], numbers["job"][length:]
        others = with_sums["beside"].to_pylist()
        self._with_beside = np.array([self._names.get(name, -1) for name in others], dtype=np.int64)
        self._with_n, self._with_y = self._sums(with_sums)
        self._with_starts = floats(with_sums["s"])
        # Rows of each job, and of each job beside each other one, one after another.
        count = len(self._names) + 1
        self._by_job = np.argsort(self._job, kind="stable")
        self._job_sorted = self._job[self._by_job]
        pairs = self._with_job * count + self._with_beside + 1
        self._by_pair = np.argsort(pairs, kind="stable")
        self._pair_sorted, self._count = pairs[self._by_pair], count

    def seen(self) -> set[tuple[str, str]]:
        """Return the ordered pairs of jobs that were together at all."""
        codes = np.unique(self._pair_sorted)
        firsts, seconds = codes // self._count, codes % self._count - 1
        return {
            (self._job_names[a], self._job_names[b])
            for a, b in zip(firsts.tolist(), seconds.tolist(), strict=True)
            if b >= 0
        }

    @staticmethod
    def _rows(order: NDArray[np.int64], sorted_keys: NDArray[np.int64], key: int) -> NDArray[np.int64]:
        first, end = np.searchsorted(sorted_keys, (key, key + 1))
        return order[first:end]

    def _numbers(self, first: Any, second: Any, name: str) -> NDArray[np.int64]:
        values = first[name].to_pylist() + second[name].to_pylist()
        names, numbers = np.unique(np.asarray(values, dtype=object), return_inverse=True)
        if name == "job":
            self._job_names = names.tolist()
        return numbers.astype(np.int64)

    @staticmethod
    def _sums(table: Any) -> tuple[Floats, Floats]:
        n, y = (floats(table[name]) for name in ("n", "y"))
        return n, y

    def effect(self, job: str, other: str) -> tuple[Effect | None, int, int]:
        """Return the effect of ``other`` on ``job``, and the machines with and without it."""
        number, beside_number = self._names.get(job, -2), self._names.get(other, -2)
        own = self._rows(self._by_job, self._job_sorted, number)
        if not len(own):
            return None, 0, 0
        code = number * self._count + beside_number + 1
        seen = self._rows(self._by_pair, self._pair_sorted, code if beside_number >= 0 else -1)
        # Rows of a job are in the order of platform, load and machine on both sides, but by name: look them
        # up.
        order = np.argsort(self._all["place"][own])
        own = own[order]
        at = np.searchsorted(self._all["place"][own], self._with_place[seen])
        x, xy, starts = (np.zeros(len(own)) for _ in range(3))
        np.add.at(x, at, self._with_n[seen])
        np.add.at(xy, at, self._with_y[seen])
        np.add.at(starts, at, self._with_starts[seen])
        n, y = self._n[own], self._y[own]
        machines = self._all["machine"][own]
        with_it = len(np.unique(machines[x > 0]))
        without = len(np.unique(machines[x < n]))
        if with_it < LEAST_MACHINES or without < LEAST_MACHINES:
            return None, with_it, without
        sums = {"n": n, "x": x, "xx": x, "y": y, "xy": xy}
        # The side with fewer machines tells how well the spread between machines is known.
        freedom = min(with_it, without) - 1
        effect = stratified_effect(self._all["strata"][own], machines, sums, freedom=freedom)
        if effect is None or effect.low is None:
            return None, with_it, without
        return self._among_all(effect, own, {**sums, "yy": self._yy[own], "starts": starts}), with_it, without

    def _among_all(self, effect: Effect, own: NDArray[np.int64], sums: dict[str, Floats]) -> Effect:
        """Return the effect with what the spread of all machines says of it, where it says less."""
        strata, machines, platforms = (self._all[name][own] for name in ("strata", "machine", "platform"))
        is_slower = effect.value > TOLERANCE and (effect.p_value or 0.0) <= ALPHA
        among = permuted(strata, machines, platforms, sums, effect.value, with_p_value=is_slower)
        return wider(effect, among.standard_error, among.p_value)


def _pairs(slowdowns: Sequence[Slowdown], pressures: Sequence[JobPressure]) -> tuple[Pair, ...]:
    of = {(slowdown.job, slowdown.beside): slowdown for slowdown in slowdowns}
    press = {pressure.job: pressure for pressure in pressures}
    made = []
    for a, b in sorted((a, b) for a, b in of if a < b):
        sums = together(press[a].means(), press[b].means())
        made.append(Pair(of[a, b], of[b, a], sums, over(sums)))
    order = (MUST_NOT, UNCLEAR, MAY)
    made.sort(
        key=lambda pair: (
            order.index(pair.verdict),
            -max(pair.first.cpi_ratio or 0.0, pair.second.cpi_ratio or 0.0),
            pair.first.job,
            pair.second.job,
        )
    )
    return tuple(made)
