"""Which model describes a scaling curve.

In: throughput by number of CPUs and block, and what is known of the machine. Out: `Chosen`: the law, the law
over cores with siblings worth a share, a ceiling, a NUMA node that costs something, a bend that may be any of
these, or none.

Models are compared by Akaike's information criterion, corrected for few readings (Hurvich and Tsai, 1989),
over all values of all blocks. Where the machine is known, its cores and nodes are where a model bends;
otherwise the bend is searched. The law is preferred where another is hardly better. A bend that only the last
step is beyond is no ceiling, siblings or node yet. Where readings are further from every model than noise
explains, and materially so, none holds.

Not here: the peak (``peak``), other numbers of CPUs (``prediction``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise

import numpy as np

from steelyard.stats.scaling.models import Fitted, Form, fit
from steelyard.stats.scaling.noise import (
    MISFIT,
    Floats,
    Noise,
    misfit_p_value,
    noise_of,
    table_of,
    within_squares,
)

MISFIT_RATIO = 0.05
"""A model that is nearer than this describes the readings."""
MISFIT_RATIO_ALONE = 0.12
"""The same where one block cannot tell noise from misfit."""
ASSUMED_NOISE = 0.05
"""Relative noise of a trial where nothing shows it."""
LEAST_NOISE = 0.003
"""Few steps of one block do not tell a smaller one."""
_FEWEST_DEGREES = 2
_FLOOR = 1e-3
"""Readings that are nearer to a model are not nearer for a reason."""
_PREFERRED = 2.0
"""How much smaller the criterion of another model than the law is; twice that where its bend was searched."""
_AS_GOOD = 4.0
"""Models whose criterion is within this are equally good."""
_ENDS = (0.025, 0.975)
_SEED = 21
_DRAWS = 399
_TERMS = ((), ("contention",), ("contention", "coherency"))


class Kind(StrEnum):
    """What a model says of the machine."""

    LAW = "law"
    SIBLINGS = "siblings"
    NODE = "node"
    CEILING = "ceiling"
    BEND = "bend"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Topology:
    """What is known of the machine's CPUs, in the order in which steps take them."""

    cpus: int | None = None
    """CPUs of the machine, None where that is not known."""
    cores: int | None = None
    """Cores that are used up before any sibling is used, None where that is not known."""
    threads_per_core: int | None = None
    node_ends: tuple[int, ...] = ()
    """Numbers of CPUs at which the cores of a node, of two nodes ... are used up; without the last one."""

    @property
    def last_core(self) -> float | None:
        """The number of CPUs up to which each has a core; infinity on a machine without siblings whose cores
        are not known, None where nothing is.
        """
        if self.cores is not None:
            return self.cores
        if self.threads_per_core == 1:
            return self.cpus if self.cpus is not None else math.inf
        if self.threads_per_core is not None and self.cpus is not None:
            return self.cpus // self.threads_per_core
        return None


UNKNOWN = Topology()


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a model with its interval."""

    value: float
    """The figure."""
    low: float | None
    """Lower end of the interval, None without one."""
    high: float | None
    """Upper end of it, None without one."""


@dataclass(frozen=True)
class Candidate:
    """A model that was fitted."""

    kind: Kind
    fitted: Fitted
    criterion: float


@dataclass(frozen=True)
class Chosen:
    """The model that describes a curve, or none."""

    kind: Kind
    cpus: Floats
    logs: Floats
    """Logarithms of throughput by step and block."""
    topology: Topology
    best: Candidate
    """The nearest model, also where none holds."""
    law: tuple[Candidate, ...]
    """The law without terms, with contention, and with both."""
    candidates: tuple[Candidate, ...]
    noise: Noise
    misfit_ratio: float
    """Largest distance of a step's mean from the nearest model."""
    misfit_p_value: float | None
    alternatives: tuple[Kind, ...] = ()
    """Other models that describe the readings as well."""
    at: Figure | None = None
    """CPUs at which the curve bends, None for the law."""
    worth: Figure | None = None
    """What a CPU beyond the bend is worth of one before it; of a level, of all throughput."""
    is_level: bool = False
    node_worth: Figure | None = None
    """Of siblings after a second node: what its cores are worth of those of the first one."""
    _draws: dict[int, tuple[Fitted, Floats]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def means(self) -> Floats:
        """Means of the logarithms of throughput by step."""
        return np.asarray(self.logs.mean(axis=1))

    @property
    def alike_up_to(self) -> float | None:
        """Number of CPUs up to which all are alike, None where no step is beyond them."""
        inner = self.best.fitted.form.inner
        return inner if inner is not None or self.at is None else self.at.value

    @property
    def noise_of_readings(self) -> Noise:
        """Noise of the steps' means, whatever the model; of one block what the model leaves."""
        if self.logs.shape[1] == 1:
            return self.noise
        return noise_of(self.logs, np.zeros(len(self.cpus)), 0) or self.noise

    def throughput(self, cpus: float) -> float:
        """Return the throughput of the nearest model."""
        return float(np.exp(self.best.fitted.logs([cpus])[0, 0]))

    def resampled(self, candidate: Candidate) -> tuple[Fitted, Floats]:
        """Return fits of means as they may have been, and what blocks have in common (logarithms)."""
        key = id(candidate)
        if key not in self._draws:
            self._draws[key] = _resampled(candidate.fitted, self.cpus, self.noise)
        return self._draws[key]


def choose(values: Mapping[int, Sequence[float]], topology: Topology = UNKNOWN) -> Chosen:
    """Return the model that describes throughput by number of CPUs.

    Raises ValueError for one step, and for values that are not finite and positive.

    >>> curve = {n: [100.0 * min(n, 8)] for n in (1, 2, 4, 8, 16, 32)}
    >>> choose(curve).kind.value, round(choose(curve).at.value)
    ('ceiling', 8)
    """
    cpus, logs = table_of(values)
    if len(cpus) < 2:
        raise ValueError("a curve has two steps at least")
    candidates = tuple(_candidates(cpus, logs, topology))
    law = tuple(one for one in candidates if one.kind is Kind.LAW)
    means = logs.mean(axis=1)
    best = _best(candidates, cpus, means)
    distance = means - best.fitted.logs(cpus)[0]
    degrees = len(cpus) - best.fitted.form.count
    p_value = misfit_p_value(logs, distance, degrees)
    misfit = _misfit(best, cpus, means)
    noise = noise_of(logs, distance, degrees) or _few(distance, degrees)
    bar = MISFIT_RATIO_ALONE if p_value is None else MISFIT_RATIO
    is_misfit = misfit > bar and (p_value is None or p_value < MISFIT)
    kind = Kind.NONE if is_misfit else best.kind
    near = {one.kind for one in candidates if one.criterion < best.criterion + _AS_GOOD} - {best.kind}
    others = tuple(sorted(near)) if kind is not Kind.NONE else ()
    found = Chosen(kind, cpus, logs, topology, best, law, candidates, noise, misfit, p_value, others)
    return found if kind in (Kind.LAW, Kind.NONE) else _with_figures(found)


def _few(distance: Floats, degrees: int) -> Noise:
    """Return the noise of few steps of one block: what a simple model leaves, or an assumption."""
    if degrees < _FEWEST_DEGREES:
        variance, degrees = ASSUMED_NOISE**2, 30
        return Noise(np.full(len(distance), variance), degrees, variance, 0.0, 1, is_assumed=True)
    variance = max(float((distance**2).sum()) / degrees, LEAST_NOISE**2)
    return Noise(np.full(len(distance), variance), degrees, variance, 0.0, 1)


def _best(candidates: Sequence[Candidate], cpus: Floats, means: Floats) -> Candidate:
    """Return the model that is chosen."""
    best = min(candidates, key=_ranked)
    if not _is_known(best):
        # The machine has cores and nodes where it has them: a bend beside them needs more than a better fit.
        known = [one for one in candidates if _is_known(one) and one.kind is not Kind.LAW]
        nearest = min(known, key=_ranked, default=None)
        if nearest is not None and _misfit(nearest, cpus, means) < MISFIT_RATIO:
            best = nearest
    # Few readings weigh parameters heavily, or bear no comparison at all.
    compares = all(math.isfinite(one.criterion) for one in candidates if len(one.fitted.form.terms) == 1)
    bar = MISFIT_RATIO_ALONE if compares else MISFIT_RATIO
    if _misfit(best, cpus, means) > bar:
        # The first that describes them, the law before others.
        near = [
            one
            for one in candidates
            if _misfit(one, cpus, means) < bar and one.fitted.form.count < len(cpus) + (one.kind is Kind.LAW)
        ]
        return min(near, key=_simple, default=best)
    return best


def _simple(one: Candidate) -> tuple[bool, bool, int, float]:
    is_law = one.kind is Kind.LAW
    return not (is_law or _is_known(one)), not is_law, one.fitted.form.count, one.criterion


def _is_known(one: Candidate) -> bool:
    """Return whether a model has no bend but where the machine has one."""
    return one.kind is Kind.LAW or (one.fitted.form.span is None and not one.fitted.form.is_searched)


def _ranked(one: Candidate) -> float:
    """Return the criterion with what a bend costs that the machine does not have where it is."""
    if one.kind is Kind.LAW:
        return one.criterion
    return one.criterion + (_PREFERRED if _is_known(one) else 2 * _PREFERRED)


def _misfit(one: Candidate, cpus: Floats, means: Floats) -> float:
    """Return the largest distance of a step's mean from a model."""
    return float(np.abs(np.expm1(means - one.fitted.logs(cpus)[0])).max())


def _candidates(cpus: Floats, logs: Floats, topology: Topology) -> list[Candidate]:
    means = logs.mean(axis=1)[np.newaxis, :]
    found = []
    for kind, form in _forms(cpus, topology):
        fitted = fit(form, cpus, means)
        candidate = Candidate(kind, fitted, _criterion(fitted, logs))
        found.append(_unclear(candidate, cpus))
    return found


def _unclear(one: Candidate, cpus: Floats) -> Candidate:
    """Return a ceiling as a bend where only one step is beyond it: siblings and nodes look alike."""
    at = one.fitted.part("at")
    if one.kind is Kind.CEILING and at is not None and (cpus > at).sum() < 2:
        return Candidate(Kind.BEND, one.fitted, one.criterion)
    return one


def _criterion(fitted: Fitted, logs: Floats) -> float:
    steps, blocks = logs.shape
    size = steps * blocks
    squares = blocks * float(fitted.squares[0]) + within_squares(logs) + size * _FLOOR**2
    count = fitted.form.count + blocks
    distance: float = size * math.log(squares / size)
    if size - count - 1 <= 0:
        # Too few readings to compare by: the simplest stands.
        return math.inf if fitted.form.names else distance
    penalty: float = 2 * count * size / (size - count - 1)
    return distance + penalty


def _forms(cpus: Floats, topology: Topology) -> list[tuple[Kind, Form]]:
    found = [(Kind.LAW, Form(terms)) for terms in _TERMS]
    first, last = float(cpus[0]), float(cpus[-1])
    core = topology.last_core
    knows_cores = core is not None
    if core is not None and first <= core < last:
        found += [(Kind.SIBLINGS, Form(terms, at=float(core))) for terms in _TERMS]
        found += [
            (Kind.SIBLINGS, Form(terms, at=float(core), inner=float(end)))
            for end in topology.node_ends[:1]
            if first <= end < core and ((cpus > end) & (cpus <= core)).any()
            for terms in _TERMS[:2]
        ]
    for end in topology.node_ends:
        if first <= end < last:
            found += [(Kind.NODE, Form(terms, at=float(end))) for terms in _TERMS]
            found += [(Kind.NODE, Form(terms, at=float(end), is_level=True)) for terms in _TERMS]
    if len(cpus) < 3:
        return found
    for terms in _TERMS[:2]:
        found.append((Kind.CEILING, Form(terms, span=(float(cpus[1]), last), worth=0.0)))
        if len(cpus) >= 5:
            found.append((Kind.BEND, Form(terms, span=(float(cpus[1]), float(cpus[-2])))))
        if knows_cores and topology.node_ends:
            # The machine says where its levels are.
            continue
        found += [
            (Kind.NODE, Form(terms, at=math.sqrt(low * high), is_level=True, is_searched=True))
            for low, high in pairwise(cpus[1:])
            if high < last or len(cpus) > 3
        ]
    return found


def _resampled(fitted: Fitted, cpus: Floats, noise: Noise) -> tuple[Fitted, Floats]:
    means, shift = noise.draw(fitted.logs(cpus)[0], _DRAWS, _SEED)
    return fit(fitted.form, cpus, means, near=fitted), shift


def _with_figures(chosen: Chosen) -> Chosen:
    """Return it with where the curve bends and what a CPU beyond is worth."""
    fitted, form = chosen.best.fitted, chosen.best.fitted.form
    fits = chosen.resampled(chosen.best)[0]

    def figure(name: str) -> Figure:
        value = fitted.part(name) or 0.0
        if name not in fits.found:
            return Figure(value, value, value)
        low, high = np.quantile(fits.found[name], _ENDS)
        return Figure(value, float(low), float(high))

    at = figure("at")
    if form.is_searched:
        # The readings do not show where between the steps on either side.
        cpus = chosen.cpus
        at = Figure(at.value, float(cpus[cpus <= at.value][-1]), float(cpus[cpus > at.value][0]))
    node = None if form.inner is None else figure("inner_worth")
    return replace(chosen, at=at, worth=figure("worth"), is_level=form.is_level, node_worth=node)
