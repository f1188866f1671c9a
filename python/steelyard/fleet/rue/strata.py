"""Which factors to stratify a comparison by: those that explain most of RUE's variance, on data held out.

In: sums of usage and work by replicate, with the levels of every factor. Out: the factors chosen, in order,
with the share of variance each explains; and the others, each with why not.

A factor with many levels always explains more of the data that it was fitted to. So each factor is fitted on
four fifths of the replicates and judged on the fifth left out, for each fifth in turn; it is taken only if it
explains at least `LEAST_GAIN_RATIO` more of those. The configuration's own effect is taken out first, so that
a label which only repeats the configuration explains nothing.

Invariants: deterministic; a factor that would leave configuration 2 without a counterpart is not taken, and
the reason is kept.

Not here: comparing within strata (``compare``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from steelyard.fleet.rue.usage import Factor
from steelyard.stats.ratios import ArmSums, comparable_strata

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

FOLDS = 5
LEAST_GAIN_RATIO = 0.01
"""A factor must explain this share more of the variance of replicates that it was not fitted to."""
LEAST_COVERED_RATIO = 0.8
"""A factor must leave at least this share of configuration 2's usage with a counterpart in its stratum."""
FACTORS_AT_MOST = 3


@dataclass(frozen=True)
class Step:
    """A factor that was taken: the share of variance explained with it and those before it."""

    factor: str
    explained_ratio: float
    """Of the data it was fitted to."""
    held_out_ratio: float
    """Of replicates it was not fitted to."""


@dataclass(frozen=True)
class StrataChoice:
    """The factors to stratify by, and why."""

    factors: tuple[str, ...]
    steps: tuple[Step, ...]
    left_out: dict[str, str]
    """Why each of the other factors was not taken."""
    forced: tuple[str, ...] = ()
    """Factors taken whatever they explain."""
    inseparable: tuple[str, ...] = ()
    """Factors of which no level has both configurations: what they do is part of any difference."""


@dataclass(frozen=True)
class Cells:
    """One row for each replicate within a combination of factors: what the choice is made from."""

    arm: Integers
    replicate: Integers
    usage: Floats
    work: Floats
    factors: dict[str, Factor]
    prefix: Factor | None = None
    """Beginnings of machines' names, where replicates are of one machine."""

    def strata(self, names: tuple[str, ...]) -> Integers:
        """Return a code for each row's combination of the factors ``names``."""
        if not names:
            return np.zeros(len(self.arm), dtype=np.int64)
        codes = np.stack([self.factors[name].codes for name in names], axis=1)
        _, inverse = np.unique(codes, axis=0, return_inverse=True)
        return np.asarray(inverse.reshape(-1), dtype=np.int64)

    def sums(self, names: tuple[str, ...]) -> ArmSums:
        """Return the sums by arm, stratum and replicate."""
        return ArmSums.of(self.arm, self.strata(names), self.replicate, self.usage, self.work)

    def levels(self, names: tuple[str, ...]) -> dict[int, tuple[str, ...]]:
        """Return the levels of the factors ``names`` in each stratum of `strata`."""
        strata = self.strata(names)
        levels: dict[int, tuple[str, ...]] = {}
        firsts = np.unique(strata, return_index=True)
        for stratum, row in zip(firsts[0].tolist(), firsts[1].tolist(), strict=True):
            levels[stratum] = tuple(self.factors[name].names[self.factors[name].codes[row]] for name in names)
        return levels


def choose_strata(cells: Cells, candidates: tuple[str, ...], forced: tuple[str, ...] = ()) -> StrataChoice:
    """Choose factors one after the other, each time the one that explains most beyond those before it."""
    known = (cells.usage > 0) & (cells.work > 0)
    values, weights = _values(cells, known)
    fold = (cells.replicate % FOLDS)[known]
    left_out: dict[str, str] = {}
    inseparable = tuple(name for name in candidates if _covered(cells, (name,), 1) == 0)
    open_names = [name for name in candidates if name not in forced and name not in inseparable]
    for name in inseparable:
        left_out[name] = "no level of it has both configurations"
    chosen = list(forced)
    steps = []
    for name in forced:
        with_it = cells.strata(tuple(chosen[: chosen.index(name) + 1]))[known]
        steps.append(Step(name, *_explained(values, weights, with_it, fold)))
    while open_names and len(chosen) < max(FACTORS_AT_MOST, len(forced)):
        before = _explained(values, weights, cells.strata(tuple(chosen))[known], fold)[1] if chosen else 0.0
        scores = {
            name: _explained(values, weights, cells.strata((*chosen, name))[known], fold)
            for name in open_names
        }
        best = max(open_names, key=lambda name: (scores[name][1], name))
        gain = scores[best][1] - before
        open_names.remove(best)
        if gain < LEAST_GAIN_RATIO:
            for name in (best, *open_names):
                left_out[name] = _too_little(scores[name][1] - before)
            break
        covered = _covered(cells, (*chosen, best))
        if covered < LEAST_COVERED_RATIO * _covered(cells, tuple(chosen)):
            left_out[best] = (
                f"explains {gain * 100:.1f} % more, but would leave only {covered * 100:.0f} % of"
                " configuration 2's usage with a counterpart"
            )
            continue
        chosen.append(best)
        steps.append(Step(best, *scores[best]))
    for name in open_names:
        left_out.setdefault(name, f"no more than {FACTORS_AT_MOST} factors are taken")
    return StrataChoice(tuple(chosen), tuple(steps), left_out, forced, inseparable)


def met(cells: Cells, names: tuple[str, ...]) -> bool:
    """Return whether both configurations did some work in one of the strata of ``names``."""
    return _covered(cells, names, 1) > 0


def behind(cells: Cells, choice: StrataChoice, name: str) -> StrataChoice:
    """Return a choice with ``name`` as the last of its factors: groups are shown by the first."""
    factors = (*(one for one in choice.factors if one != name), name)
    steps = tuple(Step(one, *explained_by(cells, factors[: at + 1])) for at, one in enumerate(factors))
    return replace(choice, factors=factors, steps=steps)


def explained_by(cells: Cells, names: tuple[str, ...]) -> tuple[float, float]:
    """Return the shares of variance that the strata of ``names`` explain: fitted, and held out."""
    known = (cells.usage > 0) & (cells.work > 0)
    values, weights = _values(cells, known)
    return _explained(values, weights, cells.strata(names)[known], (cells.replicate % FOLDS)[known])


def _values(cells: Cells, known: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Return log RUE without the configuration's own mean, and usage as weight.

    The logarithm, because factors multiply what work costs; usage, because that is what is paid for.
    """
    # Not of their ratio: figures that are no numbers make it infinite.
    values = np.log(cells.usage[known]) - np.log(cells.work[known])
    weights = cells.usage[known]
    arm = cells.arm[known]
    mass = np.bincount(arm, weights=weights, minlength=2)
    means = np.bincount(arm, weights=weights * values, minlength=2) / np.where(mass > 0, mass, 1.0)
    return np.asarray(values - means[arm]), weights


def _explained(values: Floats, weights: Floats, strata: Integers, fold: Integers) -> tuple[float, float]:
    """Return the weighted shares of variance that means of strata explain: fitted, and of held-out folds."""
    total = _squares(values, weights, np.zeros_like(strata))
    # Values that scatter by rounding only have nothing to be explained.
    if total <= 1e-18 * float((weights * np.maximum(1.0, values**2)).sum()):
        return 0.0, 0.0
    fitted = 1 - _squares(values, weights, strata) / total
    wrong, base = 0.0, 0.0
    for out in range(FOLDS):
        inside, outside = fold != out, fold == out
        if not inside.any() or not outside.any():
            continue
        count = int(strata.max()) + 1
        mass = np.bincount(strata[inside], weights=weights[inside], minlength=count)
        mean = np.bincount(strata[inside], weights=(weights * values)[inside], minlength=count)
        overall = float(mean.sum() / mass.sum())
        predicted = np.where(mass > 0, mean / np.where(mass > 0, mass, 1.0), overall)[strata[outside]]
        wrong += float((weights[outside] * (values[outside] - predicted) ** 2).sum())
        base += float((weights[outside] * (values[outside] - overall) ** 2).sum())
    return fitted, 1 - wrong / base if base > 0 else 0.0


def _squares(values: Floats, weights: Floats, strata: Integers) -> float:
    mass = np.bincount(strata, weights=weights)
    mean = np.bincount(strata, weights=weights * values) / np.where(mass > 0, mass, 1.0)
    return float((weights * (values - mean[strata]) ** 2).sum())


def _covered(cells: Cells, names: tuple[str, ...], least: int = 2) -> float:
    """Return the share of arm 1's usage in strata where both arms have ``least`` replicates."""
    sums = cells.sums(names)
    everything = float(sums.usage[sums.arm == 1].sum())
    kept = sums.in_strata(comparable_strata(sums, least_replicates=least))
    return float(kept.usage[kept.arm == 1].sum()) / everything if everything > 0 else 0.0


def _too_little(gain: float) -> str:
    more = f"{gain * 100:.1f} % more" if gain > 0.0005 else "nothing more"
    return f"explains {more} of the variance of replicates held out"
