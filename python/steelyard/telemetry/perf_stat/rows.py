"""Rows of ``perf stat``'s output, whichever form they were printed in, and the series that they make.

In: `Row`s of one output, in order. Out: `CounterSeries`, one for each entity.

Invariants: a row is what one line says and nothing more; ``<not counted>`` and ``<not supported>`` never
become a number, but for an event that was counted in other windows and not even enabled in this one: then
nothing ran that it could have counted, and its gain is 0.

Not here: the forms (``csv``, ``json``, ``plain``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from steelyard.telemetry.counters import CounterSeries, EventSeries

NOT_COUNTED, NOT_SUPPORTED = "<not counted>", "<not supported>"
LINE_AT_MOST = 8192
"""Characters of a line that are looked at: perf's own are shorter, and patterns stay quick."""
TIMES = {"msec": 1e6, "ns": 1.0, "nsec": 1.0, "usec": 1e3, "sec": 1e9}
"""Units of time as perf prints them, in ns."""

_AGGREGATES = (
    (re.compile(r"CPU(\d+)"), "cpu"),
    (re.compile(r"S\d+-D\d+-CLS\d+"), "cluster"),
    (re.compile(r"S\d+-D\d+-L\d+-ID\d+"), "cache"),
    (re.compile(r"S\d+-D\d+-C-?\d+"), "core"),
    (re.compile(r"S\d+-D\d+"), "die"),
    (re.compile(r"S\d+"), "socket"),
    (re.compile(r"N\d+"), "node"),
)
_THREAD = re.compile(r"(.+)-(\d+)")
UNCORE = re.compile(
    r"(?:unc_|uncore|amd_df|amd_l3|amd_umc|arm_cmn|arm_dsu|nvidia_scf|power/|umc_)", re.IGNORECASE
)


class NotPerfStatError(Exception):
    """The text is not of the form that was tried. It never leaves the readers."""


@dataclass(frozen=True, slots=True)
class Row:
    """One event of one entity, as one line has it."""

    event: str
    value: float | None
    lack: str | None = None
    """`NOT_COUNTED` or `NOT_SUPPORTED`, where there is no value."""
    unit: str = ""
    scope: str = ""
    """Empty where the line tells no entity."""
    entity: str = ""
    time_s: float | None = None
    """End of its interval since perf began, None in a total."""
    coverage_ratio: float | None = None
    variation_ratio: float | None = None
    """Standard deviation of the mean over the mean, of repeated runs (-r)."""
    section: int = 0
    """Which output of a file that has several."""
    summary: bool = False
    """Whether it sums up interval rows that stand before it."""


@dataclass(frozen=True, slots=True)
class PerfMetric:
    """A metric that perf worked out itself, such as ``insn per cycle``."""

    name: str
    value: float
    unit: str = ""
    """``%`` where perf prints one, else empty: what remains of the name says what is over what."""
    event: str = ""
    """The event beside which it stands, empty where it stands alone."""
    scope: str = ""
    entity: str = ""
    time_s: float | None = None
    section: int = 0
    summary: bool = False


@dataclass
class Output:
    """Everything that was read of one file."""

    rows: list[Row] = field(default_factory=list)
    metrics: list[PerfMetric] = field(default_factory=list)
    targets: dict[int, str] = field(default_factory=dict)
    """Section -> what was counted, as the header of plain output names it."""
    runs: dict[int, int] = field(default_factory=dict)
    elapsed_s: dict[int, float] = field(default_factory=dict)
    cpu_s: dict[int, float] = field(default_factory=dict)
    """Section -> user and system time."""
    remarks: list[str] = field(default_factory=list)
    """What perf said beside its rows."""
    unread: int = 0
    """Lines that begin as rows do and cannot be understood."""

    @property
    def sections(self) -> set[int]:
        """Return which outputs of the file have anything."""
        return {row.section for row in self.rows} | {metric.section for metric in self.metrics}


SECONDS_BELOW = 9e9
"""Nanoseconds of more than 285 years have no place in 64 bits."""
_DIGITS_AT_MOST = 100


def aggregate(text: str, *, threads: bool = True) -> tuple[str, str] | None:
    """Return the scope and entity that a prefix names, None where it is no such prefix.

    >>> aggregate("CPU12"), aggregate("S0-D1-C3"), aggregate("my prog-4711")
    (('cpu', 'cpu12'), ('core', 'S0-D1-C3'), ('thread', 'my prog-4711'))
    """
    text = text.strip()
    for pattern, scope in _AGGREGATES:
        if pattern.fullmatch(text):
            return scope, text.lower() if scope == "cpu" else text
    if threads and _THREAD.fullmatch(text):
        return "thread", text
    return None


def prefix_of(prefix: Sequence[str], separator: str) -> tuple[float | None, bool, str, str] | None:
    """Return the end of the interval, whether it is a summary, and scope and entity of what stands before the
    count; None where that is no such prefix."""
    left = [field.strip() for field in prefix]
    time_s, summary = None, False
    if left and left[0] == "summary":
        summary = True
        left.pop(0)
    elif left and re.fullmatch(r"\d+[.,]\d+", left[0]):
        time_s = seconds_of(left.pop(0))
    if not left:
        return time_s, summary, "", ""
    if len(left) > 1 and left[-1].isdigit() and aggregate(left[0], threads=False):
        left.pop()
    known = aggregate(separator.join(left))
    return None if known is None else (time_s, summary, *known)


def event_and_cgroup(pieces: Sequence[str], separator: str) -> tuple[str, str]:
    """Return the event's name and the cgroup."""
    for count in range(1, len(pieces) + 1):
        name = separator.join(pieces[:count])
        if name.count("/") % 2 == 0 and name.count("{") == name.count("}"):
            return name.strip(), separator.join(pieces[count:]).strip()
    return separator.join(pieces).strip(), ""


def localized(text: str) -> float | None:
    """Return a number as perf prints it for people, in whatever locale; None for anything else.

    perf prints whole counts in groups, and others with two decimals, so that three digits after the last
    separator are a group, and any other number of them decimals.

    >>> localized("1,234,567"), localized("1.234"), localized("1.234,50"), localized("0.001063717")
    (1234567.0, 1234.0, 1234.5, 0.001063717)
    >>> localized("12,34,567"), localized("1e3"), localized("")
    (1234567.0, None, None)
    """
    parts = re.split(r"[.,]", text)
    if not all(part.isascii() and part.isdigit() for part in parts):
        return None
    if len(text) > _DIGITS_AT_MOST:
        return None
    if len(parts) == 1:
        return float(text)
    whole, last = "".join(parts[:-1]), parts[-1]
    grouped = len(last) == 3 and len(parts[0]) <= 3
    return float(whole + last) if grouped else float(f"{whole}.{last}")


def plain_number(text: str) -> float | None:
    """Return a number without groups, its decimals after a point or a comma; None for anything else.

    >>> plain_number("55.46"), plain_number("55,46"), plain_number("1,2,3"), plain_number("nan")
    (55.46, 55.46, None, None)
    """
    if not re.fullmatch(r"-?\d{1,40}(?:[.,]\d{1,40})?(?:[eE][+-]?\d{1,3})?", text, re.ASCII):
        return None
    value = float(text.replace(",", "."))
    return value if math.isfinite(value) else None


def seconds_of(text: str) -> float | None:
    """Return a time in seconds; None for what no run of perf lasts.

    >>> seconds_of("1,001"), seconds_of("1e300")
    (1.001, None)
    """
    value = plain_number(text)
    return value if value is not None and 0 <= value < SECONDS_BELOW else None


def percent_ratio(text: str) -> float | None:
    """Return a percentage as a ratio, cut to 0..1: perf rounds."""
    value = plain_number(text.strip().rstrip("%"))
    return None if value is None or value < 0 else min(1.0, value / 100)


def metric_of(value: float, words: str, **where: object) -> PerfMetric:
    """Return a metric from its value and the words after it.

    >>> metric_of(1.2, "%  of all branches").name, metric_of(1.2, "insn per cycle").unit
    ('of all branches', '')
    """
    words = " ".join(words.split())
    unit = ""
    if words.startswith("%"):
        unit, words = "%", words[1:].strip()
    return PerfMetric(name=words, value=value, unit=unit, **where)  # type: ignore[arg-type]


def assemble(
    rows: Iterable[Row], *, whole: str, elapsed_s: float | None, remarks: Sequence[str] = ()
) -> list[CounterSeries]:
    """Return one series for each entity; ``whole`` is the scope of rows that name none.

    A total ends at ``elapsed_s``; where that is not known, its window has no beginning and no length.
    """
    entities: dict[tuple[str, str], dict[str, dict[float | None, list[Row]]]] = {}
    for row in rows:
        of_entity = entities.setdefault((row.scope or whole, row.entity), {})
        of_entity.setdefault(row.event, {}).setdefault(row.time_s, []).append(row)
    return [
        _series(scope, entity, events, elapsed_s, remarks) for (scope, entity), events in entities.items()
    ]


def _series(
    scope: str,
    entity: str,
    events: Mapping[str, Mapping[float | None, list[Row]]],
    elapsed_s: float | None,
    remarks: Sequence[str],
) -> CounterSeries:
    times = sorted({time for windows in events.values() for time in windows}, key=lambda time: time or 0.0)
    series: dict[str, EventSeries] = {}
    missing: dict[str, str] = {}
    for event, windows in events.items():
        taken = [_one(windows.get(time, [])) for time in times]
        known = [row for row in taken if row is not None]
        if all(row.value is None for row in known):
            missing[event] = _reason(known, remarks)
            continue
        unit = next((row.unit for row in known if row.unit), "")
        scale = TIMES.get(unit)
        series[event] = EventSeries(
            count=tuple(_gain(row, scale or 1.0) for row in taken),
            coverage_ratio=tuple(_coverage(row) for row in taken),
            unit="ns" if scale is not None else unit,
        )
    ends = tuple(round((elapsed_s or 0.0 if time is None else time) * 1e9) for time in times)
    is_timed = elapsed_s is not None or None not in times
    return CounterSeries(scope, entity, ends, series, missing, begin_ns=0 if is_timed else None)


def _one(rows: Sequence[Row]) -> Row | None:
    """Return the row to take of those with the same event, entity and window.

    Units of the uncore count each their own part, and are added; other events of one name were counted more
    than once (perf opens an event for every metric that needs it), and the best covered one is taken.
    """
    known = [row for row in rows if row.value is not None]
    if not known:
        return rows[0] if rows else None
    best = max(known, key=lambda row: row.coverage_ratio or 0.0)
    if len(known) == 1 or not UNCORE.match(best.event):
        return best
    ratios = [row.coverage_ratio for row in known if row.coverage_ratio is not None]
    return Row(
        best.event,
        math.fsum(row.value for row in known if row.value is not None),
        unit=best.unit,
        time_s=best.time_s,
        coverage_ratio=min(ratios, default=None),
    )


def _never_enabled(row: Row) -> bool:
    """perf prints 100 % for an event that was neither enabled nor on a counter, and 0 % for one that was
    enabled and never got a counter."""
    return row.lack == NOT_COUNTED and row.coverage_ratio == 1.0


def _gain(row: Row | None, scale: float) -> float | None:
    if row is None:
        return None
    if row.value is None:
        return 0.0 if _never_enabled(row) else None
    return row.value * scale


def _coverage(row: Row | None) -> float | None:
    if row is None or row.lack == NOT_SUPPORTED or _never_enabled(row):
        return None
    return row.coverage_ratio


def _reason(rows: Sequence[Row], remarks: Sequence[str]) -> str:
    if any(row.lack == NOT_SUPPORTED for row in rows):
        return "not supported (perf): the processor or its hypervisor does not offer it"
    if all(_never_enabled(row) for row in rows):
        return "not counted (perf): no process to count ran"
    reason = "not counted (perf): it never got a counter"
    if any("watchdog" in remark for remark in remarks):
        reason += "; the NMI watchdog holds one (sysctl kernel.nmi_watchdog=0)"
    return reason
