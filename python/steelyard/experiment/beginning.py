"""Whether the first blocks of an experiment differ from the others, in all arms together.

In: the record of an experiment. Out: `Beginning`, or None. A machine that warms up, a cache that fills: arms
of one block meet it alike, so that their ratio stays the answer, but their means are of two states.

Not here: how a shift of level is distinguished from noise (``stats.steady``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from steelyard.experiment.answers import values_by_arm
from steelyard.records.experiment import Experiment

_TOLERANCE_RATIO = 0.01
"""Smaller differences are no matter, whatever effect is looked for."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """First blocks that differ."""

    blocks: int
    ratio: float
    """Their level over that of the others."""


def beginning(experiment: Experiment) -> Beginning | None:
    """Return the first blocks (less than half of all) from which the level of all arms shifts, else None."""
    from steelyard.stats.steady import check

    values = values_by_arm(experiment)
    whole = sorted(set[int].intersection(*(set(found) for found in values.values())))
    if not whole:
        return None
    logs = [sum(math.log(found[block]) for found in values.values()) / len(values) for block in whole]
    # Levels as ratios to the middle: a share of them is a share of the metric.
    middle = sorted(logs)[len(logs) // 2]
    levels = [math.exp(log - middle) for log in logs]
    found = check(levels, tolerance_ratio=max(_TOLERANCE_RATIO, experiment.plan.least_effect_ratio))
    first = found.changepoint_index
    if first is None and found.dip_indices is not None and found.dip_indices[0] == 0:
        first = found.dip_indices[1]
    if first is None or first > len(levels) // 2:
        return None
    before, after = (sum(part) / len(part) for part in (levels[:first], levels[first:]))
    return Beginning(first, before / after)
