"""A server's cumulative counters over time, and what they gained between two moments.

In: the lines of a statistics file, while it grows or afterwards. Out: gains between the moments asked for,
which lie between readings.

Not here: what the gains mean.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from steelyard._base import RecordError, open_regular
from steelyard.records import CacheStats, parse

_COVERED_RATIO = 0.5


class Counted(Protocol):
    """One line of counters."""

    @property
    def monotonic_ns(self) -> int:
        """When they were read."""


class StatsTail:
    """Follows one cache server's statistics file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        self._rest = b""

    def read(self) -> list[CacheStats]:
        """Return the records that were completed since the last call."""
        try:
            with open_regular(self.path) as file:
                file.seek(self._offset)
                data = file.read()
        except RecordError:
            return []
        self._offset += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [parse(CacheStats, line, where=str(self.path)) for line in lines if line.strip()]


def at(stats: Sequence[Counted], counter: str, moment_ns: int) -> float | None:
    """Return a counter's value at ``moment_ns``, on a straight line between the readings around it.

    None when the moment lies outside the readings.
    """
    for before, after in itertools.pairwise(stats):
        if before.monotonic_ns <= moment_ns <= after.monotonic_ns:
            low, high = getattr(before, counter), getattr(after, counter)
            span = after.monotonic_ns - before.monotonic_ns
            return float(low) if span == 0 else low + (high - low) * (moment_ns - before.monotonic_ns) / span
    return None


def gain(stats: Sequence[Counted], counter: str, begin_ns: int, end_ns: int) -> float | None:
    """Return how much a counter rose from ``begin_ns`` to ``end_ns``, None when that is not known.

    Where readings within cover most of that time, it is as they have it: a load begins or ends at these
    moments, so that the counter does not rise evenly between the readings around them.
    """
    first, last = at(stats, counter, begin_ns), at(stats, counter, end_ns)
    if first is None or last is None:
        return None
    within = [one for one in stats if begin_ns <= one.monotonic_ns <= end_ns]
    covered_ns = within[-1].monotonic_ns - within[0].monotonic_ns if within else 0
    if covered_ns < _COVERED_RATIO * (end_ns - begin_ns) or not covered_ns:
        return last - first
    rose: float = getattr(within[-1], counter) - getattr(within[0], counter)
    return rose * (end_ns - begin_ns) / covered_ns


def total_gain(
    servers: Sequence[Sequence[Counted]], counter: str, begin_ns: int, end_ns: int
) -> float | None:
    """Return the sum of a counter's gains over all servers, None when one of them is not known."""
    gains = [gain(stats, counter, begin_ns, end_ns) for stats in servers]
    known = [value for value in gains if value is not None]
    return sum(known) if gains and len(known) == len(gains) else None
