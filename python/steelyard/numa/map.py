"""The map of a machine's NUMA nodes: CPUs, memory, distances, and what was measured of them.

In: a `Machine`, and a `HealthResult` of it if there is one. Out: `NumaMap`. Distances are the firmware's
(SLIT): relative, and often a guess; what a health check measured stands beside them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from steelyard._base import EnvironmentLacksError, UsageError, parse_cpu_list
from steelyard.numa.distances import Table, locality_ratios
from steelyard.records import HealthResult, Machine, MemoryAccess, NumaNode, SideCache

_READ = "read"


@dataclass(frozen=True)
class MapNode:
    """One node."""

    id: int
    cpus: str
    """As the kernel lists them; empty for memory without CPUs."""
    cpu_count: int
    memory_bytes: int | None
    access: MemoryAccess | None
    """What the firmware (HMAT) says of its memory, seen from its nearest CPUs."""
    side_caches: list[SideCache]


@dataclass(frozen=True)
class NumaMap:
    """The nodes of a machine, in the order of their numbers."""

    nodes: list[MapNode]
    distances: Table | None
    """From the CPUs of a node (row) to the memory of a node (column); None with the reason in ``missing``."""
    read_bytes_per_s: dict[tuple[int, int], float] = field(default_factory=dict)
    """Read bandwidth that a health check measured, by number of the node of CPUs and that of memory."""
    latency_ns: dict[int, float] = field(default_factory=dict)
    """Load-to-use latency of its memory that a health check measured, by number of the node."""
    missing: dict[str, str] = field(default_factory=dict)
    """Why ``distances``, ``latency`` or ``bandwidth`` are absent."""

    @property
    def ids(self) -> list[int]:
        """Return the numbers of the nodes; they may have gaps."""
        return [node.id for node in self.nodes]

    def score_span(self) -> tuple[float, float] | None:
        """Return the lowest and the highest score that a task can have here, None without distances.

        Only CPUs and memory that are there count: a node without CPUs is nobody's own.
        """
        if self.distances is None:
            return None
        ratios = locality_ratios(self.distances)
        rows = [place for place, node in enumerate(self.nodes) if node.cpu_count]
        columns = [place for place, node in enumerate(self.nodes) if node.memory_bytes != 0]
        if not rows or not columns:
            return None
        possible = [ratios[i][j] for i in rows for j in columns]
        return min(possible), max(possible)

    def document(self) -> dict[str, Any]:
        """Return the map as JSON values."""
        span = self.score_span()
        return {
            "nodes": [
                asdict(node)
                | {
                    "access": None if node.access is None else node.access.model_dump(mode="json"),
                    "side_caches": [cache.model_dump(mode="json") for cache in node.side_caches],
                    "latency_ns": self.latency_ns.get(node.id),
                }
                for node in self.nodes
            ],
            "distances": self.distances,
            "score_min": None if span is None else span[0],
            "score_max": None if span is None else span[1],
            "bandwidth": [
                {"cpu_node": cpus, "memory_node": memory, "read_bytes_per_s": rate}
                for (cpus, memory), rate in sorted(self.read_bytes_per_s.items())
            ],
            "missing": self.missing,
        }


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
    bandwidth: dict[tuple[int, int], float] = {}
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
    return NumaMap([_node(node) for node in machine.numa_nodes], distances, bandwidth, latency, missing)


def _node(node: NumaNode) -> MapNode:
    return MapNode(
        id=node.id,
        cpus=node.cpus,
        cpu_count=len(parse_cpu_list(node.cpus) or ()),
        memory_bytes=node.memory_bytes,
        access=node.access,
        side_caches=node.side_caches,
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


def _bandwidth(health: HealthResult, missing: dict[str, str]) -> dict[tuple[int, int], float]:
    if health.memory_bandwidth is None:
        missing["bandwidth"] = health.missing.get("memory_bandwidth", "the health check did not measure it")
        return {}
    rows = [row for row in health.memory_bandwidth.rows if row.kernel == _READ]
    return {
        (row.cpu_node, row.memory_node): row.rate_bytes_per_s.median
        for row in rows
        if row.rate_bytes_per_s is not None
    }


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
    ids = numa_map.ids
    table: Table = []
    for node in numa_map.nodes:
        rates = [numa_map.read_bytes_per_s.get((node.id, memory)) for memory in ids]
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
