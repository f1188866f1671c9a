"""NUMA locality of one machine: its map, and how local what runs on it is to its memory.

In: a machine's inventory, a health result, the records of ``steelyard-probe numa``. Out: `NumaMap`,
`NumaScore` records, and scores as a pure function of arrays (``score``).

Invariants: a score is in (0, 1] and exactly 1 on one node; what cannot be had is missing with its reason.

Not here: reading pages and CPU time (``crates/probe``), effects on performance (``fleet``), drawing
(``report``).
"""

from steelyard.numa.map import MapNode, NumaMap, map_of
from steelyard.numa.measure import ScoreRequest, measure

__all__ = [
    "MapNode",
    "NumaMap",
    "ScoreRequest",
    "map_of",
    "measure",
]
