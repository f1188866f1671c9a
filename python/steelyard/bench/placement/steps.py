"""The CPUs of each step of a scaling curve.

In: the usable CPUs of a machine by core, cache and NUMA node. Out: `CpuStep`s: 1, 2, 4 ... and all CPUs, each
holding those of the step before.

Cores come first, then their other threads; each time node by node, and within a node by last-level cache,
fast cores first. A step is added where the first node's cores, or all cores, are used up: there a curve
bends. Under a quota of CPU time there are as many CPUs as it lets run all the time.

Not here: where servers and load go within a step (``choose``), pinning (``steelyard-exec``).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from steelyard._base import UsageError, format_cpu_list, parse_cpu_list
from steelyard.bench.placement.choose import within_quota
from steelyard.bench.placement.homes import by_node, cache_groups
from steelyard.machine.layout import Core, Layout, describe_limits
from steelyard.stats.scaling.choice import Topology


@dataclass(frozen=True, slots=True)
class CpuStep:
    """One step."""

    cpus: tuple[int, ...]
    """In ascending order."""
    shares_cores: bool
    """Whether two of them are threads of one core."""
    nodes: int | None
    """NUMA nodes that they are of, None where the kernel tells none."""


def cpu_order(cores: Sequence[Core]) -> list[int]:
    """Return the CPUs in the order in which steps take them."""
    line = [core for home in by_node(cores) for group in cache_groups(home.cores) for core in group]
    depth = max((len(core.cpus) for core in line), default=0)
    return [core.cpus[thread] for thread in range(depth) for core in line if thread < len(core.cpus)]


def cpu_steps(layout: Layout, asked: Sequence[int] | None = None) -> tuple[list[CpuStep], list[str]]:
    """Return the steps, and what a reader should know of them; ``asked`` are their numbers of CPUs.

    Raises UsageError for a number that this machine has not.
    """
    cores, notes = within_quota(layout)
    order = cpu_order(cores)
    counts = _counts(cores, len(order)) if asked is None else sorted(set(asked))
    if not counts or counts[0] < 1 or counts[-1] > len(order):
        raise UsageError(
            f"--steps {','.join(map(str, asked or ()))}: 1 to {len(order)} CPUs are usable here",
            hint=f"usable are {format_cpu_list(sorted(order))}",
        )
    return [_step(cores, order[:count]) for count in counts], describe_limits(layout) + notes


def topology_of_layout(layout: Layout) -> Topology:
    """Return where cores, nodes and siblings end in the order in which steps take CPUs."""
    cores, _ = within_quota(layout)
    ends, used = [], 0
    for home in by_node(cores)[:-1]:
        used += len(home.cores)
        ends.append(used)
    return Topology(
        sum(len(core.cpus) for core in cores),
        len(cores),
        max((len(core.cpus) for core in cores), default=None),
        tuple(ends),
    )


def _counts(cores: Sequence[Core], total: int) -> list[int]:
    counts = {total, len(cores), len(by_node(cores)[0].cores)}
    power = 1
    while power < total:
        counts.add(power)
        power *= 2
    return sorted(counts)


def _step(cores: Sequence[Core], cpus: Sequence[int]) -> CpuStep:
    chosen = set(cpus)
    used = [core for core in cores if chosen & set(core.cpus)]
    nodes = {core.node for core in used}
    return CpuStep(
        tuple(sorted(chosen)),
        any(len(chosen & set(core.cpus)) > 1 for core in used),
        None if None in nodes else len(nodes),
    )


def place_of(listed: str, cores: Sequence[Core]) -> CpuStep:
    """Return the step of a recorded list of CPUs, on the same machine."""
    return _step(cores, parse_cpu_list(listed) or ())
