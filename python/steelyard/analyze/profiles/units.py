"""Whether shares of two profiles differ by more than their units do: runs, or blocks of time within a run.

In: samples of each function in each unit of A and of B. Out: `Comparison`: intervals of the differences, p
values, and which are changes.

A run is one draw of what makes runs differ (layout of memory, data, neighbours), and samples taken one
after another are of one phase of a program. So the unit's shares are the values, however many samples stand
behind them, and their differences are judged by Student's t-test, with Holm's correction over the rows;
intervals are at least as wide as Welch's (Biometrika 34, 1947). The variance of few units may come out too
small by chance; it is at least that of as many independent samples.

Not here: what is a function, and tables (``diff``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Bools = NDArray[np.bool_]

FEWEST_RUNS = 3
"""Runs a side from which they show how much one differs from the next."""
MOST_JUDGED = 100
"""Rows of a table that are judged, the most frequent of both sides: rare ones could not be changes, and each
makes it harder for the others."""
FEWEST_SAMPLES = 5
"""Samples of both sides together from which a row is judged."""


@dataclass(frozen=True)
class Comparison:
    """What is known of each row; all arrays have one value a row."""

    a_ratio: Floats
    """Mean share over the units of A."""
    b_ratio: Floats
    low: Floats
    """Lower end of the interval of B's share less A's, each row alone."""
    high: Floats
    p_value: Floats
    is_judged: Bools
    is_change: Bools


def compare_units(
    a: Counts, a_sizes: Floats, b: Counts, b_sizes: Floats, *, alpha: float, confidence: float
) -> Comparison:
    """Compare counts of samples, a row a unit and a column a function, in units of so many samples.

    Raises ValueError with fewer than two units a side, or a unit without a sample.
    """
    sides = []
    for counts, sizes in ((a, a_sizes), (b, b_sizes)):
        if len(counts) < 2 or not sizes.all():
            raise ValueError("two units a side or more, each with samples")
        sides.append((counts / sizes[:, None], float(sizes.mean())))
    shares = [side for side, _ in sides]
    mean = np.concatenate(shares).mean(axis=0)
    variances = [np.maximum(side.var(axis=0, ddof=1), mean * (1 - mean) / size) for side, size in sides]
    units, freedoms = [len(side) for side in shares], [len(side) - 1 for side in shares]
    first, second = (part.mean(axis=0) for part in shares)
    difference = second - first
    # Loading it takes a second, and no report of a single run needs it.
    from scipy.special import stdtr, stdtrit

    quantile = 0.5 + confidence / 2
    with np.errstate(invalid="ignore", divide="ignore"):
        # Sides that are the same vary alike.
        both = (variances[0] * freedoms[0] + variances[1] * freedoms[1]) / sum(freedoms)
        error = np.sqrt(both * (1 / units[0] + 1 / units[1]))
        p_value = 2 * stdtr(sum(freedoms), -np.where(error > 0, np.abs(difference) / error, 0.0))
        # Of sides that are not the same, the interval must not take that for granted.
        parts = [variance / count for variance, count in zip(variances, units, strict=True)]
        whole = parts[0] + parts[1]
        freedom = whole**2 / (parts[0] ** 2 / freedoms[0] + parts[1] ** 2 / freedoms[1])
        freedom = np.where(np.isfinite(freedom), freedom, min(freedoms))
    half = np.maximum(stdtrit(sum(freedoms), quantile) * error, stdtrit(freedom, quantile) * np.sqrt(whole))
    seen = a.sum(axis=0) + b.sum(axis=0)
    is_judged = seen >= FEWEST_SAMPLES
    if int(is_judged.sum()) > MOST_JUDGED:
        least = np.sort(mean[is_judged])[-MOST_JUDGED]
        is_judged &= mean >= least
    is_change = np.zeros(len(seen), dtype=bool)
    rows = np.flatnonzero(is_judged)
    for step, row in enumerate(rows[np.argsort(p_value[rows], kind="stable")]):
        if p_value[row] > alpha / (len(rows) - step):
            break
        is_change[row] = True
    return Comparison(first, second, difference - half, difference + half, p_value, is_judged, is_change)
