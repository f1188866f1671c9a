"""Groups of CPUs that are near each other, from measured core-to-core times.

In: a square matrix of one-way times. Out: an order of the CPUs in which near ones stand together, and
levels of groups (threads of a core, cores of a cache, sockets) as far as the times separate them. What
the kernel says of the topology is not used: this shows whether the machine behaves as it says.

Method: average-linkage clustering (Sokal and Michener 1958, by scipy); a level is where the next merge is
at least `GAP_RATIO` times as far as the one before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.cluster.hierarchy import fcluster, leaves_list, linkage, optimal_leaf_ordering
from scipy.spatial.distance import squareform

GAP_RATIO = 1.5
"""Two kinds of neighbours differ by more: on recorded machines threads and cores by 3, sockets by 2."""

_FINER_RATIO = 1.5
"""A finer level has at least this many times the groups of the coarser one; fewer are outliers."""


@dataclass(frozen=True, slots=True)
class Level:
    """One way to part the CPUs."""

    groups: list[list[int]]
    """Positions in the matrix, groups in order of their first member."""
    within_ns: float
    """Largest mean distance at which CPUs were joined into these groups."""
    between_ns: float
    """Smallest mean distance at which these groups would be joined."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """How CPUs group."""

    order: list[int]
    """Positions in the matrix, near ones together."""
    levels: list[Level]
    """Coarsest first; empty where all CPUs are alike."""


def clusters(matrix: Sequence[Sequence[float | None]]) -> Clusters:
    """Return how the CPUs of a matrix group.

    >>> near, far = 20.0, 90.0
    >>> found = clusters([[None, far, near], [far, None, far], [near, far, None]])
    >>> found.levels[0].groups, found.levels[0].within_ns, found.levels[0].between_ns
    ([[0, 2], [1]], 20.0, 90.0)

    Raises ValueError for a matrix that is not square or has a missing value off its diagonal.
    """
    count = len(matrix)
    if any(len(row) != count for row in matrix):
        raise ValueError("the matrix is not square")
    if count < 2:
        return Clusters(list(range(count)), [])
    times = np.array([[np.nan if cell is None else cell for cell in row] for row in matrix], dtype=float)
    np.fill_diagonal(times, 0.0)
    if not np.isfinite(times).all():
        raise ValueError("a time off the diagonal is missing")
    distances = squareform((times + times.T) / 2, checks=False)
    if count == 2:
        return Clusters([0, 1], [])
    tree = optimal_leaf_ordering(linkage(distances, "average"), distances)
    heights = tree[:, 2]
    levels: list[Level] = []
    # From the last merge back: coarse levels first.
    for index in range(len(heights) - 1, 0, -1):
        below, above = float(heights[index - 1]), float(heights[index])
        groups = count - index
        finer = not levels or groups >= _FINER_RATIO * len(levels[-1].groups)
        if below > 0 and above >= GAP_RATIO * below and finer:
            labels = fcluster(tree, (below + above) / 2, "distance")
            levels.append(Level(_groups(labels.tolist()), below, above))
    return Clusters([int(leaf) for leaf in leaves_list(tree)], levels)


def _groups(labels: Sequence[int]) -> list[list[int]]:
    positions: dict[int, list[int]] = {}
    for position, label in enumerate(labels):
        positions.setdefault(label, []).append(position)
    return list(positions.values())
