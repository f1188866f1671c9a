"""The CPU-memory locality score as a function of arrays.

Source: Tang et al., "Optimizing Google's Warehouse Scale Computers: The NUMA Experience" (HPCA 2013),
equation 1. ``crates/probe/src/numa/score.rs`` computes the same of one task; both are held to
``schemas/golden/numa_vectors.json``.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard.numa.distances import locality_ratios

Floats = NDArray[np.float64]


def locality_scores(cpu: ArrayLike, memory: ArrayLike, distances: Sequence[Sequence[float]]) -> Floats:
    """Return ``sum over i, j of C[i] * M[j] * D(i,i) / D(i,j)`` of each task.

    ``cpu`` and ``memory`` are amounts by node of any unit, of shape (..., nodes); C and M are these divided
    by their sums. The result has their broadcast shape without the last axis, and is NaN where a task has
    no CPU time, no memory, or an amount that is missing (NaN). Raises ValueError for negative amounts and
    other numbers of nodes.
    """
    ratios = np.array(locality_ratios(distances))
    c, m = (_shares(np.asarray(amounts, dtype=np.float64), len(ratios)) for amounts in (cpu, memory))
    # Shares sum to 1 but for rounding; NaN stays NaN.
    scores: Floats = np.minimum(((c @ ratios) * m).sum(axis=-1), 1.0)
    return scores


def _shares(amounts: Floats, nodes: int) -> Floats:
    if amounts.ndim == 0 or amounts.shape[-1] != nodes:
        raise ValueError(f"amounts of shape {amounts.shape}, but distances of {nodes} nodes")
    if (amounts < 0).any() or np.isinf(amounts).any():
        raise ValueError("an amount is negative or not finite")
    sums = amounts.sum(axis=-1, keepdims=True)
    shares: Floats = np.divide(amounts, sums, out=np.full_like(amounts, np.nan), where=sums > 0)
    return shares
