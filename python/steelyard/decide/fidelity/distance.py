"""How far apart two values are, so that metrics of all units can be put in one order.

In: two values of one metric. Out: a signed distance: A above B is positive.

- Magnitudes (rates, sizes, latencies, misses): ln((a + f) / (b + f)) with the metric's floor f. 0.05 is 5 %
  more, 0.69 is twice, and a half is as far as twice. With a floor of 0 both must be above 0.
- Shares of a whole: a - b. 0.05 is 5 points.
- Mixes: half of the sum of the absolute differences of their shares (total variation): the part of the whole
  that would have to move for the one to become the other. Shares of a group that make up a whole, as the
  top-down ones, are taken likewise, with what is not known on either side as one part.
- Latencies: by quantile, each as a magnitude.

A group is the mean of its metrics, and the whole is the mean of its groups, so that ten kinds of misses count
no more than one frequency.

Not here: intervals (``noise``), groups (``comparison``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from steelyard.decide.fidelity.catalogue import REST, Kind, Metric

LISTED_RATIO = 0.01
"""A part of a mix with less than this share on both sides is among the others, as few samples saw it."""


def signed_distance(metric: Metric, a: float, b: float) -> float | None:
    """Return the distance of two values; None for a ratio of 0.

    >>> from steelyard.decide.fidelity.catalogue import CATALOGUE
    >>> round(signed_distance(CATALOGUE["ipc"], 2.0, 1.0), 3)
    0.693
    >>> round(signed_distance(CATALOGUE["cpu_user_ratio"], 0.3, 0.25), 3)
    0.05
    """
    if metric.kind is Kind.SHARE:
        return a - b
    a, b = a + metric.floor, b + metric.floor
    if a == b:
        return 0.0
    if a <= 0 or b <= 0:
        return None
    return math.log(a) - math.log(b)


def common_parts(a: Mapping[str, float], b: Mapping[str, float]) -> list[str]:
    """Return the names by which two mixes are compared: large ones, and all others as one at the end."""
    names = [
        name
        for name in dict.fromkeys((*a, *b))
        if name != REST and max(a.get(name, 0.0), b.get(name, 0.0)) >= LISTED_RATIO
    ]
    ranked = sorted(names, key=lambda name: (-max(a.get(name, 0.0), b.get(name, 0.0)), name))
    return [*ranked, REST]


def shares_of(parts: Mapping[str, float], names: list[str]) -> list[float]:
    """Return the shares of ``names``, whose last is what is left of the whole."""
    known = [parts.get(name, 0.0) for name in names[:-1]]
    return [*known, max(0.0, 1 - math.fsum(known))]


def total_variation(a: Mapping[str, float], b: Mapping[str, float]) -> float:
    """Return the total variation distance of two mixes, 0 to 1.

    >>> round(total_variation({"copy": 0.6, "parse": 0.4}, {"copy": 0.5, "hash": 0.5}), 3)
    0.5
    """
    names = common_parts(a, b)
    return 0.5 * math.fsum(
        abs(left - right) for left, right in zip(shares_of(a, names), shares_of(b, names), strict=True)
    )
