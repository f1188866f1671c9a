"""Layouts of machines that are not here, for tests of placement."""

from __future__ import annotations

import random
from dataclasses import replace

from steelyard.machine.layout import Core, Layout, Node

GIB = 1 << 30


def layout_of(
    *,
    packages: int = 1,
    nodes: int = 1,
    caches: int = 1,
    cores: int = 4,
    threads: int = 1,
    memory_bytes: int | None = 64 * GIB,
) -> Layout:
    """Return a layout numbered as Linux does on x86: first threads of all cores, then the second ones.

    ``nodes`` per package, ``caches`` per node, ``cores`` per cache, ``threads`` per core.
    """
    count = packages * nodes * caches * cores
    found = []
    for number in range(count):
        cache = number // cores
        node = cache // caches
        cpus = tuple(number + thread * count for thread in range(threads))
        found.append(Core(cpus, node, node // nodes, 0, cache + 1))
    total = packages * nodes
    return Layout(
        cores=tuple(found),
        nodes=tuple(
            Node(one, memory_bytes, {other: distance(one, other, nodes) for other in range(total)})
            for one in range(total)
        ),
        memory_nodes=tuple(range(total)) if memory_bytes else (),
        online=tuple(range(count * threads)),
    )


def distance(one: int, other: int, nodes: int) -> int:
    """Return what firmware says: 10 to itself, 12 inside of a package, 32 between packages."""
    if one == other:
        return 10
    return 12 if one // nodes == other // nodes else 32


def renumbered(layout: Layout, seed: int) -> Layout:
    """Return the same machine with other numbers for its CPUs."""
    cpus = list(layout.cpus)
    shuffled = list(cpus)
    random.Random(seed).shuffle(shuffled)
    new = dict(zip(cpus, shuffled, strict=True))
    cores = [replace(core, cpus=tuple(sorted(new[cpu] for cpu in core.cpus))) for core in layout.cores]
    return replace(layout, cores=tuple(sorted(cores, key=lambda core: core.cpus)), online=layout.cpus)


def without(layout: Layout, gone: set[int]) -> Layout:
    """Return the machine with some CPUs that may not be used."""
    cores = [replace(core, cpus=tuple(cpu for cpu in core.cpus if cpu not in gone)) for core in layout.cores]
    return replace(layout, cores=tuple(core for core in cores if core.cpus))
