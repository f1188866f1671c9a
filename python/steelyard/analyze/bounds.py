"""The bounds of verdicts, which stand once for both languages in ``data/bounds/verdict.json``.

In: that file. Out: `BOUNDS`. ``data/bounds/README.md`` says why each bound has its value; the data plane
embeds the same file (``crates/record``). Not here: what is compared with them (``verdict``).
"""

import json
from dataclasses import dataclass
from typing import Any

from steelyard._base import data_dir


@dataclass(frozen=True, slots=True)
class Bounds:
    """Every bound. Of two values, a result is suspect above the first and invalid above the second."""

    error_ratio: tuple[float, float]
    headline_ratio: tuple[float, float]
    achieved_ratio: float
    generator_busy_ratio: float
    generator_late_ratio: float
    generator_lag_of_response_ratio: float
    samples_beyond_percentile: int
    hosts_apart_ratio: float
    capacity_width_ratio: float
    tax_rounds: int
    clock_step_s: float
    clock_slew_ratio: float


def read_bounds() -> Bounds:
    """Return the bounds of the shipped file."""
    document: dict[str, Any] = json.loads((data_dir() / "bounds" / "verdict.json").read_text("utf-8"))
    values: dict[str, Any] = {
        name: (value["suspect"], value["invalid"]) if isinstance(value, dict) else value
        for name, value in document.items()
    }
    return Bounds(**values)


BOUNDS = read_bounds()
