"""Where a processor's issue slots go: the top-down tree of levels 1 and 2, its checks, and what to sample
next.

In: counts by event, the model of the processor (`topdown_models`), why events are missing. Out: `TopDown`,
a tree of shares of slots. A node whose events lack is withheld with the reason, and bounded by what its
siblings leave; so a partial tree stays true.

The method is Yasin's ("A Top-Down Method for Performance Analysis and Counters Architecture", ISPASS 2014).
AMD calls it pipeline utilisation, Arm's telemetry solution its first stage; each vendor's formulas are its
own, cited in `topdown_models`.

Invariants: the children of a node sum to it where all are known; a share that comes out below 0 or above 1
by more than counters disagree (`TOLERANCE_RATIO`) is withheld, as is all below it; one that is off by less
is cut.

Not here: counting (``steelyard-probe``), names of a processor's model (``machine``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from steelyard.analyze import checks
from steelyard.analyze.checks import CONSTANTS
from steelyard.records import Check

TOLERANCE_RATIO = CONSTANTS.top_down_tolerance_ratio
"""How far shares may stray from what must hold: counters of one group are read a little apart."""


class LacksError(Exception):
    """An event or a node that a formula needs is missing. It never leaves this module."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Counts:
    """Counts by event, whatever the case of the name, and the nodes known so far."""

    def __init__(self, counts: Mapping[str, float | None], missing: Mapping[str, str]) -> None:
        self._counts = {_key(name): value for name, value in counts.items()}
        self._missing = {_key(name): reason for name, reason in missing.items()}
        self._nodes: dict[str, float | None] = {}

    def __call__(self, event: str) -> float:
        """Return the count of an event. Raises LacksError where it is not known."""
        value = self._counts.get(_key(event))
        if value is None:
            reason = self._missing.get(_key(event))
            raise LacksError(f"{event} was not counted" + (f": {reason}" if reason else ""))
        if not (math.isfinite(value) and value >= 0):
            raise LacksError(f"{event} reads {value}, which is no count")
        return value

    def over(self, part: float, whole: float, name: str) -> float:
        """Return a quotient. Raises LacksError where ``name``, the whole, is 0."""
        if whole <= 0:
            raise LacksError(f"{name} is 0")
        return part / whole

    def node(self, name: str) -> float:
        """Return a node's share. Raises LacksError where it is withheld."""
        value = self._nodes.get(name)
        if value is None:
            raise LacksError(f"{name} is not known")
        return value

    def keep(self, name: str, value: float | None) -> None:
        """Keep a node's share for the formulas after it."""
        self._nodes[name] = value


def _key(event: str) -> str:
    return event.casefold().replace("\\", "")


Formula = Callable[[Counts], float]


@dataclass(frozen=True)
class Definition:
    """A node: its formula over counts, and the events that detail it."""

    name: str
    parent: str | None
    formula: Formula
    meaning: str
    next_events: tuple[str, ...] = ()
    """Events to sample, by which code it is found."""
    notable_ratio: float = 0.2
    """From this share on it is worth a look (Intel's TMA metrics, "Threshold"; the same for others)."""


@dataclass(frozen=True)
class Model:
    """How one family of processors tells where its slots go."""

    id: str
    name: str
    source: str
    """Public documents of the formulas."""
    slots: Formula
    nodes: tuple[Definition, ...]
    """Parents before their children, and what a formula uses before it."""
    rest_of_level_1: str | None = None
    """The node of level 1 that is defined as what the others leave, so that the sum checks nothing."""


@dataclass(frozen=True)
class Node:
    """A share of all slots."""

    name: str
    meaning: str
    ratio: float | None
    low: float
    """It has at least this share, whatever is missing."""
    high: float
    missing: str | None
    notable: bool
    next_events: tuple[str, ...]
    children: tuple[Node, ...] = ()


@dataclass(frozen=True)
class TopDown:
    """A tree with its checks."""

    model: str
    source: str
    slots: float | None
    level_1: tuple[Node, ...]
    checks: tuple[Check, ...] = field(default=())

    def node(self, name: str) -> Node:
        """Return a node of either level. Raises KeyError."""
        for top in self.level_1:
            for each in (top, *top.children):
                if each.name == name:
                    return each
        raise KeyError(name)

    @property
    def path(self) -> tuple[Node, ...]:
        """The largest node of level 1 that loses slots (retiring if none is notable), and its largest
        child."""
        known = [node for node in self.level_1 if node.ratio is not None]
        lost = [node for node in known if node.name != "retiring" and node.notable]
        top = max(lost or known, key=lambda node: node.ratio or 0.0, default=None)
        if top is None:
            return ()
        below = max(
            (child for child in top.children if child.ratio is not None),
            key=lambda child: child.ratio or 0.0,
            default=None,
        )
        return (top,) if below is None else (top, below)

    @property
    def next_step(self) -> str:
        """What to count or to sample next, in a sentence."""
        path = self.path
        if not path:
            reason = next((node.missing for node in self.level_1 if node.missing), "nothing was counted")
            return f"count the events of level 1 ({self.model}): {reason}"
        last = path[-1]
        text = f"{last.name} has {(last.ratio or 0.0) * 100:.0f} % of the slots: {last.meaning}"
        withheld = [child for child in path[0].children if child.ratio is None]
        if len(path) == 1 and withheld:
            return f"{text}; count the events of its parts: {withheld[0].missing}"
        events = last.next_events or path[0].next_events
        return f"{text}; sample {', '.join(events)}" if events else text


def top_down(
    model: Model, counts: Mapping[str, float | None], *, missing: Mapping[str, str] | None = None
) -> TopDown:
    """Return the tree of ``counts``, all from the same time and scope; ``missing`` says why events lack."""
    known = Counts(counts, missing or {})
    ratios: dict[str, float | None] = {}
    reasons: dict[str, str] = {}
    for definition in model.nodes:
        value: float | None = None
        try:
            if definition.parent is not None:
                known.node(definition.parent)
            value = _share(definition.name, definition.formula(known))
        except LacksError as lack:
            reasons[definition.name] = lack.reason
        ratios[definition.name] = value
        known.keep(definition.name, value)
    try:
        slots: float | None = model.slots(known)
    except LacksError:
        slots = None
    roots = [each for each in model.nodes if each.parent is None]
    level_1 = _nodes(model, roots, ratios, reasons, 1.0, 1.0)
    return TopDown(model.name, model.source, slots, level_1, tuple(_checks(model, ratios)))


class _EventCollector(Counts):
    """Counts that are all 1, and remember which were asked for."""

    def __init__(self) -> None:
        super().__init__({}, {})
        self.events: dict[str, None] = {}

    def __call__(self, event: str) -> float:
        self.events[event] = None
        return 1.0

    def over(self, part: float, whole: float, name: str) -> float:
        return part / whole if whole else 0.0


def events_of(model: Model) -> tuple[str, ...]:
    """Return the events that a model's formulas need, in the order in which they ask for them."""
    collector = _EventCollector()
    model.slots(collector)
    for definition in model.nodes:
        definition.formula(collector)
        collector.keep(definition.name, 0.25)
    return tuple(collector.events)


def _share(name: str, value: float) -> float:
    """Return a share within 0..1; a stray a little outside is cut. Raises LacksError for one far outside."""
    if not -TOLERANCE_RATIO <= value <= 1 + TOLERANCE_RATIO:
        raise LacksError(f"{name} comes out as {value:.2f}: its events were not counted over the same time")
    return min(1.0, max(0.0, value))


def _nodes(
    model: Model,
    definitions: Sequence[Definition],
    ratios: Mapping[str, float | None],
    reasons: Mapping[str, str],
    whole_low: float,
    whole_high: float,
) -> tuple[Node, ...]:
    """Return siblings, which share a whole that is between two bounds."""
    known = math.fsum(ratio for each in definitions if (ratio := ratios[each.name]) is not None)
    lacking = sum(ratios[each.name] is None for each in definitions)
    rest_high = max(0.0, whole_high - known)
    # One that is missing alone has all that the others leave.
    rest_low = max(0.0, whole_low - known) if lacking == 1 and whole_low == whole_high else 0.0
    nodes = []
    for each in definitions:
        ratio = ratios[each.name]
        low, high = (rest_low, rest_high) if ratio is None else (ratio, ratio)
        children = [child for child in model.nodes if child.parent == each.name]
        nodes.append(
            Node(
                each.name,
                each.meaning,
                ratio,
                low,
                high,
                reasons.get(each.name),
                ratio is not None and ratio >= each.notable_ratio,
                each.next_events,
                _nodes(model, children, ratios, reasons, low, high) if children else (),
            )
        )
    return tuple(nodes)


def _checks(model: Model, ratios: Mapping[str, float | None]) -> list[Check]:
    """Return whether siblings sum to their parent, for every parent with all children known."""
    parents: dict[str | None, list[str]] = {}
    for each in model.nodes:
        parents.setdefault(each.parent, []).append(each.name)
    found = []
    for parent, children in parents.items():
        values = [ratios[name] for name in children]
        whole = 1.0 if parent is None else ratios[parent]
        if whole is None or any(value is None for value in values):
            continue
        total = math.fsum(value for value in values if value is not None)
        off = abs(total - whole)
        level = "level 1" if parent is None else parent
        claim = f"the parts of {level} sum to {total:.3f} of {whole:.3f}"
        if parent is None and model.rest_of_level_1:
            claim += f" ({model.rest_of_level_1} is defined as the rest)"
        found.append(checks.measured(f"top-down-{level.replace(' ', '-').replace('_', '-')}", off, claim))
    return found
