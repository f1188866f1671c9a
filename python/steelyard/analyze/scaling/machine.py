"""What is known of the CPUs of a curve's machine: cores, siblings, NUMA nodes.

In: trials that were measured elsewhere, or the places of steps. Out: a `Topology`, and what siblings are
worth on other machines.

Threads that the kernel places have no node of their own at any number: only CPUs, of which steps take the
cores first, node by node, cross from one node to the next.

Not here: the live machine (``bench.placement.steps``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median

from steelyard._base import UsageError
from steelyard.analyze.scaling.curve import Observation, Place, steps_of, whole_blocks
from steelyard.stats.scaling.choice import Kind, Topology
from steelyard.stats.scaling.curve import fit_curve
from steelyard.stats.scaling.prediction import WORTH_DIFFERS, SiblingWorth


def topology_of(observations: Sequence[Observation]) -> Topology:
    """Return what the columns of a file say of its machine."""
    known = [one.machine for one in observations if one.machine is not None]
    if not known:
        return Topology()
    first = known[0]
    cores = first.cores
    if cores is None and first.cpus is not None and first.threads_per_core is not None:
        cores = first.cpus // first.threads_per_core
    cpus = first.cpus
    if cpus is None and cores is not None and first.threads_per_core is not None:
        cpus = cores * first.threads_per_core
    if any(one.is_threads for one in observations):
        return Topology(cpus, cores, first.threads_per_core)
    of_step = {one.cpus: one.machine.nodes for one in observations if one.machine and one.machine.nodes}
    if len(set(of_step.values())) > 1:
        ends = _changes(of_step)
    elif first.nodes is not None and cores is not None:
        ends = tuple(cores * node // first.nodes for node in range(1, first.nodes))
    else:
        ends = ()
    return Topology(cpus, cores, first.threads_per_core, ends)


def topology_of_places(
    places: Mapping[int, Place], cores: int | None, threads_per_core: int | None
) -> Topology:
    """Return what the steps of an experiment show, and what its machine had."""
    apart = [cpus for cpus, place in places.items() if not place.shares_cores]
    shared = [cpus for cpus, place in places.items() if place.shares_cores]
    if shared and apart:
        # The machine's cores may be more than those that could be used.
        least, most = max(apart), min(shared)
        cores = cores if cores is not None and least <= cores < most else least
    nodes = {cpus: place.nodes for cpus, place in places.items() if place.nodes}
    return Topology(None, cores, threads_per_core, _changes(nodes))


def _changes(nodes: Mapping[int, int | None]) -> tuple[int, ...]:
    """Return the steps after which there are more nodes."""
    counts = sorted(nodes)
    return tuple(few for few, many in pairwise(counts) if (nodes[few] or 0) < (nodes[many] or 0))


def worth_of(curves: Mapping[str, Sequence[Observation]]) -> SiblingWorth:
    """Return what siblings are worth on other machines, by the name of their file.

    Raises UsageError for a curve that does not tell.
    """
    found = []
    for name, observations in curves.items():
        topology = topology_of(observations)
        if topology.last_core is None:
            raise UsageError(
                f"{name} does not say where cores end",
                hint="add a column cores, or threads_per_core and machine_cpus",
            )
        values = whole_blocks(steps_of(observations))
        fit = fit_curve(values, topology) if len(values) > 1 else None
        if fit is None or fit.kind is not Kind.SIBLINGS or fit.chosen is None or fit.chosen.worth is None:
            shown = "one step" if fit is None else f"the model of it is {fit.kind.value}"
            raise UsageError(f"{name} does not tell what siblings are worth: {shown}")
        found.append(fit.chosen.worth)
    return SiblingWorth(
        median(one.value for one in found),
        min(one.value if one.low is None else one.low for one in found),
        max(one.value if one.high is None else one.high for one in found),
        f"the curve of {', '.join(curves)}",
    )


def worth_given(ratio: float) -> SiblingWorth:
    """Return a worth that was given as a number."""
    return SiblingWorth(ratio, ratio, ratio, f"as given, {WORTH_DIFFERS:.0%} of throughput more or less")
