"""A fleet with known truth: the same Parquet that agents write, and ``truth.json`` that says what is in it.

In: `Settings`. Out: a store (`simulate`). The tests of every fleet query are held against the truth of such a
store.

Known truth is worth something only if it is no easier than the world: loads of innocent suspects come and go
too, samples are noisy, tasks are small, and effects are confounded by load. Where figures are published, they
are used and cited where they stand (``catalog``, ``episodes``, ``rollouts``, ``locality``).
"""

from steelyard.fleet.simulate.settings import Settings
from steelyard.fleet.simulate.simulation import simulate

__all__ = ["Settings", "simulate"]
