"""The OpenMetrics text format, which Prometheus and its like read.

In: families of samples. Out: text. Names are made of letters, digits and underscores; whatever is in a label
is escaped. Source: OpenMetrics 1.0, https://prometheus.io/docs/specs/om/open_metrics_spec/.

Invariant: readers of the older text format of Prometheus, such as the textfile collector of node_exporter,
read it too. No sample has a time stamp: that collector refuses them, and a scraper refuses old ones.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_UNITS = {
    "s": ("s", "seconds", 1.0),
    "ns": ("ns", "seconds", 1e9),
    "bytes": ("bytes", "bytes", 1.0),
    "ratio": ("ratio", "ratio", 1.0),
    "1/s": ("per_s", "per_second", 1.0),
    "bytes/s": ("bytes_per_s", "bytes_per_second", 1.0),
    "hz": ("hz", "hertz", 1.0),
    "w": ("w", "watts", 1.0),
    "j": ("j", "joules", 1.0),
    "celsius": ("celsius", "celsius", 1.0),
}
"""Of a unit of records: the end of names that have it, the word that a family's name must end with, and how
many of it are one of that word's unit: dividing leaves the shortest text exact."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One value, and its labels."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Family:
    """A metric with its samples, a gauge. ``unit`` is one of records."""

    name: str
    help: str
    samples: Sequence[Sample]
    unit: str = ""


def open_metrics(families: Iterable[Family]) -> str:
    r"""Return the text of families; one without a sample is left out, and so is a value that is not finite.

    >>> print(open_metrics([Family("runs", "Runs.", [Sample({"host": 'a"b'}, 3.0)])]), end="")
    # TYPE runs gauge
    # HELP runs Runs.
    runs{host="a\"b"} 3
    # EOF
    >>> print(open_metrics([Family("p99_ns", "p99.", [Sample({}, 5e8)], "ns")]), end="")
    # TYPE p99_seconds gauge
    # UNIT p99_seconds seconds
    # HELP p99_seconds p99.
    p99_seconds{} 0.5
    # EOF
    """
    lines: list[str] = []
    for family in families:
        samples = [sample for sample in family.samples if math.isfinite(sample.value)]
        if not samples:
            continue
        ending, word, divisor = _UNITS.get(family.unit, ("", "", 1.0))
        name = _name(family.name)
        if name.endswith("_cpu_s"):
            # A rate by CPU time, whose name has its unit already: it is none by the clock.
            name, word = f"{name.removesuffix('_s')}_second", ""
        if word:
            name = f"{name.removesuffix(f'_{ending}').removesuffix(f'_{word}')}_{word}"
        lines.append(f"# TYPE {name} gauge")
        if word:
            lines.append(f"# UNIT {name} {word}")
        # The older format knows no escaped quotes here.
        about = family.help.replace('"', "'")
        lines.append(f"# HELP {name} {_escaped(about)}")
        for sample in samples:
            labels = ",".join(f'{_name(key)}="{_escaped(value)}"' for key, value in sample.labels.items())
            lines.append(f"{name}{{{labels}}} {_number(sample.value / divisor)}")
    return "\n".join([*lines, "# EOF", ""])


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 1e16 else repr(value)


def _name(text: str) -> str:
    name = re.sub(r"[^a-zA-Z0-9_]", "_", text)
    return f"_{name}" if name[:1].isdigit() else name


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
