"""Numbers for people: three significant digits, units that fit the size.

In: base units. Out: text. Invariant: never more digits than three significant ones, except counts below
10,000, which are exact; the raw value goes into a ``title`` beside it (`raw`).
"""

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime

from steelyard.report.units import symbols

MISSING = "–"
_NARROW = "\u202f"
_FIGURE = re.compile(r"(?<=\d) (?=%|(?:[kMGT]i?B|B|[mµn]?s|[kMG]?Hz|W|J)(?![A-Za-z]))")
_SI = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_BINARY = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_DURATIONS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))


def significant(value: float, digits: int = 3) -> str:
    """Return ``value`` with ``digits`` significant digits, without an exponent.

    >>> significant(1234.5), significant(0.012345), significant(99.95), significant(0)
    ('1,230', '0.0123', '100', '0')
    """
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, decimals)
    # Rounding may have carried into another digit: 99.95 becomes 100, not 100.0.
    decimals = digits - 1 - math.floor(math.log10(abs(rounded)))
    return f"{rounded:,.{max(0, decimals)}f}"


def _scaled(value: float, steps: tuple[tuple[float, str], ...], below: str) -> str:
    for size, prefix in steps:
        # 999.6 k would be written as 1,000 k: the step is taken where the rounded figure reaches it.
        if abs(value) >= size * 0.9995:
            return f"{significant(value / size)}{_NARROW}{prefix}"
    return f"{significant(value)}{_NARROW}{below}".rstrip(_NARROW)


def plain(text: str) -> str:
    """Return ``text`` with ordinary spaces, for terminals and comparisons."""
    return text.replace(_NARROW, " ")


def unbroken(text: str) -> str:
    """Return ``text`` with figures that no line break parts from their units, for pages.

    >>> unbroken("known to 13.0 % only, of 4 GiB, in 3 steps, 2 stacks").split(" ")
    ['known', 'to', '13.0\u202f%', 'only,', 'of', '4\u202fGiB,', 'in', '3', 'steps,', '2', 'stacks']
    """
    return _FIGURE.sub(_NARROW, text)


def quantity(value: float | None, unit: str | None) -> str:
    """Return a value in the unit of a record as people write it; a dash for None.

    >>> plain(quantity(1234567, "bytes/s")), plain(quantity(0.9034, "ratio"))
    ('1.23 MB/s', '90.3 %')
    >>> plain(quantity(2_345_678, "ns")), quantity(None, "ns")
    ('2.35 ms', '–')
    """
    if value is None:
        return MISSING
    unit = unit or "1"
    if unit in ("ratio", "%"):
        return _percent(value if unit == "ratio" else value / 100)
    if unit in ("ns", "us", "ms", "s", "seconds"):
        scale = {"ns": 1.0, "us": 1e3, "ms": 1e6}.get(unit, 1e9)
        return duration(value * scale)
    if unit in ("bytes", "B") and _is_decimal(value):
        return _with_unit(value, "B")
    if unit in ("bytes", "B"):
        return _scaled(value, _BINARY, "B")
    if unit in ("1", "count"):
        return count(value)
    return _with_unit(value, symbols().get(unit, unit))


def _with_unit(value: float, unit: str) -> str:
    figure = _scaled(value, _SI, "")
    if unit.startswith("/"):
        return f"{figure}{unit}"
    # A prefix stands directly before a unit symbol (MB/s), but apart from a word (M requests/s).
    symbol = unit in ("B", "B/s", "Hz", "W", "J", "bit/s", "T/s", "V", "A")
    if symbol and figure[-1].isalpha():
        return f"{figure}{unit}"
    return f"{figure}{_NARROW}{unit}"


def count(value: float) -> str:
    """Return a count: exact below 10,000 when it is whole, else three digits.

    >>> count(9999), count(0.25), plain(count(1234567))
    ('9,999', '0.250', '1.23 M')
    """
    if float(value).is_integer() and abs(value) < 10_000:
        return f"{int(value):,}"
    return _scaled(value, _SI, "")


def several(number: int, noun: str) -> str:
    """Return a number of things, whose plural ends in s.

    >>> several(1, "incident"), several(1200, "row")
    ('1 incident', '1,200 rows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _is_decimal(size_bytes: float) -> bool:
    """Return whether a size was written in powers of ten: 3.5 MB, as a user typed it, is not 3.34 MiB.

    >>> [_is_decimal(size) for size in (3_500_000, 4096, 1_048_576, 1_234_567, 100_000 * 1024)]
    [True, False, False, False, False]
    """
    return size_bytes >= 100_000 and size_bytes % 100_000 == 0 and size_bytes % 1024 != 0


def capital(text: str) -> str:
    """Return a sentence with a capital at its beginning, unless it begins with a name of a file or the like.

    >>> capital("there is no such page"), capital("servers.csv: no column"), capital("web_1k is missing")
    ('There is no such page', 'servers.csv: no column', 'web_1k is missing')
    >>> capital("fleet: not a store")
    'fleet: not a store'
    """
    # Before a colon stands what the sentence is about, by its name.
    first = text.split(maxsplit=1)[0].rstrip(".,;") if text.strip() else ""
    return f"{text[:1].upper()}{text[1:]}" if first.isalpha() else text


def listed(names: Sequence[str], most: int = 3) -> str:
    """Return the first names, and how many more there are: a table shows all.

    >>> listed(["a", "b"]), listed(["a", "b", "c", "d", "e"])
    ('a and b', 'a, b, c and 2 more')
    """
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most:,} more"
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


def _percent(ratio: float) -> str:
    """Three digits of a share, but no more than two decimals: 99.97 %, not 100 %.

    >>> plain(_percent(0.99973)), plain(_percent(0.0123))
    ('99.97 %', '1.23 %')
    """
    percent = ratio * 100
    if 99.95 <= percent < 100:
        return f"{math.floor(percent * 100) / 100:.2f}{_NARROW}%"
    if 0 < abs(percent) < 0.01:
        return f"<{_NARROW}0.01{_NARROW}%"
    if abs(percent) < 1:
        return f"{percent:.2f}{_NARROW}%" if percent else f"0{_NARROW}%"
    return f"{significant(percent)}{_NARROW}%"


def duration(ns: float) -> str:
    """Return a time span given in ns.

    >>> [plain(duration(x)) for x in (850, 12_345, 10_000_000_000, 754e9)]
    ['850 ns', '12.3 µs', '10.0 s', '12 min 34 s']
    """
    if abs(ns) >= 120e9:
        minutes, seconds = divmod(round(ns / 1e9), 60)
        hours, minutes = divmod(minutes, 60)
        parts = (f"{hours}{_NARROW}h" if hours else "", f"{minutes}{_NARROW}min", f"{seconds}{_NARROW}s")
        return " ".join(part for part in parts if part)
    return _scaled(ns, _DURATIONS, "ns")


def raw(value: float | None, unit: str | None) -> str:
    """Return the value as it stands in the record, for a title.

    >>> raw(123456.0, "ns"), raw(None, "1")
    ('123456 ns', 'not measured')
    """
    if value is None:
        return "not measured"
    figure = str(int(value)) if float(value).is_integer() else repr(float(value))
    return figure if unit in (None, "1", "count", "ratio") else f"{figure} {unit}"


def moment(realtime_ns: int) -> str:
    """Return a time of day in UTC.

    >>> moment(1_763_700_000_000_000_000)
    '2025-11-21 04:40:00 UTC'
    """
    try:
        return datetime.fromtimestamp(realtime_ns / 1e9, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return "at a time beyond the calendar"
