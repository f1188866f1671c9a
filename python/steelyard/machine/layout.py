"""The CPUs that a process may use, by core, last-level cache, package and NUMA node.

In: a tree of /proc and /sys, and the CPU affinity where the machine is live. Out: a `Layout`. Limits are
respected in the order in which the kernel applies them: online CPUs, the cpuset of the control group, the
affinity. A quota of CPU time is only stated: which CPUs to leave idle under it is a choice (``placement``).

Not here: sizes of caches and memory for people (``snapshot``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from steelyard._base import format_cpu_list, parse_cpu_list
from steelyard.machine import cgroups, processor, topology
from steelyard.machine.tree import Tree, keyed


@dataclass(frozen=True, slots=True)
class Core:
    """One physical core: the usable ones of its CPUs."""

    cpus: tuple[int, ...]
    node: int | None = None
    """NUMA node, None where the kernel tells none."""
    package: int | None = None
    die: int | None = None
    cache: int = 0
    """Number of the last-level cache that it shares with others, unique on the machine."""
    speed: int = 0
    """Larger on faster kinds of cores, comparable on one machine only."""


@dataclass(frozen=True, slots=True)
class Node:
    """One NUMA node that has usable CPUs or usable memory."""

    id: int
    memory_bytes: int | None = None
    """None where the kernel does not report it, 0 for a node without memory."""
    distances: dict[int, int] = field(default_factory=dict)
    """Distance to other nodes by their id, as the firmware gives it (10: itself)."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What there is to place work on."""

    cores: tuple[Core, ...]
    """Cores with usable CPUs, in order of their first CPU."""
    nodes: tuple[Node, ...] = ()
    memory_nodes: tuple[int, ...] = ()
    """Nodes whose memory may be used; empty where the kernel has no NUMA nodes."""
    online: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()
    quota_cpus: float | None = None
    """CPUs' worth of time that the control group allows, None without a quota."""

    @property
    def cpus(self) -> tuple[int, ...]:
        """Return the usable CPUs in ascending order."""
        return tuple(sorted(cpu for core in self.cores for cpu in core.cpus))

    def distance(self, origin: int | None, other: int | None) -> int:
        """Return the distance from node ``origin`` to memory of node ``other``, 255 where it is not known."""
        if origin == other:
            return 10
        for node in self.nodes:
            if node.id == origin and other in node.distances:
                return node.distances[other]
        return 255  # The firmware's word for "cannot be reached" (ACPI, SLIT).


def read_layout(tree: Tree, *, affinity: Iterable[int] | None = None) -> Layout:
    """Return the layout of ``tree``; ``affinity`` is what the scheduler allows a process of a live machine.

    Without it the recorded affinity counts, and where none is recorded, that of a new process: CPUs that the
    kernel isolates are left out. A CPU without topology is a core of its own.
    """
    online = topology.online_cpus(tree)
    usable = usable_cpus(tree, online, affinity)[0]
    nodes = _nodes(tree)
    node_of = topology.nodes_of_cpus(tree, usable)
    package_of = topology.packages(tree, usable)
    speed_of = topology.speeds(tree, online)
    cache_of = {
        cpu: number
        for number, group in enumerate(topology.last_level_caches(tree, online), start=1)
        for cpu in group
    }
    known = [sorted(core & set(usable)) for core in topology.cores(tree, online)]
    covered = {cpu for core in known for cpu in core}
    by_core = [core for core in known if core] + [[cpu] for cpu in usable if cpu not in covered]
    cores = []
    for core in sorted(by_core):
        first = core[0]
        package, die = package_of.get(first, (None, None))
        cache = cache_of.get(first, 0)
        speed = speed_of.get(first, 0)
        cores.append(Core(tuple(core), node_of.get(first), package, die, cache, speed))
    return Layout(
        cores=tuple(cores),
        nodes=nodes,
        memory_nodes=_memory_nodes(tree, nodes),
        online=tuple(online),
        offline=tuple(parse_cpu_list(processor.offline_cpus(tree, online) or "") or ()),
        quota_cpus=cgroups.quota_cpus(tree),
    )


def usable_cpus(
    tree: Tree, online: Sequence[int], affinity: Iterable[int] | None = None
) -> tuple[list[int], bool]:
    """Return the CPUs that a process may use, and whether anything says so: else all that are online.

    ``affinity`` is that of the process; by default what the tree has of it.
    """
    recorded = keyed(tree.text("proc/self/status")).get("Cpus_allowed_list")
    allowed = parse_cpu_list(recorded) if affinity is None and recorded else affinity
    usable = set(online) if allowed is None else set(allowed)
    if allowed is None:
        usable -= set(parse_cpu_list(tree.text("sys/devices/system/cpu/isolated") or "") or ())
    if online:
        usable &= set(online)
    group = cgroups.cpuset_cpus(tree)
    # A group that contradicts the affinity is another process's: seen from inside of a container.
    if group is not None and usable & set(group):
        usable &= set(group)
    return sorted(usable), allowed is not None or group is not None


def _nodes(tree: Tree) -> tuple[Node, ...]:
    numa_nodes = topology.numa_nodes(tree)
    # A node that is offline has no folder, and may have a place among the distances of the others.
    texts = [tree.text(f"sys/devices/system/node/{name}") or "" for name in ("online", "possible")]
    orders = [[node.id for node in numa_nodes], *(parse_cpu_list(text) or [] for text in texts)]
    nodes = []
    for node in numa_nodes:
        order = next((ids for ids in orders if len(ids) == len(node.distances)), [])
        nodes.append(Node(node.id, node.memory_bytes, dict(zip(order, node.distances, strict=False))))
    return tuple(nodes)


def _memory_nodes(tree: Tree, nodes: Sequence[Node]) -> tuple[int, ...]:
    allowed = keyed(tree.text("proc/self/status")).get("Mems_allowed_list")
    sets = [parse_cpu_list(allowed) if allowed else None, cgroups.cpuset_memory_nodes(tree)]
    there = [node.id for node in nodes if node.memory_bytes != 0]
    for limit in sets:
        there = [node for node in there if limit is None or node in limit]
    return tuple(there)


def describe_limits(layout: Layout) -> list[str]:
    """Return a line for each reason why some CPUs of the machine are not usable."""
    lines = []
    if layout.offline:
        lines.append(f"CPUs {format_cpu_list(list(layout.offline))} are offline")
    barred = sorted(set(layout.online) - set(layout.cpus))
    if barred:
        lines.append(f"CPUs {format_cpu_list(barred)} may not be used here (affinity, cpuset or isolation)")
    return lines
