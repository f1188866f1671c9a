"""Which task samples tell of CPI, and why others do not.

In: the table ``task_samples``. Out: the same rows with ``usage`` (CPU-seconds per second) and ``state``: 0
for a sample that counts, else the number of the reason why it does not (`REASONS`).

Invariants: every row has exactly one state, the first reason in the order of `REASONS` that holds; the same
on every engine, NaN and infinity included, because both DuckDB and Spark put NaN above all numbers.

Not here: what is made of the samples that count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from steelyard.telemetry.deferred import ibis

KEYS = ("job", "platform", "cpi_source")
"""A spec is of one job on one platform, and never mixes what CPI was computed from."""

COUNTED = "cycles/instructions"
"""The source whose CPI has physical bounds; others are stand-ins with units of their own."""

REASONS = {
    1: "zero instructions",
    2: "no CPI",
    3: "CPI of unknown source",
    4: "impossible CPI",
    5: "usage below the minimum",
}


@dataclass(frozen=True)
class Guards:
    """What a sample must be to count. Usage in CPU-seconds per second, CPI in cycles per instruction."""

    minimum_usage: float = 0.25
    """CPU usage of a sample."""
    lowest_cpi: float = 0.05
    """No core retires twenty instructions a cycle."""
    highest_cpi: float = 1000.0
    """A chain of loads that all go to memory, beside a busy sibling thread, stays below."""

    def __post_init__(self) -> None:
        if not (self.minimum_usage >= 0 and 0 < self.lowest_cpi < self.highest_cpi):
            raise ValueError(
                "usage must not be negative; the lowest CPI must be above 0 and below the highest"
            )


def judged(samples: Any, guards: Guards) -> Any:
    """Return ``samples`` with ``usage`` and ``state``."""
    # Spark refuses a division by zero, where DuckDB gives infinity.
    usage = samples.cpu_s / samples.window_s.nullif(0.0)
    is_counted = samples.cpi_source == COUNTED
    # Nearly all samples take the first way out, so that the rest is evaluated for the few others only.
    is_plain = (
        (samples.cpi >= guards.lowest_cpi)
        & (samples.cpi <= guards.highest_cpi)
        & (usage >= guards.minimum_usage)
        & (usage <= LARGEST)
        & (samples.instructions != 0).fill_null(True)
        & samples.cpi_source.notnull()
    )
    state = ibis.cases(
        (is_plain, 0),
        (samples.instructions == 0, 1),
        (samples.cpi.isnull(), 2),
        (samples.cpi_source.isnull(), 3),
        ((samples.cpi > guards.highest_cpi) & (is_counted | (samples.cpi > LARGEST)), 4),
        ((samples.cpi < guards.lowest_cpi) & (is_counted | (samples.cpi <= 0)), 4),
        # Written so that a missing usage, as of a window of no length, does not count either.
        (~(usage >= guards.minimum_usage).fill_null(False) | (usage > LARGEST), 5),
        else_=0,
    )
    return samples.mutate(usage=usage, state=state)


def counted(samples: Any, guards: Guards) -> Any:
    """Return the samples that count, with their ``usage``."""
    rows = judged(samples, guards)
    return rows.filter(rows.state == 0).drop("state")


# The largest finite double: above it are infinity and, to both engines, NaN.
LARGEST = 1.7976931348623157e308
