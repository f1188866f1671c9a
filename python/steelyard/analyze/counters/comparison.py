"""What counters say of the difference of two runs: each term of the iron law with its share, and where slots
and events went.

In: what was concluded of each run (`CounterUse`). Out: `CounterComparison`.

Runs of different SMT modes are never compared by thread: by physical core where clocks of cores are known
well enough, else not at all, with the reason. Events are held against each other per thousand instructions,
so that a run that did more is not called worse, and per second where instructions are not known.

Not here: profiles, results and machines (``comparison``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from dataclasses import dataclass, field

from steelyard._base import UsageError
from steelyard._base.documents import printed
from steelyard.analyze.counters.events import CLOCKS, CYCLES, INSTRUCTIONS
from steelyard.analyze.counters.iron_law import LawDifference, difference, work_per_cpu_second, work_per_joule
from steelyard.analyze.counters.smt import SystemUse, system_differences
from steelyard.analyze.counters.use import CounterUse
from steelyard.analyze.values import Quantity

SAME_RATIO = 0.01
SAME_SHARE = 0.005
"""Shares of slots nearer than half a point are alike."""


@dataclass(frozen=True)
class SlotDifference:
    """A node of the top-down tree in both runs."""

    name: str
    """The node."""
    level: int
    """Its level in the tree, from 1."""
    a_ratio: float
    """Share in A."""
    b_ratio: float
    """Share in B."""

    @property
    @printed
    def difference_ratio(self) -> float:
        """B less A, in shares of all slots."""
        return self.b_ratio - self.a_ratio


@dataclass(frozen=True)
class EventDifference:
    """An event of both runs, per ``unit``."""

    name: str
    """The event."""
    a: float
    """In A."""
    b: float
    """In B."""
    unit: str
    """What they are counted per."""
    ratio: float | None
    """B over A."""


@dataclass(frozen=True)
class MetricDifference:
    """A metric of both runs, by the same formula or by each processor's own."""

    name: str
    """The metric."""
    a: float
    """In A."""
    b: float
    """In B."""
    unit: str
    """Unit of both."""
    ratio: float | None
    """B over A."""
    same_formula: bool
    """Whether both are by one formula."""


@dataclass(frozen=True)
class CounterComparison:
    """Everything that differs; a part that cannot be compared says why."""

    iron_law: LawDifference | None = None
    """The iron law, None with a reason."""
    iron_law_missing: str | None = None
    """Why it is not compared."""
    is_per_core: bool = False
    """Whether its clocks and IPC are those of physical cores."""
    is_of_cpus: bool = False
    """Whether the CPU time of either is that of whole CPUs, whoever ran on them."""
    slots: tuple[SlotDifference, ...] = ()
    """Top-down nodes that differ."""
    slots_missing: str | None = None
    """Why they are not compared."""
    metrics: tuple[MetricDifference, ...] = ()
    """Metrics that differ."""
    events: tuple[EventDifference, ...] = ()
    """Events that differ."""
    work_per_cpu_second: tuple[Quantity, Quantity] | None = None
    """Of A and of B."""
    work_per_joule: tuple[Quantity, Quantity] | None = None
    """Of A and of B."""
    apart: tuple[str, ...] = ()
    """Why the machines do not do the same work at their utilisations."""
    cautions: tuple[str, ...] = field(default_factory=tuple)
    """What to know before believing any of it."""


def compare_counters(
    a: CounterUse | None, b: CounterUse | None, power_w: tuple[Quantity, Quantity]
) -> CounterComparison | None:
    """Return what differs from ``a`` to ``b``, None where neither run has anything to say."""
    if a is None or b is None:
        return None
    law, missing, per_core = _law(a, b)
    slots, slots_missing = _slots(a, b)
    metrics = _metrics(a, b)
    cautions = [f"{name}: {caution}" for name, use in (("A", a), ("B", b)) for caution in use.cautions]
    if per_core:
        cautions.append("the SMT modes differ: clocks and IPC are those of physical cores")
    if law is not None and law.caveat:
        cautions.append(law.caveat)
    if a.scope != b.scope and a.scope and b.scope:
        cautions.append(f"A counted the {a.scope} and B the {b.scope}: that alone makes counts differ")
    return CounterComparison(
        iron_law=law,
        iron_law_missing=missing,
        is_per_core=per_core,
        is_of_cpus=a.is_of_cpus or b.is_of_cpus,
        slots=slots,
        slots_missing=slots_missing,
        metrics=metrics,
        events=_events(a, b, {metric.name for metric in metrics}),
        work_per_cpu_second=(work_per_cpu_second(a.law), work_per_cpu_second(b.law)),
        work_per_joule=(work_per_joule(a.law, power_w[0]), work_per_joule(b.law, power_w[1])),
        apart=_apart(a, b),
        cautions=tuple(cautions),
    )


def _law(a: CounterUse, b: CounterUse) -> tuple[LawDifference | None, str | None, bool]:
    for name, use in (("A", a), ("B", b)):
        if use.source is None and use.law.ops_per_s.value is None:
            return None, f"{name}: {use.missing or 'no counters were read'}", False
    try:
        return difference(a.law, b.law), None, False
    except UsageError as refused:
        try:
            return difference(a.law, b.law, per_core=True), None, True
        except UsageError as also:
            return None, f"{refused.message}; {also.message}: {also.hint}", False


def _slots(a: CounterUse, b: CounterUse) -> tuple[tuple[SlotDifference, ...], str | None]:
    if a.top_down is None or b.top_down is None:
        lacking = a if a.top_down is None else b
        return (), lacking.top_down_missing or "no top-down events were counted"
    differences = []
    for top in a.top_down.level_1:
        for level, each in ((1, top), *((2, child) for child in top.children)):
            try:
                other = b.top_down.node(each.name)
            except KeyError:
                continue
            if each.ratio is not None and other.ratio is not None:
                differences.append(SlotDifference(each.name, level, each.ratio, other.ratio))
    changed = [slot for slot in differences if abs(slot.difference_ratio) >= SAME_SHARE]
    missing = None if differences else "no node is known of both runs"
    if a.top_down.model != b.top_down.model:
        missing = f"formulas differ: {a.top_down.model}; {b.top_down.model}"
    return tuple(sorted(changed, key=lambda slot: (-abs(slot.difference_ratio), slot.name))), missing


def _events(a: CounterUse, b: CounterUse, metrics: Set[str]) -> tuple[EventDifference, ...]:
    """Return the events that differ, less those whose rate is among ``metrics``."""
    per = [use.events.first(INSTRUCTIONS)[1].value for use in (a, b)]
    unit, scale = "per 1000 instructions", 1000.0
    if not all(per):
        per, unit, scale = [a.duration_s, b.duration_s], "per second", 1.0
    if not per[0] or not per[1]:
        return ()
    differences = []
    for name in sorted(set(a.events.values) & set(b.events.values) - {*INSTRUCTIONS, *CYCLES, *CLOCKS}):
        left, right = a.events.values[name] * scale / per[0], b.events.values[name] * scale / per[1]
        ratio = right / left if left > 0 and right > 0 else None
        if left == right or (ratio is not None and abs(ratio - 1) < SAME_RATIO):
            continue
        if unit == "per second" and f"{name.replace('-', '_')}_per_s" in metrics:
            continue
        differences.append(EventDifference(name, left, right, unit, ratio))
    return tuple(sorted(differences, key=_place))


def _metrics(a: CounterUse, b: CounterUse) -> tuple[MetricDifference, ...]:
    differences = []
    for name, left in a.metrics.items():
        right = b.metrics.get(name)
        if right is None or left.value is None or right.value is None or left.unit != right.unit:
            continue
        ratio = right.value / left.value if left.value > 0 and right.value > 0 else None
        if left.value == right.value or (ratio is not None and abs(ratio - 1) < SAME_RATIO):
            continue
        differences.append(
            MetricDifference(name, left.value, right.value, left.unit, ratio, left.formula == right.formula)
        )
    return tuple(sorted(differences, key=_place))


def _place(difference: EventDifference | MetricDifference) -> tuple[float, str]:
    return (-math.inf if difference.ratio is None else -abs(math.log(difference.ratio)), difference.name)


def _apart(a: CounterUse, b: CounterUse) -> tuple[str, ...]:
    if a.split is None or b.split is None:
        return ()
    differences: Sequence[str] = system_differences(
        SystemUse(a.split, a.law.frequency_hz.value), SystemUse(b.split, b.law.frequency_hz.value)
    )
    return tuple(differences)
