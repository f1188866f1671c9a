"""The CPU-memory locality score as a function of arrays.

Source: Tang et al., "Optimizing Google's Warehouse Scale Computers: The NUMA Experience" (HPCA 2013),
equation 1. ``crates/probe/src/numa/score.rs`` computes the same of one task; both are held to
``schemas/golden/numa_vectors.json``.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def locality_ratios(distances: ArrayLike) -> Floats:
    """Return ``D(i,i) / D(i,j)`` of a square table of distances, at most 1.

    The unit of the distances does not matter. Memory that is nearer than a node's own, as HMAT may tell of
    memory on the package, counts as local. Raises ValueError for what is no square table of positive
    numbers.
    """
    table = np.asarray(distances, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] != table.shape[1] or table.shape[0] == 0:
        raise ValueError(f"distances of shape {table.shape} make no square table")
    if not (np.isfinite(table).all() and (table > 0).all()):
        raise ValueError("a distance is not positive")
    ratios: Floats = np.minimum(np.diagonal(table)[:, None] / table, 1.0)
    return ratios


def locality_scores(cpu: ArrayLike, memory: ArrayLike, distances: ArrayLike) -> Floats:
    """Return ``sum over i, j of C[i] * M[j] * D(i,i) / D(i,j)`` of each task.

    ``cpu`` and ``memory`` are amounts by node of any unit, of shape (..., nodes); C and M are these divided
    by their sums. The result has their broadcast shape without the last axis, and is NaN where a task has
    no CPU time, no memory, or an amount that is missing (NaN). Raises ValueError for negative amounts and
    other numbers of nodes.
    """
    ratios = locality_ratios(distances)
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
