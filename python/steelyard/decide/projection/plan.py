"""What to measure: the error by the number of known groups, and the machine that narrows most intervals.

In: features and targets of known machines, the covariance of siblings. Out: parts of a `Projection`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from steelyard.decide.projection.explain import CHEAP, errors_of
from steelyard.decide.projection.features import Features, Floats
from steelyard.decide.projection.intervals import scale_with_siblings, scores_for
from steelyard.decide.projection.learn import fit
from steelyard.decide.projection.result import LearningPoint, NextMachine
from steelyard.decide.projection.siblings import Siblings

_DRAWS = 3
_STEPS = (4, 6, 9, 12, 18, 26, 36, 50, 70, 100)
_LISTED = 5


def learning_curve(
    features: Features, target: Floats, groups: NDArray[np.str_], known: NDArray[np.bool_]
) -> list[LearningPoint]:
    """Return the error on machines of other groups, by the number of groups that are known."""
    names = np.unique(groups[known])
    counts = [count for count in _STEPS if count < len(names) - 1]
    random = np.random.default_rng(5)
    draws = [
        (count, known & np.isin(groups, random.choice(names, count, replace=False)))
        for count in counts
        for _ in range(_DRAWS)
    ]

    def tried(at: NDArray[np.bool_]) -> tuple[float, float] | None:
        if at.sum() < 3:
            return None
        rest = known & ~at
        projected = np.full(len(target), np.nan)
        projected[rest] = fit(features, target, groups, at, CHEAP).predict(features, rest)
        errors = errors_of(projected, np.where(rest, target, np.nan))
        return float(np.median(errors)), float(np.quantile(errors, 0.9))

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        results = list(pool.map(tried, [at for _, at in draws]))
    points = []
    for count in counts:
        mine = [
            (at.sum(), got) for (one, at), got in zip(draws, results, strict=True) if one == count and got
        ]
        if mine:
            middle = np.mean([got for _, got in mine], axis=0)
            machines = round(float(np.mean([number for number, _ in mine])))
            points.append(LearningPoint(count, machines, float(middle[0]), float(middle[1])))
    return points


def groups_needed(points: Sequence[LearningPoint], wanted: float, now: tuple[int, float]) -> int | None:
    """Return how many groups give a median error of ``wanted``; ``now`` are the known groups and their error.

    The error must stay there: one lucky point is not enough. It is taken to fall with a power of the groups;
    None where that would take more than ten times those known.
    """
    every = [*((one.groups, one.median_error_ratio) for one in points), now]
    if now[1] <= wanted:
        missed = [groups for groups, error in every if error > wanted]
        return min((groups for groups, _ in every if groups > max(missed, default=0)), default=now[0])
    if len(every) < 3:
        return None
    x, y = np.log([groups for groups, _ in every]), np.log([max(error, 1e-9) for _, error in every])
    slope, level = np.polyfit(x, y, 1)
    if slope >= -1e-3:
        return None
    needed = float(np.exp((np.log(wanted) - level) / slope))
    return max(now[0] + 1, int(np.ceil(needed))) if needed <= 10 * now[0] else None


def next_machines(
    names: Sequence[str],
    groups: NDArray[np.str_],
    sizes: Floats,
    known: NDArray[np.bool_],
    half_widths: Floats,
    family: Siblings,
) -> list[NextMachine]:
    """Return the machines whose measurement narrows most intervals, the best of each group, best first.

    ``half_widths`` are logarithms by machine.
    """
    found = []
    quantiles = {one.count: value for one, value in family.quantiles}
    for group in np.unique(groups[~known]):
        open_ones = np.flatnonzero((groups == group) & ~known & np.isfinite(half_widths))
        mine = np.flatnonzero((groups == group) & known)
        after = scores_for([one for one, _ in family.quantiles], len(mine) + 1)
        if not len(open_ones) or after is None:
            continue
        best: tuple[float, int, Floats] | None = None
        for candidate in open_ones[np.argsort(sizes[open_ones])][:: max(1, len(open_ones) // 12)]:
            siblings = np.append(sizes[mine], sizes[candidate])
            _, variance = family.covariance.predict(sizes[open_ones], siblings, np.zeros(len(siblings)))
            widths = quantiles[after.count] * scale_with_siblings(
                family.expected[open_ones], variance, family.covariance
            )
            widths = np.minimum(widths, half_widths[open_ones])
            widths[open_ones == candidate] = 0.0
            gain = float((half_widths[open_ones] - widths).sum())
            if best is None or gain > best[0]:
                best = (gain, int(candidate), widths)
        if best is not None and best[0] > 0:
            others = open_ones[open_ones != best[1]]
            if not len(others):
                continue
            narrowed = int((best[2] < half_widths[open_ones] * 0.99).sum())
            found.append((
                best[0],
                NextMachine(
                    names[best[1]],
                    str(group),
                    narrowed,
                    float(np.expm1(np.median(half_widths[others]))),
                    float(np.expm1(np.median(best[2][open_ones != best[1]]))),
                ),
            ))  # fmt: skip
    return [one for _, one in sorted(found, key=lambda pair: -pair[0])[:_LISTED]]
