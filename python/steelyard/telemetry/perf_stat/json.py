"""``perf stat -j``: one JSON object a row, often among lines of the program that was counted.

The fields, after perf-stat(1), "JSON FORMAT", as perf 5.15 to 6.12 print them: counts are strings or numbers,
``interval`` is the end of an interval, the entity is under ``cpu``, ``core``, ``die``, ``cluster``,
``cache``, ``socket``, ``node`` or ``thread``, and beside it ``cgroup``. perf does not escape what it puts in
strings, and some versions forget a comma: such a line is counted as one that cannot be understood. In a
locale with decimal commas it prints ``"pcnt-running" : 100,00``, which is no JSON: a number with a comma
between two digits, and the end of a field after it, is read as the number that it is.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from steelyard.telemetry.perf_stat.rows import (
    LINE_AT_MOST,
    NOT_COUNTED,
    NOT_SUPPORTED,
    SECONDS_BELOW,
    NotPerfStatError,
    Output,
    PerfMetric,
    Row,
    aggregate,
    metric_of,
    plain_number,
)

_PARTS = ("core", "die", "cluster", "cache", "socket", "node", "thread")
_KNOWN = frozenset(
    (
        *("counter-value", "event", "unit", "event-runtime", "pcnt-running", "variance", "interval", "cpu"),
        *("metric-value", "metric-unit", "metric-threshold", "metricgroup", "cgroup", *_PARTS),
        *("aggregate-number", "counters", "cpus"),
    )
)
_DECODER = json.JSONDecoder()
_DECIMAL_COMMA = re.compile(r"(:\s*-?\d{1,40}),(\d{1,40})(?=\s*(?:,\s*\"|\}))")
_CPUS_BELOW = 1_000_000


def read(lines: Sequence[str]) -> Output:
    """Return what the lines say. Raises NotPerfStatError when none is such a row."""
    output = Output()
    section, any_row, event = 0, False, ""
    for line in lines:
        if line.startswith("# started on"):
            section += any_row
            any_row = False
            continue
        if "{" not in line:
            continue
        understood = False
        merged: dict[str, Any] = {}
        text = line[:LINE_AT_MOST]
        for document in _objects(_DECIMAL_COMMA.sub(r"\1.\2", text)):
            understood = True
            # Metrics alone: perf prints the interval and the metrics as objects of their own on one line.
            merged |= document
            row = _row(document, section)
            if row is not None:
                output.rows.append(row)
                event, any_row = row.event, True
        before = len(output.metrics)
        output.metrics += _metrics(merged, event, section)
        any_row = any_row or len(output.metrics) > before
        output.unread += not understood and '"counter-value"' in line
    if not output.rows and not output.metrics:
        raise NotPerfStatError
    return output


def _objects(line: str) -> Iterator[Mapping[str, Any]]:
    """Yield the JSON objects of a line, wherever on it they are."""
    at = line.find("{")
    while at >= 0:
        try:
            document, end = _DECODER.raw_decode(line, at)
        except (ValueError, RecursionError):
            at = line.find("{", at + 1)
            continue
        if isinstance(document, dict):
            yield document
        at = line.find("{", end)


def _row(document: Mapping[str, Any], section: int) -> Row | None:
    event, value = document.get("event"), document.get("counter-value")
    if not isinstance(event, str) or not event.strip() or value is None:
        return None
    lack = value.strip() if isinstance(value, str) and value.strip() in (NOT_COUNTED, NOT_SUPPORTED) else None
    count = None if lack else _number(value)
    if lack is None and count is None:
        return None
    scope, entity = _where(document)
    percent = _number(document.get("pcnt-running"))
    variance = _number(document.get("variance"))
    unit = document.get("unit")
    return Row(
        event=event.strip(),
        value=count,
        lack=lack,
        unit=unit.strip() if isinstance(unit, str) else "",
        scope=scope,
        entity=entity,
        time_s=_seconds(document),
        coverage_ratio=None if percent is None or percent < 0 else min(1.0, percent / 100),
        variation_ratio=None if variance is None else variance / 100,
        section=section,
    )


def _where(document: Mapping[str, Any]) -> tuple[str, str]:
    scope = entity = ""
    cpu = document.get("cpu")
    if isinstance(cpu, str) and re.fullmatch(r"\d{1,6}", cpu, re.ASCII):
        scope, entity = "cpu", f"cpu{int(cpu)}"
    elif isinstance(cpu, int) and not isinstance(cpu, bool) and 0 <= cpu < _CPUS_BELOW:
        scope, entity = "cpu", f"cpu{cpu}"
    else:
        for part in _PARTS:
            named = document.get(part)
            if isinstance(named, str) and named:
                known = aggregate(named)
                scope, entity = (part, named) if known is None or part == "thread" else known
                break
    cgroup = document.get("cgroup")
    if isinstance(cgroup, str) and cgroup:
        return "cgroup", f"{cgroup} {entity}".strip()
    return scope, entity


def _metrics(document: Mapping[str, Any], event: str, section: int) -> list[PerfMetric]:
    """Return the metric of a row, or all of a line that has nothing else (``--metric-only``)."""
    scope, entity = _where(document)
    where = {"scope": scope, "entity": entity, "section": section}
    time_s = _seconds(document)
    value, words = _number(document.get("metric-value")), document.get("metric-unit")
    if value is not None and isinstance(words, str) and words.strip():
        lacks = document.get("counter-value") in (NOT_COUNTED, NOT_SUPPORTED)
        return [] if lacks else [metric_of(value, words, event=event, time_s=time_s, **where)]
    if "counter-value" in document:
        return []
    return [
        PerfMetric(name.strip(), number, time_s=time_s, **where)  # type: ignore[arg-type]
        for name, content in document.items()
        if name not in _KNOWN and name.strip() and (number := _number(content)) is not None
    ]


def _seconds(document: Mapping[str, Any]) -> float | None:
    """Return the end of a row's interval."""
    value = _number(document.get("interval"))
    return value if value is not None and 0 <= value < SECONDS_BELOW else None


def _number(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        try:
            number = float(value)
        except OverflowError:
            return None
        return number if math.isfinite(number) else None
    return plain_number(value.strip()) if isinstance(value, str) else None
