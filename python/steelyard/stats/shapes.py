"""Lines, steps, dips and cycles in a series, against what noise with memory shows by chance.

In: equally spaced values. Out: `Shape`: the line, step, dip or cycle that explains most of them, and the
chance that noise shows one as strong.

Chance: noise whose neighbours resemble each other wanders, and a wandering level looks like each
of these shapes; how much so depends on its correlation, which the shape itself, if it is real, raises. So
the correlation is taken from what remains without the shape, where it comes out too small, the more so the
freer the shape: by how much is simulated, and undone by the correlation whose simulated series have the
observed one as their median (D. Andrews, "Exactly Median-Unbiased Estimation of First Order Autoregressive
Models", Econometrica 61, 1993). The shape's sum of squares over that of the rest is then held against the
same ratio in series of first-order autocorrelated normal noise of that correlation; that of a cycle over what
such noise has at the cycle's own period, since a wandering level makes long cycles, not short ones.

Invariants: the same values give the same answer (seeded); the unit of the series does not matter.

Not here: how large a shape must be to matter (``steady``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float64]
"""Series, one a row."""

LINE, STEP, DIP, CYCLE = "line", "step", "dip", "cycle"
KINDS = (LINE, STEP, DIP, CYCLE)
_CORRELATIONS = (0.0, 0.2, 0.4, 0.55, 0.7, 0.8, 0.87, 0.92)
_ERRORS = 1.25
"""Standard errors by which the correlation is taken to be more than the rest shows (journal 0190)."""
_TRIALS = 400
_SEED = 20_261_123
_MOST = 120
"""Values among which a dip is looked for: longer series are averaged to about so many."""
_SHORTEST_SHARE = 12
"""A dip is at least this part of the values long, and two values."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What of one kind explains most of a series."""

    kind: str
    size: float
    """In the unit of the series: change from first to last value of a line; height of a step or dip, negative
    for less, of a dip by means or by medians, whichever is less; amplitude of a cycle: half of what lies
    between its crest and its trough."""
    first: int
    """First value after a step, or of a dip; 0 for others."""
    end: int
    """First value after a dip; the count of values for others."""
    period: float | None
    """Values from crest to crest of a cycle."""
    residual_sum: float
    """Squares of what the shape does not explain, summed."""
    p_value: float | None = None
    """Chance that noise as correlated as the rest shows one as strong; None where it was not asked."""


@dataclass(frozen=True, slots=True)
class _Fit:
    """The best shape of each row."""

    explained: Rows
    residuals: Rows
    place: NDArray[np.int64]
    end: NDArray[np.int64]
    size: Rows
    angle: Rows
    """Change of a cycle's phase from one value to the next; 0 for other shapes."""


def best(values: Rows, kind: str) -> Shape:
    """Return the shape of a kind that explains most of ``values``, without its chance."""
    fit = _FITS[kind](values[None, :] - values.mean())
    count, place, size = len(values), int(fit.place[0]), float(fit.size[0])
    if kind == DIP:
        # Most of a stretch differs, not one value in it by much: that is an outlier.
        inside = np.zeros(count, dtype=bool)
        inside[place : int(fit.end[0])] = True
        size = min(size, float(np.median(values[inside]) - np.median(values[~inside])), key=abs)
    return Shape(
        kind,
        size,
        place if kind in (STEP, DIP) else 0,
        int(fit.end[0]) if kind == DIP else count,
        2 * count / place if kind == CYCLE else None,
        float((fit.residuals[0] ** 2).sum()),
    )


def chance(values: Rows, kind: str) -> float:
    """Return the chance that noise as correlated as what remains of ``values`` shows such a shape."""
    fit = _FITS[kind](values[None, :] - values.mean())
    ratio, correlation = float(_ratio(fit)[0]), float(_correlation(fit.residuals)[0])
    count = len(values)
    medians = [_simulated(kind, count, correlated)[1] for correlated in _CORRELATIONS]
    # A short series whose correlation comes out too small by chance would otherwise show shapes in noise.
    correlation += _ERRORS * float(np.sqrt(max(0.0, 1 - correlation**2) / count))
    # The correlation whose series show as much, between two that were simulated. More than the last is not
    # allowed for: every change of level could then be noise.
    place = float(np.interp(correlation, np.maximum.accumulate(medians), np.arange(len(medians))))
    low = int(place)
    high = min(low + 1, len(medians) - 1)
    beyond = [
        (1 + int((_simulated(kind, count, _CORRELATIONS[index])[0] >= ratio).sum())) / (1 + _TRIALS)
        for index in (low, high)
    ]
    return beyond[0] + (place - low) * (beyond[1] - beyond[0])


@lru_cache(maxsize=256)
def _simulated(kind: str, count: int, correlation: float) -> tuple[Rows, float]:
    """Return the ratios of noise of this correlation, and the median of what is estimated of it."""
    from scipy.signal import lfilter

    random = np.random.default_rng(_SEED)
    shocks = random.standard_normal((_TRIALS, count))
    # The first value is drawn from the stationary state; a variance of any size will do.
    shocks[:, 0] /= np.sqrt(1 - correlation**2)
    rows = np.asarray(lfilter([1.0], [1.0, -correlation], shocks, axis=1))
    fit = _FITS[kind](rows - rows.mean(axis=1, keepdims=True))
    return np.sort(_ratio(fit)), float(np.median(_correlation(fit.residuals)))


def _ratio(fit: _Fit) -> Rows:
    rest = (fit.residuals**2).sum(axis=1)
    whole = fit.explained + rest
    correlation = np.clip(_correlation(fit.residuals), 0.0, 0.95)
    # In proportion to one over the spectrum of first-order noise; 1 - r at angle 0, as all but cycles have.
    scale = (1 - 2 * correlation * np.cos(fit.angle) + correlation**2) / (1 - correlation)
    # Residuals at rounding level: the shape explains everything.
    return np.asarray(fit.explained * scale / np.maximum(rest, 1e-24 * np.maximum(whole, 1e-300)))


def _correlation(rows: Rows) -> Rows:
    power = (rows**2).sum(axis=1)
    products = (rows[:, 1:] * rows[:, :-1]).sum(axis=1)
    return np.asarray(products / np.where(power > 0, power, 1.0))


def _line(rows: Rows) -> _Fit:
    count = rows.shape[1]
    time = np.arange(count) - (count - 1) / 2
    spread = float(time @ time)
    slope = rows @ time / spread
    nothing = np.zeros(len(rows), dtype=np.int64)
    residuals = rows - slope[:, None] * time
    return _Fit(slope**2 * spread, residuals, nothing, nothing + count, slope * (count - 1), 0.0 * slope)


def _step(rows: Rows) -> _Fit:
    count = rows.shape[1]
    places = np.arange(2, count - 1)
    sums = np.cumsum(rows, axis=1)[:, places - 1]
    # By the largest sum, not by the best fit: that is at the edges too often where noise has memory.
    chosen = np.abs(sums).argmax(axis=1)
    place = places[chosen]
    sum_before = np.take_along_axis(sums, chosen[:, None], axis=1)[:, 0]
    before, after = sum_before / place, -sum_before / (count - place)
    fitted = np.where(np.arange(count) < place[:, None], before[:, None], after[:, None])
    return _Fit(sum_before**2 / count, rows - fitted, place, place * 0 + count, after - before, 0.0 * after)


def _dip(rows: Rows) -> _Fit:
    """Fit a stretch in the middle, up to half of the values, that differs from what surrounds it."""
    count = rows.shape[1]
    block = -(-count // _MOST)
    merged = rows[:, : count // block * block].reshape(len(rows), -1, block).mean(axis=2)
    merged = merged - merged.mean(axis=1, keepdims=True)
    size = merged.shape[1]
    sums = np.concatenate([np.zeros((len(rows), 1)), np.cumsum(merged, axis=1)], axis=1)
    most = np.zeros(len(rows))
    place, length = np.ones(len(rows), dtype=np.int64), np.ones(len(rows), dtype=np.int64)
    for width in range(max(2, size // _SHORTEST_SHARE), size // 2 + 1):
        # A stretch that touches an end is a step.
        within = sums[:, 1 + width : size] - sums[:, 1 : size - width]
        if not within.shape[1]:
            break
        at = np.abs(within).argmax(axis=1)
        explained = np.take_along_axis(within, at[:, None], axis=1)[:, 0] ** 2 * size
        explained = explained / (width * (size - width))
        better = explained > most
        most = np.where(better, explained, most)
        place, length = np.where(better, at + 1, place), np.where(better, width, length)
    inside = np.take_along_axis(sums, (place + length)[:, None], axis=1)[:, 0]
    inside = inside - np.take_along_axis(sums, place[:, None], axis=1)[:, 0]
    within_mean, without = inside / length, -inside / (size - length)
    steps = np.arange(size)
    is_in = (steps >= place[:, None]) & (steps < (place + length)[:, None])
    residuals = merged - np.where(is_in, within_mean[:, None], without[:, None])
    return _Fit(most, residuals, place * block, (place + length) * block, within_mean - without, 0.0 * most)


def _cycle(rows: Rows) -> _Fit:
    """Fit a sine of one period or more, of at least three values each."""
    count = rows.shape[1]
    # Twice the length: half periods, too, have a place in it.
    spectrum = np.fft.rfft(rows, 2 * count, axis=1)
    last = 2 * count // 3
    place = 2 + np.abs(spectrum[:, 2 : last + 1]).argmax(axis=1)
    angle = np.pi * place[:, None] * np.arange(count) / count
    # Sine and cosine of a broken number of periods are neither orthogonal nor without a mean.
    cosine = np.cos(angle) - np.cos(angle).mean(axis=1, keepdims=True)
    sine = np.sin(angle) - np.sin(angle).mean(axis=1, keepdims=True)
    cc, ss, cs = (cosine**2).sum(axis=1), (sine**2).sum(axis=1), (cosine * sine).sum(axis=1)
    cx, sx = (cosine * rows).sum(axis=1), (sine * rows).sum(axis=1)
    divisor = cc * ss - cs**2
    a, b = (cx * ss - sx * cs) / divisor, (sx * cc - cx * cs) / divisor
    fitted = a[:, None] * cosine + b[:, None] * sine
    return _Fit(
        (fitted**2).sum(axis=1),
        rows - fitted,
        place,
        place * 0 + count,
        np.hypot(a, b),
        np.pi * place / count,
    )


_FITS: dict[str, Callable[[Rows], _Fit]] = {LINE: _line, STEP: _step, DIP: _dip, CYCLE: _cycle}
