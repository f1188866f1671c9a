"""The OpenMetrics text format, which Prometheus and its like read.

In: families of samples. Out: text. Names are made of letters, digits and underscores; whatever is in a label
is escaped. Source: OpenMetrics 1.0, https://prometheus.io/docs/specs/om/open_metrics_spec/.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_UNITS = {
    "s": "seconds",
    "ns": "nanoseconds",
    "bytes": "bytes",
    "ratio": "ratio",
    "1/s": "per_second",
    "bytes/s": "bytes_per_second",
    "hz": "hertz",
    "w": "watts",
    "j": "joules",
    "celsius": "celsius",
}
"""The word of a unit, which the name of a family with a unit must end with."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One value: its labels, and when it was measured in seconds since 1970."""

    labels: Mapping[str, str]
    value: float
    time_s: float | None = None


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
    """
    lines: list[str] = []
    for family in families:
        samples = [sample for sample in family.samples if math.isfinite(sample.value)]
        if not samples:
            continue
        word = _UNITS.get(family.unit, "")
        name = _name(family.name)
        if word and not name.endswith(f"_{word}"):
            name = f"{name}_{word}"
        lines.append(f"# TYPE {name} gauge")
        if word:
            lines.append(f"# UNIT {name} {word}")
        lines.append(f"# HELP {name} {_escaped(family.help)}")
        for sample in samples:
            labels = ",".join(f'{_name(key)}="{_escaped(value)}"' for key, value in sample.labels.items())
            time = "" if sample.time_s is None else f" {sample.time_s:.3f}"
            lines.append(f"{name}{{{labels}}} {sample.value:.17g}{time}")
    return "\n".join([*lines, "# EOF", ""])


def _name(text: str) -> str:
    name = re.sub(r"[^a-zA-Z0-9_]", "_", text)
    return f"_{name}" if name[:1].isdigit() else name


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
