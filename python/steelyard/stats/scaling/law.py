"""The Universal Scalability Law, fitted to throughput at several numbers of CPUs, with intervals.

In: throughput by number of CPUs, one value a block. Out: `LawFit`: rate of one CPU, contention, coherency,
and where throughput is highest, each with an interval or with the reason why the data do not determine it.

    X(N) = rate * N / (1 + contention * (N - 1) + coherency * N * (N - 1))

(Gunther, Guerrilla Capacity Planning, 2007.) Noise of throughput is relative, and steps with large figures
must not outweigh the others: the fit is least squares of logarithms, with all three parameters at least 0.
N / X is linear in 1 / rate, contention / rate and coherency / rate, so that each step of the iteration is a
linear problem with bounds, which has one solution.

Intervals are percentiles of a parametric bootstrap. The noise of a step's mean is the larger one of its own
over the blocks and of that of all steps; where steps are further from the curve than this explains
(``misfit_p_value``), the distance from the curve is taken, as it is where there is one block only. What a
block has in common changes the rate alone. Draws are Student's, with the degrees of freedom of the noise.

Invariants: a parameter that the steps do not determine is None, or has an interval from 0, and says why; with
the same data the answer is the same.

Not here: which steps to try (``bench.placement.steps``), why a curve bends (``analyze.scaling``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from steelyard.stats.scaling.noise import (
    FEWEST_STEPS_ALONE,
    Floats,
    Noise,
    misfit_p_value,
    noise_of,
    table_of,
)

CONFIDENCE = 0.95
DRAWS = 1999
FEWEST_STEPS = 3
"""Steps that three parameters need."""
MATERIAL_RATIO = 0.05
"""A loss below this share at the largest step is none."""
_ROUNDS = 25
_FARTHEST = 100.0
"""Logarithms are kept so near: draws of noise that few blocks tell stray to where squares are infinite."""
_SEED = 20


@dataclass(frozen=True, slots=True)
class Parameter:
    """One figure of the law."""

    value: float | None
    """None where the steps do not determine it; infinity for a peak that there is none of."""
    low: float | None
    """Lower end of the interval, None where there is none."""
    high: float | None
    """Upper end, infinity where nothing bounds it."""
    is_identified: bool
    """Whether the data determine it: its interval excludes 0, or whatever it holds hardly matters."""
    reason: str | None
    """Why it is not identified, or has no interval."""


@dataclass(frozen=True, slots=True)
class LawFit:
    """The law, fitted."""

    rate: Parameter
    """Throughput of one CPU."""
    contention: Parameter
    """Share of the work that only one CPU can do at a time (sigma)."""
    coherency: Parameter
    """What each CPU waits for every other one (kappa)."""
    peak: Parameter
    """Number of CPUs with the highest throughput; identified only where there is one."""
    peak_throughput: Parameter
    """Throughput there."""
    steps: int
    """Steps that were fitted."""
    blocks: int
    """Blocks in which every step has a value."""
    misfit_ratio: float | None
    """Largest distance of a step's mean from the curve; None where the curve must go through all of them."""
    misfit_p_value: float | None
    """Chance that noise alone sets the steps so far from the curve; None with one block."""
    confidence: float
    """Of each interval."""

    def throughput(self, cpus: float) -> float | None:
        """Return the throughput of the curve at a number of CPUs; None without parameters."""
        if self.rate.value is None or self.contention.value is None or self.coherency.value is None:
            return None
        bend = 1 + self.contention.value * (cpus - 1) + self.coherency.value * cpus * (cpus - 1)
        return self.rate.value * cpus / bend


def fit_law(values: Mapping[int, Sequence[float]], *, confidence: float = CONFIDENCE) -> LawFit:
    """Fit the law to throughput by number of CPUs; value i of every step is of block i.

    Raises ValueError for values that are not finite and positive, and for steps of different lengths.

    >>> law = fit_law({n: [100 * n / (1 + 0.1 * (n - 1))] for n in (1, 2, 4, 8, 16, 32)})
    >>> round(law.rate.value), round(law.contention.value, 6), law.coherency.value
    (100, 0.1, 0.0)
    """
    cpus, logs = table_of(values)
    steps, blocks = logs.shape
    if steps < FEWEST_STEPS:
        return _too_few(cpus, logs, confidence)
    means = logs.mean(axis=1)
    design = _design(cpus)
    best = _fit(design, means[np.newaxis, :])[0]
    distance = means - _curve(design, best[np.newaxis, :])[0]
    degrees = steps - FEWEST_STEPS
    noise = noise_of(logs, distance, degrees)
    if noise is None:
        reason = (
            f"{steps} steps of one whole block do not tell the noise: repeat them, or measure"
            f" {FEWEST_STEPS_ALONE} steps"
        )
        draws = None
    else:
        reason = None
        draws = _draws(design, _curve(design, best[np.newaxis, :])[0], noise)
    p_value = misfit_p_value(logs, distance, degrees)
    return _answer(cpus, best, draws, confidence, reason, blocks, distance if degrees else None, p_value)


def _design(cpus: Floats) -> Floats:
    """Return the columns whose sum, times the coefficients, is 1 / X."""
    return np.stack([1 / cpus, (cpus - 1) / cpus, cpus - 1], axis=1)


def _exp(logs: Floats) -> Floats:
    """Return e to the power of what draws have strayed to: large or small, and neither infinite nor 0."""
    return np.asarray(np.exp(np.clip(logs, -3 * _FARTHEST, 3 * _FARTHEST)), dtype=np.float64)


def _curve(design: Floats, coefficients: Floats) -> Floats:
    return np.asarray(-np.log(coefficients @ design.T), dtype=np.float64)


_ACTIVE = ((0, 1, 2), (0, 1), (0, 2), (0,))
"""Which coefficients may be positive; the first always is."""


def _bounded(rows: Floats, targets: Floats) -> Floats:
    """Return non-negative least squares of three columns for many problems at once.

    The problem is convex, so that the best of the solutions of the faces of its bounds that are inside is the
    solution. ``rows`` are (problem, step, 3), ``targets`` (problem, step).
    """
    best = np.full((len(rows), 3), np.nan)
    least = np.full(len(rows), np.inf)
    for active in _ACTIVE:
        part = rows[:, :, active]
        # Columns differ by orders of magnitude.
        scale = np.maximum(np.sqrt((part**2).sum(axis=1)), 1e-300)
        normal = np.einsum("psi,psj->pij", part / scale[:, None, :], part / scale[:, None, :])
        right = np.einsum("psi,ps->pi", part / scale[:, None, :], targets)
        normal += 1e-13 * np.eye(len(active))
        found = np.linalg.solve(normal, right[:, :, None])[:, :, 0] / scale
        cost = ((np.einsum("psi,pi->ps", part, found) - targets) ** 2).sum(axis=1)
        better = (found[:, 0] > 0) & (found >= 0).all(axis=1) & (cost < least * (1 - 1e-12))
        best[better] = 0.0
        best[np.ix_(better.nonzero()[0], list(active))] = found[better]
        least[better] = cost[better]
    return best


def _fit(design: Floats, means: Floats) -> Floats:
    """Return coefficients by row of ``means``: least squares of logarithms, by Gauss and Newton."""
    # The law is of ratios to the rate: in units near the values, none is too large or small to be squared.
    level = means.mean(axis=1, keepdims=True)
    means = np.clip(means - level, -_FARTHEST, _FARTHEST)
    rows = design[np.newaxis] * np.exp(means)[:, :, np.newaxis]
    found = _bounded(rows, np.ones_like(means))
    for _ in range(_ROUNDS):
        curve = np.clip(_curve(design, found), -_FARTHEST, _FARTHEST)
        rows = design[np.newaxis] * np.exp(curve)[:, :, np.newaxis]
        then = _bounded(rows, 1 + curve - means)
        # Far from the curve a whole step may leave what the line describes.
        then = np.where(np.isfinite(then), then, found)
        moved = np.abs(_curve(design, then) - curve).max()
        found = then
        if moved < 1e-10:
            break
    return found * _exp(-level)


def _draws(design: Floats, curve: Floats, noise: Noise) -> Floats:
    """Return coefficients of drawn means, with the factor of the rate that blocks bring."""
    means, shift = noise.draw(curve, DRAWS, _SEED)
    return _fit(design, means) * _exp(-shift)[:, np.newaxis]


@dataclass(frozen=True, slots=True)
class _Figures:
    """The law's figures of one set of coefficients, or of many."""

    rate: Floats
    contention: Floats
    coherency: Floats
    peak: Floats
    peak_throughput: Floats


def _figures(coefficients: Floats) -> _Figures:
    one, serial, crosstalk = coefficients.T
    contention, coherency = serial / one, crosstalk / one
    with np.errstate(divide="ignore", invalid="ignore"):
        peak = np.where(
            coherency > 0,
            np.sqrt(np.maximum(0.0, 1 - contention) / coherency),
            np.where(contention < 1, np.inf, 1.0),
        )
        peak = np.maximum(1.0, peak)
        most = peak / (one + serial * (peak - 1) + crosstalk * peak * (peak - 1))
        most = np.where(np.isfinite(peak), most, np.where(serial > 0, 1 / serial, np.inf))
    return _Figures(1 / one, contention, coherency, peak, most)


def _answer(
    cpus: Floats,
    best: Floats,
    draws: Floats | None,
    confidence: float,
    reason: str | None,
    blocks: int,
    distance: Floats | None,
    p_value: float | None,
) -> LawFit:
    here = _figures(best[np.newaxis, :])
    many = None if draws is None else _figures(draws)
    last = float(cpus[-1])

    def ends(name: str) -> tuple[float | None, float | None]:
        if many is None:
            return None, None
        tail = (1 - confidence) / 2
        # Not interpolated: a peak may be infinite.
        low, high = np.quantile(getattr(many, name), [tail, 1 - tail], method="nearest")
        return float(low), float(high)

    def value(name: str) -> float:
        return float(getattr(here, name)[0])

    low, high = ends("rate")
    rate = Parameter(value("rate"), low, high, low is not None, reason)
    contention = _term(value("contention"), *ends("contention"), last - 1, "contention", reason)
    coherency = _term(value("coherency"), *ends("coherency"), last * (last - 1), "coherency", reason)
    contention, coherency = _either(contention, coherency, many, last, confidence)
    return LawFit(
        rate,
        contention,
        coherency,
        _peak(value("peak"), *ends("peak"), last, reason),
        Parameter(value("peak_throughput"), *ends("peak_throughput"), many is not None, reason),
        len(cpus),
        blocks,
        None if distance is None else float(np.abs(np.expm1(distance)).max()),
        p_value,
        confidence,
    )


def _term(
    value: float, low: float | None, high: float | None, weight: float, name: str, reason: str | None
) -> Parameter:
    """Return contention or coherency; ``weight`` times it is what it takes at the largest step."""
    if low is None or high is None:
        return Parameter(value, low, high, False, reason)
    if low > 0 or high * weight < MATERIAL_RATIO:
        return Parameter(value, low, high, True, None)
    return Parameter(value, low, high, False, f"{name} from 0 to {high:.3g} fits the steps")


def _either(
    contention: Parameter, coherency: Parameter, many: _Figures | None, last: float, confidence: float
) -> tuple[Parameter, Parameter]:
    """Say so where the steps show a loss and not which of the two it is."""
    if many is None or contention.is_identified or coherency.is_identified:
        return contention, coherency
    loss = many.contention * (last - 1) + many.coherency * last * (last - 1)
    if np.quantile(loss, (1 - confidence) / 2) <= MATERIAL_RATIO:
        return contention, coherency
    reason = "the steps show a loss, and not whether it is contention or coherency: measure more steps"
    return (
        Parameter(contention.value, contention.low, contention.high, False, reason),
        Parameter(coherency.value, coherency.low, coherency.high, False, reason),
    )


def _peak(value: float, low: float | None, high: float | None, last: float, reason: str | None) -> Parameter:
    if low is None or high is None:
        return Parameter(value, low, high, False, reason)
    if math.isinf(high):
        least = (
            "" if math.isinf(low) or low <= last else f": if there is one, it is at {low:.3g} CPUs or more"
        )
        return Parameter(value, low, high, False, f"the steps up to {last:g} CPUs show no peak{least}")
    return Parameter(value, low, high, True, None)


def _too_few(cpus: Floats, logs: Floats, confidence: float) -> LawFit:
    steps, blocks = logs.shape
    reason = (
        f"{steps} step{'s' if steps > 1 else ''} cannot determine three parameters: measure {FEWEST_STEPS}"
    )
    unknown = Parameter(None, None, None, False, reason)
    return LawFit(unknown, unknown, unknown, unknown, unknown, steps, blocks, None, None, confidence)
