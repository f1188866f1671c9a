"""Counts of hardware and software events over time, scaled, with the share of the time that each was counted.

In: the ``counters`` table of a recording (cumulative counts with the time enabled and the time on a
counter), or what a reader of ``perf stat`` files makes of them. Out: `CounterSeries`, one for each scope
and entity, and `Gain`: what an event gained over a phase.

More events than counters take turns, so that a count stands for a part of its time: it is scaled by enabled
/ running, which assumes that the rest of the time was alike (perf_event_open(2)). How large that part was
is kept as the coverage; below `COVERAGE_FLOOR_RATIO` the assumption carries the figure more than the count
does, and the gain is withheld.

Invariants: a count that is not known is None with its reason, never 0; an interval belongs to a phase when
more than half of it does; instances of one event (the channels of a memory controller) are summed, and are
missing together.

Not here: which events make a metric (``analyze.counters.formulas``), recording (``steelyard-probe``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from steelyard.telemetry.engine import fetch_rows
from steelyard.telemetry.tables import increments, mostly_within

if TYPE_CHECKING:
    from steelyard.telemetry.recording import Recording

SOURCE = "counters"
"""Name of the source in a recording."""

COVERAGE_FLOOR_RATIO = 0.1
"""Counts that stand for less of their time than this are withheld."""


@dataclass(frozen=True)
class EventSeries:
    """One event in each window of a `CounterSeries`."""

    count: tuple[float | None, ...]
    """Gained in the window, scaled; None where it was not counted."""
    coverage_ratio: tuple[float | None, ...]
    """Time on a counter over time enabled, in the window; None where it was never enabled or is not known."""
    unit: str = ""
    """The unit where a count has one (perf's Joules, MiB); empty for plain events."""


@dataclass(frozen=True)
class CounterSeries:
    """Events of one scope and entity."""

    scope: str
    """``system``, ``cpu``, ``process`` or ``cgroup``."""
    entity: str
    """Empty for the system, else as ``cpu3``, a process's number, a cgroup's path."""
    time_ns: Sequence[int]
    """The end of each window; one entry for a total."""
    events: Mapping[str, EventSeries]
    missing: Mapping[str, str]
    """Events that were asked for and not counted -> why."""
    begin_ns: int | None = None
    """The beginning of the first window, where it is known."""

    def find(self, event: str) -> EventSeries | None:
        """Return an event whatever the case of its name."""
        series = self.events.get(event)
        return series if series is not None else self._by_key().get(key_of(event))

    def window_ns(self) -> list[int | None]:
        """Return the length of each window; None for a first one whose beginning is not known."""
        ends = list(self.time_ns)
        begins = [self.begin_ns, *ends][: len(ends)]
        return [None if begin is None else end - begin for begin, end in zip(begins, ends, strict=True)]

    def within(self, begin_ns: float, end_ns: float) -> CounterSeries:
        """Return the windows that lie mostly between two times."""
        lengths = _lengths(self)
        chosen = [
            index
            for index, (end, length) in enumerate(zip(self.time_ns, lengths, strict=True))
            if mostly_within(end - length, end, begin_ns, end_ns)
        ]
        events = {
            name: replace(
                event,
                count=tuple(event.count[index] for index in chosen),
                coverage_ratio=tuple(event.coverage_ratio[index] for index in chosen),
            )
            for name, event in self.events.items()
        }
        # The first window's beginning is not known where that of the series is not.
        first = chosen[0] if chosen else 0
        begin = self.begin_ns if first == 0 else self.time_ns[first - 1]
        return replace(self, time_ns=[self.time_ns[index] for index in chosen], events=events, begin_ns=begin)

    def _by_key(self) -> dict[str, EventSeries]:
        return {key_of(name): series for name, series in self.events.items()}


def key_of(event: str) -> str:
    """Return what two spellings of an event's name have in common.

    >>> key_of("INST_RETIRED.ANY") == key_of("inst_retired.any")
    True
    >>> key_of("cpu/UOPS_DECODED.DEC0,cmask=1/") == key_of("cpu@uops_decoded.dec0\\\\,cmask\\\\=1@")
    True
    """
    return event.casefold().replace("\\", "").replace("@", "/").strip()


@dataclass(frozen=True)
class Gain:
    """What an event gained over a phase; None with the reason where that is not known well enough."""

    value: float | None
    coverage_ratio: float | None = None
    """The part of the phase that it was counted in."""
    missing: str | None = None
    unit: str = ""


@dataclass(frozen=True)
class Gains:
    """What every event of one entity gained over the same windows."""

    scope: str
    entity: str
    duration_s: float | None
    """Length of the windows together."""
    events: Mapping[str, Gain]
    missing: Mapping[str, str] = field(default_factory=dict)

    def of(self, event: str) -> Gain:
        """Return an event's gain whatever the case of its name; a missing one with its reason."""
        key = key_of(event)
        for name, gain in self.events.items():
            if key_of(name) == key:
                return gain
        for name, reason in self.missing.items():
            if key_of(name) == key:
                return Gain(None, missing=reason)
        return Gain(None, missing="it was not among the events that were counted")


def gains(
    series: CounterSeries,
    begin_ns: int | None = None,
    end_ns: int | None = None,
    *,
    floor_ratio: float = COVERAGE_FLOOR_RATIO,
) -> Gains:
    """Return what each event gained in the windows that lie mostly within a phase (all windows by default).

    A window in which an event had no counter at all is filled by the event's rate in the others: the same
    assumption that scales within a window. The coverage tells how much of the phase that leaves.
    """
    if begin_ns is not None or end_ns is not None:
        series = series.within(
            -math.inf if begin_ns is None else begin_ns, math.inf if end_ns is None else end_ns
        )
    lengths = _lengths(series)
    chosen = range(len(lengths))
    # A first window whose beginning is not known has no length to divide by.
    known_s = (
        [] if series.begin_ns is None and len(series.time_ns) == 1 else [lengths[i] / 1e9 for i in chosen]
    )
    events = {name: _gain(event, chosen, lengths, floor_ratio) for name, event in series.events.items()}
    return Gains(
        series.scope, series.entity, math.fsum(known_s) if known_s else None, events, dict(series.missing)
    )


def _lengths(series: CounterSeries) -> list[int]:
    """Return each window's length; a first one without a beginning is taken to be as long as the next."""
    lengths = series.window_ns()
    if lengths and lengths[0] is None:
        lengths[0] = lengths[1] if len(lengths) > 1 else 1
    return [length or 0 for length in lengths]


def _gain(event: EventSeries, chosen: Sequence[int], lengths: Sequence[int], floor_ratio: float) -> Gain:
    if not chosen:
        return Gain(None, missing="no window of counts is within this time", unit=event.unit)
    whole = sum(lengths[index] for index in chosen)
    counts: list[float] = []
    counted_ns = 0
    covered = []
    has_coverage = False
    for index in chosen:
        count, coverage = event.count[index], event.coverage_ratio[index]
        if count is None:
            continue
        counts.append(count)
        counted_ns += lengths[index]
        has_coverage = has_coverage or coverage is not None
        covered.append((1.0 if coverage is None else coverage) * lengths[index])
    if not counts:
        reason = "no counter was free for it in this time"
        return Gain(None, 0.0, reason, event.unit)
    coverage = math.fsum(covered) / whole if whole > 0 else None
    if coverage is not None and coverage < floor_ratio:
        reason = f"counted in {coverage * 100:.1f} % of the time, less than {floor_ratio * 100:.0f} %"
        return Gain(None, coverage, reason, event.unit)
    total = math.fsum(counts)
    if counted_ns < whole:
        total *= whole / counted_ns if counted_ns else math.nan
    if not math.isfinite(total):
        return Gain(None, coverage, "its windows have no length", event.unit)
    return Gain(total, coverage if has_coverage or counted_ns < whole else None, unit=event.unit)


def counter_series(recording: Recording, begin_ns: int, end_ns: int) -> list[CounterSeries]:
    """Return the counts of every scope and entity between two times, in the order of their names.

    Empty where the recording has none; why, says ``recording.missing("counters")``.
    """
    if recording.missing(SOURCE) is not None:
        return []
    table = recording.table(SOURCE)
    pairs = increments(table, ["count", "enabled_ns", "running_ns"], begin_ns, end_ns)
    rows = fetch_rows(pairs)
    by_entity: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        by_entity.setdefault((row["scope"], row["entity"]), []).append(row)
    missing = missing_events(recording)
    return [
        _series_of(scope, entity, of_entity, missing)
        for (scope, entity), of_entity in sorted(by_entity.items(), key=lambda item: _order(*item[0]))
    ]


def missing_events(recording: Recording) -> dict[str, str]:
    """Return why events that were asked for were not counted, by their names."""
    for source in recording.metadata.sources:
        if source.name == SOURCE:
            return dict(source.missing_items)
    return {}


def _order(scope: str, entity: str) -> tuple[str, int, str]:
    digits = entity.removeprefix("cpu")
    return scope, int(digits) if digits.isdecimal() else -1, entity


def _series_of(
    scope: str, entity: str, rows: Iterable[Mapping[str, Any]], missing: Mapping[str, str]
) -> CounterSeries:
    by_event: dict[str, dict[int, list[Mapping[str, Any]]]] = {}
    begins: dict[int, int] = {}
    for row in rows:
        by_event.setdefault(row["event"], {}).setdefault(int(row["end_ns"]), []).append(row)
        begins[int(row["end_ns"])] = int(row["begin_ns"])
    ends = sorted(begins)
    events = {}
    for name, by_end in by_event.items():
        # An instance that a window lacks (a CPU that went offline) leaves the sum of that window unknown.
        instances = max(len(of_window) for of_window in by_end.values())
        windows = [_window(by_end.get(end, ()), instances) for end in ends]
        events[name] = EventSeries(tuple(each[0] for each in windows), tuple(each[1] for each in windows))
    lost = {name: reason for name, reason in missing.items() if name not in events}
    return CounterSeries(scope, entity, ends, events, lost, begins[ends[0]] if ends else None)


def _window(rows: Sequence[Mapping[str, Any]], instances: int) -> tuple[float | None, float | None]:
    """Return the scaled count of an event in one window, its instances together, and its least coverage."""
    if len(rows) < instances:
        return None, None
    total, least = 0.0, None
    for row in rows:
        count, enabled, running = (row[name] for name in ("count", "enabled_ns", "running_ns"))
        if count is None or enabled is None or running is None:
            return None, None
        count, enabled, running = float(count), float(enabled), float(running)
        if enabled == 0:
            # Its task did not run in this window: nothing was there to count.
            continue
        if running == 0:
            return None, 0.0
        coverage = min(1.0, running / enabled)
        total += count / coverage
        least = coverage if least is None else min(least, coverage)
    return total, least
