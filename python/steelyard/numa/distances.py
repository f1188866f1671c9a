"""Tables of distances between nodes, as plain lists: the map of a machine needs no numerics to load.

In: a square table, from the CPUs of a node (row) to the memory of a node (column). Out: how local each pair
is.
"""

import math
from collections.abc import Sequence

Table = list[list[float]]


def locality_ratios(distances: Sequence[Sequence[float]]) -> Table:
    """Return ``D(i,i) / D(i,j)`` of a square table of distances, at most 1.

    The unit of the distances does not matter. Memory that is nearer than a node's own, as HMAT may tell of
    memory on the package, counts as local. Raises ValueError for what is no square table of positive
    numbers.
    """
    if not len(distances) or any(len(row) != len(distances) for row in distances):
        raise ValueError("these distances make no square table")
    if not all(0 < value < math.inf for row in distances for value in row):
        raise ValueError("a distance is not positive")
    return [[min(row[i] / value, 1.0) for value in row] for i, row in enumerate(distances)]
