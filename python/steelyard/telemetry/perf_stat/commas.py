"""Rows of ``perf stat -x,`` in a locale with decimal commas, where the separator also stands within numbers.

``1,21,msec,task-clock,1212944,100,00,0,CPUs utilized`` is 1.21 ms on a counter for 100.00 % of the time. perf
writes three numbers with decimals: a count that has a unit (with two; before perf 5, times have six and may
lack the unit), the variation (``2,55%``), and the share of time that was counted, always with two. They
differ in the number of fields: a unit and a name are no numbers, a time on a counter stands before the
share, and what precedes the count is one of few prefixes.

perf writes a cgroup in every row or in none: one row that can only be read without a cgroup decides for all
(``has_cgroups``).

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
_OF_COUNT = re.compile(r"\d\d(?:\d{4})?")
_NANOSECONDS = re.compile(r"\d{9}")
CLOCKS = ("task-clock", "cpu-clock")
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


def has_cgroups(lines: Sequence[str]) -> bool:
    """Return whether rows may name cgroups: none does where one row has no other reading than without."""
    for line in lines:
        readings = _readings(line.rstrip("\r\n").split(","))
        if len(readings) == 1 and not readings[0][1]:
            return False
    return True


def rejoin(fields: Sequence[str], *, with_cgroups: bool = True) -> list[str] | None:
    """Return the fields of a row with points in its numbers and without a metric; None when it is no row.

    Raises AmbiguousRowError.

    >>> rejoin("S0,2,207,35,msec,task-clock,207351225,100,00,2,CPUs utilized".split(","))
    ['S0', '2', '207.35', 'msec', 'task-clock', '207351225', '100.00']
    """
    rows = [row for row, has_cgroup in _readings(fields) if with_cgroups or not has_cgroup]
    if len(rows) > 1:
        raise AmbiguousRowError
    return rows[0] if rows else None


def _readings(fields: Sequence[str]) -> list[tuple[list[str], bool]]:
    """Return every row that the fields can be, and whether it names a cgroup."""
    fields = _with_time([field.strip() for field in fields])
    rows: list[tuple[list[str], bool]] = []
    for start, count, after in _counts(fields):
        for end, percent in _tails(fields, after + 1):
            named = _named(fields[after + 1 : end])
            if named is None:
                continue
            pieces, has_cgroup = named
            row = [*fields[:start], count, fields[after], *pieces, fields[end], percent]
            if (row, has_cgroup) not in rows:
                rows.append((row, has_cgroup))
    return rows


def _counts(fields: Sequence[str]) -> Iterator[tuple[int, str, int]]:
    """Yield where a count may begin, the count, and where its unit is."""
    for at in range(min(7, len(fields) - 4)):
        if not _is_prefix(fields[:at]):
            continue
        if fields[at] in (NOT_COUNTED, NOT_SUPPORTED) or _DIGITS.fullmatch(fields[at]):
            if _is_unit(fields[at + 1]):
                yield at, fields[at], at + 1
            elif _OF_COUNT.fullmatch(fields[at + 1]) and _has_decimals(fields[at + 2 : at + 4]):
                yield at, f"{fields[at]}.{fields[at + 1]}", at + 2


def _with_time(fields: list[str]) -> list[str]:
    """Return the fields with the end of an interval in one, which has nine decimals."""
    if len(fields) > 2 and _DIGITS.fullmatch(fields[0]) and _NANOSECONDS.fullmatch(fields[1]):
        return [".".join(fields[:2]), *fields[2:]]
    return fields


def _has_decimals(named: Sequence[str]) -> bool:
    """Return whether a count has decimals that is followed by this unit and event."""
    unit, event = named
    return _is_unit(unit) and (unit != "" or event.split(":")[0] in CLOCKS)


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
        # perf prints no number that begins with two zeros.
        is_metric = numbers in ([], [False, False], [True, False], [True, True, False]) and rest[:1] != ["00"]
        if is_metric:
            yield at, f"{whole}.{decimals}"


def _named(pieces: Sequence[str]) -> tuple[list[str], bool] | None:
    """Return event, cgroup and variation, and whether there is a cgroup; None where they are none."""
    pieces, variation = list(pieces), []
    if len(pieces) > 2 and _VARIATION_END.fullmatch(pieces[-1]) and _DIGITS.fullmatch(pieces[-2]):
        variation = [".".join(pieces[-2:])]
        pieces = pieces[:-2]
    event, cgroup = event_and_cgroup(pieces, ",")
    is_one = event and not _DIGITS.fullmatch(event) and "," not in cgroup
    return ([*pieces, *variation], cgroup != "") if is_one else None
