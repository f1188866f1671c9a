"""Events and metrics of processors, defined as data: what to count, and what follows from the counts.

In: ``data/events/*.json``. Out: `Definition`, one for each family of processors, with its events
(encodings in the kernel's terms), its metrics (formulas with their sources), and the metrics that it lacks
with the reason.

A file includes others, whose events and metrics it adds to and overrides, so that what processors share is
written once; one that is ``abstract`` is only there to be included. ``data/events/README.md`` describes the
format.

Invariants: a name in a formula is an event, a metric, or ``duration_time``; no metric refers to itself; every
metric has a unit and a source; a metric is either defined or missing with a reason. A file that breaks one is
refused with its name.

Not here: which definition a machine has (``choice``), evaluation (``metrics``), other
projects' files (``checkouts``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from steelyard._base import RecordError, UsageError, data_dir, read_regular
from steelyard.analyze.counters.formulas import Node, names_in, parse_formula
from steelyard.records.text import load_object
from steelyard.telemetry.counters import key_of

KERNEL_TYPES = ("hardware", "hw-cache", "software", "tracepoint")
"""Events that the kernel translates itself, whatever the processor; they know the term ``config`` only."""

DURATION = "duration_time"
"""The length of the counted time in seconds, as in perf's formulas."""


@dataclass(frozen=True)
class Event:
    """One event and how the kernel is asked for it."""

    name: str
    pmu: str
    """A folder of /sys/bus/event_source/devices, the beginning of several alike, or one of `KERNEL_TYPES`."""
    terms: Mapping[str, int]
    modifiers: str = ""
    """``u`` or ``k`` where it counts in one mode only."""
    fixed: bool = False
    """Whether it has a counter of its own."""
    group: str | None = None
    """Events of one group are counted at the same time."""
    scale: float = 1.0
    """What one count stands for, in ``unit``."""
    unit: str = ""
    meaning: str = ""
    aliases: tuple[str, ...] = ()
    """Names of the same event in perf's files."""
    sum_of: tuple[str, ...] = ()
    """Events that count its parts, one for each bit of its mask; their sum stands in for it."""

    @property
    def encoding(self) -> str:
        """The event as perf is given it.

        >>> Event("x", "cpu", {"event": 0xC4, "umask": 0x20}, modifiers="k").encoding
        'cpu/event=0xc4,umask=0x20/k'
        """
        terms = ",".join(f"{term}={value:#x}" for term, value in self.terms.items())
        return f"{self.pmu}/{terms}/{self.modifiers}"


@dataclass(frozen=True)
class Formula:
    """One way to a metric's value."""

    text: str
    source: str
    scopes: tuple[str, ...] | None = None
    """Scopes that it holds for; None for all."""

    @cached_property
    def node(self) -> Node:
        """The parsed formula. Raises UsageError."""
        return parse_formula(self.text)


@dataclass(frozen=True)
class Counterpart:
    """The metric of perf (and of the vendor's own files) that says the same."""

    names: tuple[str, ...]
    """What versions of perf call it; the first that there is counts."""
    factor: float = 1.0
    """Ours over theirs: units differ, such as Hz and GHz."""
    inverse: bool = False
    """Whether theirs is the reciprocal, such as instructions per branch; the factor is then of that."""
    differs: str | None = None
    """Why ours differs on purpose; None where both must agree."""


@dataclass(frozen=True)
class Metric:
    """A figure that follows from counts."""

    name: str
    formulas: tuple[Formula, ...]
    """In the order of preference."""
    unit: str
    meaning: str = ""
    counterpart: Counterpart | None = None
    scale: float = 1.0
    """Times which a formula's value is in ``unit``; metrics that name this one get it without."""


@dataclass(frozen=True)
class Match:
    """Processors that a definition is for: x86 by vendor, family and models, Arm by implementer and parts."""

    vendor: str = ""
    family: int = 0
    models: tuple[range, ...] = ()
    implementer: int | None = None
    parts: tuple[int, ...] = ()
    pattern: str = ""
    """Instead of numbers: a regular expression of identifiers, as in perf's mapfile.csv."""


@dataclass(frozen=True)
class Definition:
    """The events and metrics of a family of processors."""

    id: str
    name: str
    matches: tuple[Match, ...] = ()
    topdown: str | None = None
    """Id of the top-down model (`topdown_models.MODELS`)."""
    slots: int | None = None
    """Issue slots a clock, where formulas need them (``#slots``)."""
    sources: tuple[str, ...] = ()
    """Public documents that the encodings and formulas are from."""
    checked: str = ""
    """Against what the encodings were checked."""
    events: Mapping[str, Event] = field(default_factory=dict)
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    """Metrics that it does not have -> why."""

    @cached_property
    def _by_key(self) -> dict[str, Event]:
        aliases = {key_of(alias): event for event in self.events.values() for alias in event.aliases}
        return aliases | {key_of(name): event for name, event in self.events.items()}

    def event(self, name: str) -> Event | None:
        """Return an event by its name or an alias, whatever the case."""
        return self._by_key.get(key_of(name))

    def events_of(self, metric: str) -> tuple[str, ...]:
        """Return the names of all events that a metric's formulas may need, in the order of the text."""
        return tuple(dict.fromkeys(self._events_of(metric, ())))

    def _events_of(self, metric: str, above: tuple[str, ...]) -> list[str]:
        names = []
        for formula in self.metrics[metric].formulas:
            names.extend(self.events_of_formula(formula, (*above, metric)))
        return names

    def events_of_formula(self, formula: Formula, above: tuple[str, ...] = ()) -> list[str]:
        """Return the names of the events that one formula may need, those of metrics in it included.

        Raises UsageError where a metric refers to itself.
        """
        names = []
        for name in names_in(formula.node):
            if name in above:
                raise UsageError(f"the metric {name} refers to itself")
            if name in self.metrics:
                names.extend(self._events_of(name, above))
            elif name != DURATION:
                event = self.event(name)
                names.append(event.name if event is not None else name)
        return names


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class _EventText(_Strict):
    encoding: str
    fixed: bool = False
    group: str | None = None
    scale: float = Field(default=1.0, gt=0)
    unit: str = ""
    means: str = ""
    aliases: list[str] = []
    sum_of: list[str] = []


class _FormulaText(_Strict):
    formula: str
    source: str
    scopes: list[str] | None = None


class _CounterpartText(_Strict):
    names: list[str]
    factor: float = 1.0
    inverse: bool = False
    differs: str | None = None


class _MetricText(_Strict):
    formulas: list[_FormulaText] = Field(min_length=1)
    unit: str
    means: str
    perf: _CounterpartText | None = None


class _MatchText(_Strict):
    vendor: str = ""
    family: str = "0"
    models: list[str] = []
    implementer: str | None = None
    parts: list[str] = []


class _DefinitionText(_Strict):
    id: str
    name: str
    abstract: bool = False
    includes: list[str] = []
    match: list[_MatchText] = []
    topdown: str | None = None
    slots: int | None = None
    sources: list[str] = []
    checked: str = ""
    events: dict[str, _EventText] = {}
    metrics: dict[str, _MetricText] = {}
    missing: dict[str, str] = {}


_ENCODING = re.compile(r"([\w-]+)/((?:[\w-]+(?:=\w+)?)(?:,[\w-]+(?:=\w+)?)*)?/([uk]?)")


def parse_encoding(text: str) -> tuple[str, dict[str, int], str]:
    """Return the PMU, the terms and the modifiers of an event as perf is given it.

    >>> parse_encoding("cpu/event=0xc4,umask=0x20,edge/k")
    ('cpu', {'event': 196, 'umask': 32, 'edge': 1}, 'k')

    Raises UsageError for text that is no encoding.
    """
    match = _ENCODING.fullmatch(text)
    if match is None:
        raise UsageError(
            f"{text[:60]!r} is no encoding of an event", hint="write it as cpu/event=0xc0,umask=0x1/"
        )
    terms = {}
    for part in filter(None, (match[2] or "").split(",")):
        term, given, value = part.partition("=")
        try:
            number = int(value, 0) if given else 1
        except ValueError as error:
            raise UsageError(f"{text[:60]!r}: {part!r} has no number") from error
        if not 0 <= number < 2**64:
            raise UsageError(f"{text[:60]!r}: {part!r} does not fit 64 bits")
        terms[term] = number
    return match[1], terms, match[3]


def _event(name: str, text: _EventText) -> Event:
    pmu, terms, modifiers = parse_encoding(text.encoding)
    return Event(
        name,
        pmu,
        terms,
        modifiers,
        text.fixed,
        text.group,
        text.scale,
        text.unit,
        text.means,
        tuple(text.aliases),
        tuple(text.sum_of),
    )


def _metric(name: str, text: _MetricText) -> Metric:
    formulas = tuple(
        Formula(each.formula, each.source, None if each.scopes is None else tuple(each.scopes))
        for each in text.formulas
    )
    counterpart = None
    if text.perf is not None:
        counterpart = Counterpart(
            tuple(text.perf.names), text.perf.factor, text.perf.inverse, text.perf.differs
        )
    return Metric(name, formulas, text.unit, text.means, counterpart)


def _match(text: _MatchText) -> Match:
    models = []
    for each in text.models:
        first, _, last = each.partition("-")
        models.append(range(int(first, 16), int(last or first, 16) + 1))
    implementer = None if text.implementer is None else int(text.implementer, 16)
    return Match(
        text.vendor,
        int(text.family, 16),
        tuple(models),
        implementer,
        tuple(int(part, 16) for part in text.parts),
    )


def read_definitions(folder: Path) -> dict[str, Definition]:
    """Return every definition of a folder by its id.

    Raises RecordError, with the file's name, for one that does not hold together.
    """
    texts: dict[str, _DefinitionText] = {}
    for path in sorted(folder.glob("*.json")):
        text = _read(path)
        if text.id != path.stem:
            raise RecordError(f"{path}: it defines {text.id!r}, not what its name says")
        texts[text.id] = text
    by_id = {}
    for name, text in texts.items():
        if text.abstract:
            continue
        try:
            by_id[name] = check_definition(_merged(text, texts, ()))
        except (UsageError, ValueError) as error:
            raise RecordError(f"{folder / name}.json: {error}") from error
    return by_id


def _read(path: Path) -> _DefinitionText:
    try:
        return _DefinitionText.model_validate(load_object(read_regular(path), where=str(path)))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise RecordError(f"{path}: {place}: {first['msg']}") from error
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path}: not JSON: {error}") from error


def _merged(
    text: _DefinitionText, texts: Mapping[str, _DefinitionText], above: tuple[str, ...]
) -> Definition:
    events: dict[str, Event] = {}
    metrics: dict[str, Metric] = {}
    missing: dict[str, str] = {}
    sources: list[str] = []
    for name in text.includes:
        if name in (*above, text.id) or name not in texts:
            raise UsageError(f"it includes {name!r}, which is not there or includes it")
        part = _merged(texts[name], texts, (*above, text.id))
        events |= part.events
        metrics |= part.metrics
        missing |= part.missing
        sources.extend(part.sources)
    events |= {name: _event(name, each) for name, each in text.events.items()}
    metrics |= {name: _metric(name, each) for name, each in text.metrics.items()}
    missing |= text.missing
    return Definition(
        text.id,
        text.name,
        tuple(_match(each) for each in text.match),
        text.topdown,
        text.slots,
        tuple(dict.fromkeys([*sources, *text.sources])),
        text.checked,
        events,
        {name: metric for name, metric in metrics.items() if name not in text.missing},
        {name: reason for name, reason in missing.items() if name in text.missing or name not in metrics},
    )


def check_definition(definition: Definition) -> Definition:
    """Return a definition whose formulas read, and name only what it defines. Raises UsageError."""
    for metric in definition.metrics.values():
        for formula in metric.formulas:
            try:
                names = definition.events_of_formula(formula, (metric.name,))
            except UsageError as error:
                raise UsageError(f"metric {metric.name}: {error}") from error
            for name in names:
                if definition.event(name) is None:
                    raise UsageError(f"metric {metric.name}: {name!r} is neither an event nor a metric")
    return definition


@cache
def definitions() -> Mapping[str, Definition]:
    """Return the definitions that Steelyard ships, by id."""
    return read_definitions(data_dir() / "events")


def as_json(definition: Definition, *, only: Sequence[str] | None = None) -> dict[str, Any]:
    """Return a definition for ``--json``: its events and metrics (``only`` those named) in plain values."""
    metrics = {name: each for name, each in definition.metrics.items() if only is None or name in only}
    return {
        "id": definition.id,
        "name": definition.name,
        "sources": list(definition.sources),
        "checked": definition.checked,
        "topdown": definition.topdown,
        "events": {name: event.encoding for name, event in definition.events.items()},
        "metrics": {
            name: {
                "formulas": [each.text for each in metric.formulas],
                "unit": metric.unit,
                "meaning": metric.meaning,
                "source": metric.formulas[0].source,
            }
            for name, metric in metrics.items()
        },
        "missing": dict(definition.missing),
    }
