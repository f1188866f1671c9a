"""How sure a distance is, from windows or repeats, and how much of it noise alone would make.

In: the values behind two measurements. Out: intervals of 95 %.

A distance is never below 0, so that two measurements of one workload are apart, too. What is estimated is
therefore the signed distance of each metric, whose noise has mean 0: its interval is Student's t with a
variance for each side (Welch 1947), of the logarithm's first-order term for magnitudes. Windows resemble
the ones before them: the variance of their mean is that of n (1 - r) / (1 + r) independent ones, with r the
correlation of neighbours, corrected for short series (Marriott and Pope 1954). An interval that holds 0 is
folded: the distance may be 0, and at most the farther end.

A sum of distances, D = sum(w |d|), is estimated too large where some d are 0 in truth. With e the noise of
the estimates, | |d + e| - |d| | is at most |e|, and sign(d) e where d is far from 0. So the interval of D
is D less the upper, and D less the lower quantile of draws of such sums. Draws are a multiplier bootstrap
(R. Liu, Annals of Statistics 16, 1988): each window's deviations of all metrics are multiplied with one
normal number, which keeps their correlation, and a side's draws are divided by the root of a chi-squared
number over its degrees of freedom, as Student's t is.

Invariants: the same input gives the same interval; fewer than `FEWEST_WINDOWS` windows, or
`FEWEST_REPEATS` repeats, give none.

Not here: which values are compared (``comparison``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from steelyard.decide.fidelity.workload import FEWEST_REPEATS, Replicate

Floats = NDArray[np.float64]
FEWEST_WINDOWS = 5
CONFIDENCE = 0.95
DRAWS = 2000
_SEED = 20_261_129
_FAR = 2.5
"""Standard errors from which on a distance's sign is taken as known."""
_LOW, _HIGH = (1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2


@dataclass(frozen=True)
class Spread:
    """Deviations of one side's values from their mean, in units of the distance."""

    deviations: Floats
    replicate: Replicate
    is_borrowed: bool = False
    """Whether they are of the other side's repeats: then this side is one more of them."""

    @property
    def count(self) -> int:
        """Return the number of values."""
        return len(self.deviations)

    @property
    def effective(self) -> float:
        """Return how many independent values they are worth."""
        return float(self.count) if self.replicate is Replicate.REPEAT else effective_count(self.deviations)

    @property
    def degrees(self) -> float:
        """Return the degrees of freedom of its variance."""
        return max(self.effective - 1, 1.0)

    @property
    def scale(self) -> float:
        """Return what the root of the sum of squared deviations is multiplied with for the error."""
        worth = 1.0 if self.is_borrowed else self.effective
        return 1 / math.sqrt(worth * (self.count - 1))

    @property
    def error(self) -> float:
        """Return the standard error of this side's value."""
        return self.scale * float(np.linalg.norm(self.deviations))


def effective_count(deviations: Floats) -> float:
    """Return how many independent values the mean of a series is worth.

    >>> effective_count(np.array([1.0, -1.0] * 8))
    16.0
    >>> effective_count(np.repeat([1.0, -1.0], 8)) < 4
    True
    """
    count = len(deviations)
    power = float(deviations @ deviations)
    if count < FEWEST_WINDOWS or power == 0:
        return float(count)
    raw = float(deviations[1:] @ deviations[:-1]) / power
    r = min(max((raw + 1 / count) / max(1 - 3 / count, 0.25), 0.0), 0.95)
    return max(count * (1 - r) / (1 + r), 1.5)


def spread_of(values: Sequence[float], mean: float | None, replicate: Replicate) -> Spread | str:
    """Return the spread of values, over ``mean`` where that is given, or why there is none."""
    few = FEWEST_REPEATS if replicate is Replicate.REPEAT else FEWEST_WINDOWS
    if len(values) < few:
        noun = "repeat" if replicate is Replicate.REPEAT else "window"
        return "one value" if len(values) <= 1 else f"{len(values)} {noun}s, and {few} are needed"
    series = np.asarray(values, dtype=np.float64)
    deviations = series - series.mean()
    if mean is not None:
        if mean <= 0:
            return "its values are 0"
        deviations = deviations / mean
    return Spread(deviations, replicate)


@dataclass(frozen=True)
class Interval:
    """A distance with its interval of 95 %; None where there is none."""

    distance: float
    low: float | None = None
    high: float | None = None
    missing: str | None = None
    """Why there is no interval."""
    noise: float | None = None
    """What two measurements of one workload would be apart at most, in 95 of 100 cases."""


def folded(delta: float, a: Spread | str, b: Spread | str) -> Interval:
    """Return the interval of the distance ``|delta|``."""
    sides = [(name, side) for name, side in (("A", a), ("B", b)) if isinstance(side, str)]
    if isinstance(a, str) or isinstance(b, str):
        return Interval(abs(delta), missing="; ".join(f"{name}: {why}" for name, why in sides))
    variances = (a.error**2, b.error**2)
    if not sum(variances):
        return Interval(abs(delta), missing="all values of either side are the same")
    from scipy.special import stdtrit

    degrees = sum(variances) ** 2 / (variances[0] ** 2 / a.degrees + variances[1] ** 2 / b.degrees)
    if a.is_borrowed or b.is_borrowed:
        # One estimate of a variance, used twice.
        degrees = a.degrees
    half = float(stdtrit(degrees, _HIGH)) * math.sqrt(sum(variances))
    low, high = delta - half, delta + half
    if low <= 0 <= high:
        return Interval(abs(delta), 0.0, max(-low, high), noise=half)
    return Interval(abs(delta), min(abs(low), abs(high)), max(abs(low), abs(high)), noise=half)


@dataclass(frozen=True)
class Term:
    """One absolute distance of a weighted sum, with draws of its noise; none where it has no spread."""

    weight: float
    delta: float
    noise: Floats | None


def interval_of_sum(terms: Sequence[Term]) -> Interval:
    """Return the weighted sum of absolute distances, and its interval over the terms that have noise."""
    total = math.fsum(term.weight * abs(term.delta) for term in terms)
    noisy = [term for term in terms if term.noise is not None]
    if not noisy:
        return Interval(total, missing="no metric of it has an interval")
    below, above, floor = (np.zeros(len(noisy[0].noise if noisy[0].noise is not None else ())) for _ in "abc")
    for term in noisy:
        assert term.noise is not None
        signed = math.copysign(1.0, term.delta) * term.noise
        is_far = abs(term.delta) > _FAR * float(np.std(term.noise))
        above += term.weight * signed
        below += term.weight * (signed if is_far else np.abs(term.noise))
        floor += term.weight * np.abs(term.noise)
    if not floor.any():
        return Interval(total, missing="all values of either side are the same")
    low = total - float(np.quantile(below, _HIGH))
    high = total - float(np.quantile(above, _LOW))
    noise = float(np.quantile(floor, CONFIDENCE))
    return Interval(total, max(0.0, min(low, total)), max(high, total), noise=noise)


@dataclass
class Draws:
    """Noise of one side's values: windows of one run share their draws."""

    side: int
    _normal: dict[tuple[int, bool], Floats] = field(default_factory=dict)
    _tails: dict[tuple[int, float], Floats] = field(default_factory=dict)

    def of(self, spread: Spread) -> Floats:
        """Return draws of the error of a mean, or of a row for each of several means."""
        normal = self._normal_of(spread.count, is_borrowed=spread.is_borrowed)
        return spread.scale * (normal @ spread.deviations) * self._tail(spread)

    def of_samples(self, shares: Sequence[float], samples: int) -> Floats:
        """Return draws of the errors of shares counted in ``samples``: a row a draw, a column a share."""
        p = np.asarray(shares, dtype=np.float64)
        random = np.random.default_rng([_SEED, self.side, len(p), samples])
        scaled = random.standard_normal((DRAWS, len(p))) * np.sqrt(p)
        rows: Floats = (scaled - p * scaled.sum(axis=1, keepdims=True)) / math.sqrt(samples)
        return rows

    def _normal_of(self, count: int, *, is_borrowed: bool) -> Floats:
        key = (count, is_borrowed)
        if key not in self._normal:
            random = np.random.default_rng([_SEED, self.side, count, int(is_borrowed)])
            self._normal[key] = random.standard_normal((DRAWS, count))
        return self._normal[key]

    def _tail(self, spread: Spread) -> Floats:
        """Return what makes normal draws those of Student's t, the same quantile for all of the side.

        A borrowed spread has that of the side which it is of.
        """
        side = 1 - self.side if spread.is_borrowed else self.side
        key = (side, round(spread.degrees, 1))
        if key not in self._tails:
            from scipy.special import chdtri

            uniform = np.random.default_rng([_SEED, side]).random(DRAWS)
            self._tails[key] = np.sqrt(key[1] / np.maximum(chdtri(key[1], uniform), 1e-3))
        return self._tails[key]


def windows_of(parts: Sequence[Mapping[str, float]], names: Sequence[str]) -> Floats:
    """Return deviations of a mix's shares from their means: a row a window; the last name is the rest."""
    rows = np.array([[one.get(name, 0.0) for name in names[:-1]] for one in parts], dtype=np.float64)
    rows = rows.reshape(len(parts), len(names) - 1)
    whole = np.column_stack([rows, 1 - rows.sum(axis=1)])
    centred: Floats = whole - whole.mean(axis=0)
    return centred
