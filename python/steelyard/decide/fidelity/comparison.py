"""Two workloads side by side, and how far apart they are: by metric, by group, overall.

In: two `WorkloadProfile`s. Out: `Fidelity`. Formulas are in ``distance``, intervals in ``noise``.

Invariants: a metric that one side lacks, or that cannot be compared, has no distance and says why; it counts
in no mean, and every mean says over how many of how many metrics it is.

Not here: drawing (``report.decide``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from steelyard._base import UsageError
from steelyard._base.documents import printed
from steelyard.decide.fidelity.catalogue import CATALOGUE, GROUPS, WHOLES, Kind, Metric, metric_of
from steelyard.decide.fidelity.distance import common_parts, shares_of, signed_distance
from steelyard.decide.fidelity.noise import (
    FEWEST_WINDOWS,
    Draws,
    Floats,
    Interval,
    Spread,
    Term,
    folded,
    interval_of_sum,
    spread_of,
    windows_of,
)
from steelyard.decide.fidelity.workload import Measurement, Mix, Replicate, WorkloadProfile

RUN, FLEET = "run", "fleet"
"""Sources of profiles: runs made here, and jobs of many machines, whose windows are of no single run."""


@dataclass(frozen=True)
class SharePart:
    """One part of a mix."""

    name: str
    """Function or category."""
    a_ratio: float
    """Share in A."""
    b_ratio: float
    """Share in B."""


@dataclass(frozen=True)
class MetricDistance:
    """One metric of two workloads."""

    name: str
    """The metric."""
    title: str
    """It in words."""
    group: str
    """Its group."""
    unit: str
    """Unit of the values."""
    kind: Kind
    """How it is compared."""
    a: float | None
    """Value of A, None where not known and for a mix."""
    b: float | None
    """Value of B."""
    distance: float | None
    """Distance, None where it cannot be compared."""
    low: float | None
    """Lower end of its interval of 95 %, None without one."""
    high: float | None
    """Upper end."""
    is_distinguishable: bool | None
    """Whether A and B differ by more than noise; None without an interval."""
    missing: str | None
    """Why there is no distance."""
    no_interval: str | None
    """Why there is no interval."""
    moved_by: str
    """What moves it: parameters of the benchmark where it declares them, else in words."""
    parts: tuple[SharePart, ...] = ()
    """Parts of a mix, largest difference first."""


@dataclass(frozen=True)
class GroupDistance:
    """The metrics of one group together."""

    name: str
    """The group."""
    compared: int
    """Metrics with a distance."""
    known: int
    """Metrics that at least one side has."""
    distance: float | None
    """Mean distance of those compared; total variation where they are shares of a whole."""
    low: float | None
    """Lower end of its interval of 95 %, None without one."""
    high: float | None
    """Upper end."""
    missing: str | None
    """Why there is no distance, or no interval."""


@dataclass(frozen=True)
class Overall:
    """All groups together."""

    distance: float
    """Mean over the groups that have one."""
    low: float | None
    """Lower end of its interval of 95 %, None without one."""
    high: float | None
    """Upper end."""
    noise: float | None
    """Distance that two measurements of one workload stay below in 95 of 100 cases."""
    compared: int
    """Metrics with a distance."""
    known: int
    """Metrics that at least one side has."""
    groups: int
    """Groups with a distance."""
    with_interval: int
    """Metrics whose noise is part of the interval; the others are taken as they are."""
    no_interval: str | None
    """Why there is no interval."""


@dataclass(frozen=True)
class NotMeasured:
    """A metric that neither side has."""

    name: str
    """The metric."""
    title: str
    """It in words."""
    missing: str
    """Why: of A, and of B where that differs."""


@dataclass(frozen=True)
class Fidelity:
    """How near workload A is to workload B: `steelyard fidelity A B --json`."""

    KIND: ClassVar[str] = "fidelity"

    a: str
    """Name of A."""
    b: str
    """Name of B."""
    overall: Overall
    """All metrics together."""
    groups: tuple[GroupDistance, ...]
    """By group, farthest first."""
    metrics: tuple[MetricDistance, ...]
    """By metric, farthest first; those without a distance last."""
    not_measured: tuple[NotMeasured, ...]
    """Metrics that neither side has."""
    cautions: tuple[str, ...]
    """What to know before believing it."""

    @property
    @printed
    def closest(self) -> str | None:
        """Return the metric with the smallest distance."""
        compared = [each for each in self.metrics if each.distance is not None]
        return compared[-1].name if compared else None

    def metric(self, name: str) -> MetricDistance:
        """Return a metric's distance. Raises KeyError."""
        return next(each for each in self.metrics if each.name == name)


@dataclass(frozen=True)
class _Compared:
    """A metric's distance with its terms in sums."""

    found: MetricDistance
    terms: tuple[Term, ...] = ()


def compare(a: WorkloadProfile, b: WorkloadProfile, *, moves: Mapping[str, str] | None = None) -> Fidelity:
    """Return how far apart two workloads are. ``moves`` names what moves a metric, instead of the catalogue.

    Raises UsageError where a side has no metrics, or both have none in common.
    """
    for side in (a, b):
        if not side.known:
            raise UsageError(
                f"{side.name} has no metric with a value", hint="name a run or a file with metrics"
            )
    draws = (Draws(0), Draws(1))
    names = [name for name in dict.fromkeys((*CATALOGUE, *a.metrics, *b.metrics)) if _is_known(name, a, b)]
    every = [_metric(name, a, b, draws, (moves or {}).get(name)) for name in names]
    compared = [each for each in every if each.found.distance is not None]
    if not compared:
        reasons = "; ".join(f"{each.found.title}: {each.found.missing}" for each in every[:3])
        raise UsageError(
            f"{a.name} and {b.name} have no metric in common ({reasons})",
            hint="`steelyard fidelity A A --json` lists the metrics of A",
        )
    groups = [_group(name, [each for each in every if each.found.group == name]) for name in GROUPS]
    known_groups = [group for group in groups if group is not None]
    overall = _overall(known_groups, every)
    return Fidelity(
        a.name,
        b.name,
        overall,
        tuple(sorted((found for found, _ in known_groups), key=_farthest)),
        tuple(sorted((each.found for each in every), key=_farthest)),
        tuple(_not_measured(a, b)),
        tuple(_cautions(a, b, overall)),
    )


def _not_measured(a: WorkloadProfile, b: WorkloadProfile) -> Iterator[NotMeasured]:
    for name in dict.fromkeys((*CATALOGUE, *a.metrics, *b.metrics)):
        whys = [why for side in (a, b) if (why := side.why_missing(name)) is not None]
        if len(whys) == 2:
            same = whys[0] == whys[1]
            yield NotMeasured(name, metric_of(name).title, whys[0] if same else f"A: {whys[0]}; B: {whys[1]}")


def _farthest(one: GroupDistance | MetricDistance) -> float:
    return 1.0 if one.distance is None else -one.distance


def _is_known(name: str, a: WorkloadProfile, b: WorkloadProfile) -> bool:
    return a.why_missing(name) is None or b.why_missing(name) is None


def _metric(
    name: str, a: WorkloadProfile, b: WorkloadProfile, draws: tuple[Draws, Draws], moved_by: str | None
) -> _Compared:
    lacking = [f"{label}: {why}" for label, side in (("A", a), ("B", b)) if (why := side.why_missing(name))]
    if name in a.mixes or name in b.mixes:
        return _mix(name, a, b, draws, "; ".join(lacking), moved_by)
    left, right = a.metrics.get(name), b.metrics.get(name)
    if left is not None and right is not None and left.metric.unit != right.metric.unit:
        lacking = [f"A is in {left.metric.unit}, B in {right.metric.unit}"]
    known = left or right
    assert known is not None
    values = tuple(None if side is None else side.value for side in (left, right))
    delta = None
    if not lacking and values[0] is not None and values[1] is not None:
        delta = signed_distance(known.metric, values[0], values[1])
        if delta is None:
            lacking = ["one side is 0, which has no ratio"]
    if delta is None or left is None or right is None:
        return _Compared(_found(known.metric, values, None, "; ".join(lacking), moved_by))
    spreads = _spreads(left, right, _are_alike(a, b))
    interval = folded(delta, *spreads)
    return _Compared(
        _found(known.metric, values, interval, None, moved_by), (Term(1.0, delta, _noise(spreads, draws)),)
    )


def _noise(spreads: tuple[Spread | str, Spread | str], draws: tuple[Draws, Draws]) -> Floats | None:
    a, b = spreads
    if isinstance(a, str) or isinstance(b, str):
        return None
    return draws[0].of(a) - draws[1].of(b)


def _are_alike(a: WorkloadProfile, b: WorkloadProfile) -> bool:
    """Return whether both are runs of one benchmark, which vary alike from run to run."""
    return a.source == b.source == RUN and a.benchmark == b.benchmark


def _spreads(a: Measurement, b: Measurement, are_alike: bool) -> tuple[Spread | str, Spread | str]:
    """Return the spread of both; a single run beside repeated ones is as far from its mean as they are."""
    found = [_spread(side) for side in (a, b)]
    if are_alike:
        for at, other in ((0, 1), (1, 0)):
            theirs = found[other]
            single = (a, b)[at].replicate is Replicate.WINDOW
            if single and isinstance(theirs, Spread) and theirs.replicate is Replicate.REPEAT:
                found[at] = Spread(theirs.deviations, Replicate.REPEAT, is_borrowed=True)
    return found[0], found[1]


def _spread(one: Measurement) -> Spread | str:
    if one.value is None:
        return one.missing or "not measured"
    mean = None
    if one.metric.kind is Kind.MAGNITUDE:
        mean = (sum(one.values) / len(one.values) if one.values else one.value) + one.metric.floor
    return spread_of(one.values, mean, one.replicate)


def _mix(
    name: str,
    a: WorkloadProfile,
    b: WorkloadProfile,
    draws: tuple[Draws, Draws],
    lacking: str,
    moved_by: str | None,
) -> _Compared:
    left, right = a.mixes.get(name), b.mixes.get(name)
    known = left or right
    assert known is not None
    if lacking or left is None or right is None:
        return _Compared(_found(known.metric, (None, None), None, lacking or "not measured", moved_by))
    names = common_parts(left.parts, right.parts)
    shares = (shares_of(left.parts, names), shares_of(right.parts, names))
    noises = [_mix_noise(side, names, draw) for side, draw in zip((left, right), draws, strict=True)]
    lacks = "; ".join(
        f"{side}: {each}" for side, each in zip("AB", noises, strict=True) if isinstance(each, str)
    )
    noise = None
    if not isinstance(noises[0], str) and not isinstance(noises[1], str):
        noise = noises[0] - noises[1]
    terms = tuple(
        Term(0.5, p - q, None if noise is None else noise[:, at])
        for at, (p, q) in enumerate(zip(*shares, strict=True))
    )
    interval = interval_of_sum(terms)
    if lacks:
        interval = Interval(interval.distance, missing=lacks)
    parts = [SharePart(part, p, q) for part, p, q in zip(names, *shares, strict=True)]
    parts.sort(key=lambda part: -abs(part.a_ratio - part.b_ratio))
    return _Compared(_found(known.metric, (None, None), interval, None, moved_by, tuple(parts)), terms)


def _mix_noise(side: Mix, names: Sequence[str], draws: Draws) -> Floats | str:
    """Return draws of the errors of a mix's shares, a column each, or why there are none."""
    is_repeated = side.replicate is Replicate.REPEAT
    if len(side.windows) >= (3 if is_repeated else FEWEST_WINDOWS):
        rows = windows_of(side.windows, names)
        spreads = [Spread(rows[:, at], side.replicate) for at in range(rows.shape[1])]
        return np.column_stack([draws.of(spread) for spread in spreads])
    if side.samples:
        return draws.of_samples(shares_of(side.parts, list(names)), side.samples)
    return "how many samples its shares are of is not known"


def _found(
    metric: Metric,
    values: tuple[float | None, ...],
    interval: Interval | None,
    missing: str | None,
    moved_by: str | None,
    parts: tuple[SharePart, ...] = (),
) -> MetricDistance:
    low = None if interval is None else interval.low
    high = None if interval is None else interval.high
    if high is not None and metric.kind is not Kind.MAGNITUDE:
        high = min(high, 1.0)
    return MetricDistance(
        name=metric.name,
        title=metric.title,
        group=metric.group,
        unit=metric.unit,
        kind=metric.kind,
        a=values[0],
        b=values[1],
        distance=None if interval is None else interval.distance,
        low=low,
        high=high,
        is_distinguishable=None if low is None else low > 0,
        missing=missing if interval is None else None,
        no_interval=None if interval is None else interval.missing,
        moved_by=moved_by or metric.moved_by,
        parts=parts,
    )


def _group(name: str, members: Sequence[_Compared]) -> tuple[GroupDistance, list[Term]] | None:
    if not members:
        return None
    compared = [each for each in members if each.terms]
    if not compared:
        reason = next((each.found.missing for each in members if each.found.missing), None)
        return GroupDistance(name, 0, len(members), None, None, None, reason), []
    if name in WHOLES:
        terms = _whole([each.terms[0] for each in compared])
    else:
        share = 1 / len(compared)
        terms = [
            Term(share * term.weight, term.delta, term.noise) for each in compared for term in each.terms
        ]
    found = interval_of_sum(terms)
    high = found.high
    if high is not None and all(each.found.kind is not Kind.MAGNITUDE for each in compared):
        high = min(high, 1.0)
    return (
        GroupDistance(name, len(compared), len(members), found.distance, found.low, high, found.missing),
        terms,
    )


def _whole(terms: Sequence[Term]) -> list[Term]:
    """Return the terms of a total variation distance: shares that are compared, and what they leave."""
    noises = [term.noise for term in terms if term.noise is not None]
    rest = Term(0.5, -sum(term.delta for term in terms), -np.sum(noises, axis=0) if noises else None)
    return [*(Term(0.5, term.delta, term.noise) for term in terms), rest]


def _overall(groups: Sequence[tuple[GroupDistance, list[Term]]], every: Sequence[_Compared]) -> Overall:
    compared = [terms for found, terms in groups if found.distance is not None]
    share = 1 / len(compared)
    terms = [Term(share * term.weight, term.delta, term.noise) for each in compared for term in each]
    found = interval_of_sum(terms)
    counted = [each for each in every if each.terms]
    varied = sum(any(term.noise is not None for term in each.terms) for each in counted)
    return Overall(
        distance=found.distance,
        low=found.low,
        high=found.high,
        noise=found.noise,
        compared=len(counted),
        known=len(every),
        groups=len(compared),
        with_interval=varied,
        no_interval=found.missing,
    )


def _is_of_windows(side: WorkloadProfile) -> bool:
    """Return whether all of a side's values are windows of one run."""
    return {each.replicate for each in side.metrics.values() if len(each.values) > 1} == {Replicate.WINDOW}


def _cautions(a: WorkloadProfile, b: WorkloadProfile, overall: Overall) -> list[str]:
    said = list(dict.fromkeys((*a.notes, *b.notes)))
    if a.source == b.source == RUN and a.name == b.name:
        said.append("A and B are the same run")
    single = [(label, side) for label, side in (("A", a), ("B", b)) if _is_of_windows(side)]
    for label, side in single:
        if len(single) == 1 and _are_alike(a, b):
            said.append(f"{label} ({side.name}) is one run: it is taken to vary as the other's repeats do")
        elif side.source != FLEET:
            said.append(
                f"{label} ({side.name}) is one run: intervals hold within it, and not from run to run"
                + (" (--repeat 5 shows that)" if side.source == RUN else "")
            )
    without = overall.compared - overall.with_interval
    if without and overall.low is not None:
        said.append(
            f"the overall interval is of {overall.with_interval} metrics; {without} have one value, which is"
            " taken as it is"
        )
    return said
