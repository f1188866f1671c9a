"""What one workload did, metric by metric: values, those of each window or repeat, and why others lack.

In: whatever a reader has (``of_run``, ``of_perf_stat``, ``of_file``). Out: `WorkloadProfile`.

Invariants: a value is finite and possible for its kind (`impossible`); one that is not known is None with the
reason, never 0; all values of a metric are in its unit.

Not here: which metrics there are (``catalogue``), comparing (``comparison``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from steelyard._base import UsageError
from steelyard.decide.fidelity.catalogue import REST, Kind, Metric, metric_of

_SUM_TOLERANCE = 0.02
"""How far the parts of a mix may sum up beyond 1: rounded percentages do."""
FEWEST_REPEATS = 3


class Replicate(StrEnum):
    """What the values behind one value are."""

    WINDOW = "window"
    """Pieces of time of one run: they resemble the ones before them, and say nothing of another run."""
    REPEAT = "repeat"
    """Runs, or machines: independent."""


@dataclass(frozen=True)
class Measurement:
    """One metric of one workload."""

    metric: Metric
    value: float | None
    values: tuple[float, ...] = ()
    """Of each window or repeat, in order; empty where there is only the one value."""
    replicate: Replicate = Replicate.WINDOW
    missing: str | None = None
    """Why there is no value."""


@dataclass(frozen=True)
class Mix:
    """Shares by name: of functions, of categories of the datacenter tax."""

    metric: Metric
    parts: Mapping[str, float]
    windows: tuple[Mapping[str, float], ...] = ()
    """The same by window or repeat."""
    replicate: Replicate = Replicate.WINDOW
    samples: int | None = None
    """Samples that they were counted from, None where not known."""
    missing: str | None = None


@dataclass(frozen=True)
class WorkloadProfile:
    """One workload."""

    name: str
    source: str
    """Where it is from: ``run``, ``perf stat``, ``file``, ``fleet``."""
    metrics: Mapping[str, Measurement] = field(default_factory=dict)
    mixes: Mapping[str, Mix] = field(default_factory=dict)
    benchmark: str | None = None
    """Benchmark that it is a run of."""
    notes: tuple[str, ...] = ()
    """What a reader must know of it."""
    lacks: str = "not measured"
    """Why metrics that it does not name have no value."""

    @property
    def known(self) -> int:
        """Return how many metrics have a value."""
        return sum(each.value is not None for each in self.metrics.values()) + sum(
            bool(mix.parts) for mix in self.mixes.values()
        )

    def why_missing(self, name: str) -> str | None:
        """Return why a metric has no value, None where it has one."""
        mix, measured = self.mixes.get(name), self.metrics.get(name)
        if mix is not None:
            return None if mix.parts else (mix.missing or self.lacks)
        if measured is None:
            return self.lacks
        return None if measured.value is not None else (measured.missing or self.lacks)


def impossible(metric: Metric, value: float) -> str | None:
    """Return why a value cannot be one of a metric, None where it can."""
    if not math.isfinite(value):
        return f"{value} is no number"
    if value < 0:
        return f"{value:g} is negative"
    if metric.kind is not Kind.MAGNITUDE and value > 1 + 1e-9:
        return f"{value:g} is more than the whole (shares are 0 to 1)"
    return None


def measurement(
    name: str,
    value: float | None,
    *,
    unit: str | None = None,
    values: Sequence[float | None] = (),
    replicate: Replicate = Replicate.WINDOW,
    missing: str | None = None,
) -> Measurement:
    """Return a measurement; a value that is impossible is missing, and says so.

    Values of windows that lack are left out.
    """
    metric = metric_of(name, unit)
    if unit is not None and unit != metric.unit:
        return Measurement(metric, None, missing=f"its unit is {unit}, not {metric.unit}")
    if value is None:
        return Measurement(metric, None, missing=missing or "not measured")
    known = [value, *(each for each in values if each is not None)]
    wrong = next((why for each in known if (why := impossible(metric, each))), None)
    if wrong is not None:
        return Measurement(metric, None, missing=wrong)
    return Measurement(metric, float(value), tuple(float(each) for each in known[1:]), replicate)


def mix(
    name: str,
    parts: Mapping[str, float],
    *,
    windows: Sequence[Mapping[str, float]] = (),
    samples: int | None = None,
    missing: str | None = None,
) -> Mix:
    """Return a mix; what its parts leave of the whole is the part `REST`."""
    metric = metric_of(name)
    if not parts:
        return Mix(metric, {}, missing=missing or "not measured")
    wrong = next(
        (f"{part}: {why}" for part, each in parts.items() if (why := impossible(metric, each))), None
    )
    total = math.fsum(parts.values())
    if wrong is None and total > 1 + _SUM_TOLERANCE:
        wrong = f"its parts sum up to {total:g}, more than the whole"
    if wrong is not None:
        return Mix(metric, {}, missing=wrong)
    return Mix(metric, _whole(parts), tuple(map(_whole, windows)), Replicate.WINDOW, samples)


def _whole(parts: Mapping[str, float]) -> dict[str, float]:
    total = math.fsum(parts.values())
    if total > 1:
        return {name: share / total for name, share in parts.items()}
    rest = 1 - total + parts.get(REST, 0.0)
    named = {name: share for name, share in parts.items() if name != REST}
    return {**named, REST: rest} if rest > 0 else named


def repeated(profiles: Sequence[WorkloadProfile]) -> WorkloadProfile:
    """Return one profile of several runs of the same workload: means, with each run a value.

    Fewer than three runs have no spread of their own: the first is taken, with its windows.
    """
    if not profiles:
        raise UsageError("no run to profile")
    if len(profiles) < FEWEST_REPEATS:
        return profiles[0]
    first = profiles[0]
    metrics = {}
    for name, measured in first.metrics.items():
        values = [one.metrics[name].value for one in profiles if name in one.metrics]
        known = [value for value in values if value is not None]
        if len(known) < len(profiles):
            lacking = measured.missing or f"only {len(known)} of {len(profiles)} runs have it"
            metrics[name] = Measurement(measured.metric, None, missing=lacking)
        else:
            mean = math.fsum(known) / len(known)
            metrics[name] = Measurement(measured.metric, mean, tuple(known), Replicate.REPEAT)
    mixes = {name: _repeated_mix(name, each, profiles) for name, each in first.mixes.items()}
    note = f"{first.name}: means of {len(profiles)} runs"
    return replace(first, metrics=metrics, mixes=mixes, notes=(*first.notes, note))


def _repeated_mix(name: str, first: Mix, profiles: Sequence[WorkloadProfile]) -> Mix:
    found = [one.mixes[name].parts for one in profiles if name in one.mixes and one.mixes[name].parts]
    if len(found) < len(profiles):
        return replace(first, parts={}, missing=first.missing or "not every run has it")
    names = dict.fromkeys(part for parts in found for part in parts)
    mean = {part: math.fsum(parts.get(part, 0.0) for parts in found) / len(found) for part in names}
    counts = [one.mixes[name].samples for one in profiles]
    samples = sum(count for count in counts if count) if all(counts) else None
    return Mix(first.metric, mean, tuple(found), Replicate.REPEAT, samples)
