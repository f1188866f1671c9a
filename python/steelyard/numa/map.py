"""The map of a machine's NUMA nodes: CPUs, memory, distances, and what was measured of them.

In: a `Machine`, and a `HealthResult` of it if there is one. Out: `NumaMap`. Distances are the firmware's
(SLIT): relative, and often a guess; what a health check measured stands beside them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from steelyard._base import EnvironmentLacksError, UsageError, parse_cpu_list
from steelyard._base.documents import INLINE, printed
from steelyard.numa.distances import Table, locality_ratios
from steelyard.records import HealthResult, Machine, MemoryAccess, NumaNode, SideCache

_READ = "read"


@dataclass(frozen=True)
class MapNode:
    """One NUMA node."""

    id: int
    """Its number."""
    cpus: str
    """Its CPUs as the kernel lists them; empty for memory without CPUs."""
    cpu_count: int
    """Number of its CPUs."""
    memory_bytes: int | None
    """Its memory, None where it is not known."""
    access: MemoryAccess | None
    """What the firmware (HMAT) says of its memory, seen from its nearest CPUs."""
    side_caches: list[SideCache]
    """Caches in front of its memory."""
    latency_ns: float | None = None
    """Load-to-use latency of its memory that a health check measured."""


@dataclass(frozen=True)
class Bandwidth:
    """Read bandwidth between two nodes."""

    cpu_node: int
    """Node of the CPUs."""
    memory_node: int
    """Node of the memory."""
    read_bytes_per_s: float
    """What a health check measured."""


@dataclass(frozen=True)
class NumaMap:
    """The nodes of a machine, in the order of their numbers."""

    nodes: list[MapNode]
    """Nodes in the order of their numbers."""
    distances: Table | None
    """From the CPUs of a node (row) to the memory of a node (column); None with the reason in ``missing``."""
    bandwidth: list[Bandwidth] = field(default_factory=list)
    """What a health check measured, by number of the node of CPUs and that of memory."""
    missing: dict[str, str] = field(default_factory=dict)
    """Why ``distances``, ``latency`` or ``bandwidth`` are absent."""

    @property
    def ids(self) -> list[int]:
        """Return the numbers of the nodes; they may have gaps."""
        return [node.id for node in self.nodes]

    @property
    def read_bytes_per_s(self) -> dict[tuple[int, int], float]:
        """Return the bandwidth by numbers: of the node of CPUs, and of that of memory."""
        return {(each.cpu_node, each.memory_node): each.read_bytes_per_s for each in self.bandwidth}

    @property
    @printed
    def score_min(self) -> float | None:
        """Return the lowest locality score that a task can have here, None without distances.

        Only CPUs and memory that are there count: a node without CPUs is nobody's own.
        """
        return min(self._scores(), default=None)

    @property
    @printed
    def score_max(self) -> float | None:
        """Return the highest one."""
        return max(self._scores(), default=None)

    def _scores(self) -> list[float]:
        if self.distances is None:
            return []
        ratios = locality_ratios(self.distances)
        rows = [place for place, node in enumerate(self.nodes) if node.cpu_count]
        columns = [place for place, node in enumerate(self.nodes) if node.memory_bytes != 0]
        return [ratios[i][j] for i in rows for j in columns]


@dataclass(frozen=True)
class MapOf:
    """The nodes of a machine: `steelyard numa map --json`."""

    KIND: ClassVar[str] = "numa_map"

    machine: str
    """The machine, as it was named."""
    map: NumaMap = field(metadata=INLINE)


def map_of(machine: Machine, health: HealthResult | None = None) -> NumaMap:
    """Return the map of ``machine``, with what ``health`` measured of it.

    Raises EnvironmentLacksError where the kernel tells of no nodes, UsageError for a health check of a
    machine with other nodes.
    """
    if not machine.numa_nodes:
        raise EnvironmentLacksError(
            "this machine's kernel reports no NUMA nodes",
            hint="a kernel with CONFIG_NUMA has /sys/devices/system/node",
        )
    missing: dict[str, str] = {}
    distances = _distances(machine.numa_nodes, missing)
    bandwidth: list[Bandwidth] = []
    latency: dict[int, float] = {}
    if health is None:
        missing["latency"] = missing["bandwidth"] = (
            "no health check was given: steelyard health measures them"
        )
    else:
        known = {node.id for node in machine.numa_nodes}
        if not {node.id for node in health.machine.nodes} <= known:
            raise UsageError("the health check is of a machine with other nodes")
        bandwidth = _bandwidth(health, missing)
        latency = _latency(health, missing)
    nodes = [_node(node, latency.get(node.id)) for node in machine.numa_nodes]
    return NumaMap(nodes, distances, bandwidth, missing)


def _node(node: NumaNode, latency_ns: float | None) -> MapNode:
    return MapNode(
        id=node.id,
        cpus=node.cpus,
        cpu_count=len(parse_cpu_list(node.cpus) or ()),
        memory_bytes=node.memory_bytes,
        access=node.access,
        side_caches=node.side_caches,
        latency_ns=latency_ns,
    )


def _distances(nodes: list[NumaNode], missing: dict[str, str]) -> Table | None:
    rows = [node.distances for node in nodes]
    lengths = {len(row) for row in rows}
    if lengths == {0} and len(nodes) == 1:
        # One node is at the distance that the firmware gives every node to itself.
        return [[10.0]]
    if lengths != {len(nodes)}:
        # A row has a distance to each node that is online, also to one whose folder is not there.
        counts = ", ".join(map(str, sorted(lengths)))
        missing["distances"] = f"the kernel reports distances to {counts} nodes and shows {len(nodes)}"
        return None
    if not all(value > 0 for row in rows for value in row):
        missing["distances"] = "the firmware reports a distance of 0"
        return None
    return [list(map(float, row)) for row in rows]


def _bandwidth(health: HealthResult, missing: dict[str, str]) -> list[Bandwidth]:
    if health.memory_bandwidth is None:
        missing["bandwidth"] = health.missing.get("memory_bandwidth", "the health check did not measure it")
        return []
    rows = [row for row in health.memory_bandwidth.rows if row.kernel == _READ]
    found = [
        Bandwidth(row.cpu_node, row.memory_node, row.rate_bytes_per_s.median)
        for row in rows
        if row.rate_bytes_per_s is not None
    ]
    return sorted(found, key=lambda each: (each.cpu_node, each.memory_node))


def _latency(health: HealthResult, missing: dict[str, str]) -> dict[int, float]:
    part = health.memory_latency
    if part is None or not part.points:
        missing["latency"] = health.missing.get("memory_latency", "the health check did not measure it")
        return {}
    # The largest working set is what caches hold least of. The check chases through the memory of one node.
    largest = max(part.points, key=lambda point: (point.working_set_bytes, point.pages == "huge"))
    missing["latency"] = "a health check measures the memory of one node"
    return {part.node or 0: largest.latency_ns.median}


def bandwidth_distances(numa_map: NumaMap) -> Table:
    """Return distances made of measured read bandwidth: the reciprocal, in s/GB.

    Raises UsageError when a pair was not measured.
    """
    ids, measured = numa_map.ids, numa_map.read_bytes_per_s
    table: Table = []
    for node in numa_map.nodes:
        rates = [measured.get((node.id, memory)) for memory in ids]
        if node.cpu_count == 0:
            # Nothing runs there: its row has no weight, whatever it holds.
            rates = [1e9] * len(ids)
        table.append([1e9 / rate for rate in rates if rate])
    if any(len(row) != len(ids) for row in table):
        raise UsageError(
            "the health check did not measure the bandwidth of every pair of nodes",
            hint="steelyard health --part memory_bandwidth",
        )
    return table
