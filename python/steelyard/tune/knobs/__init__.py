"""Knobs: one small class for each kind, found on the machine below a root.

In: a root. Out: `find`: the knobs that it has, in the order in which they are tried, and those that it lacks
with the reasons.

Not here: values of a certain workload (``tune.tuning``).
"""

from __future__ import annotations

from pathlib import Path

from steelyard.machine.tree import Tree
from steelyard.tune.knobs import frequency, kernel, memory, network, processors
from steelyard.tune.knobs.knob import Finder, Knob, Lacking, Risk

FINDERS: tuple[Finder, ...] = (
    memory.huge_pages,
    processors.cpu_count,
    kernel.base_slice,
    processors.prefetchers,
    frequency.core_frequency,
    frequency.uncore_frequency,
    processors.cache_ways,
    frequency.governor,
    frequency.energy_preference,
    frequency.boost,
    frequency.idle_limit,
    memory.numa_balancing,
    kernel.autogroup,
    network.steering,
    network.interrupt_cpus,
    network.link_settings,
    memory.dirty_limits,
    processors.smt,
    processors.online_cpus,
    kernel.boot_options,
)
"""In the order in which knobs are tried: what the SoftSKU paper varies first."""


def find(root: Path = Path("/")) -> tuple[list[Knob], list[Lacking]]:
    """Return the knobs below ``root``, and those that are not there. Writes nothing."""
    tree = Tree(root)
    found = [_with_levels(one) for finder in FINDERS for one in finder(tree)]
    knobs = [one for one in found if isinstance(one, Knob)]
    return knobs, [one for one in found if isinstance(one, Lacking)]


def _with_levels(found: Knob | Lacking) -> Knob | Lacking:
    """Return a knob, or that it has nothing to choose from."""
    if isinstance(found, Lacking) or len(found.levels) > 1:
        return found
    return Lacking(found.name, found.about, f"it has one level here: {', '.join(found.levels) or 'none'}")


__all__ = ["FINDERS", "Knob", "Lacking", "Risk", "find"]
