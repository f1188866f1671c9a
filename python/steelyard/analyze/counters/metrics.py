"""Metrics from counts: what the formulas of a definition give for what events gained.

In: a `Definition`, gains of one entity (`telemetry.counters.Gains`, of the recording or of a ``perf stat``
file), and what formulas ask of the machine (`MachineFacts`). Out: `MetricValue`, a value or the reason why
it is withheld, for every metric; and the top-down tree.

Counts go by any name that an event has: its own, an alias, with or without the PMU around it
(``cpu/instructions/``). Units of perf (Joules, MiB, msec) become the definition's.

Invariants: a metric is withheld when an event that it needs is missing or was counted in too little of the
time, when it would divide by 0, and in a scope that its formula does not hold for; each says which. Of
several formulas the first that gives a value is taken.

Not here: which events to count (``choice``), scaling and coverage (``telemetry.counters``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from steelyard._base import UsageError
from steelyard.analyze.counters.choice import SCOPES, MachineFacts, model_of, scopes_of
from steelyard.analyze.counters.definitions import DURATION, Definition, Formula, Metric
from steelyard.analyze.counters.formulas import WithheldError, evaluate
from steelyard.analyze.counters.topdown import TopDown, events_of, top_down
from steelyard.telemetry.counters import Gain, Gains, key_of

_UNITS: Mapping[str, tuple[str, float]] = {
    "joules": ("joule", 1.0),
    "mib": ("bytes", float(2**20)),
    "bytes": ("bytes", 1.0),
    "msec": ("s", 1e-3),
    "ns": ("s", 1e-9),
    "s": ("s", 1.0),
    "j": ("joule", 1.0),
}
"""perf's units -> the definition's, and how many of these one is."""

_CORE_PMU = re.compile(r"(?:cpu|cpu_core|armv8_[a-z0-9_]+)/(?P<event>[^/]+)/(?P<modifiers>[a-z]*)")


@dataclass(frozen=True)
class MetricValue:
    """A metric of one entity over one time."""

    name: str
    value: float | None
    unit: str
    missing: str | None = None
    coverage_ratio: float | None = None
    """The least part of the time that one of its events was counted in; None where all were all the time."""
    formula: str | None = None
    source: str | None = None
    meaning: str = ""


def metrics_of(
    definition: Definition,
    gains: Gains,
    facts: MachineFacts | None = None,
    *,
    only: Collection[str] | None = None,
) -> dict[str, MetricValue]:
    """Return every metric of a definition (``only`` those named) from what its events gained."""
    facts = facts or MachineFacts(scope=gains.scope if gains.scope in SCOPES else "system")
    evaluation = _Evaluation(definition, gains, facts)
    names = [*definition.metrics, *definition.missing]
    return {name: evaluation.metric(name) for name in names if only is None or name in only}


def top_down_of(definition: Definition, gains: Gains, facts: MachineFacts | None = None) -> TopDown | str:
    """Return the top-down tree of what events gained, or why the processor has none."""
    facts = facts or MachineFacts(scope=gains.scope if gains.scope in SCOPES else "system")
    model = model_of(definition, facts)
    if isinstance(model, str):
        return model
    counts = _CountsByEvent(definition, gains)
    by_event = {name: counts.of(name) for name in events_of(model)}
    return top_down(
        model,
        {name: gain.value for name, gain in by_event.items()},
        missing={name: gain.missing for name, gain in by_event.items() if gain.missing},
    )


class _CountsByEvent:
    """Gains by whatever name they were counted under, in the definition's units."""

    def __init__(self, definition: Definition, gains: Gains) -> None:
        self.definition = definition
        self.gains = gains
        self._by_plain_name: dict[str, Gain] = {}
        for name, gain in gains.events.items():
            self._by_plain_name.setdefault(_plain(name), gain)
        self._missing = {_plain(name): reason for name, reason in gains.missing.items()}

    def of(self, name: str) -> Gain:
        """Return what an event gained, a missing gain with its reason."""
        event = self.definition.event(name)
        names = [name] if event is None else [event.name, *event.aliases]
        for each in names:
            gain = self._by_plain_name.get(_plain(each))
            if gain is not None:
                return gain if event is None else _in_units(gain, event.scale, event.unit)
        if event is not None and event.sum_of:
            parts = [self.of(part) for part in event.sum_of]
            values = [part.value for part in parts if part.value is not None]
            if len(values) == len(parts):
                covered = [part.coverage_ratio for part in parts if part.coverage_ratio is not None]
                return Gain(sum(values) * event.scale, min(covered, default=None), unit=event.unit)
        for each in names:
            if _plain(each) in self._missing:
                return Gain(None, missing=self._missing[_plain(each)])
        return Gain(None, missing="it was not among the events that were counted")


def _plain(name: str) -> str:
    """Return a name without the processor's PMU around it.

    >>> _plain("cpu/INST_RETIRED.ANY/k"), _plain("msr/tsc/")
    ('inst_retired.any:k', 'msr/tsc/')
    """
    key = key_of(name)
    match = _CORE_PMU.fullmatch(key)
    if match is None or "," in match["event"]:
        return key
    return match["event"] + (f":{match['modifiers']}" if match["modifiers"] else "")


def _in_units(gain: Gain, scale: float, unit: str) -> Gain:
    """Return a gain in the definition's unit: plain counts by its scale, perf's units by theirs."""
    if gain.value is None:
        return gain
    if not gain.unit:
        return Gain(gain.value * scale, gain.coverage_ratio, unit=unit)
    known, factor = _UNITS.get(gain.unit.casefold(), ("", 1.0))
    if known != unit:
        reason = f"it is reported in {gain.unit}, not in {unit or 'plain counts'}"
        return Gain(None, gain.coverage_ratio, reason, gain.unit)
    return Gain(gain.value * factor, gain.coverage_ratio, unit=unit)


class _Evaluation:
    """Metrics of one entity; each is worked out once."""

    def __init__(self, definition: Definition, gains: Gains, facts: MachineFacts) -> None:
        self.definition = definition
        self.facts = facts
        self.counts = _CountsByEvent(definition, gains)
        self.duration_s = gains.duration_s
        self._known: dict[str, MetricValue] = {}
        self._raw: dict[str, float] = {}
        self._open: list[str] = []

    def metric(self, name: str) -> MetricValue:
        """Return a metric's value."""
        if name not in self._known:
            metric = self.definition.metrics.get(name)
            if metric is None:
                reason = self.definition.missing.get(name, "it is not defined for this processor")
                self._known[name] = MetricValue(name, None, "", reason)
            else:
                self._known[name] = self._evaluate(metric)
        return self._known[name]

    def _evaluate(self, metric: Metric) -> MetricValue:
        reasons = []
        self._open.append(metric.name)
        for formula in metric.formulas:
            values = _FormulaValues(self)
            try:
                value = self._value(metric, formula, values)
            except WithheldError as withheld:
                reasons.append(withheld.reason)
                continue
            self._open.pop()
            self._raw[metric.name] = value
            return MetricValue(
                metric.name,
                value * metric.scale,
                metric.unit,
                None,
                min(values.coverage, default=None),
                formula.text,
                formula.source,
                metric.meaning,
            )
        self._open.pop()
        reason = "; ".join(dict.fromkeys(reasons))
        return MetricValue(metric.name, None, metric.unit, reason, meaning=metric.meaning)

    def _value(self, metric: Metric, formula: Formula, values: _FormulaValues) -> float:
        scopes = scopes_of(self.definition, metric, formula)
        if self.facts.scope not in scopes:
            raise WithheldError(f"it holds for {' and '.join(scopes)} only")
        try:
            value = evaluate(formula.node, values)
            if not math.isfinite(value * metric.scale):
                raise WithheldError("it comes out larger than any number")
            return value
        except UsageError as error:
            raise WithheldError(str(error)) from error

    def inner(self, name: str) -> tuple[float, float | None]:
        """Return what another metric's formula gets for this one: its value unscaled, and its coverage."""
        if name in self._open:
            raise WithheldError(f"the metric {name} refers to itself")
        value = self.metric(name)
        if value.value is None:
            raise WithheldError(value.missing or f"{name} is not known")
        return self._raw[name], value.coverage_ratio


class _FormulaValues:
    """What one formula asks for; notes the coverage of what it got."""

    def __init__(self, evaluation: _Evaluation) -> None:
        self._evaluation = evaluation
        self.coverage: list[float] = []

    def name(self, name: str) -> float:
        """Return the count of an event, the value of a metric, or the duration."""
        if name.casefold() == DURATION:
            if not self._evaluation.duration_s:
                raise WithheldError("how long the counts are of is not known")
            return self._evaluation.duration_s
        if name in self._evaluation.definition.metrics:
            value, coverage = self._evaluation.inner(name)
            self._note(coverage)
            return value
        gain = self._evaluation.counts.of(name)
        if gain.value is None:
            raise WithheldError(f"{name}: {gain.missing}")
        self._note(gain.coverage_ratio)
        return gain.value

    def _note(self, coverage: float | None) -> None:
        if coverage is not None:
            self.coverage.append(coverage)

    def literal(self, name: str) -> float:
        """Return what formulas ask of the machine."""
        value = self._evaluation.facts.literal(name)
        if value is None:
            raise WithheldError(f"#{name.casefold()} of the machine is not known")
        return value

    def has_event(self, name: str) -> bool:
        """Return whether an event was counted."""
        return self._evaluation.counts.of(name).value is not None

    def source_count(self, name: str) -> float:
        """Raise: how many instances a sum is of is not kept."""
        raise WithheldError(f"how many instances of {name} were counted is not kept")

    def is_cpu(self, identifier: str) -> bool:
        """Return whether the processor is the one named."""
        own = self._evaluation.facts.identifier
        if own is None:
            raise WithheldError("which processor it is is not known")
        return own.casefold() == identifier.casefold() or _same_register(own, identifier)


def _same_register(first: str, second: str) -> bool:
    try:
        return int(first, 16) == int(second, 16)
    except ValueError:
        return False
