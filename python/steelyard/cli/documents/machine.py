"""What ``steelyard doctor``, ``machine check``, ``machine diff``, ``health`` and ``numa map`` print."""

from typing import ClassVar

from pydantic import Field

from steelyard.analyze.health.comparison import Alert, Compared
from steelyard.records import HealthResult, MemoryAccess, Record, SideCache
from steelyard.records.values import Count, Value


class HealthCheckDocument(Record):
    """A health check beside earlier ones: `steelyard health --json`."""

    KIND: ClassVar[str] = "health_check"

    folder: str = Field(description="Folder of the check")
    report: str = Field(description="Its page")
    against: str = Field(description="Baseline, in words")
    is_ok: bool = Field(description="Whether there is no alert")
    is_quiet: bool = Field(description="Whether the machine was otherwise idle, as far as is known")
    alerts: list[Alert] = Field(description="What to look at")
    notes: list[str] = Field(description="What else a reader should know")
    figures: list[Compared] = Field(description="Every value with its expected value")
    health: HealthResult = Field(description="The record of the measurements")


class NumaMapNode(Value):
    """One NUMA node."""

    id: Count = Field(description="Its number")
    cpus: str = Field(description="Its CPUs as the kernel lists them, empty for memory without CPUs")
    cpu_count: Count = Field(description="Number of its CPUs")
    memory_bytes: Count | None = Field(description="Its memory, null where it is not known")
    access: MemoryAccess | None = Field(description="Properties of its memory by the firmware (HMAT)")
    side_caches: list[SideCache] = Field(description="Caches in front of its memory")
    latency_ns: float | None = Field(description="Load-to-use latency that a health check measured")


class NumaBandwidth(Value):
    """Read bandwidth between two nodes."""

    cpu_node: Count = Field(description="Node of the CPUs")
    memory_node: Count = Field(description="Node of the memory")
    read_bytes_per_s: float = Field(description="Results of a health check")


class NumaMapDocument(Record):
    """The nodes of a machine: `steelyard numa map --json`."""

    KIND: ClassVar[str] = "numa_map"

    machine: str = Field(description="The machine, as it was named")
    nodes: list[NumaMapNode] = Field(description="Nodes in the order of their numbers")
    distances: list[list[float]] | None = Field(
        description="From the CPUs of a node (row) to the memory of a node (column), null with a reason"
    )
    score_min: float | None = Field(description="Lowest locality score that a task can have here")
    score_max: float | None = Field(description="Highest one")
    bandwidth: list[NumaBandwidth] = Field(description="Results of a health check")
    missing: dict[str, str] = Field(description="Why distances, latency or bandwidth are not there")
