"""How far off projections may be: conformal intervals by groups that a model has not seen.

In: residuals of machines whose whole group was left out. Out: half-widths in logarithms.

A residual is taken over its expected size (``Difficulty``, a forest of what machines have such residuals),
and the quantile of these over the known machines is what a new machine's is below. A group weighs by the
square root of its number of machines, and one more group, the new one, is counted as beyond all (Dunn,
Wasserman and Ramdas, Distribution-free prediction sets for two-layer hierarchical models, JASA 118, 2023,
with equal weights of groups). Siblings that are known narrow it: then residuals are those of kriging from as
many siblings, chosen at random in the known groups.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steelyard.decide.projection.features import Features, Floats
from steelyard.decide.projection.forest import Forest
from steelyard.decide.projection.kriging import Covariance
from steelyard.decide.projection.learn import Fold, weights_of

_TREES = 30
_LEAF = 15
_LEAST = 0.02
"""Added to an expected residual, so that no machine is taken for known to the last digit."""
_DRAWS = 4
COUNTS = (1, 2, 3, 5, 8, 13, 21, 34)
"""Numbers of known siblings for which residuals are computed."""


@dataclass
class Difficulty:
    """The expected absolute residual of a machine."""

    forest: Forest | None
    constant: float

    def of(self, features: Features, at: NDArray[np.bool_]) -> Floats:
        """Return it, in logarithms, for the machines ``at``."""
        if self.forest is None:
            return np.full(int(at.sum()), self.constant)
        return self.forest.predict(features.matrix[at]) + _LEAST


def difficulty(
    features: Features, residuals: Floats, groups: NDArray[np.str_], at: NDArray[np.bool_]
) -> Difficulty:
    """Return what the residuals of the machines ``at`` say of others."""
    sizes = np.abs(residuals[at])
    weights = weights_of(groups[at])
    constant = float(np.average(sizes, weights=weights)) + _LEAST
    if at.sum() < 4 * _LEAF or not features.matrix.shape[1]:
        return Difficulty(None, constant)
    forest = Forest.grown(features.matrix[at], sizes, weights, trees=_TREES, leaf=_LEAF, seed=2)
    return Difficulty(forest, constant)


def expected_residuals(
    features: Features, residuals: Floats, groups: NDArray[np.str_], folds: Sequence[Fold]
) -> Floats:
    """Return the expected absolute residual of each machine, from those of other folds."""
    every = np.logical_or.reduce([fold.projected for fold in folds])
    found = np.full(len(residuals), np.nan)

    def expect(fold: Fold) -> None:
        rest = every & ~fold.projected & np.isfinite(residuals)
        if rest.any():
            made = difficulty(features, residuals, groups, rest)
            found[fold.projected] = made.of(features, fold.projected)

    # Each fold has machines of its own, and trees are grown without the interpreter's lock.
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(expect, folds))
    return found


def quantile(scores: Floats, groups: NDArray[np.str_], confidence: float) -> float | None:
    """Return what the score of a machine of a new group is below, with ``confidence``.

    None where there are too few groups to say.
    """
    names = np.unique(groups)
    if not len(names):
        return None
    weights = weights_of(groups)
    order = np.argsort(scores)
    reached = np.cumsum(weights[order]) / weights.sum() * len(names) / (len(names) + 1)
    at = int(np.searchsorted(reached, confidence - 1e-12))
    return float(scores[order][at]) if at < len(scores) else None


@dataclass(frozen=True)
class SiblingScores:
    """Residuals of kriging from a number of siblings, over their expected size, with their groups."""

    count: int
    scores: Floats
    groups: NDArray[np.str_]
    errors: Floats
    """The residuals themselves."""


def sibling_scores(
    covariance: Covariance, residuals: Floats, expected: Floats, groups: NDArray[np.str_], sizes: Floats
) -> list[SiblingScores]:
    """Return the scores for each of `COUNTS` that three groups bear; arrays are of known machines."""
    random = np.random.default_rng(3)
    # In an order of their own: the choice is the same in whatever order machines stand.
    order = np.lexsort([residuals, sizes])
    members = {str(name): order[groups[order] == name] for name in np.unique(groups)}
    found = []
    for count in COUNTS:
        large = {name: at for name, at in members.items() if len(at) > count}
        if len(large) < 3:
            break
        scores, names, errors = [], [], []
        for name, at in large.items():
            for _ in range(_DRAWS):
                chosen = random.choice(len(at), count, replace=False)
                known = np.zeros(len(at), bool)
                known[chosen] = True
                rest = at[~known]
                mean, variance = covariance.predict(sizes[rest], sizes[at[known]], residuals[at[known]])
                error = residuals[rest] - mean
                scores.append(np.abs(error) / scale_with_siblings(expected[rest], variance, covariance))
                errors.append(error)
                names += [name] * len(rest)
        found.append(SiblingScores(count, np.concatenate(scores), np.array(names), np.concatenate(errors)))
    return found


def scale_with_siblings(expected: Floats, variance: Floats, covariance: Covariance) -> Floats:
    """Return the expected residual of machines whose siblings leave a ``variance`` of the covariance's."""
    total = covariance.level + covariance.shape + covariance.noise
    found: Floats = expected * np.sqrt(variance / total)
    return found


def scores_for(found: Sequence[SiblingScores], siblings: int) -> SiblingScores | None:
    """Return the scores for the largest number of siblings that is not above ``siblings``."""
    fitting = [one for one in found if one.count <= siblings]
    return fitting[-1] if fitting else None
