"""What trials of several arms leave to the ones after them.

In: the values of trials in the order of time, and of which arm and pair of blocks each is. Out: for each arm
how a trial is that follows one of it, where the arms differ in that.

With two arms the effect is fitted beside their difference (``contrasts``). With more, who follows whom is
drawn for each pair of blocks, and hardly ever follows itself: what an arm leaves weighs on the others. It is
fitted over all trials by least squares, with a level of each pair of blocks, each arm, and the place in the
block (Jones and Kenward, Design and Analysis of Cross-Over Trials, chapter 4), and taken out where the arms
differ in it by more than chance (F test).

Not here: reading experiments (``experiment.answers``).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

CHANCE = 0.01
"""Largest p value at which the effects are taken out."""
_LEAST_DEGREES = 10


@dataclass(frozen=True, slots=True)
class CarryOver:
    """Effects on the logarithm of a trial, over the mean of all arms."""

    by_arm: tuple[float, ...]
    """Of following a trial of each arm."""
    errors: tuple[float, ...]
    """Their standard errors."""


def carry_over(
    logs: Sequence[float], arms: Sequence[int], pairs: Sequence[int], places: Sequence[int], count: int
) -> CarryOver | None:
    """Return what ``count`` arms leave to the trial after; None where that may be the same for all.

    All sequences have one entry for each trial, in the order of time: the logarithm of its value (NaN for
    one without), its arm, its pair of blocks, and its place in the block.
    """
    values = np.asarray(logs, dtype=np.float64)
    arm, pair = np.asarray(arms), np.asarray(pairs)
    before = np.concatenate([[-1], arm[:-1]])
    used = np.isfinite(values) & (before >= 0)
    columns = [arm == each for each in range(1, count)]
    columns.append(np.asarray(places, dtype=np.float64))
    plain = _within(np.stack(columns, axis=1)[used].astype(np.float64), pair[used])
    # Over the mean of all: the last one is what the others leave.
    following = np.stack(
        [(before == each).astype(float) - (before == count - 1) for each in range(count - 1)]
    )
    carried = _within(following.T[used], pair[used])
    level = _within(values[used][:, None], pair[used])[:, 0]
    both = np.concatenate([carried, plain], axis=1)
    rank = int(np.linalg.matrix_rank(both))
    degrees = int(used.sum()) - len(set(pair[used].tolist())) - rank
    if degrees < _LEAST_DEGREES or rank < both.shape[1]:
        return None
    without = _squares(plain, level)
    found, *_ = np.linalg.lstsq(both, level, rcond=None)
    rest = float(((level - both @ found) ** 2).sum())
    if not 0 < rest < without:
        return None
    from scipy.special import fdtrc

    ratio = (without - rest) / (count - 1) / (rest / degrees)
    if float(fdtrc(count - 1, degrees, ratio)) > CHANCE:
        return None
    effects = found[: count - 1]
    covariance = rest / degrees * np.linalg.inv(both.T @ both)[: count - 1, : count - 1]
    last = float(np.ones(count - 1) @ covariance @ np.ones(count - 1))
    errors = np.sqrt([*np.diag(covariance), last])
    return CarryOver((*effects.tolist(), float(-effects.sum())), tuple(errors.tolist()))


def _within(columns: Floats, group: NDArray[np.int_]) -> Floats:
    """Return columns less their mean in each group."""
    found = columns.copy()
    for each in np.unique(group):
        here = group == each
        found[here] -= found[here].mean(axis=0)
    return found


def _squares(design: Floats, level: Floats) -> float:
    found, *_ = np.linalg.lstsq(design, level, rcond=None)
    return float(((level - design @ found) ** 2).sum())
