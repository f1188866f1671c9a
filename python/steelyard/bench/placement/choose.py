"""The choice: which CPUs and which memory the instances of a benchmark get, and which the load.

In: the layout of a machine, what a benchmark needs, what was asked. Out: a `Placement`.

A benchmark's servers come in instances, one for each NUMA node or for a part of one, of whole last-level
caches. The load of an instance has cores in the same place, so that every node has its share of the load.
Cores are given whole, with all their threads, and slower cores go to the load first. A quota of CPU time
leaves CPUs idle: on all of them, threads would be stopped for a part of each period.

Not here: applying it (``steelyard-exec``), drawing it (``report.placement``).
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from steelyard._base import UsageError, format_cpu_list
from steelyard.bench.placement.homes import (
    CORES_MIN,
    Home,
    apportioned,
    by_node,
    cache_groups,
    chunks,
    cpu_count,
    joined,
    parts_for,
    split_home,
)
from steelyard.bench.placement.model import InstancePlace, Placement
from steelyard.machine.layout import Core, Layout, describe_limits

LEAST_MEMORY_RATIO = 0.5
"""Memory is bound to a node that has at least half as much of the machine's memory as of its CPUs."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What a benchmark needs of a placement."""

    load_ratio: float
    """Share of the CPUs that the load needs so that the servers are the bottleneck; 0: no load."""
    cpus_per_instance: int | None = None
    """Most CPUs of one instance's servers; None for a benchmark that has no instances."""
    instances: int | None = None
    """How many were asked for, None to choose."""
    binds_memory: bool = True


def place(
    layout: Layout, needs: Needs, *, server: Sequence[int] | None = None, load: Sequence[int] | None = None
) -> Placement:
    """Return the CPUs of servers and load. Raises UsageError for CPUs that are not usable.

    A side that the user names is taken as it is, and the other gets the cores that are left. With a single
    core the sides get threads of it; with a single CPU they share it.
    """
    notes = describe_limits(layout)
    for flag, cpus in (("--server-cpus", server), ("--load-cpus", load)):
        _check(layout, flag, cpus)
    if server or load:
        notes += _quota_of_requested(layout, server, load)
        homes = _requested(layout, needs, server, load)
    else:
        cores, reasons = within_quota(layout)
        notes += reasons
        homes = _chosen(layout, cores, needs)
    all_server = tuple(sorted({cpu for home in homes for cpu in home.server}))
    all_load = tuple(sorted({cpu for home in homes for cpu in home.load}))
    notes += _core_notes(layout, all_server, all_load)
    if needs.cpus_per_instance is None:
        return Placement(all_server, all_load, (), tuple(notes))
    instances, reasons = _instances(layout, homes, needs)
    return Placement(all_server, all_load, instances, (*notes, *reasons))


def without_binding(placement: Placement, reason: str) -> Placement:
    """Return the same placement with memory that is not bound, and why."""
    instances = tuple(
        replace(instance, memory_nodes=(), memory_bytes=None) for instance in placement.instances
    )
    notes = (*placement.notes, f"memory is not bound to nodes: {reason}")
    return replace(placement, instances=instances, notes=notes)


@dataclass(frozen=True, slots=True)
class _Shared:
    """A home whose cores have been shared out between the sides."""

    home: Home
    server_cores: list[Core]
    load_cores: list[Core]

    @property
    def server(self) -> list[int]:
        return [cpu for core in self.server_cores for cpu in core.cpus]

    @property
    def load(self) -> list[int]:
        return [cpu for core in self.load_cores for cpu in core.cpus]


def _check(layout: Layout, flag: str, cpus: Sequence[int] | None) -> None:
    lacking = sorted(set(cpus or ()) - set(layout.cpus))
    if lacking:
        raise UsageError(
            f"{flag}: CPU {format_cpu_list(lacking)} is not usable here",
            hint=f"usable are {format_cpu_list(layout.cpus)}",
        )


# A quota of CPU time


def within_quota(layout: Layout) -> tuple[list[Core], list[str]]:
    """Return the cores that a quota lets run all the time, and what was left idle.

    They are of one node where they fit, of few caches, and whole: two CPUs at least where the quota is above
    one, since servers and load need one each.
    """
    quota, usable = layout.quota_cpus, len(layout.cpus)
    cores = list(layout.cores)
    if quota is None or quota >= usable:
        return cores, []
    budget = max(math.floor(quota), min(2, math.ceil(quota)), 1)
    taken: list[Core] = []
    nodes = sorted(by_node(cores), key=lambda home: (-home.size, home.place))
    order = sorted(nodes, key=lambda home: layout.distance(_only(nodes[0]), _only(home)))
    for core in (core for home in order for group in cache_groups(home.cores) for core in group):
        if cpu_count(taken) + len(core.cpus) <= budget:
            taken.append(core)
        elif not taken:
            taken = [replace(core, cpus=core.cpus[:budget])]
            break
    note = (
        f"a quota of {quota:g} CPUs holds for this control group:"
        f" placed on {cpu_count(taken)} of {usable} usable CPUs"
    )
    return sorted(taken, key=lambda core: core.cpus), [note]


def _only(home: Home) -> int | None:
    return home.nodes[0] if home.nodes else None


def _quota_of_requested(
    layout: Layout, server: Sequence[int] | None, load: Sequence[int] | None
) -> list[str]:
    count = len({*(server or ()), *(load or ())}) if server and load else len(layout.cpus)
    if layout.quota_cpus is None or layout.quota_cpus >= count:
        return []
    return [
        f"a quota of {layout.quota_cpus:g} CPUs holds for this control group,"
        f" fewer than the {count} CPUs in use: threads will be throttled"
    ]


# Homes


def _homes(
    layout: Layout, cores: Sequence[Core], needs: Needs, *, server_ratio: float, cores_min: int
) -> list[Home]:
    """Return the homes of the instances."""
    nodes = by_node(cores)
    instance_count = needs.instances

    def is_enough(homes: Sequence[Home]) -> bool:
        few = instance_count is None or len(homes) <= instance_count
        return few and all(len(home.cores) >= cores_min for home in homes)

    homes = joined(nodes, layout, is_enough)
    if needs.cpus_per_instance is None:
        return homes
    if instance_count is None:
        parts = [
            parts_for(home.size * server_ratio, needs.cpus_per_instance, len(cache_groups(home.cores)))
            for home in homes
        ]
    else:
        parts = apportioned(instance_count, [home.size for home in homes])
    return [
        part for home, count in zip(homes, parts, strict=True) for part in split_home(home, count, cores_min)
    ]


def _chosen(layout: Layout, cores: Sequence[Core], needs: Needs) -> list[_Shared]:
    ratio = needs.load_ratio
    least = CORES_MIN if ratio else 1
    homes = _homes(layout, cores, needs, server_ratio=1 - ratio, cores_min=least)
    return [_share(home, ratio) for home in homes]


def _share(home: Home, load_ratio: float) -> _Shared:
    """Return a home shared out: the load gets whole cores, slow ones and small caches first."""
    line = [core for group in cache_groups(home.cores) for core in group]
    if not load_ratio:
        return _Shared(home, line, [])
    if home.size == 1:
        return _Shared(home, line, line)
    if len(line) == 1:
        line = [replace(line[0], cpus=(cpu,)) for cpu in line[0].cpus]
    target = max(1, math.floor(home.size * load_ratio + 0.5))
    load: list[Core] = []
    while len(line) > 1 and cpu_count(load) < target:
        load.append(line.pop())
    return _Shared(home, line, load)


# Sides that were asked for


def _requested(
    layout: Layout, needs: Needs, server: Sequence[int] | None, load: Sequence[int] | None
) -> list[_Shared]:
    if needs.load_ratio == 0:
        server, load = server or layout.cpus, ()
    else:
        server = server or _rest(layout, load or ())
        load = load or _rest(layout, server)
    servers = _homes(layout, _of(layout, server), needs, server_ratio=1.0, cores_min=1)
    cores = _of(layout, load)
    nodes = [{core.node for core in home.cores} for home in servers]
    is_local = {core.node for core in cores} == set().union(*nodes)
    if not is_local or len(servers) == 1:
        return _dealt(servers, cores)
    shared = []
    for group in dict.fromkeys(frozenset(node) for node in nodes):
        here = [home for home, node in zip(servers, nodes, strict=True) if node == group]
        shared += _dealt(here, [core for core in cores if core.node in group])
    return shared


def _dealt(servers: Sequence[Home], load: Sequence[Core]) -> list[_Shared]:
    """Return homes with their share of the load's cores; where there are too few, homes share them."""
    parts = len(servers)
    if len(load) >= parts:
        pieces = chunks(load, parts)
    else:
        cpus = tuple(sorted(cpu for core in load for cpu in core.cpus))
        pieces = [[Core(piece)] if piece else [] for piece in (_split(cpus, parts) if cpus else [()] * parts)]
    return [
        _Shared(home, [core for group in cache_groups(home.cores) for core in group], piece)
        for home, piece in zip(servers, pieces, strict=True)
    ]


def _of(layout: Layout, cpus: Iterable[int]) -> list[Core]:
    """Return the cores of ``cpus``, with these CPUs alone."""
    selected = set(cpus)
    cores = [replace(core, cpus=tuple(cpu for cpu in core.cpus if cpu in selected)) for core in layout.cores]
    return [core for core in cores if core.cpus]


def _rest(layout: Layout, taken: Sequence[int]) -> list[int]:
    """Return the CPUs of the cores that ``taken`` leaves alone, else other threads, else the same CPUs."""
    used = set(taken)
    free = [cpu for core in layout.cores if not used & set(core.cpus) for cpu in core.cpus]
    return free or sorted(set(layout.cpus) - used) or sorted(used)


def _core_notes(layout: Layout, server: Sequence[int], load: Sequence[int]) -> list[str]:
    notes = []
    both = [core for core in layout.cores if set(core.cpus) & set(server) and set(core.cpus) & set(load)]
    if server == load:
        notes.append("servers and load share every CPU")
    elif both:
        listed = format_cpu_list([cpu for core in both for cpu in core.cpus])
        notes.append(f"servers and load share the cores of CPUs {listed}")
    if len({core.speed for core in layout.cores}) > 1:
        kinds = len({core.speed for core in _of(layout, server)})
        notes.append(
            "cores differ in speed: the load gets the slower ones first, and the servers run on"
            f" {'one kind' if kinds == 1 else f'{kinds} kinds'}"
        )
    return notes


# Instances and their memory


def _instances(
    layout: Layout, homes: Sequence[_Shared], needs: Needs
) -> tuple[tuple[InstancePlace, ...], list[str]]:
    rows: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = []
    for shared in homes:
        count = shared.home.count
        servers, loads = _cut(shared.server_cores, count), _cut(shared.load_cores, count)
        for server, load in zip(servers, loads, strict=True):
            rows.append((server, load, shared.home.nodes))
    bound = [_memory_of(layout, nodes) if needs.binds_memory else () for _, _, nodes in rows]
    tenants = {node: sum(node in nodes for nodes in bound) for node in layout.memory_nodes}
    size = {node.id: node.memory_bytes for node in layout.nodes}
    instances = []
    for number, ((server, load, nodes), memory_nodes) in enumerate(zip(rows, bound, strict=True), start=1):
        sizes = [size[node] for node in memory_nodes]
        share = [(known or 0) // tenants[node] for known, node in zip(sizes, memory_nodes, strict=True)]
        memory = sum(share) if memory_nodes and None not in sizes else None
        instances.append(InstancePlace(number, server, load, nodes, memory_nodes, memory))
    return tuple(instances), _memory_notes(layout, instances, needs)


def _cut(cores: Sequence[Core], count: int) -> list[tuple[int, ...]]:
    """Return the CPUs of ``cores`` in ``count`` parts: whole cores where there are enough."""
    if len(cores) >= count:
        return [tuple(sorted(cpu for core in part for cpu in core.cpus)) for part in chunks(cores, count)]
    cpus = tuple(sorted(cpu for core in cores for cpu in core.cpus))
    return _split(cpus, count) if cpus else [()] * count


def _memory_of(layout: Layout, nodes: Sequence[int]) -> tuple[int, ...]:
    """Return the nodes to bind memory to: the CPUs' own, else the nearest that have memory.

    Empty where that says nothing: there are not two to choose from, or all of them are near.
    """
    there = layout.memory_nodes
    if len(there) < 2 or not nodes:
        return ()
    chosen: set[int] = set()
    for node in nodes:
        least = min(layout.distance(node, other) for other in there)
        chosen |= (
            {node} if node in there else {other for other in there if layout.distance(node, other) == least}
        )
    while chosen != set(there) and _is_starved(layout, nodes, chosen):
        chosen.add(min(set(there) - chosen, key=lambda other: (_nearest(layout, nodes, other), other)))
    return () if chosen == set(there) else tuple(sorted(chosen))


def _is_starved(layout: Layout, nodes: Sequence[int], chosen: set[int]) -> bool:
    """Return whether ``chosen`` have less than half as much of the memory as ``nodes`` have of the CPUs.

    Bound to a node of 2 of 16 GiB, what one of two processors runs would swap beside free memory.
    """
    size = {node.id: node.memory_bytes for node in layout.nodes}
    known = [size[node] for node in layout.memory_nodes]
    whole = sum(each or 0 for each in known)
    if None in known or not whole or not layout.cores:
        return False
    cpus = sum(core.node in nodes for core in layout.cores) / len(layout.cores)
    return sum(size[node] or 0 for node in chosen) < LEAST_MEMORY_RATIO * cpus * whole


def _nearest(layout: Layout, nodes: Sequence[int], other: int) -> int:
    return min(layout.distance(node, other) for node in nodes)


def _memory_notes(layout: Layout, instances: Sequence[InstancePlace], needs: Needs) -> list[str]:
    if len(layout.memory_nodes) < 2:
        return []
    if not needs.binds_memory:
        return ["memory is not bound to nodes: memory_binding=none"]
    notes = []
    for node in sorted(
        {node for instance in instances for node in instance.nodes} - set(layout.memory_nodes)
    ):
        took = _memory_of(layout, [node])
        where = f"node {format_cpu_list(took)}" if took else "the others"
        notes.append(f"node {node} has CPUs and no memory that may be used: it is taken from {where}")
    poor = {
        node
        for instance in instances
        for node in instance.nodes
        if node in layout.memory_nodes
        if _is_starved(layout, instance.nodes, set(instance.nodes) & set(layout.memory_nodes))
    }
    for node in sorted(poor):
        notes.append(f"node {node} has little of the machine's memory: more is taken from other nodes")
    loose = [str(instance.number) for instance in instances if not instance.memory_nodes]
    if loose:
        notes.append(
            f"memory of instance {', '.join(loose)} is not bound: its CPUs are of every node with memory"
        )
    return notes


def _split(cpus: tuple[int, ...], parts: int) -> list[tuple[int, ...]]:
    """Return ``cpus`` in ``parts`` lists of nearly equal length; with too few CPUs, parts share them."""
    if len(cpus) < parts:
        return [(cpus[part % len(cpus)],) for part in range(parts)]
    edges = [round(part * len(cpus) / parts) for part in range(parts + 1)]
    return [cpus[a:b] for a, b in itertools.pairwise(edges)]
