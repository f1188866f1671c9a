"""The noise of a scaling curve: what the means of its steps scatter by, and draws of it.

In: throughput by step and block. Out: `Noise`, which draws means that such a curve may have had, and the
chance of its distance from a model.

The noise of a step's mean is the larger one of its own over the blocks and of that of all steps; where steps
are further from the model than this explains, the distance is taken, as it is where there is one block only.
What a block has in common moves all steps alike. Draws are Student's, with the degrees of freedom of the
noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FEWEST_STEPS_ALONE = 6
"""Steps from which the distance from the curve tells the noise where there is one block."""
MISFIT = 0.01
"""A smaller p value says that a model does not describe the steps."""


@dataclass(frozen=True)
class Noise:
    """What means of steps scatter by, in logarithms."""

    squares: Floats
    """Variance of each step's mean."""
    degrees: int
    """Degrees of freedom that it is known with."""
    of_trial: float
    """Variance of one trial beside what its block has in common."""
    common: float
    """Standard error of what blocks have in common."""
    common_degrees: int
    is_assumed: bool = False
    """Whether it is assumed, because the data do not show it."""

    def draw(self, curve: Floats, draws: int, seed: int) -> tuple[Floats, Floats]:
        """Return means that were drawn around ``curve`` (draw, step), and the shift that blocks bring."""
        random = np.random.default_rng(seed)
        normal = random.standard_normal((draws, len(curve)))
        spread = np.sqrt(self.degrees / random.chisquare(self.degrees, (draws, 1)))
        means = curve + normal * spread * np.sqrt(self.squares)
        return means, np.asarray(self.common * random.standard_t(self.common_degrees, draws))


def table_of(values: Mapping[int, Sequence[float]]) -> tuple[Floats, Floats]:
    """Return the CPUs of steps in ascending order, and logarithms of throughput by step and block.

    Raises ValueError for values that are not finite and positive, and for steps of different lengths.
    """
    if not values or len({len(row) for row in values.values()}) != 1 or not all(map(len, values.values())):
        raise ValueError("every step needs as many values as the others, one at least")
    cpus = np.array(sorted(values), dtype=np.float64)
    table = np.array([values[int(count)] for count in cpus], dtype=np.float64)
    if not (np.isfinite(table).all() and (table > 0).all() and cpus[0] >= 1):
        raise ValueError("throughput and numbers of CPUs are finite and positive")
    return cpus, np.log(table)


def noise_of(logs: Floats, distance: Floats, degrees: int) -> Noise | None:
    """Return the noise, None where one block has too few steps to show it.

    ``distance`` is that of the steps' means from a model that leaves ``degrees`` degrees of freedom.
    """
    steps, blocks = logs.shape
    around = float((distance**2).sum()) / degrees if degrees > 0 else 0.0
    if blocks == 1:
        if steps < FEWEST_STEPS_ALONE or degrees < 1:
            return None
        return Noise(np.full(steps, around), degrees, around, 0.0, 1)
    left, freedom, pooled = _within(logs)
    own = (left**2).sum(axis=1) / freedom * steps / blocks
    squares = np.maximum(own, pooled)
    common = float(logs.mean(axis=0).std(ddof=1) / math.sqrt(blocks))
    p_value = misfit_p_value(logs, distance, degrees)
    if p_value is not None and p_value < MISFIT:
        squares, freedom = np.maximum(squares, around), degrees
    return Noise(squares, freedom, pooled * blocks, common, blocks - 1)


def misfit_p_value(logs: Floats, distance: Floats, degrees: int) -> float | None:
    """Return the chance that noise alone sets the steps so far from a model; None with one block."""
    if logs.shape[1] == 1 or degrees < 1:
        return None
    from scipy.special import fdtrc

    _, freedom, pooled = _within(logs)
    around = float((distance**2).sum()) / degrees
    return float(fdtrc(degrees, freedom, around / pooled)) if pooled > 0 else float(around < 1e-20)


def _within(logs: Floats) -> tuple[Floats, int, float]:
    """Return what is left of each value without its step and its block, its degrees of freedom, and the
    variance of a step's mean.
    """
    steps, blocks = logs.shape
    left = logs - logs.mean(axis=1, keepdims=True)
    left = left - left.mean(axis=0, keepdims=True)
    freedom = (steps - 1) * (blocks - 1)
    return left, freedom, float((left**2).sum()) / freedom / blocks


def within_squares(logs: Floats) -> float:
    """Return the sum of the squares of what is left of values without their step and their block."""
    return float((_within(logs)[0] ** 2).sum()) if logs.shape[1] > 1 else 0.0
