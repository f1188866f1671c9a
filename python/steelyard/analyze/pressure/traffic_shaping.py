"""Limits that queueing disciplines put on interfaces, and how near the traffic came to them.

In: the two answers of ``tc`` in ``shaping.json``. Out: `Shaper`s: rate, what was sent, dropped and delayed.

Formulas. Rates are differences of the discipline's counters over the time between the answers; ``tc`` gives
a rate in bytes a second (tc(8), -j). Where an interface has several limits, each has a row.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steelyard._base import RecordError, read_regular
from steelyard.records.text import load_object

_RATE_KEYS = ("rate", "bandwidth", "maxrate")


@dataclass(frozen=True)
class Shaper:
    """One limit. ``used_ratio`` is what was sent over the limit; delays are packets that had to wait for
    it.
    """

    interface: str
    kind: str
    limit_bytes_per_s: float
    sent_bytes_per_s: float
    drops_per_s: float
    delays_per_s: float
    backlog_bytes: float

    @property
    def used_ratio(self) -> float:
        """Sent bytes over the limit."""
        return self.sent_bytes_per_s / self.limit_bytes_per_s


def read_shapers(path: Path) -> tuple[list[Shaper], str | None]:
    """Return the limits in a file, and why there are none to tell."""
    try:
        document = load_object(read_regular(path), where=path.name)
        before, after = document["before"], document["after"]
        return shapers(before, after), after.get("missing")
    except RecordError as error:
        return [], error.message
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError) as error:
        return [], f"{path.name} cannot be read: {type(error).__name__}"


def shapers(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Shaper]:
    """Return every limit that both answers have, the most used first."""
    seconds: float = (after["time_ns"] - before["time_ns"]) / 1e9
    if seconds <= 0:
        return []
    earlier = {_key(row): row for row in _rows(before)}
    limiters = []
    for row in _rows(after):
        limit, first = _limit(row), earlier.get(_key(row))
        if not limit or first is None:
            continue

        def gain(name: str, row: Mapping[str, Any] = row, first: Mapping[str, Any] = first) -> float:
            return max(0.0, _count(row, name) - _count(first, name)) / seconds

        limiters.append(
            Shaper(
                interface=str(row.get("dev", "?")),
                kind=str(row.get("kind", "?")),
                limit_bytes_per_s=limit,
                sent_bytes_per_s=gain("bytes"),
                drops_per_s=gain("drops"),
                delays_per_s=gain("overlimits"),
                backlog_bytes=_count(row, "backlog"),
            )
        )
    return sorted(limiters, key=lambda shaper: -shaper.used_ratio)


def _rows(answer: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    return (row for row in answer.get("qdiscs", ()) if isinstance(row, Mapping))


def _key(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return str(row.get("dev")), str(row.get("kind")), str(row.get("handle"))


def _limit(row: Mapping[str, Any]) -> float | None:
    options = row.get("options")
    for holder in (options if isinstance(options, Mapping) else {}, row):
        for name in _RATE_KEYS:
            value = holder.get(name)
            value = value.get("rate") if isinstance(value, Mapping) else value
            if isinstance(value, int | float) and value > 0:
                return float(value)
    return None


def _count(row: Mapping[str, Any], name: str) -> float:
    value = row.get(name)
    return float(value) if isinstance(value, int | float) else 0.0
