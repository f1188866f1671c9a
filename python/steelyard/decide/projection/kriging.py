"""Kriging among machines of one processor: residuals of a model that share their processor.

In: residuals (logarithm of the target over its projection from other processors), groups, sizes. Out: how the
residual of a machine follows from those of its siblings, as in kriging with the covariance

    between(x, y) = level + shape exp(-(ln x - ln y)^2 / 2 length^2),     noise on the diagonal

whose four figures are those of greatest likelihood. Not here: the model, and intervals.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steelyard.decide.projection.features import Floats

_LARGEST = 1.5
"""Residuals are cut here before a covariance is fitted: a few machines that contradict all others would else
decide it."""
_MACHINES_AT_MOST = 40
"""Of a group: more add nothing to a covariance, and cost the cube of their number."""
_LENGTHS = (0.2, 3.0)


@dataclass(frozen=True, slots=True)
class Covariance:
    """Variances of residuals, in squared logarithms, and the length over which sizes are alike."""

    level: float
    shape: float
    length: float
    noise: float

    def between(self, one: Floats, other: Floats) -> Floats:
        """Return the covariances of machines of one group with these sizes, without noise."""
        distance = one[:, None] - other[None, :]
        found: Floats = self.level + self.shape * np.exp(-0.5 * (distance / self.length) ** 2)
        return found

    def predict(self, sizes: Floats, siblings: Floats, residuals: Floats) -> tuple[Floats, Floats]:
        """Return mean and variance of the residuals of machines, from those of siblings."""
        total = self.level + self.shape + self.noise
        if not len(siblings):
            return np.zeros(len(sizes)), np.full(len(sizes), total)
        matrix = self.between(siblings, siblings) + self.noise * np.eye(len(siblings))
        cross = self.between(sizes, siblings)
        solved = np.linalg.solve(matrix, np.column_stack([residuals, cross.T]))
        variance = total - np.einsum("ij,ji->i", cross, solved[:, 1:])
        return cross @ solved[:, 0], np.maximum(variance, self.noise)


def fit_covariance(residuals: Floats, groups: NDArray[np.str_], sizes: Floats) -> Covariance | None:
    """Return the covariance of greatest likelihood, None where no group has two machines.

    All arrays are of known machines; a size that is unknown is NaN, and then taken as the median.
    """
    from scipy.optimize import minimize

    cut = np.clip(residuals, -_LARGEST, _LARGEST)
    random = np.random.default_rng(1)
    blocks = []
    for group in np.unique(groups):
        at = np.flatnonzero(groups == group)
        # In an order of their own: the choice is the same in whatever order machines stand.
        at = at[np.lexsort([cut[at], sizes[at]])]
        if len(at) > _MACHINES_AT_MOST:
            at = np.sort(random.choice(at, _MACHINES_AT_MOST, replace=False))
        blocks.append((sizes[at], cut[at], len(at) ** -0.5))
    if all(len(values) < 2 for _, values, _ in blocks):
        return None
    variance = max(float(np.mean(cut**2)), 1e-8)

    def unlikely(logs: Floats) -> float:
        level, shape, noise = np.exp(logs[:3])
        length = float(np.clip(np.exp(logs[3]), *_LENGTHS))
        model = Covariance(level, shape, length, noise)
        total = 0.0
        for size, values, weight in blocks:
            matrix = model.between(size, size) + noise * np.eye(len(size))
            lower = np.linalg.cholesky(matrix)
            white = np.linalg.solve(lower, values)
            total += weight * float(0.5 * white @ white + np.log(np.diag(lower)).sum())
        return total

    start = np.log([variance / 3, variance / 3, variance / 3, 1.0])
    bounds = [*[(np.log(variance * 1e-4), np.log(variance * 4))] * 3, tuple(np.log(_LENGTHS))]
    found = minimize(unlikely, start, method="L-BFGS-B", bounds=bounds, options={"maxiter": 40})
    level, shape, noise = np.exp(found.x[:3])
    return Covariance(float(level), float(shape), float(np.exp(found.x[3])), float(noise))
