"""How sure the order of two machines is.

In: repeats of the results of two machines, by session; or a stated noise. Out: an interval for the ratio of
their overall scores, and the probability that the first is the better one.

Repeats of one session share what the session had: with several sessions, a session's mean is the replicate.
Logarithms are compared, and the members' deviations are added as `mean_ratio_interval` adds them: repeats
made together by their means, others as if they agreed wholly. The probability is the share of Student's t
distribution, with the larger of both widths and Welch's degrees of freedom, on the first machine's side of 1;
of equal machines it is below 2.5 % or above 97.5 % in at most one of 20 cases (docs/truth.md).

Without three replicates on both sides there is no probability, unless the noise is stated: then the normal
distribution's. Power and prices have one value each: their errors are not in it.

Not here: scores (``scores``), who is first (``making``).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from steelyard.decide.choice.results import Order, Workload
from steelyard.decide.tables.model import MeasuredMachine, Measurement
from steelyard.stats.intervals import RATIO_COUNT

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class _Side:
    """The overall logarithm of one machine's results."""

    count: int
    mean: float
    median: float
    """Of the medians that scores are made of."""
    variance: float
    """Of one replicate."""


def order_of(
    first: MeasuredMachine,
    second: MeasuredMachine,
    workloads: Sequence[Workload],
    ratio: float,
    noise: float | None = None,
) -> Order:
    """Return how sure it is that ``first`` is better, whose score is ``ratio`` times that of ``second``.

    ``noise`` is the relative standard deviation of a result, for machines without repeats.
    """
    counted = [each for each in workloads if each.weight > 0]
    sides = [_side(machine, counted) for machine in (first, second)]
    pairs = zip((first, second), sides, strict=True)
    few = next(((machine, side) for machine, side in pairs if side.count < RATIO_COUNT), None)
    score = math.log(ratio)
    # Scores are of medians, whose errors no formula gives; those of means, power and prices added, are known.
    middle = score + (sides[0].mean - sides[1].mean) - (sides[0].median - sides[1].median)
    if few is None and any(side.variance > 0 for side in sides):
        error, freedom = _error(sides[0], sides[1])
        return _stated(first.name, second.name, (score, middle), error, freedom)
    if noise is not None:
        error = noise * math.sqrt(sum(1 / side.count for side in sides))
        return _stated(first.name, second.name, (score, middle), error, math.inf)
    if few is not None:
        reason = _why_few(few[0], counted, few[1].count)
    else:
        reason = "repeats of both are all the same: they show no noise"
    return Order(first.name, second.name, ratio, None, None, None, reason)


def _why_few(machine: MeasuredMachine, workloads: Sequence[Workload], count: int) -> str:
    least = min(workloads, key=lambda each: len(_replicates(machine.results[each.name])[0]))
    kind = _replicates(machine.results[least.name])[1]
    has = f"one {kind}" if count == 1 else f"{count} {kind}s"
    return f"{machine.name} has {has} of {least.name}, {RATIO_COUNT} are needed: repeat it, or state --noise"


def _replicates(found: Measurement) -> tuple[list[float], str]:
    """Return the logarithms of independent figures: means of sessions, or of one session its repeats."""
    if len(found.sessions) > 1:
        return [statistics.fmean(math.log(v) for v in session) for session in found.sessions], "session"
    return [math.log(value) for value in found.values], "run"


def _side(machine: MeasuredMachine, workloads: Sequence[Workload]) -> _Side:
    weights = [each.weight for each in workloads]
    rows = [_replicates(machine.results[each.name])[0] for each in workloads]
    rows = [
        row if each.better == "higher" else [-value for value in row]
        for row, each in zip(rows, workloads, strict=True)
    ]
    count = min(len(row) for row in rows)
    total = math.fsum(weights)
    mean = math.fsum(w * statistics.fmean(row) for w, row in zip(weights, rows, strict=True)) / total
    signs = [1 if each.better == "higher" else -1 for each in workloads]
    medians = [
        sign * math.log(machine.results[each.name].value) for sign, each in zip(signs, workloads, strict=True)
    ]
    median = math.fsum(w * value for w, value in zip(weights, medians, strict=True)) / total
    if count < 2:
        return _Side(count, mean, median, 0.0)
    if all(len(row) == count for row in rows):
        # Measured together, members may share their noise: the replicate is a pass over all of them.
        passes = [
            math.fsum(w * value for w, value in zip(weights, values, strict=True)) / total
            for values in zip(*rows, strict=True)
        ]
        return _Side(count, mean, median, statistics.variance(passes))
    deviation = math.fsum(w * statistics.stdev(row) for w, row in zip(weights, rows, strict=True)) / total
    return _Side(count, mean, median, deviation**2)


def _error(a: _Side, b: _Side) -> tuple[float, float]:
    """Return the standard error of a difference and its degrees of freedom: Welch's or pooled, the wider."""
    from scipy.special import stdtrit

    errors = (a.variance / a.count, b.variance / b.count)
    freedom = (a.count - 1, b.count - 1)
    welch = sum(errors) ** 2 / (errors[0] ** 2 / freedom[0] + errors[1] ** 2 / freedom[1])
    pooled = (a.variance * freedom[0] + b.variance * freedom[1]) / sum(freedom)
    ways = (
        (math.sqrt(sum(errors)), welch),
        (math.sqrt(pooled / a.count + pooled / b.count), float(sum(freedom))),
    )
    quantile = 0.5 + CONFIDENCE / 2
    return max(ways, key=lambda way: way[0] * float(stdtrit(way[1], quantile)))


def _stated(first: str, second: str, logs: tuple[float, float], error: float, freedom: float) -> Order:
    """Return the order; ``logs`` are those of the ratio of scores, and of the middle of the interval."""
    from scipy.special import ndtr, ndtri, stdtr, stdtrit

    score, middle = logs
    normal = math.isinf(freedom)
    quantile = 0.5 + CONFIDENCE / 2
    half = error * float(ndtri(quantile) if normal else stdtrit(freedom, quantile))
    probability = float(ndtr(middle / error) if normal else stdtr(freedom, middle / error))
    low, high = min(middle - half, score), max(middle + half, score)
    return Order(first, second, math.exp(score), math.exp(low), math.exp(high), probability)
