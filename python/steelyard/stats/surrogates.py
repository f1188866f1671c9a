"""Series that are like a given one in everything but when things happen: what chance is held against.

In: equally spaced values. Out: surrogates with exactly the same values and nearly the same spectrum, in
random order: iterative amplitude-adjusted Fourier transforms (T. Schreiber and A. Schmitz, "Improved
Surrogate Data for Nonlinearity Tests", Physical Review Letters 77, 1996). Two unrelated series of which one
is bursty or periodic correlate strongly at some lag; so do the surrogates, and a threshold taken from them
knows it.

Not here: which statistic is held against them.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ITERATIONS = 20
"""Rounds of fitting spectrum and values in turn; the spectrum is within some percent after them."""


def surrogates(values: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Return ``count`` surrogates of ``values``, one a row.

    Raises ValueError for NaN or fewer than four values.
    """
    size = len(values)
    if size < 4 or not np.isfinite(values).all():
        raise ValueError("a surrogate needs four known values or more")
    ordered = np.sort(values)
    amplitudes = np.abs(np.fft.rfft(values))
    rows = rng.permuted(np.tile(values, (count, 1)), axis=1)
    for _ in range(ITERATIONS):
        spectrum = np.fft.rfft(rows, axis=1)
        phases = spectrum / np.maximum(np.abs(spectrum), 1e-300)
        shaped = np.fft.irfft(amplitudes * phases, n=size, axis=1)
        rows = np.empty_like(shaped)
        np.put_along_axis(rows, np.argsort(shaped, axis=1), ordered[None, :], axis=1)
    return np.asarray(rows, dtype=np.float64)


def largest_correlations(first: Floats, second: Floats, most_lag: int) -> Floats:
    """Return the largest amount of correlation of ``first`` with each row of ``second`` at lags up to
    ``most_lag`` either way.

    The covariance over the pairs that meet is divided by the whole series' deviations, so that few pairs at a
    long lag count for less. A gap (NaN) counts as the mean.
    """
    rows = np.atleast_2d(second)
    x, y = _scaled(first[None, :]), _scaled(rows)
    size = 1 << int(x.shape[1] + most_lag - 1).bit_length()
    products = np.conj(np.fft.rfft(x, size, axis=1)) * np.fft.rfft(y, size, axis=1)
    sums = np.fft.irfft(products, size, axis=1)
    lags = np.concatenate([sums[:, : most_lag + 1], sums[:, size - most_lag :]], axis=1)
    return np.asarray(np.abs(lags).max(axis=1), dtype=np.float64)


def _scaled(rows: Floats) -> Floats:
    deviations = np.nan_to_num(rows - np.nanmean(rows, axis=1, keepdims=True), nan=0.0)
    sizes = np.sqrt((deviations**2).sum(axis=1, keepdims=True))
    return np.asarray(deviations / np.where(sizes > 0, sizes, 1.0), dtype=np.float64)
