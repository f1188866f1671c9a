"""Rows of ``perf stat -x,`` in a locale with decimal commas, where the separator also stands within numbers.

``1,21,msec,task-clock,1212944,100,00,0,CPUs utilized`` is 1.21 ms on a counter for 100.00 % of the time. perf
writes three numbers with decimals: a count that has a unit, the variation (``2,55%``), and the share of time
that was counted, always with two. The number of fields tells them apart: a unit and a name are no numbers, a
time on a counter stands before the share, and what precedes the count is one of few prefixes.

In: fields split at each comma. Out: the same row as a locale with points has it, None where there is none,
and `AmbiguousRowError` where two readings fit. Nothing is guessed.

perf itself cuts the numbers of its metrics at the comma (``0,CPUs utilized`` was 0.024): they are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from steelyard.telemetry.perf_stat.rows import (
    NOT_COUNTED,
    NOT_SUPPORTED,
    aggregate,
    event_and_cgroup,
    prefix_of,
)

_DIGITS = re.compile(r"\d{1,40}")
_DECIMALS = re.compile(r"\d\d")
_RUN = re.compile(r"\d{1,20}")
_PERCENT = re.compile(r"0|[1-9]\d?|100")
_VARIATION_END = re.compile(r"\d\d%")
_TAIL = re.compile(r",\d{1,20},\d{1,3},\d\d(?=,|\s*$)")
_TAIL_WITH_POINT = re.compile(r",\d{1,20},\d{1,3}\.\d\d(?=,|\s*$)")


class AmbiguousRowError(Exception):
    """A row that has more than one reading."""


def has_decimal_commas(lines: Sequence[str]) -> bool:
    """Return whether rows are separated by commas and have decimals after commas, too."""
    return any(map(_TAIL.search, lines)) and not any(map(_TAIL_WITH_POINT.search, lines))


def rejoin(fields: Sequence[str]) -> list[str] | None:
    """Return the fields of a row with points in its numbers and without a metric; None when it is no row.

    Raises AmbiguousRowError.

    >>> rejoin("S0,2,207,35,msec,task-clock,207351225,100,00,2,CPUs utilized".split(","))
    ['S0', '2', '207.35', 'msec', 'task-clock', '207351225', '100.00']
    """
    fields = [field.strip() for field in fields]
    rows: list[list[str]] = []
    for start, count, after in _counts(fields):
        for end, percent in _tails(fields, after + 1):
            named = _named(fields[after + 1 : end])
            if named is None:
                continue
            row = [*fields[:start], count, fields[after], *named, fields[end], percent]
            if row not in rows:
                rows.append(row)
    if len(rows) > 1:
        raise AmbiguousRowError
    return rows[0] if rows else None


def _counts(fields: Sequence[str]) -> Iterator[tuple[int, str, int]]:
    """Yield where a count may begin, the count, and where its unit is."""
    for at in range(min(7, len(fields) - 4)):
        if not _is_prefix(fields[:at]):
            continue
        if fields[at] in (NOT_COUNTED, NOT_SUPPORTED) or _DIGITS.fullmatch(fields[at]):
            if _is_unit(fields[at + 1]):
                yield at, fields[at], at + 1
            elif _DECIMALS.fullmatch(fields[at + 1]) and fields[at + 2] and _is_unit(fields[at + 2]):
                # Only counts that have a unit have decimals.
                yield at, f"{fields[at]}.{fields[at + 1]}", at + 2


def _is_unit(text: str) -> bool:
    return not _DIGITS.fullmatch(text) and not text.startswith("<") and aggregate(text) is None


def _is_prefix(fields: Sequence[str]) -> bool:
    """Return whether fields may stand before a count: perf tells of how many CPUs an aggregate is."""
    where = prefix_of(fields, ",")
    if where is None:
        return False
    rest = [
        field for field in fields if field and field != "summary" and not re.fullmatch(r"\d+\.\d+", field)
    ]
    if not rest:
        return True
    is_single = where[2] in ("cpu", "thread")
    return not rest[-1].isdigit() if is_single else len(rest) > 1 and rest[-1].isdigit()


def _tails(fields: Sequence[str], begin: int) -> Iterator[tuple[int, str]]:
    """Yield where the time on a counter may be, and the share of time counted."""
    for at in range(begin + 1, len(fields) - 2):
        run, whole, decimals = fields[at : at + 3]
        if not (_RUN.fullmatch(run) and _PERCENT.fullmatch(whole) and _DECIMALS.fullmatch(decimals)):
            continue
        rest = fields[at + 3 :]
        # Nothing, an empty metric, one cut at its comma, or a whole one.
        numbers = [bool(_DIGITS.fullmatch(field)) for field in rest]
        is_metric = numbers in ([], [False, False], [True, False], [True, True, False])
        if is_metric:
            yield at, f"{whole}.{decimals}"


def _named(pieces: Sequence[str]) -> list[str] | None:
    """Return event, cgroup and variation; None where they are none."""
    pieces, variation = list(pieces), []
    if len(pieces) > 2 and _VARIATION_END.fullmatch(pieces[-1]) and _DIGITS.fullmatch(pieces[-2]):
        variation = [".".join(pieces[-2:])]
        pieces = pieces[:-2]
    event, cgroup = event_and_cgroup(pieces, ",")
    is_one = event and not _DIGITS.fullmatch(event) and "," not in cgroup
    return [*pieces, *variation] if is_one else None
