"""The six scenarios of a machine: CPUs of X and of its co-runner Y, and the node of X's memory.

In: a `Layout`, live or recorded. Out: `Scenarios` between two nodes.

| scenario | CPUs of X | memory of X | CPUs of Y |
|---|---|---|---|
| 1, 4 | the first node | the first node | the rest of both nodes (4) |
| 2, 5 | half on either node | the first node | the rest of both nodes (5) |
| 3, 6 | the first node | the second node | the rest of both nodes (6) |

X has as many cores in every scenario, by default as many as the smaller of the two nodes has; Y has the rest;
one CPU of each core, as the published experiment has it, unless every hardware thread is asked for.

Invariants: X and Y share no core; X's locality is 1, 1/2 and 0; on nodes of unequal size the larger one's
last cores stay idle.

Not here: starting anything there (``workload``).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from steelyard._base import EnvironmentLacksError, UsageError, format_cpu_list, parse_cpu_list
from steelyard._base.documents import INLINE
from steelyard.bench.placement.homes import cache_groups
from steelyard.machine.layout import Core, Layout

SOLO = (1, 2, 3)
BESIDE = (4, 5, 6)
"""Scenarios 1 to 3 with a co-runner on the other cores."""
LOCAL_RATIO = {1: 1.0, 2: 0.5, 3: 0.0}
"""Share of X's memory that is local to its CPUs, by scenario of `SOLO`."""
OWN, UNREACHABLE = 10, 255
"""Distances as the firmware writes them: to a node's own memory, and where it tells none (ACPI, SLIT)."""
LEAST_CORES = 2
"""Of each node: X is on half of them, or on none."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One placement."""

    scenario: int
    """From 1 to 6, as published."""
    cpus: str
    """CPUs of X, as a list."""
    memory_node: int
    """Node that its memory is bound to."""
    local_ratio: float
    """Share of its memory that is local to its CPUs."""
    score: float | None
    """Its NUMA score by the distances of the firmware; None where it tells none."""
    caches: int | None
    """Last-level caches that its CPUs are of; None where the machine does not tell of them."""
    co_runner_cpus: str | None
    """CPUs of Y, None in scenarios 1 to 3."""

    @property
    def base(self) -> int:
        """Return the scenario of `SOLO` with the same placement of X."""
        return self.scenario if self.scenario in SOLO else self.scenario - len(SOLO)


@dataclass(frozen=True, slots=True)
class Scenarios:
    """The scenarios between two nodes of one machine."""

    first_node: int
    """Node of X's CPUs in scenarios 1 and 3."""
    second_node: int
    """Node of its memory in scenario 3."""
    distance: int
    """From the first node's CPUs to the second node's memory; a node's own is 10."""
    cores: int
    """Cores of X."""
    scenarios: tuple[Scenario, ...]
    """From 1 to 6."""
    notes: tuple[str, ...] = ()
    """What a reader should know of this machine."""

    def numbered(self, number: int) -> Scenario:
        """Return a scenario by its number."""
        return self.scenarios[number - 1]


@dataclass(frozen=True, slots=True)
class NumaPlan:
    """The six scenarios between two nodes of a machine: `steelyard numa experiment --plan --json`."""

    KIND: ClassVar[str] = "numa_plan"

    machine: str
    """`live`, or where the machine was recorded."""
    scenarios: Scenarios = field(metadata=INLINE)


def scenarios_of(
    layout: Layout,
    *,
    nodes: Sequence[int] | None = None,
    cores: int | None = None,
    every_thread: bool = False,
) -> Scenarios:
    """Return the scenarios of a machine, between ``nodes`` where two are named, with ``cores`` cores for X.

    Raises EnvironmentLacksError where it cannot have them, UsageError for nodes or cores that it has not.
    """
    by_node = _cores_by_node(layout)
    first, second = _chosen(layout, by_node, nodes)
    size = min(len(by_node[first]), len(by_node[second]))
    wanted = _even(size if cores is None else cores, size, asked=cores is not None)
    pools = [by_node[node][:size] for node in (first, second)]
    # The first cores of a pool share as few caches as they can.
    clustered, spread = pools[0][:wanted], [core for pool in pools for core in pool[: wanted // 2]]
    x_of = {1: clustered, 2: spread, 3: clustered}
    distance = layout.distance(first, second)
    made = []
    for number in (*SOLO, *BESIDE):
        base = (number - 1) % len(SOLO) + 1
        x = x_of[base]
        rest = [core for pool in pools for core in pool if core not in x] if number in BESIDE else []
        memory = second if base == 3 else first
        made.append(
            Scenario(
                scenario=number,
                cpus=format_cpu_list(_cpus(x, every_thread=every_thread)),
                memory_node=memory,
                local_ratio=LOCAL_RATIO[base],
                score=_score(layout, x, memory),
                caches=len({core.cache for core in x}) if all(core.cache for core in x) else None,
                co_runner_cpus=format_cpu_list(_cpus(rest, every_thread=every_thread)) or None,
            )
        )
    notes = _notes(layout, by_node, (first, second), made)
    return Scenarios(first, second, distance, wanted, tuple(made), notes)


def _cores_by_node(layout: Layout) -> dict[int, list[Core]]:
    """Return the cores of each node that has memory too, those that share a cache side by side."""
    found: dict[int, list[Core]] = {}
    for core in layout.cores:
        if core.node in layout.memory_nodes and core.node is not None:
            found.setdefault(core.node, []).append(core)
    return {node: [core for group in cache_groups(cores) for core in group] for node, cores in found.items()}


def _chosen(layout: Layout, by_node: dict[int, list[Core]], nodes: Sequence[int] | None) -> tuple[int, int]:
    able = sorted(node for node, cores in by_node.items() if len(cores) >= LEAST_CORES)
    if nodes is not None:
        if len(set(nodes)) != 2 or len(nodes) != 2:
            raise UsageError("--nodes takes two different nodes", hint="such as --nodes 0,1")
        for node in nodes:
            if node not in able:
                known = format_cpu_list(able) or "none"
                raise UsageError(
                    f"node {node} has no memory or fewer than {LEAST_CORES} cores that may be used here",
                    hint=f"nodes that have: {known}",
                )
        return nodes[0], nodes[1]
    if len(able) < 2:
        raise EnvironmentLacksError(
            _lacking(by_node), hint="--plan --root TREE shows the scenarios of a recorded machine"
        )

    def rank(pair: tuple[int, int]) -> tuple[int, int, tuple[int, int]]:
        # The most cores, then the farthest memory, whose effect is the largest.
        size = min(len(by_node[node]) for node in pair)
        return -size, -layout.distance(*pair), pair

    return min(itertools.combinations(able, 2), key=rank)


def _lacking(by_node: dict[int, list[Core]]) -> str:
    if len(by_node) < 2:
        count = "one NUMA node" if by_node else "no NUMA node"
        return f"a NUMA experiment needs two nodes with CPUs and memory: {count} of this machine has both"
    return f"a NUMA experiment needs two nodes of {LEAST_CORES} cores or more: this machine has them not"


def _even(wanted: int, size: int, *, asked: bool) -> int:
    if not asked:
        return wanted - wanted % 2
    if wanted % 2 or not LEAST_CORES <= wanted <= size:
        raise UsageError(
            f"--cores {wanted}: scenario 2 has X on half of them on either node: an even number,"
            f" 2 to {size - size % 2} here"
        )
    return wanted


def _score(layout: Layout, cores: Sequence[Core], memory_node: int) -> float | None:
    distances = [layout.distance(core.node, memory_node) for core in cores]
    if UNREACHABLE in distances:
        return None
    return sum(min(1.0, OWN / distance) for distance in distances) / len(distances)


def _cpus(cores: Sequence[Core], *, every_thread: bool) -> tuple[int, ...]:
    return tuple(sorted(cpu for core in cores for cpu in (core.cpus if every_thread else core.cpus[:1])))


def _notes(
    layout: Layout, by_node: dict[int, list[Core]], pair: tuple[int, int], made: Sequence[Scenario]
) -> tuple[str, ...]:
    notes = []
    together, apart = made[0].caches, made[1].caches
    if together is None or apart is None:
        notes.append("this machine does not tell which CPUs share a last-level cache")
    elif apart <= together:
        notes.append(
            f"X's CPUs are of {together} last-level caches on one node and of {apart} on two: choose fewer"
            " with --cores to learn about cache sharing"
        )
    sizes = [len(by_node[node]) for node in pair]
    if sizes[0] != sizes[1]:
        notes.append(f"node {pair[0]} has {sizes[0]} cores and node {pair[1]} {sizes[1]}: the rest stay idle")
    if layout.distance(*pair) == UNREACHABLE:
        notes.append("the firmware does not tell the distance between these nodes")
    used = sum(len(parse_cpu_list(cpus or "") or ()) for cpus in (made[3].cpus, made[3].co_runner_cpus))
    if layout.quota_cpus is not None and layout.quota_cpus < used:
        notes.append(f"a quota of {layout.quota_cpus:g} CPUs limits X and its co-runner together")
    return tuple(notes)
