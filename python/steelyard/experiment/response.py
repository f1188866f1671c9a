"""The response curve of a sweep: the metric over levels that are numbers, its knee, p99 and misses beside it.

In: the record of an experiment. Out: `Response`, or None where the levels are no numbers.

Not here: where the knee is (``stats.knees``), drawing (``report``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from steelyard._base import UsageError
from steelyard.bench.parameters import Kind, Parameter
from steelyard.experiment.answers import readings_by_arm, values_by_arm, whole_blocks
from steelyard.experiment.counting import METRICS
from steelyard.records.experiment import Experiment
from steelyard.stats.knees import FEWEST_BLOCKS, Knee, knee, spaced_by_factors
from steelyard.stats.knees import FEWEST_LEVELS as LEVELS_OF_KNEE

FEWEST_LEVELS = 3
"""Two levels are no curve."""
_KINDS: tuple[tuple[Kind, str], ...] = (("ratio", "1"), ("bytes", "bytes"), ("seconds", "s"))
_TAIL = re.compile(r"(^|_)p99(_|$)")


@dataclass(frozen=True, slots=True)
class Level:
    """One point of the curve."""

    arm: str
    """Which arm."""
    level: float
    """Its name as a number."""
    mean: float | None
    """Geometric mean of the metric in the trials that have one."""
    beside: Mapping[str, float | None]
    """That of each p99, of CPI and of misses of the last cache; None where no trial has one above 0."""


@dataclass(frozen=True, slots=True)
class Response:
    """A metric over the levels of a factor."""

    levels: Sequence[Level]
    """Ascending."""
    unit: str
    """Of the levels: `1`, `bytes` or `s`."""
    knee: Knee
    """Its knee."""

    @property
    def is_log(self) -> bool:
        """Whether the levels are drawn over their logarithm."""
        return spaced_by_factors([level.level for level in self.levels])


def is_tail(name: str) -> bool:
    """Whether a metric is a 99th percentile.

    >>> is_tail("response_p99_ns"), is_tail("response_p999_ns")
    (True, False)
    """
    return _TAIL.search(name) is not None


def is_beside(name: str) -> bool:
    """Whether a reading is drawn over the levels beside the metric."""
    return is_tail(name) or name in METRICS


def is_sweep(experiment: Experiment) -> bool:
    """Whether the arms are the points of a curve: at least three different numbers."""
    read = _levels([arm.name for arm in experiment.arms])
    return read is not None and len(read[1]) >= FEWEST_LEVELS


def response(experiment: Experiment) -> Response | None:
    """Return the curve of an experiment whose arms are at least three different numbers, else None."""
    read = _levels([arm.name for arm in experiment.arms])
    if read is None:
        return None
    unit, numbers = read
    order = list(numbers)
    if len(order) < FEWEST_LEVELS:
        return None
    values = values_by_arm(experiment)
    names = dict.fromkeys(name for trial in experiment.trials for name in trial.readings if is_beside(name))
    beside = {name: readings_by_arm(experiment, name) for name in names}
    whole = sorted(whole_blocks(values))
    return Response(
        [
            Level(
                arm,
                numbers[arm],
                _mean(list(values[arm].values())),
                {name: _mean(list(found[arm].values())) for name, found in beside.items()},
            )
            for arm in order
        ],
        unit,
        knee(
            [numbers[arm] for arm in order],
            [[values[arm][block] for arm in order] for block in whole],
            confidence=experiment.plan.confidence,
            in_order=experiment.plan.blocks_in_order,
        ),
    )


def lacks_blocks_for_knee(experiment: Experiment) -> bool:
    """Return whether the levels are a curve that may have a knee, and its blocks are too few to tell."""
    read = _levels([arm.name for arm in experiment.arms])
    return (
        read is not None
        and len(read[1]) >= LEVELS_OF_KNEE
        and len(whole_blocks(values_by_arm(experiment))) < FEWEST_BLOCKS
    )


def _mean(values: Sequence[float]) -> float | None:
    known = [value for value in values if value > 0]
    return geometric_mean(known) if known else None


def _levels(arms: Sequence[str]) -> tuple[str, dict[str, float]] | None:
    """Return the unit and the ascending numbers of the arms, None where one is no number, or two are one."""
    for kind, unit in _KINDS:
        parameter = Parameter("level", kind, "a level")
        try:
            found = {arm: float(parameter.parse(arm)) for arm in arms}
        except UsageError:
            continue
        if all(math.isfinite(level) for level in found.values()):
            ascending = dict(sorted(found.items(), key=lambda item: item[1]))
            return (unit, ascending) if len(set(found.values())) == len(arms) else None
    return None
