"""The text that ``perf report --stdio`` prints, as shares by function.

In: text, of one event or of a group of them, with or without children, samples, call graphs or a header;
also an excerpt whose header is gone. Out: one `PerfReport` for each section. A share is a ratio of all
samples of the section: perf prints two decimals, and leaves out what is small, so that the rows of a report
sum to less than 1.

Invariants: a line that is not a row is counted or ignored, never guessed at; no text makes this raise.

Not here: comparing two reports (``hot_functions``); perf.data and ``perf script`` (``steelyard-profile``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

_PERCENTS = re.compile(r"^\s*((?:\d{1,3}\.\d+%\s+)+)(.*)$")
# What mode a symbol ran in: user, kernel, guest kernel, guest user, hypervisor.
_SYMBOL = re.compile(r"(?:^|\s)\[([.kguH])\]\s+(\S.*)$")
_EVENTS = re.compile(r"^#\s*Samples:\s*(\S+)\s+of events?\s+'(.*)'")
_GROUP_ON_COMMAND_LINE = re.compile(r"cmdline\s*:.*?\s-e\s+\{([^}]+)\}")
_EVENT_COUNT = re.compile(r"^#\s*Event count \(approx\.\):\s*(\d{1,19})\s*$")
_SCALES = {"K": 1_000, "M": 1_000_000, "G": 1_000_000_000}


@dataclass(frozen=True, slots=True)
class FunctionRow:
    """One row: a function of one command."""

    symbol: str
    object: str | None
    """File that it was mapped from, None where the report was not sorted by it."""
    command: str | None
    self_ratios: tuple[float, ...]
    """Share of the samples in the function itself, one for each event."""
    with_callees_ratios: tuple[float, ...] | None
    """Share in the function or what it called; None for a report without children."""


@dataclass(frozen=True)
class PerfReport:
    """One section of a report."""

    events: tuple[str, ...]
    """Names of the columns; ``column 1`` ... where the text does not name its events."""
    rows: tuple[FunctionRow, ...]
    samples: int | None
    """Samples of the section as far as perf prints them (61K is 61000), None without them."""
    event_count: int | None
    unread: int
    """Lines that begin as rows do and are none."""

    def shares(self, event: str) -> dict[str, float]:
        """Return function -> share of ``event``, over all commands and objects. Raises KeyError."""
        column = self._column(event)
        by_function: dict[str, float] = {}
        for row in self.rows:
            by_function[row.symbol] = by_function.get(row.symbol, 0.0) + row.self_ratios[column]
        return by_function

    def floor(self, event: str) -> float:
        """Return the smallest share that is listed: what is not listed has at most that."""
        return min((row.self_ratios[self._column(event)] for row in self.rows), default=1.0)

    def _column(self, event: str) -> int:
        if event not in self.events:
            raise KeyError(f"the report has {', '.join(self.events)}, not {event}")
        return self.events.index(event)


@dataclass
class _Section:
    """What is known of the section that is being read."""

    events: tuple[str, ...] = ()
    samples: int | None = None
    event_count: int | None = None
    children: bool = False
    numbers: int = 0
    rows: list[tuple[tuple[float, ...], str]] = field(default_factory=list)
    unread: int = 0


def parse_perf_report(text: str) -> list[PerfReport]:
    """Return every section of the text that has a row.

    >>> [report] = parse_perf_report('''
    ... # Samples: 2K of event 'cycles'
    ... # Overhead  Command  Shared Object  Symbol
    ...     75.00%  demo     demo           [.] spin
    ...     20.00%  demo     libc.so.6      [.] malloc
    ... ''')
    >>> report.events, report.samples, report.shares("cycles")
    (('cycles',), 2000, {'spin': 0.75, 'malloc': 0.2})
    """
    return [report for section in _sections(text.splitlines()) if (report := _report(section))]


def _sections(lines: Iterable[str]) -> Iterator[_Section]:
    section = _Section()
    for line in lines:
        if match := _GROUP_ON_COMMAND_LINE.search(line):
            # It stands in the header before the first section, or below an excerpt.
            section.events = section.events or _names(match[1])
        elif match := _EVENTS.match(line):
            if section.rows:
                yield section
                section = _Section()
            section.samples, section.events = _count(match[1]), _names(match[2])
        elif match := _EVENT_COUNT.match(line):
            section.event_count = int(match[1])
        elif line.startswith("#"):
            if "Overhead" in line or "Children" in line:
                words = line.lstrip("#").split()
                section.children = "Children" in words
                section.numbers = sum(word in ("Samples", "Period") for word in words)
        elif match := _PERCENTS.match(line):
            ratios = tuple(float(word.rstrip("%")) / 100 for word in match[1].split())
            section.rows.append((ratios, match[2].rstrip()))
    yield section


def _names(text: str) -> tuple[str, ...]:
    """Return the events of ``cycles`` or ``anon group { cycles, cpu/event=0x3c,umask=0x1/ }``.

    >>> _names("anon group { cycles, cpu/event=0x3c,umask=0x1/u }")
    ('cycles', 'cpu/event=0x3c,umask=0x1/u')
    """
    inner = text.partition("{")[2].rpartition("}")[0] or text
    # Between slashes a comma separates the terms of one event.
    names = re.findall(r"(?:[^,/]|/[^/]*(?:/|$))+", inner)
    return tuple(name.strip() for name in names if name.strip())


def _count(text: str) -> int | None:
    """Return a number that perf may have shortened.

    >>> _count("132"), _count("61K"), _count("many")
    (132, 61000, None)
    """
    scale = _SCALES.get(text[-1:], 1)
    digits = text.rstrip("KMG")
    return int(digits) * scale if digits.isdecimal() and len(digits) < 20 else None


def _report(section: _Section) -> PerfReport | None:
    widths = [len(ratios) for ratios, rest in section.rows if _SYMBOL.search(rest)]
    if not widths:
        return None
    width = max(set(widths), key=widths.count)
    parts = 2 if section.children else 1
    count = width // parts
    if width % parts or not count:
        return None
    events = section.events
    if len(events) != count:
        events = tuple(f"column {index + 1}" for index in range(count))
    rows, unread = [], section.unread
    for ratios, rest in section.rows:
        row = _row(ratios, rest, count, section) if len(ratios) == width else None
        if row is None:
            unread += 1
        else:
            rows.append(row)
    return PerfReport(events, tuple(rows), section.samples, section.event_count, unread)


def _row(ratios: tuple[float, ...], rest: str, count: int, section: _Section) -> FunctionRow | None:
    # Perf caps nothing, but a share above 1 is a damaged line.
    if any(ratio > 1 for ratio in ratios):
        return None
    symbol = _SYMBOL.search(rest)
    if symbol is None:
        return None
    before = rest[: symbol.start()].strip()
    # Samples and period, one for each event: further words of digits belong to the command's name.
    names = re.sub(rf"^(?:\d+\s+){{{section.numbers * count}}}", "", before)
    # Columns are apart by two spaces or a tab; an excerpt may have lost them, and then objects have none.
    wide = re.search(r"\s{2,}|\t", names)
    words = re.split(r"\s{2,}|\t", names) if wide else names.rsplit(None, 1)
    command, mapped = (words[0], words[-1]) if len(words) > 1 else (None, words[0] if words else None)
    return FunctionRow(
        symbol=symbol[2],
        object=mapped or None,
        command=command,
        self_ratios=ratios[-count:],
        with_callees_ratios=ratios[:count] if section.children else None,
    )
