"""What settings would do to each metric, from the trials so far: proposals that need few of them.

In: settings of trials with the signed distance of each metric to the target. Out: settings whose predicted
distance is least.

How far a metric is from the target is a smooth function of parameters (logarithms of those searched by
ratio), though the sum of absolute distances is not. So each metric has a quadratic of its own, by ridge
regression in which trials near the target count most; the sum is of what they predict.

Invariant: the same trials and the same generator give the same proposal.

Not here: trials, and proposals without a model (``space.Proposals``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.tune.calibration.space import Searched

Floats = NDArray[np.float64]
_RIDGE = 1e-2
_NEAR = 0.05
_ANYWHERE, _AROUND, _BEST = 512, 128, 3
"""Random settings that are looked at: anywhere, around each of the best trials, and how many these are."""
_STEP = 0.12


@dataclass
class Surrogate:
    """Trials, and the model of them."""

    searched: Sequence[Searched]
    weights: Mapping[str, float]
    """What a distance in each metric counts."""
    _points: list[Floats] = field(default_factory=list)
    _signed: list[Mapping[str, float]] = field(default_factory=list)
    _distances: list[float] = field(default_factory=list)

    def add(self, settings: Mapping[str, str], signed: Mapping[str, float], distance: float) -> None:
        """Add a trial: its settings, the signed distance of each metric, and the whole distance."""
        self._points.append(np.array([self._place(each, settings[each.name]) for each in self.searched]))
        self._signed.append(signed)
        self._distances.append(distance)

    @property
    def count(self) -> int:
        """Return the number of trials."""
        return len(self._points)

    def propose(self, random: np.random.Generator) -> dict[str, Any]:
        """Return the settings whose predicted distance is least, as Optuna takes them."""
        known = np.array(self._points)
        candidates = self._candidates(random, known)
        names = sorted(set.intersection(*(set(one) for one in self._signed)))
        worth = np.array([self.weights.get(name, 1.0) for name in names])
        signed = np.array([[one[name] for name in names] for one in self._signed])
        near = 1 / (_NEAR + np.array(self._distances) - min(self._distances))
        features = self._features(known) * near[:, None]
        penalty = _RIDGE * np.eye(features.shape[1]) * float(near @ near) / len(near)
        # The level itself is not pulled towards 0.
        penalty[0, 0] = 1e-9
        fitted = np.linalg.solve(features.T @ features + penalty, features.T @ (signed * near[:, None]))
        predicted = np.abs(self._features(candidates) @ fitted) @ worth
        chosen = candidates[int(np.argmin(predicted))]
        return {
            each.name: self._value(each, float(at)) for each, at in zip(self.searched, chosen, strict=True)
        }

    def _candidates(self, random: np.random.Generator, known: Floats) -> Floats:
        count = len(self.searched)
        parts = [random.random((_ANYWHERE, count))]
        for at in np.argsort(self._distances, kind="stable")[:_BEST]:
            parts.append(np.clip(known[at] + _STEP * random.standard_normal((_AROUND, count)), 0, 1))
        return np.vstack(parts)

    def _features(self, points: Floats) -> Floats:
        """Return 1, and every parameter, its square and products; of choices, whether each is taken."""
        columns: list[Floats] = [np.ones(len(points))]
        numbers: list[Floats] = []
        for at, each in enumerate(self.searched):
            if each.range.choices:
                taken = np.minimum((points[:, at] * len(each.range.choices)).astype(int), 99)
                columns += [(taken == index).astype(float) for index in range(1, len(each.range.choices))]
            else:
                numbers.append(points[:, at] - 0.5)
        for first, left in enumerate(numbers):
            columns.append(left)
            columns += [left * right for right in numbers[first:]]
        return np.column_stack(columns)

    def _place(self, one: Searched, text: str) -> float:
        """Return where a value lies in its range, 0 to 1."""
        choices = one.range.choices
        if choices:
            return (choices.index(text) + 0.5) / len(choices)
        value, (low, high) = float(one.parameter.parse(text)), one.range.ends
        if one.range.is_log:
            return math.log(value / low) / math.log(high / low)
        return (value - low) / (high - low)

    def _value(self, one: Searched, place: float) -> Any:
        choices = one.range.choices
        if choices:
            return choices[min(int(place * len(choices)), len(choices) - 1)]
        low, high = one.range.ends
        value = low * (high / low) ** place if one.range.is_log else low + place * (high - low)
        return round(value) if one.is_whole else value
