"""CPUs, cores, sockets, caches and NUMA nodes, from /sys/devices/system with /proc as the fall-back."""

from __future__ import annotations

from collections.abc import Iterable

from steelyard._base import format_cpu_list, parse_cpu_list, parse_cpu_mask
from steelyard.machine import system
from steelyard.machine.tree import Tree, keyed, parse_size
from steelyard.records import Cache, NumaNode

_CPU = "sys/devices/system/cpu"
_NODE = "sys/devices/system/node"


def cpuinfo(tree: Tree) -> dict[str, str]:
    """Return the first entry of each field of /proc/cpuinfo."""
    return keyed(tree.text("proc/cpuinfo"))


def online_cpus(tree: Tree) -> list[int]:
    """Return the logical CPUs that are online, in order."""
    listed = tree.text(f"{_CPU}/online")
    if listed and (cpus := parse_cpu_list(listed)) is not None:
        return cpus
    present = [int(name[3:]) for name in tree.names(_CPU, r"cpu\d+")]
    # CPU 0 often has no `online` file because it cannot be taken offline.
    present = [cpu for cpu in present if tree.number(f"{_CPU}/cpu{cpu}/online") != 0]
    if present:
        return present
    text = tree.text("proc/cpuinfo") or ""
    numbers = (line.partition(":") for line in text.splitlines() if line.startswith("processor"))
    return sorted({int(value) for _, _, value in numbers if value.strip().isdigit()})


def _members(tree: Tree, base: str, lists: Iterable[str], masks: Iterable[str]) -> frozenset[int] | None:
    """Return the CPUs of the first of the list files, else of the first of the mask files."""
    text = tree.first_text(*(f"{base}/{name}" for name in lists))
    mask = tree.first_text(*(f"{base}/{name}" for name in masks))
    cpus = parse_cpu_list(text) if text else parse_cpu_mask(mask) if mask else None
    return None if cpus is None else frozenset(cpus)


def cores(tree: Tree, online: list[int]) -> list[frozenset[int]]:
    """Return the online CPUs of each core; empty where the kernel does not say."""
    groups: set[frozenset[int]] = set()
    for cpu in online:
        base = f"{_CPU}/cpu{cpu}/topology"
        threads = _members(
            tree, base, ("core_cpus_list", "thread_siblings_list"), ("core_cpus", "thread_siblings")
        )
        if threads:
            groups.add(threads & frozenset(online))
    return sorted(groups, key=min)


def sockets(tree: Tree, online: list[int]) -> int | None:
    """Return the number of processor packages with an online CPU."""
    numbers = {tree.number(f"{_CPU}/cpu{cpu}/topology/physical_package_id") for cpu in online}
    # Some kernels of virtual machines answer -1 for "not known".
    known = {number for number in numbers if number is not None and number >= 0}
    return len(known) or None


def packages(tree: Tree, online: list[int]) -> dict[int, tuple[int, int]]:
    """Return package and die of each online CPU for which the kernel tells its package."""
    by_cpu = {}
    for cpu in online:
        base = f"{_CPU}/cpu{cpu}/topology"
        package = tree.number(f"{base}/physical_package_id")
        if package is not None and package >= 0:
            by_cpu[cpu] = (package, tree.number(f"{base}/die_id") or 0)
    return by_cpu


def last_level_caches(tree: Tree, online: list[int]) -> list[frozenset[int]]:
    """Return the online CPUs of each last-level data cache; empty where the kernel does not say.

    A cache of one CPU, or of one core, is left out: it groups nothing.
    """
    groups: set[frozenset[int]] = set()
    for cpu in online:
        base = f"{_CPU}/cpu{cpu}/cache"
        levels = {
            tree.number(f"{base}/{index}/level") or 0: f"{base}/{index}"
            for index in tree.names(base, r"index\d+")
            if (tree.text(f"{base}/{index}/type") or "Unified") != "Instruction"
        }
        if levels:
            sharers = _members(tree, levels[max(levels)], ("shared_cpu_list",), ("shared_cpu_map",))
            groups.add((sharers or frozenset()) & frozenset(online))
    alone = {frozenset[int](), *cores(tree, online)}
    return sorted((group for group in groups if len(group) > 1 and group not in alone), key=min)


def speeds(tree: Tree, online: list[int]) -> dict[int, int]:
    """Return a number for each CPU that is larger on faster kinds of cores; empty where all are alike.

    ``cpu_capacity`` where the kernel reports it (Arm, RISC-V), else the base frequency, kHz: the highest one
    differs between cores of one kind, too.
    """
    for name in ("cpu_capacity", "cpufreq/base_frequency"):
        known = {cpu: tree.number(f"{_CPU}/cpu{cpu}/{name}") for cpu in online}
        values = {cpu: value for cpu, value in known.items() if value is not None}
        if len(values) == len(online) and len(set(values.values())) > 1:
            return values
    return {}


def nodes_of_cpus(tree: Tree, online: list[int]) -> dict[int, int]:
    """Return the NUMA node of each online CPU that has one, also of a node that is offline itself."""
    node_by_cpu = {cpu: node.id for node in numa_nodes(tree) for cpu in parse_cpu_list(node.cpus) or ()}
    for cpu in set(online) - node_by_cpu.keys():
        for name in tree.names(f"{_CPU}/cpu{cpu}", r"node\d+"):
            node_by_cpu[cpu] = int(name[4:])
    return {cpu: node_by_cpu[cpu] for cpu in online if cpu in node_by_cpu}


def caches(tree: Tree, online: list[int]) -> list[Cache]:
    """Return the caches by level, kind and size, with the number of instances."""
    instances: dict[tuple[int, str, int], set[frozenset[int]]] = {}
    unshared = set()
    for cpu in online:
        base = f"{_CPU}/cpu{cpu}/cache"
        for index in tree.names(base, r"index\d+"):
            level = tree.number(f"{base}/{index}/level")
            kind = tree.text(f"{base}/{index}/type")
            size = parse_size(tree.text(f"{base}/{index}/size") or "")
            if level is None or not kind or size is None:
                continue
            key = (level, kind.lower(), size)
            sharers = _members(tree, f"{base}/{index}", ("shared_cpu_list",), ("shared_cpu_map",))
            if sharers is None:
                unshared.add(key)
            instances.setdefault(key, set()).add(sharers or frozenset())
    return [
        Cache(level=key[0], type=key[1], size_bytes=key[2], instances=None if key in unshared else len(sets))
        for key, sets in sorted(instances.items())
    ]


def numa_nodes(tree: Tree) -> list[NumaNode]:
    """Return the NUMA nodes in order; empty where the kernel has none."""
    nodes = []
    for name in tree.names(_NODE, r"node\d+"):
        base = f"{_NODE}/{name}"
        cpus = _members(tree, base, ("cpulist",), ("cpumap",)) or frozenset()
        # The lines are `Node 0 MemTotal:   32768 kB`.
        memory = {key.split()[-1]: value for key, value in keyed(tree.text(f"{base}/meminfo")).items() if key}
        distances = [int(word) for word in (tree.text(f"{base}/distance") or "").split() if word.isdigit()]
        nodes.append(
            NumaNode(
                id=int(name[4:]),
                cpus=format_cpu_list(list(cpus)),
                memory_bytes=parse_size(memory.get("MemTotal", "")),
                distances=distances,
                access=system.memory_access(tree, base),
                side_caches=system.side_caches(tree, base),
            )
        )
    if len(nodes) == 1 and nodes[0].memory_bytes is not None:
        # Memory that was plugged into a running guest can be missing in the node's count: 4.6 of 126 GiB.
        machine_bytes = parse_size(keyed(tree.text("proc/meminfo")).get("MemTotal", "")) or 0
        nodes = [nodes[0].model_copy(update={"memory_bytes": max(nodes[0].memory_bytes, machine_bytes)})]
    return nodes
