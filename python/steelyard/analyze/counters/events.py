"""Counts by event, whatever spelling and whatever entities they were counted by.

In: `CounterSeries` of one source. Out: one series of the whole (`whole_of`), and what each event gained under
a name that formulas know (`EventCounts`).

Spellings. perf names one event in several ways: ``instructions``, ``cpu/instructions/``, ``instructions:u``,
``INST_RETIRED.ANY``. A name loses its PMU where that is a processor's, and its modifiers; counts of user mode
only stand in where there are no others, and are reported as such. Cores of two kinds (``cpu_core``,
``cpu_atom``) count each their own part, and are added.

Invariants: entities that overlap (cgroups) are never added; an event that one entity lacks has no sum, unless
that entity's kind does not have the event.

Not here: formulas (``topdown_models``, ``iron_law``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from steelyard.analyze.values import Quantity
from steelyard.telemetry.counters import CounterSeries, EventSeries, Gains, gains

DISJOINT = ("cpu", "core", "cluster", "cache", "die", "socket", "node", "thread")
"""Scopes whose entities share nothing, so that their counts add up to the whole's."""

_PMU = re.compile(r"^(cpu|cpu_core|cpu_atom|armv8_pmuv3_\d+|armv8_\w+)/(.+)/([a-zA-Z]*)$")
_MODIFIERS = re.compile(r"^(.*?)(?::([ukhHGpPSDIWe]+))?$")
_ALIASES = {
    "slots": "topdown.slots",
    "cpu-cycles": "cycles",
    "branch-instructions": "branches",
    "faults": "page-faults",
    "cs": "context-switches",
}
INSTRUCTIONS = ("inst_retired.any", "instructions", "ex_ret_instr", "inst_retired", "inst_retired.any_p")
CYCLES = (
    *("cpu_clk_unhalted.thread", "cycles", "ls_not_halted_cyc", "cpu_cycles"),
    *("cpu_clk_unhalted.thread_p", "cpu_clk_unhalted.core"),
)
CORE_CYCLES = ("cpu_clk_unhalted.distributed",)
CLOCKS = ("task-clock", "cpu-clock")
"""Time that was counted of a program's threads; of the machine, time of all its CPUs."""


def canonical(event: str) -> tuple[str, str, str]:
    """Return the name that formulas know, the PMU and the modifiers of an event.

    >>> canonical("cpu_core/INST_RETIRED.ANY/u"), canonical("cycles:k"), canonical("unc_m_cas_count.rd")
    (('inst_retired.any', 'cpu_core', 'u'), ('cycles', '', 'k'), ('unc_m_cas_count.rd', '', ''))
    >>> canonical("syscalls:sys_enter_read")[0], canonical("cpu/UOPS_DECODED.DEC0,cmask=1/")[0]
    ('syscalls:sys_enter_read', 'uops_decoded.dec0,cmask=1')
    """
    name, pmu, modifiers = event.strip().replace("\\", "").casefold(), "", ""
    match = _PMU.match(name)
    if match:
        pmu, name, modifiers = match[1], match[2], match[3]
    elif name.startswith(("cpu@", "cpu_core@", "cpu_atom@")):
        pmu, _, rest = name.partition("@")
        name, _, modifiers = rest.rpartition("@")
    else:
        match = _MODIFIERS.match(name)
        if match and match[2]:
            name, modifiers = match[1], match[2]
    return _ALIASES.get(name, name), "" if pmu == "cpu" else pmu, modifiers


def whole_of(series: Sequence[CounterSeries], *, cgroup: str | None = None) -> CounterSeries | str:
    """Return the counts of everything that was counted together, or why they are unknown.

    ``cgroup`` is the one that is described, where counts are by cgroup.
    """
    if not series:
        return "no event was counted"
    single = [each for each in series if each.scope in ("system", "process") and not each.entity]
    if single:
        return single[0]
    groups = [each for each in series if each.scope == "cgroup"]
    if groups:
        path = (cgroup or "").strip("/")
        named = [each for each in groups if _is_cgroup(each.entity, path)] if cgroup else groups
        if len(named) == 1:
            return named[0]
        return f"counts are by cgroup ({len(groups)} of them), and which of them is meant is not known"
    scopes = {each.scope for each in series}
    # Processes that were named are counted each with what it makes later: none is in another's count.
    if len(scopes) == 1 and (scopes <= {*DISJOINT, "process"} or len(series) == 1):
        return _sum(series)
    return f"counts are by {', '.join(sorted(scopes))}, which do not add up"


def _is_cgroup(entity: str, path: str) -> bool:
    """Return whether a counted cgroup is the one that was named, below its hierarchy or by its folder."""
    name = entity.strip("/")
    return name == path or (name != "" and path.endswith(f"/{name}"))


def _sum(series: Sequence[CounterSeries]) -> CounterSeries:
    ticks = _ticks(series)
    names = dict.fromkeys(name for each in series for name in (*each.events, *each.missing))
    events: dict[str, EventSeries] = {}
    missing: dict[str, str] = {}
    for name in names:
        having = [at for at, each in enumerate(series) if name in each.events]
        lacking = [each.missing[name] for each in series if name in each.missing]
        lost = [reason for reason in lacking if "not supported" not in reason and "ran" not in reason]
        if not having or lost:
            missing[name] = (lost or lacking or ["not counted"])[0]
            continue
        windows = [_window(series, having, name, tick) for tick in ticks]
        units = (series[at].events[name].unit for at in having)
        events[name] = EventSeries(
            tuple(count for count, _ in windows),
            tuple(ratio for _, ratio in windows),
            next((unit for unit in units if unit), ""),
        )
    scope = "process" if series[0].scope in ("thread", "process") else "system"
    times = [max(series[at].time_ns[index] for at, index in tick.items()) for tick in ticks]
    return CounterSeries(scope, "", times, events, missing, _begin(series, ticks))


def _ticks(series: Sequence[CounterSeries]) -> list[dict[int, int]]:
    """Return which windows of the series belong together, as number of series -> number of its window.

    A recorder reads one entity after the other, so that their times are not the same: of one tick is what is
    nearer to its first reading than half a window, an entity once. At the edges of a phase, a tick that some
    of them are not in is left out.
    """
    lengths = sorted(length for each in series for length in each.window_ns() if length is not None)
    near_ns = lengths[len(lengths) // 2] / 2 if lengths else math.inf
    ends = sorted(
        (end, at, index) for at, each in enumerate(series) for index, end in enumerate(each.time_ns)
    )
    ticks: list[dict[int, int]] = []
    first_ns = 0
    for end_ns, at, index in ends:
        if not ticks or at in ticks[-1] or end_ns - first_ns > near_ns:
            ticks.append({})
            first_ns = end_ns
        ticks[-1][at] = index
    if len(ticks) > 2:
        whole = max(len(tick) for tick in ticks)
        first = int(len(ticks[0]) < whole)
        last = len(ticks) - int(len(ticks[-1]) < whole)
        return ticks[first:last]
    return ticks


def _begin(series: Sequence[CounterSeries], ticks: Sequence[Mapping[int, int]]) -> int | None:
    """Return when the first tick's windows began."""
    if not ticks:
        return series[0].begin_ns
    begins = [
        series[at].time_ns[index - 1] if index else series[at].begin_ns for at, index in ticks[0].items()
    ]
    known = [begin for begin in begins if begin is not None]
    return max(known) if len(known) == len(begins) else None


def _window(
    series: Sequence[CounterSeries], having: Sequence[int], name: str, tick: Mapping[int, int]
) -> tuple[float | None, float | None]:
    counts: list[float] = []
    ratios: list[float] = []
    for at in having:
        index = tick.get(at)
        event = series[at].events[name]
        count = None if index is None else event.count[index]
        if index is None or count is None:
            return None, None
        counts.append(count)
        ratio = event.coverage_ratio[index]
        ratios += [] if ratio is None else [ratio]
    return math.fsum(counts), min(ratios, default=None)


@dataclass(frozen=True)
class EventCounts:
    """What events gained over one time, by the names that formulas know."""

    values: Mapping[str, float]
    coverage: Mapping[str, float]
    """Share of the time that an event was counted in, where more events than counters took turns."""
    missing: Mapping[str, str]
    user_only: frozenset[str] = field(default_factory=frozenset)
    """Events that were counted in user mode only."""

    def first(self, names: Sequence[str]) -> tuple[str | None, Quantity]:
        """Return the first of several names for one thing that was counted, and its count."""
        for name in names:
            if name in self.values:
                return name, Quantity(self.values[name], "1")
        reason = next((self.missing[name] for name in names if name in self.missing), None)
        return None, Quantity(None, "1", reason or "it was not among the events that were counted")


def counts_of_gains(gains: Gains) -> EventCounts:
    """Return gains by the names that formulas know."""
    variants: dict[str, dict[str, dict[str, str]]] = {}
    for event in gains.events:
        name, pmu, modifiers = canonical(event)
        kind = "u" if "u" in modifiers else ""
        if modifiers and not set(modifiers) <= set("upPSDIWe"):
            # Of the kernel, a guest or a hypervisor: never taken for the whole.
            continue
        variants.setdefault(name, {}).setdefault(kind, {})[pmu] = event
    values: dict[str, float] = {}
    coverage: dict[str, float] = {}
    missing = {canonical(event)[0]: reason for event, reason in gains.missing.items()}
    user_only = set()
    for name, kinds in variants.items():
        kind = "" if "" in kinds else "u"
        gained = [gains.events[event] for event in kinds[kind].values()]
        lost = [gain.missing for gain in gained if gain.value is None]
        if lost:
            missing[name] = lost[0] or "not counted"
            continue
        values[name] = math.fsum(gain.value for gain in gained if gain.value is not None)
        ratios = [gain.coverage_ratio for gain in gained if gain.coverage_ratio is not None]
        if ratios:
            coverage[name] = min(ratios)
        if kind == "u":
            user_only.add(name)
        missing.pop(name, None)
    return EventCounts(values, coverage, missing, frozenset(user_only))


def counts_of(series: CounterSeries, begin_ns: int | None = None, end_ns: int | None = None) -> EventCounts:
    """Return what a series gained between two times, in all of its windows by default."""
    return counts_of_gains(gains(series, begin_ns, end_ns))
