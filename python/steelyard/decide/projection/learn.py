"""The learner: a target in logarithms from features.

In: features and targets of known machines. Out: projections of others, as logarithms.

A model is the mean of two: one has the target in proportion to the machine's size, the other to the result
that it follows best. Each is the mean of ridge regressions of that ratio, which go on beyond the known
machines, and a forest (``forest``) that takes what they leave. A processor of which many machines are known
weighs by the square root of their number.

scikit-learn is loaded when a model is made.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.decide.projection.features import Features, Floats
from steelyard.decide.projection.forest import Forest

TREES = 40
_SEED = 1
_LEAF = 2
_FURTHEST = 4.0
"""Standard units from the mean at which the ridge goes on no further: a feature that hardly differs among a
few machines would else carry others anywhere."""


@dataclass(frozen=True)
class Learner:
    """How a model is made."""

    trees: int = TREES
    """Of each forest."""
    ridges: tuple[tuple[bool, tuple[float | None, ...]], ...] = (
        (True, (30.0, 300.0)),
        (False, (None, 100.0)),
    )
    """For each forest whether its anchor is the size, else the best result; and the penalties of its ridges
    in standard units of the features, None without a ridge."""


@dataclass
class _Part:
    """An anchor with its regressions, and the forest of what they leave."""

    anchor: int
    ridges: list[Any]
    """A regression, or the level of the ratio where there is none."""
    forest: Forest | None = None

    def linear(self, anchors: Floats, standard: Floats) -> Floats:
        """Return the mean of the regressions."""
        values = [one if isinstance(one, float) else one.predict(standard) for one in self.ridges]
        found: Floats = anchors[:, self.anchor] + np.mean(
            [np.broadcast_to(value, len(anchors)) for value in values], axis=0
        )
        return found


@dataclass
class Model:
    """A fitted model."""

    parts: list[_Part]
    center: Floats
    scale: Floats
    lowest: Floats
    """Smallest and largest known value of each anchor."""
    highest: Floats

    def predict(self, features: Features, at: NDArray[np.bool_]) -> Floats:
        """Return the logarithms of the target on the machines ``at``."""
        matrix, anchors = features.matrix[at], features.anchors[at]
        standard = self._standard(matrix)
        found = []
        for part in self.parts:
            value = part.linear(anchors, standard)
            found.append(value if part.forest is None else value + part.forest.predict(matrix))
        mean: Floats = np.mean(found, axis=0)
        return mean

    def _standard(self, matrix: Floats) -> Floats:
        filled = np.where(np.isfinite(matrix), matrix, self.center)
        scaled: Floats = np.clip((filled - self.center) / self.scale, -_FURTHEST, _FURTHEST)
        return scaled

    def beyond(self, features: Features, at: NDArray[np.bool_]) -> Floats:
        """Return how far each machine is outside of the known sizes and results, as a logarithm.

        Of those anchors, the one that is furthest outside counts: 0.7 is twice the largest known, or half of
        the smallest.
        """
        anchors = features.anchors[at]
        over = np.maximum(anchors - self.highest, self.lowest - anchors)
        found: Floats = np.nan_to_num(np.maximum(over, 0.0)).max(axis=1)
        return found


def weights_of(groups: NDArray[np.str_]) -> Floats:
    """Return the weight of each machine: its group weighs by the square root of its number."""
    _, index, counts = np.unique(groups, return_inverse=True, return_counts=True)
    found: Floats = np.asarray(counts[index] ** -0.5, float)
    return found


def best_anchor(features: Features, target: Floats, groups: NDArray[np.str_], *, is_size: bool) -> int:
    """Return the anchor to which the target's ratio differs least from group to group.

    With ``is_size`` a size or none, else any.
    """
    candidates = [
        at for at, size in enumerate(features.is_size) if size or not is_size or not features.anchor_names[at]
    ]
    spreads = []
    for at in candidates:
        ratio = target - features.anchors[:, at]
        middles = np.array([np.median(ratio[groups == group]) for group in np.unique(groups)])
        within: Floats = np.abs(ratio - np.median(middles))
        spreads.append(float(np.average(within, weights=weights_of(groups))))
    return candidates[int(np.argmin(spreads))]


def fit(
    features: Features,
    target: Floats,
    groups: NDArray[np.str_],
    at: NDArray[np.bool_],
    learner: Learner = Learner(),
) -> Model:
    """Return the model of the machines ``at``; ``target`` has logarithms."""
    from sklearn.linear_model import Ridge

    known = Features(
        features.names, features.of, features.matrix[at], features.anchors[at], features.anchor_names,
        features.is_size, features.size[at],
    )  # fmt: skip
    matrix, logs, weights = known.matrix, target[at], weights_of(groups[at])
    center, scale = _moments(matrix)
    model = Model([], center, scale, known.anchors.min(axis=0), known.anchors.max(axis=0))
    standard = model._standard(matrix)
    for number, (is_size, alphas) in enumerate(learner.ridges):
        anchor = best_anchor(known, logs, groups[at], is_size=is_size)
        ratio = logs - known.anchors[:, anchor]
        part = _Part(anchor, [])
        for alpha in alphas:
            if alpha is None or not matrix.shape[1]:
                part.ridges.append(float(np.average(ratio, weights=weights)))
            else:
                part.ridges.append(Ridge(alpha).fit(standard, ratio, sample_weight=weights))
        if matrix.shape[1] and len(logs) >= 2 * _LEAF and learner.trees:
            rest = logs - part.linear(known.anchors, standard)
            seed = _SEED + number
            part.forest = Forest.grown(matrix, rest, weights, trees=learner.trees, leaf=_LEAF, seed=seed)
        model.parts.append(part)
    return model


def _moments(matrix: Floats) -> tuple[Floats, Floats]:
    if not matrix.shape[1]:
        return np.zeros(0), np.ones(0)
    known = np.isfinite(matrix)
    counts = np.maximum(known.sum(axis=0), 1)
    center = np.where(known, matrix, 0.0).sum(axis=0) / counts
    deviations = np.where(known, matrix - center, 0.0)
    scale = np.sqrt((deviations**2).sum(axis=0) / len(matrix))
    return center, np.where(scale > 0, scale, 1.0)


@dataclass(frozen=True)
class Fold:
    """Machines that are projected from others."""

    name: str
    projected: NDArray[np.bool_]
    known: NDArray[np.bool_]
    """The machines that a model of it may know."""


def folds_of(groups: NDArray[np.str_], known: NDArray[np.bool_], most: int) -> list[Fold]:
    """Return folds of whole groups, of about equal numbers of machines; one a group up to ``most``."""
    names, counts = np.unique(groups[known], return_counts=True)
    fold_of: dict[str, int] = {}
    loads = np.zeros(min(most, len(names)))
    for at in np.argsort(-counts, kind="stable"):
        fold = int(np.argmin(loads))
        loads[fold] += counts[at]
        fold_of[str(names[at])] = fold
    folds = []
    for number in range(len(loads)):
        mine = [name for name, fold in fold_of.items() if fold == number]
        projected = known & np.isin(groups, mine)
        folds.append(
            Fold(mine[0] if len(mine) == 1 else f"{len(mine)} groups", projected, known & ~projected)
        )
    return folds


def forward_folds(groups: NDArray[np.str_], years: Floats, known: NDArray[np.bool_], most: int) -> list[Fold]:
    """Return folds in the order of time: groups that appeared in a span are projected from earlier ones.

    A group appears when its first machine does; a later machine of it is not known yet. Groups without a year
    are left out.
    """
    dated = known & np.isfinite(years)
    first = {str(name): float(years[dated & (groups == name)].min()) for name in np.unique(groups[dated])}
    appeared = np.array([first.get(str(group), np.nan) for group in groups])
    starts = np.unique(np.floor(appeared[dated]))
    if len(starts) > most + 1:
        starts = np.unique(np.floor(np.quantile(appeared[dated], np.linspace(0, 1, most + 1)[:-1])))
    ends = [*starts[1:], np.inf]
    folds = []
    for start, end in list(zip(starts, ends, strict=True))[1:]:
        projected = dated & (appeared >= start) & (appeared < end)
        # The last year of a span is named, not the first of the next.
        last = int(appeared[projected].max()) if projected.any() else int(start)
        name = f"{start:.0f}" if last == start else f"{start:.0f} to {last}"
        folds.append(Fold(name, projected, dated & (appeared < start) & (years < start)))
    return [fold for fold in folds if fold.projected.any() and fold.known.sum() >= 2]


def left_out(
    features: Features,
    target: Floats,
    groups: NDArray[np.str_],
    folds: Sequence[Fold],
    learner: Learner = Learner(),
) -> tuple[Floats, list[Model]]:
    """Return the target's logarithms as projected from other folds, NaN elsewhere, and the folds' models."""

    def learnt(fold: Fold) -> Model:
        return fit(features, target, groups, fold.known, learner)

    # Trees are grown without the interpreter's lock.
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        models = list(pool.map(learnt, folds))
    found = np.full(len(target), np.nan)
    for fold, model in zip(folds, models, strict=True):
        found[fold.projected] = model.predict(features, fold.projected)
    return found, models
