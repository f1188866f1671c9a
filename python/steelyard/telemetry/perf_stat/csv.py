"""``perf stat -x SEPARATOR``: fields with any separator, which perf neither quotes nor escapes.

The fields, after perf-stat(1), "CSV FORMAT": the end of the interval (-I) or ``summary``; the CPU, core,
die, socket, node or thread, and for all but CPU and thread how many CPUs it has; count; unit; event; cgroup
where any event has one; variation (-r); time on a counter; share of the time enabled; a metric and its unit.

An event's name may hold the separator (``cpu/event=0x3c,umask=0x0/``), so that fields are found from both
ends: a count and a unit, which is no number, in front; time on a counter and a percentage behind. A name ends
when its slashes are paired; what is left before the variation is the cgroup.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from steelyard.telemetry.perf_stat.commas import (
    CLOCKS,
    AmbiguousRowError,
    has_cgroups,
    has_decimal_commas,
    rejoin,
)
from steelyard.telemetry.perf_stat.rows import (
    LINE_AT_MOST,
    NOT_COUNTED,
    NOT_SUPPORTED,
    NotPerfStatError,
    Output,
    PerfMetric,
    Row,
    aggregate,
    event_and_cgroup,
    metric_of,
    percent_ratio,
    plain_number,
    prefix_of,
)

_TAIL = re.compile(
    r"(?P<sep>(?![.%<>\"/\[\]{}()+-])[^\w\s]{1,4}|\t)(?P<run>\d{1,20})(?P=sep)"
    r"\d{1,3}[.,]\d\d(?=(?P=sep)|\s*$)"
)
_PERCENT = re.compile(r"\d{1,3}[.,]\d\d")
_VARIATION = re.compile(r"[\d.,]+%")
_RUN = re.compile(r"\d{1,20}")
_STARTED = "# started on"
_HEADS = ("core", "cache", "die", "socket", "cluster", "cpu", "comm-pid", "node", "cpus", "time")


def read(lines: Sequence[str]) -> Output:
    """Return what the lines say. Raises NotPerfStatError when none is such a row."""
    output = Output()
    separator = _separator(lines)
    if separator is None:
        if not _metric_only(lines, output):
            raise NotPerfStatError
        return output
    section, any_row, event, is_apart = 0, False, "", False
    seen: set[tuple[str, str, str, float | None]] = set()
    with_commas = separator == "," and has_decimal_commas(lines)
    # perf cuts the numbers of its metrics where they stop being digits and points.
    has_metrics = not (with_commas or _cuts_metrics(lines))
    with_cgroups = not with_commas or has_cgroups([line[:LINE_AT_MOST] for line in lines])
    ambiguous = 0
    for line in lines:
        if line.startswith(_STARTED):
            section += any_row
            any_row, seen = False, set()
            continue
        is_apart = is_apart or not line.strip() or line.startswith("#")
        fields = line[:LINE_AT_MOST].rstrip("\r\n").split(separator)
        if with_commas:
            try:
                fields = rejoin(fields, with_cgroups=with_cgroups) or fields
            except AmbiguousRowError:
                ambiguous += 1
                continue
        row = _row(fields, separator, section)
        if row is not None:
            key = (row.scope, row.entity, row.event, row.time_s)
            if is_apart and key in seen:
                # Written by somebody who left perf's own header out.
                section += 1
                row, seen = replace(row, section=section), set()
            seen.add(key)
            is_apart = False
            output.rows.append(row)
            event, any_row = row.event, True
            metric = _metric(fields, row) if has_metrics else None
        else:
            metric = _metric_alone(fields, event, section) if has_metrics else None
            output.unread += metric is None and _looks_like_a_row(fields)
        if metric is not None:
            output.metrics.append(metric)
    if not has_metrics:
        output.remarks.append(
            "metrics are left out: perf cut their numbers at the decimal comma of its locale"
        )
    _note_ambiguous(output, ambiguous)
    return output


def _note_ambiguous(output: Output, count: int) -> None:
    output.unread += count
    if count:
        output.remarks.append(
            f"{count} rows can be read in two ways, because commas separate fields and decimals:"
            " run perf with LC_ALL=C, or with -x';'"
        )


def _separator(lines: Sequence[str]) -> str | None:
    """Return what stands around the time on a counter in most rows."""
    seen: Counter[str] = Counter()
    for line in lines[:2000]:
        match = _TAIL.search(line[:LINE_AT_MOST])
        if match:
            seen[match["sep"]] += 1
    return seen.most_common(1)[0][0] if seen else None


def _cuts_metrics(lines: Sequence[str]) -> bool:
    """Return whether decimals follow a comma, with another separator."""
    tails = (_TAIL.search(line[:LINE_AT_MOST]) for line in lines[:2000])
    return any(tail["sep"] != "," and "," in tail[0] for tail in tails if tail)


def _looks_like_a_row(fields: Sequence[str]) -> bool:
    return len(fields) > 3 and any(
        field in (NOT_COUNTED, NOT_SUPPORTED) or plain_number(field.strip()) is not None for field in fields
    )


def _row(fields: Sequence[str], separator: str, section: int) -> Row | None:
    """Return the row of a line, None for a line that has none."""
    at = _count_at(fields)
    if at is None:
        return None
    end = next(
        (
            index
            for index in range(at + 3, len(fields) - 1)
            if _RUN.fullmatch(fields[index]) and _PERCENT.fullmatch(fields[index + 1].strip())
        ),
        None,
    )
    if end is None:
        return None
    named = list(fields[at + 2 : end])
    variation = percent_ratio(named.pop()) if len(named) > 1 and _VARIATION.fullmatch(named[-1]) else None
    event, cgroup = event_and_cgroup(named, separator)
    where = prefix_of(fields[:at], separator)
    if where is None or not event:
        return None
    time_s, summary, scope, entity = where
    if cgroup:
        scope, entity = "cgroup", f"{cgroup} {entity}".strip()
    value = fields[at].strip()
    return Row(
        event=event,
        value=None if value.startswith("<") else plain_number(value),
        lack=value if value.startswith("<") else None,
        unit=_unit(fields[at + 1].strip(), event, value),
        scope=scope,
        entity=entity,
        time_s=time_s,
        coverage_ratio=percent_ratio(fields[end + 1]),
        variation_ratio=variation,
        section=section,
        summary=summary,
    )


def _unit(unit: str, event: str, value: str) -> str:
    """Return a count's unit: before perf 5, times had none, and were milliseconds with six decimals."""
    is_time = event.split(":")[0] in CLOCKS and re.search(r"[.,]\d{6}$", value)
    return "msec" if not unit and is_time else unit


def _count_at(fields: Sequence[str]) -> int | None:
    """Return where the count is: the first number that a unit follows."""
    for at in range(min(6, len(fields) - 3)):
        value, unit = fields[at].strip(), fields[at + 1].strip()
        known = value in (NOT_COUNTED, NOT_SUPPORTED) or plain_number(value) is not None
        if known and plain_number(unit) is None and not unit.startswith("<") and aggregate(unit) is None:
            return at
    return None


def _metric(fields: Sequence[str], row: Row) -> PerfMetric | None:
    """Return the metric at the end of a row."""
    value = plain_number(fields[-2].strip()) if len(fields) > 2 else None
    if value is None or row.value is None or not fields[-1].strip() or _PERCENT.fullmatch(fields[-1]):
        return None
    return metric_of(
        value,
        fields[-1],
        event=row.event,
        scope=row.scope,
        entity=row.entity,
        time_s=row.time_s,
        section=row.section,
        summary=row.summary,
    )


def _metric_alone(fields: Sequence[str], event: str, section: int) -> PerfMetric | None:
    """Return the metric of a line whose fields before it are empty, but for where it was counted."""
    if len(fields) < 4 or not fields[-1].strip() or fields[-3].strip():
        return None
    value = plain_number(fields[-2].strip())
    where = prefix_of([field for field in fields[:-2] if field.strip()], ",")
    if value is None or where is None:
        return None
    time_s, summary, scope, entity = where
    words = fields[-1]
    return metric_of(
        value,
        words,
        event=event,
        scope=scope,
        entity=entity,
        time_s=time_s,
        section=section,
        summary=summary,
    )


def _metric_only(lines: Sequence[str], output: Output) -> bool:
    """Read ``--metric-only``: a line of names, and lines of values; return whether it was such."""
    for separator in (",", ";", "|", "\t"):
        names: list[str] = []
        for line in lines:
            fields = [field.strip() for field in line[:LINE_AT_MOST].rstrip("\r\n").split(separator)]
            if len(fields) < 2 or line.startswith("#"):
                continue
            words = [field for field in fields if field]
            if words and all(plain_number(word) is None for word in words):
                names = fields
            elif names and len(fields) == len(names):
                _values(names, fields, output)
        if output.metrics:
            return True
    return False


def _values(names: Sequence[str], fields: Sequence[str], output: Output) -> None:
    known = [
        (name, value)
        for name, field in zip(names, fields, strict=True)
        if name and name not in _HEADS and (value := plain_number(field)) is not None
    ]
    if not known:
        return
    heads = [field for name, field in zip(names, fields, strict=True) if name in _HEADS]
    where = prefix_of(heads, ",") or (None, False, "", "")
    for name, value in known:
        output.metrics.append(
            PerfMetric(name, value, time_s=where[0], scope=where[2], entity=where[3], section=0)
        )
