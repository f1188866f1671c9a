"""``perf stat`` as it prints for people: columns, in the numbers of whatever locale.

A line, after perf-stat(1): the end of the interval (-I); the CPU, core, die, socket, node or thread, and for
all but CPU and thread how many CPUs it has; count; unit; event; cgroup; ``#`` and a metric; variation (-r);
share of the time on a counter, where that is not all of it. Lines with a metric alone belong to the event
before them.

A file may hold several outputs (``--append``), each with its header, and a header after interval rows
begins their summary.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from steelyard._base import without_escapes
from steelyard.telemetry.perf_stat.rows import (
    LINE_AT_MOST,
    NOT_COUNTED,
    NOT_SUPPORTED,
    TIMES,
    NotPerfStatError,
    Output,
    Row,
    aggregate,
    localized,
    metric_of,
    percent_ratio,
    plain_number,
    seconds_of,
)

_GROUPS = re.compile("(?<=\\d)[\u00a0\u202f\u2009'\u2019\u066c](?=\\d)")
_HEADER = re.compile(r"^\s*Performance counter stats for (.{0,4000}?)(?: \((\d{1,9}) runs?\))?:\s*$")
_INTERVALS = re.compile(r"^#\s+time\s")
_SECONDS = re.compile(
    r"^\s*(?P<value>[\d.,]+)(?:\s+\+-\s+[\d.,]+)?\s+seconds (?P<what>time elapsed|user|sys)\b"
)
_COVERED = re.compile(r"\s+\(\s*(?P<percent>[\d.,]+)%\)\s*$")
_VARIATION = re.compile(r"\s+\(\s*\+-\s*(?P<percent>[\d.,]+)%\s*\)\s*$")
_TIME = re.compile(r"^\s*(\d+[.,]\d{9})(?=\s)")
_VALUE = re.compile(rf"(?<!\S)(?P<value>[\d.,]*\d|{NOT_COUNTED}|{NOT_SUPPORTED})(?=\s+\S)")
_UNITS = frozenset(
    (
        "Joules",
        "MiB",
        "KiB",
        "GiB",
        "Bytes",
        "MB",
        "KB",
        "GB",
        "B",
        "W",
        "C",
        "mV",
        "V",
        "Hz",
        "ms",
        "%",
        *TIMES,
    )
)
_IN_NAME = re.compile(r"\s*\((msec|nsec)\)$")


def read(lines: Sequence[str]) -> Output:
    """Return what the lines say. Raises NotPerfStatError when there is neither a header nor such a row."""
    if not any(_HEADER.match(line[:LINE_AT_MOST]) or _INTERVALS.match(line) for line in lines):
        raise NotPerfStatError
    output = Output()
    reader = _Reader(output)
    for line in lines:
        reader.take(_GROUPS.sub("", without_escapes(line[:LINE_AT_MOST].rstrip("\r\n"))))
    return output


class _Reader:
    """Reads line by line, since earlier lines explain later ones."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._section = 0
        self._is_inside = self._is_interval = False
        self._last: Row | None = None

    def take(self, line: str) -> None:
        header = _HEADER.match(line)
        if header:
            # What follows interval rows is their summary, of the same section.
            if self._is_inside and not self._is_interval:
                self._section += 1
            self._output.targets[self._section] = header[1].strip().strip("'")
            if header[2]:
                self._output.runs[self._section] = int(header[2])
            self._is_inside, self._is_interval = True, False
            return
        if _INTERVALS.match(line):
            if self._is_inside and not self._is_interval:
                self._section += 1
            self._is_inside = self._is_interval = True
            return
        if not self._is_inside or not line.strip() or line.startswith("#"):
            return
        seconds = _SECONDS.match(line)
        if seconds:
            self._take_seconds(seconds)
        else:
            self._take_row(line)

    def _take_seconds(self, match: re.Match[str]) -> None:
        value = seconds_of(match["value"])
        if value is None:
            return
        if match["what"] == "time elapsed":
            self._output.elapsed_s[self._section] = value
        else:
            known = self._output.cpu_s.get(self._section, 0.0)
            self._output.cpu_s[self._section] = known + value

    def _take_row(self, line: str) -> None:
        covered = variation = None
        match = _COVERED.search(line)
        if match:
            covered, line = percent_ratio(match["percent"]), line[: match.start()]
        match = _VARIATION.search(line)
        if match:
            variation, line = percent_ratio(match["percent"]), line[: match.start()]
        left, mark, right = line.partition(" # ")
        row = self._row(left, 1.0 if covered is None else covered, variation)
        if row is not None:
            self._output.rows.append(row)
            self._last = row
        elif _VALUE.match(left.lstrip()) or aggregate(left.split(maxsplit=1)[0] if left.strip() else ""):
            self._output.unread += 1
            return
        elif not mark:
            if line.strip() and len(self._output.remarks) < 100:
                self._output.remarks.append(line.strip())
            return
        if mark and (row is None or row.value is not None):
            self._metric(right)

    def _row(self, left: str, covered: float, variation: float | None) -> Row | None:
        time_s = None
        match = _TIME.match(left)
        if match and self._is_interval:
            time_s, left = seconds_of(match[1]), left[match.end() :]
        prefix = _prefix(left)
        if prefix is None:
            return None
        scope, entity, text, rest = prefix
        unit, event, cgroup = _named(rest.split())
        if not event:
            return None
        if cgroup:
            scope, entity = "cgroup", f"{cgroup} {entity}".strip()
        lack = text if text.startswith("<") else None
        value = None if lack else localized(text)
        if lack is None and value is None:
            return None
        return Row(
            event=event,
            value=value,
            lack=lack,
            unit=unit,
            scope=scope,
            entity=entity,
            time_s=time_s,
            coverage_ratio=covered,
            variation_ratio=variation,
            section=self._section,
        )

    def _metric(self, right: str) -> None:
        """Keep a metric, which stands alone where the line has no count."""
        text, _, words = right.strip().partition(" ")
        # Metrics and times are never printed in groups.
        value = plain_number(text.rstrip("%"))
        if value is None or not (words.strip() or text.endswith("%")):
            return
        last = self._last
        unit = "% " if text.endswith("%") else ""
        self._output.metrics.append(
            metric_of(
                value,
                unit + words,
                event=last.event if last else "",
                scope=last.scope if last else "",
                entity=last.entity if last else "",
                time_s=last.time_s if last else None,
                section=self._section,
            )
        )


def _prefix(left: str) -> tuple[str, str, str, str] | None:
    """Return scope, entity, the count's text and what follows it."""
    first = left.split(maxsplit=1)
    if not first:
        return None
    known = aggregate(first[0], threads=False)
    if known is not None and len(first) == 2:
        rest = first[1]
        if known[0] != "cpu":
            # How many CPUs it has; without it the name was part of something else.
            counted = re.match(r"\d+\s+(?=\S)", rest)
            rest = rest[counted.end() :] if counted and _VALUE.match(rest[counted.end() :]) else rest
        match = _VALUE.match(rest)
        return None if match is None else (*known, match["value"], rest[match.end() :])
    match = _VALUE.search(left)
    if match is None:
        return None
    before = left[: match.start()].strip()
    if not before:
        return "", "", match["value"], left[match.end() :]
    # A thread's name may hold spaces and numbers: its count is the first after ``-PID``.
    thread = re.match(r"\s*(?P<name>\S.*?-\d+)\s+(?P<rest>\S.*)$", left)
    value = _VALUE.match(thread["rest"]) if thread else None
    if thread is None or value is None:
        return None
    return "thread", thread["name"], value["value"], thread["rest"][value.end() :]


def _named(words: Sequence[str]) -> tuple[str, str, str]:
    """Return unit, event and cgroup of what follows a count.

    >>> _named(["msec", "task-clock", "/a"]), _named(["unc_m_cas_count.rd", "[uncore_imc_0]"])
    (('msec', 'task-clock', '/a'), ('', 'unc_m_cas_count.rd [uncore_imc_0]', ''))
    """
    left = list(words)
    unit = left.pop(0) if len(left) > 1 and left[0] in _UNITS else ""
    if not left:
        return unit, "", ""
    event = left.pop(0)
    while left and (left[0].startswith("[") or left[0].startswith("(") or event.count("/") % 2):
        event += f" {left.pop(0)}"
    match = _IN_NAME.search(event)
    if match:
        unit, event = match[1], event[: match.start()]
    return unit, event, " ".join(left)
