"""Parameters that make a benchmark another workload, with their ranges and the metrics that they move.

In: a benchmark's ``search`` in its `Declaration`. Out: the parameters that ``steelyard fidelity --calibrate``
varies, and the names by which ``steelyard fidelity`` says what moves a metric.

Not here: what a parameter does (``parameters``), the search (``tune.calibration``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SearchRange:
    """A parameter, in which range it is searched, and which metrics of a workload it moves first."""

    parameter: str
    """Its name, as in --set."""
    least: float | None = None
    """Lower end, in the parameter's unit; None for a choice."""
    most: float | None = None
    """Upper end."""
    is_log: bool = False
    """Whether ratios count and not differences."""
    choices: tuple[str, ...] = ()
    """Texts to choose from, where it is no number."""
    moves: tuple[str, ...] = ()
    """Metrics, as ``decide.fidelity.catalogue`` names them."""

    @property
    def ends(self) -> tuple[float, float]:
        """Return both ends of a range of numbers."""
        if self.least is None or self.most is None:
            raise AssertionError(f"{self.parameter} has choices and no range")
        return self.least, self.most


def moved_by(ranges: Sequence[SearchRange]) -> Mapping[str, str]:
    """Return the parameters that move each metric, in words.

    >>> moved_by([SearchRange("depth", 1, 8, moves=("latency_p50_ns",))])
    {'latency_p50_ns': 'depth'}
    """
    found: dict[str, list[str]] = {}
    for each in ranges:
        for metric in each.moves:
            found.setdefault(metric, []).append(each.parameter)
    return {metric: ", ".join(names) for metric, names in found.items()}
