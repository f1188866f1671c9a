"""Projections from machines of the same group: what is known of a processor corrects what is said of it.

In: projections of known machines from other groups, features, targets. Out: `Siblings`: the base that
residuals are over, and how they follow from those of siblings (``kriging``).

A base is the model of other groups, or a law: the target in proportion to a power of the machine's size, or
of the result that it follows best, with the power that is common within groups. The base is chosen whose
residuals follow best from those of siblings, each known machine left out in turn: often a law for a few
machines of few families, and the model for a large table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steelyard.decide.projection.features import Features, Floats
from steelyard.decide.projection.intervals import SiblingScores, quantile, sibling_scores
from steelyard.decide.projection.kriging import Covariance, fit_covariance
from steelyard.decide.projection.learn import best_anchor, weights_of

MODEL_OF_OTHERS = "the model of other groups"
_ERROR_AT_MOST = 1.0
"""A residual counts at most this much in the choice of a base."""


@dataclass(frozen=True)
class Siblings:
    """How residuals of machines of one group follow from each other."""

    base: str
    """`MODEL_OF_OTHERS`, or the size or result that a law is of."""
    law: Floats | None
    """The law's projection of every machine, as logarithms; None where the base is the model."""
    residuals: Floats
    """Target over base of each known machine, as logarithms; NaN elsewhere."""
    expected: Floats
    """Expected absolute residual of each machine before siblings are known."""
    covariance: Covariance
    quantiles: tuple[tuple[SiblingScores, float], ...]
    """Residuals by number of known siblings, each with its quantile of the confidence."""


def siblings_of(
    features: Features,
    target: Floats,
    outside: Floats,
    expected: Floats,
    groups: NDArray[np.str_],
    sizes: Floats,
    confidence: float,
) -> Siblings | None:
    """Return how residuals follow from those of siblings, None where no group has two known machines.

    ``outside`` are projections from other groups and ``expected`` their expected absolute residuals, NaN
    where a machine was not judged.
    """
    judged = np.isfinite(outside) & np.isfinite(target) & np.isfinite(expected)
    if not judged.any():
        return None
    bases: list[tuple[str, Floats | None, Floats, Floats]] = [
        (MODEL_OF_OTHERS, None, np.where(judged, target - outside, np.nan), expected)
    ]
    for is_size in (True, False):
        anchor = best_anchor(_only(features, judged), target[judged], groups[judged], is_size=is_size)
        name = features.anchor_names[anchor]
        if name and name not in [base for base, *_ in bases]:
            law = _law(features.anchors[:, anchor], target, groups, judged)
            residuals = np.where(judged, target - law, np.nan)
            spread = float(np.average(np.abs(residuals[judged]), weights=weights_of(groups[judged])))
            bases.append((name, law, residuals, np.full(len(target), max(spread, 1e-6))))
    best: tuple[float, Siblings] | None = None
    for name, by_law, residuals, scale in bases:
        covariance = fit_covariance(residuals[judged], groups[judged], sizes[judged])
        if covariance is None:
            return None
        error = _left_out_error(covariance, residuals[judged], groups[judged], sizes[judged])
        if best is None or error < best[0]:
            best = (error, Siblings(name, by_law, residuals, scale, covariance, ()))
    assert best is not None
    return _with_quantiles(best[1], judged, groups, sizes, confidence)


def _only(features: Features, at: NDArray[np.bool_]) -> Features:
    return Features(
        features.names, features.of, features.matrix[at], features.anchors[at], features.anchor_names,
        features.is_size, features.size[at],
    )  # fmt: skip


def _law(anchor: Floats, target: Floats, groups: NDArray[np.str_], known: NDArray[np.bool_]) -> Floats:
    """Return the target by the power of an anchor that is common within groups, and their mean level."""
    x, y = anchor[known], target[known]
    _, index, counts = np.unique(groups[known], return_inverse=True, return_counts=True)
    inner_x = x - (np.bincount(index, x) / counts)[index]
    inner_y = y - (np.bincount(index, y) / counts)[index]
    square = float(inner_x @ inner_x)
    slope = float(inner_x @ inner_y) / square if square > 1e-9 else 1.0
    level = float(np.average(y - slope * x, weights=1 / counts[index]))
    law: Floats = slope * anchor + level
    return law


def _left_out_error(
    covariance: Covariance, residuals: Floats, groups: NDArray[np.str_], sizes: Floats
) -> float:
    """Return the mean absolute error of residuals as predicted from siblings."""
    errors, weights = [], []
    for group in np.unique(groups):
        at = np.flatnonzero(groups == group)
        if len(at) < 2:
            continue
        matrix = covariance.between(sizes[at], sizes[at]) + covariance.noise * np.eye(len(at))
        inverse = np.linalg.inv(matrix)
        off = np.abs(inverse @ residuals[at] / np.diag(inverse))
        errors.append(np.minimum(off, _ERROR_AT_MOST))
        weights.append(np.full(len(at), len(at) ** -0.5))
    return float(np.average(np.concatenate(errors), weights=np.concatenate(weights)))


def _with_quantiles(
    found: Siblings, judged: NDArray[np.bool_], groups: NDArray[np.str_], sizes: Floats, confidence: float
) -> Siblings:
    scores = sibling_scores(
        found.covariance, found.residuals[judged], found.expected[judged], groups[judged], sizes[judged]
    )
    stated = [(one, quantile(one.scores, one.groups, confidence)) for one in scores]
    known: Sequence[tuple[SiblingScores, float]] = [
        (one, value) for one, value in stated if value is not None
    ]
    return Siblings(found.base, found.law, found.residuals, found.expected, found.covariance, tuple(known))
