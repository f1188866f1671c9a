"""CPU-memory locality of processes or control groups.

The same shape as ``crates/record/src/numa_score.rs``.
"""

from typing import ClassVar

from pydantic import Field

from steelyard.records.io import Record
from steelyard.records.load import Tool
from steelyard.records.values import Clock, Count, Value


class NumaScoreNode(Value):
    """One NUMA node."""

    id: Count = Field(description="Number; numbers may have gaps")
    cpus: str = Field(description="CPUs, as the kernel lists them; empty for memory without CPUs")
    memory_bytes: Count | None = Field(
        default=None, description="Memory, null when the kernel does not report it"
    )
    distances: list[float] = Field(description="Distances from its CPUs to the memory of each node")


class NumaSubject(Value):
    """A process or a control group."""

    subject: str = Field(description="`process` or `cgroup`")
    pid: Count | None = Field(default=None, description="Process id, null of a control group")
    name: str = Field(description="Name of the process, or path of the control group")
    score: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="Score, 0 (exclusive) to 1; null with the reason in `missing`",
    )
    missing: str | None = Field(default=None, description="Why there is no score")
    cpu_basis: str | None = Field(
        default=None,
        description="`window`: CPU time of the window. `lifetime`: it did not run in the window, and the CPU"
        " time of its threads since they began counts where each ran last. Null where there is no CPU time",
    )
    cpu_source: str | None = Field(
        default=None, description="Source of CPU time, in words; null where there is none"
    )
    cpu_seconds_per_node: list[float] | None = Field(
        default=None, description="CPU time by node, seconds; null where there is none"
    )
    memory_source: str | None = Field(
        default=None, description="`numa_maps` or `memory.numa_stat`; null where memory was not read"
    )
    memory_missing: str | None = Field(default=None, description="Why memory was not read, null where it was")
    memory_bytes_per_node: list[Count] | None = Field(
        default=None, description="Memory by node; null where it was not read"
    )
    shared_bytes_per_node: list[Count] | None = Field(
        default=None,
        description="Of these, bytes in mappings of which at least one page is mapped more than once: the"
        " most that may be shared. Null of a control group, to which each page is charged once",
    )
    huge_bytes_per_node: list[Count] | None = Field(
        default=None, description="Of these, bytes in pages of hugetlbfs"
    )
    anon_bytes: Count | None = Field(
        default=None, description="Of the sum, anonymous memory; null when not known"
    )
    file_bytes: Count | None = Field(
        default=None, description="Of the sum, pages of files; null when not known"
    )


class NumaScore(Record):
    """CPU-memory locality over one window. Amounts by node are in the order of ``nodes``."""

    KIND: ClassVar[str] = "numa_score"

    tool: Tool = Field(description="The program that wrote it")
    clock: Clock = Field(description="Both clocks when it was written")
    begin_ns: Count = Field(description="Start of the window")
    end_ns: Count = Field(description="End of the window")
    looks: Count = Field(description="Number of readings of threads in the window, its end included")
    nodes: list[NumaScoreNode] = Field(description="The machine's NUMA nodes, in order")
    distance_source: str = Field(description="Source of distances: `slit`, `hmat` or `given`")
    subjects: list[NumaSubject] = Field(description="Subject")
    cost_cpu_ns: Count | None = Field(
        default=None,
        description="CPU time that finding all this took, null when it could not be read",
    )
