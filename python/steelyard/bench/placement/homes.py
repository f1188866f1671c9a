"""Homes: the cores that one instance, or several, have to themselves.

In: cores with their nodes and caches, how many instances there are to be. Out: homes that share no core, each
inside of one NUMA node unless nodes are too small, each of whole last-level caches where there are enough.

Order is by structure first (speed, size of a cache's group) and by number of a CPU only where that leaves a
choice, so that the shape of a placement does not depend on how a machine numbers its CPUs.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from steelyard.machine.layout import Core, Layout

CORES_MIN = 2
"""Of a home with a load: one for each side."""


@dataclass(slots=True)
class Home:
    """Cores that belong together, and the nodes that they are of."""

    cores: list[Core]
    nodes: tuple[int, ...]
    count: int = 1
    """Instances that live here."""

    @property
    def size(self) -> int:
        """Return the number of its CPUs."""
        return cpu_count(self.cores)

    @property
    def place(self) -> tuple[tuple[int, ...], int]:
        """Return what homes are put in order by: nodes, then the lowest CPU."""
        return self.nodes or (1 << 16,), min(core.cpus[0] for core in self.cores)


def cpu_count(cores: Iterable[Core]) -> int:
    """Return the number of CPUs of ``cores``."""
    return sum(len(core.cpus) for core in cores)


def by_node(cores: Sequence[Core]) -> list[Home]:
    """Return one home for each NUMA node with usable CPUs.

    CPUs whose node the kernel does not report are grouped by package where others' node is known.
    """
    are_known = any(core.node is not None for core in cores)
    groups: dict[tuple[int, int], list[Core]] = {}
    for core in cores:
        unknown = (1, (core.package or 0) if are_known else 0)
        groups.setdefault(unknown if core.node is None else (0, core.node), []).append(core)
    return [
        Home(group, () if key[0] else (key[1],))
        for key, group in sorted(groups.items(), key=lambda it: it[0])
    ]


def joined(homes: Sequence[Home], layout: Layout, is_enough: Callable[[Sequence[Home]], bool]) -> list[Home]:
    """Return ``homes`` with the smallest joined to its nearest neighbour until it ``is_enough``."""
    left = list(homes)
    while len(left) > 1 and not is_enough(left):
        smallest = min(left, key=lambda home: (home.size, home.place))
        others = [home for home in left if home is not smallest]

        def far(home: Home, smallest: Home = smallest) -> tuple[int, int, tuple[tuple[int, ...], int]]:
            pairs = [(a, b) for a in smallest.nodes or (None,) for b in home.nodes or (None,)]
            return max(layout.distance(*pair) for pair in pairs), home.size, home.place

        nearest = min(others, key=far)
        both = Home(
            sorted([*smallest.cores, *nearest.cores], key=lambda core: core.cpus),
            tuple(sorted({*smallest.nodes, *nearest.nodes})),
        )
        left = [home for home in left if home is not smallest and home is not nearest] + [both]
        left.sort(key=lambda home: home.place)
    return left


def cache_groups(cores: Sequence[Core]) -> list[list[Core]]:
    """Return the cores by package, die and last-level cache: fast ones first, then large groups first."""
    groups: dict[tuple[int, int, int, int], list[Core]] = {}
    packages: dict[int, list[Core]] = {}
    for core in cores:
        key = (-core.speed, core.package or 0, core.die or 0, core.cache)
        groups.setdefault(key, []).append(core)
        packages.setdefault(core.package or 0, []).append(core)

    def rank(item: tuple[tuple[int, int, int, int], list[Core]]) -> tuple[int, int, int, int, int]:
        (slowness, number, _, _), group = item
        package = packages[number]
        firsts = min(core.cpus[0] for core in package), min(core.cpus[0] for core in group)
        return slowness, -cpu_count(package), firsts[0], -cpu_count(group), firsts[1]

    ordered = sorted(groups.items(), key=rank)
    return [sorted(group, key=lambda core: (-len(core.cpus), core.cpus)) for _, group in ordered]


def parts_for(cpus: float, per_instance: int, groups: int) -> int:
    """Return in how many instances to split a node whose servers have ``cpus``.

    As many as are needed, or somewhat more (less than twice) where its ``groups`` of cores, by cache, then
    divide evenly.

    >>> parts_for(44, 72, 1), parts_for(96, 72, 12), parts_for(320, 72, 12)
    (1, 2, 6)
    """
    least = max(1, math.ceil(cpus / per_instance))
    even = (parts for parts in range(least, 2 * least) if groups % parts == 0 or parts % groups == 0)
    return next(even, least)


def split_home(home: Home, parts: int, cores_min: int) -> list[Home]:
    """Return ``home`` in ``parts``, of whole caches where there are enough.

    With fewer than ``cores_min`` cores for each, there are fewer homes, and some have several instances.
    """
    count = max(1, min(parts, len(home.cores) // cores_min))
    pieces = _pieces(home, count)
    while count > 1 and any(len(piece) < cores_min for piece in pieces):
        count -= 1
        pieces = _pieces(home, count)
    shares = [parts // count + (part < parts % count) for part in range(count)]
    return [Home(piece, home.nodes, share) for piece, share in zip(pieces, shares, strict=True)]


def _pieces(home: Home, count: int) -> list[list[Core]]:
    groups = cache_groups(home.cores)
    if len(groups) >= count and len({core.speed for core in home.cores}) == 1:
        pieces: list[list[Core]] = [[] for _ in range(count)]
        for group in groups:
            min(pieces, key=cpu_count).extend(group)
        return pieces
    line = [core for group in groups for core in group]
    return chunks(line, count)


def chunks(line: Sequence[Core], count: int) -> list[list[Core]]:
    """Return ``line`` in ``count`` runs of nearly equal length."""
    edges = [part * len(line) // count for part in range(count + 1)]
    return [list(line[a:b]) for a, b in itertools.pairwise(edges)]


def apportioned(total: int, weights: Sequence[int]) -> list[int]:
    """Return ``total`` in whole parts of at least one, in proportion to ``weights`` (largest remainder).

    >>> apportioned(5, [10, 10, 10])
    [2, 2, 1]
    """
    if total < len(weights):
        raise ValueError(f"{total} is not enough for {len(weights)} parts of at least one")
    exact = [total * weight / sum(weights) for weight in weights]
    parts = [max(1, int(value)) for value in exact]
    while sum(parts) != total:
        step = 1 if sum(parts) < total else -1
        gaps = [
            (step * (value - part), -index)
            for index, (value, part) in enumerate(zip(exact, parts, strict=True))
        ]
        able = [gap for gap in gaps if step > 0 or parts[-gap[1]] > 1]
        parts[-max(able)[1]] += step
    return parts
