"""Extremely randomised trees (Geurts, Ernst and Wehenkel, Machine Learning 63, 2006).

In: a matrix in which a missing figure is NaN, targets and weights. Out: a `Forest`.

The trees are scikit-learn's; growing and averaging them is done here, since its own forests change the
warnings of the whole process while they work, and several are grown at a time.

Invariant: a forest is the same in whatever order machines stand, and whatever the unit of a result: where two
splits are equally good, the last digit would else decide.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from steelyard.decide.projection.features import Floats

COLUMNS = 0.75
"""Share of the features that are tried at each split."""
_DECIMALS = 6
"""Of features, which are logarithms or have a size of about 1, and of targets."""


class Forest:
    """Trees whose mean is the projection."""

    def __init__(self, trees: list[Any]) -> None:
        self.trees = trees

    @classmethod
    def grown(
        cls, matrix: Floats, target: Floats, weights: Floats, *, trees: int, leaf: int, seed: int
    ) -> Forest:
        """Return a forest; ``leaf`` is the smallest number of machines of a leaf."""
        from sklearn.tree import ExtraTreeRegressor

        matrix, target = np.round(matrix, _DECIMALS) + 0.0, np.round(target, _DECIMALS) + 0.0
        order = np.lexsort([weights, target, *np.nan_to_num(matrix, nan=np.inf).T])
        # In the precision of the trees, so that none converts it anew.
        matrix, target, weights = matrix[order].astype(np.float32), target[order], weights[order]
        seeds = np.random.default_rng(seed).integers(2**31, size=trees)
        return cls([
            ExtraTreeRegressor(
                min_samples_leaf=leaf, max_features=COLUMNS, random_state=int(one)
            ).fit(matrix, target, sample_weight=weights)
            for one in seeds
        ])  # fmt: skip

    def predict(self, matrix: Floats) -> Floats:
        """Return the mean of what the trees say."""
        matrix = (np.round(matrix, _DECIMALS) + 0.0).astype(np.float32)
        total = np.zeros(len(matrix))
        for tree in self.trees:
            total += tree.predict(matrix)
        return total / len(self.trees)
