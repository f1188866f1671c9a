"""Reads Prometheus' text format and OpenMetrics: the series of one metric.

In: the text of an endpoint and a `Selector`. Out: the values of the series that are meant, by their labels,
and what the endpoint calls the metric (counter, gauge ...). The formats are those of the Prometheus
documentation ("Exposition formats", version 0.0.4) and of OpenMetrics 1.0.

Invariants: a line that cannot be read is counted and costs itself; NaN is no value; time stamps and exemplars
of lines are passed over, because the moment of the reading is known better.

Standard library only: the recorder's process imports it. Not `prometheus_client`'s parser: it refuses a
whole page for one line that it cannot read, even a comment (client_python issues 1108 and 1131), and makes
objects of all series where one is asked for.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from steelyard.bench.operations.selector import Selector, unescape

SERIES_AT_MOST = 200
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(,|(?=\}))')
_KINDS = ("counter", "gauge", "histogram", "summary", "untyped", "unknown", "info", "stateset")


@dataclass
class Reading:
    """What an endpoint said of a metric: values by the text of a series' labels, and its declared type."""

    values: dict[str, float] = field(default_factory=dict)
    type: str | None = None
    part: bool = False
    """Whether it is a part of a histogram or summary that counts, not a quantile."""
    unreadable: int = 0
    left_out: int = 0
    """Series beyond `SERIES_AT_MOST`."""

    @property
    def meaning(self) -> str | None:
        """Whether it counts up or is a gauge, None where the endpoint does not report it."""
        if self.type in ("histogram", "summary"):
            return "counter" if self.part else "gauge"
        return self.type if self.type in ("counter", "gauge") else None


def read(text: str, selector: Selector) -> Reading:
    """Return the series of ``text`` that ``selector`` means."""
    reading = Reading(part=selector.metric.endswith(("_count", "_sum", "_bucket")))
    families = {selector.metric, re.sub(r"_(total|count|sum|bucket|created)$", "", selector.metric)}
    # Lines end with a line feed alone: other signs that end lines elsewhere may stand in labels.
    for line in text.split("\n"):
        if line.startswith("#"):
            words = line.split(None, 3)
            if len(words) == 4 and words[1] == "TYPE" and words[2] in families and words[3] in _KINDS:
                reading.type = words[3]
            continue
        if not line.startswith(selector.metric):
            continue
        rest = line[len(selector.metric) :]
        if rest[:1] not in ("{", " ", "\t"):
            # Another metric whose name begins alike.
            continue
        _take(rest.lstrip(" \t"), selector, reading)
    return reading


def _take(rest: str, selector: Selector, reading: Reading) -> None:
    labels: dict[str, str] = {}
    if rest.startswith("{"):
        parsed = _labels(rest)
        if parsed is None:
            reading.unreadable += 1
            return
        labels, rest = parsed
    words = rest.split()
    value = _number(words[0]) if words else None
    if value is None:
        reading.unreadable += 1
        return
    if not selector.meant(labels):
        return
    name = text_of(labels)
    if name not in reading.values and len(reading.values) >= SERIES_AT_MOST:
        reading.left_out += 1
    elif math.isfinite(value):
        # A series that stands there twice is the endpoint's error; the last one counts.
        reading.values[name] = value


def _labels(rest: str) -> tuple[dict[str, str], str] | None:
    """Return labels and what follows them, None where they cannot be read."""
    labels: dict[str, str] = {}
    place = 1
    while True:
        while rest[place : place + 1] in (" ", "\t", ","):
            place += 1
        if rest[place : place + 1] == "}":
            return labels, rest[place + 1 :]
        match = _LABEL.match(rest, place)
        if match is None:
            return None
        labels[match[1]] = unescape(match[2])
        place = match.end()


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def text_of(labels: dict[str, str]) -> str:
    """Return labels as one text, the same for the same labels.

    >>> text_of({"b": "2", "a": "1"})
    'a="1",b="2"'
    """
    return ",".join(f'{name}="{value}"' for name, value in sorted(labels.items()))


def names(text: str) -> Iterator[str]:
    """Yield the names of the metrics that ``text`` has values of, each once."""
    seen = set()
    for line in text.split("\n"):
        name = re.match(r"[a-zA-Z_:][a-zA-Z0-9_:]*", line)
        if name is not None and name[0] not in seen:
            seen.add(name[0])
            yield name[0]
