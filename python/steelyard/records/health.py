"""What a quick health check measured of one machine. The same shape as ``crates/record/src/health.rs``."""

from typing import ClassVar

from pydantic import Field

from steelyard.records.io import Record
from steelyard.records.load import Tool
from steelyard.records.values import Clock, Count, Value


class HealthSettings(Value):
    """What was asked of a health check."""

    mode: str = Field(description="`quick` or `full`: how many working sets and repeats")
    parts: list[str] = Field(description="Requested parts, in order")
    directory: str = Field(description="Folder in which the disk is measured")
    seed: Count = Field(description="Seed of every random choice")


class HealthCpu(Value):
    """Where a logical CPU is."""

    id: Count = Field(description="Number")
    core: Count | None = Field(
        default=None, description="Lowest CPU number of its core, null when the kernel does not report it"
    )
    last_level_cache: Count | None = Field(
        default=None,
        description="Lowest CPU number that shares its last-level cache, null when the kernel does not"
        " report it",
    )
    socket: Count | None = Field(
        default=None, description="Processor package, null when the kernel does not report it"
    )
    node: Count | None = Field(default=None, description="NUMA node, null when the kernel has none")


class HealthNode(Value):
    """One NUMA node."""

    id: Count = Field(description="Number")
    cpus: str = Field(description="Its usable CPUs, as the kernel lists them; empty for memory without CPUs")
    memory_bytes: Count | None = Field(
        default=None, description="Memory, null when the kernel does not report it"
    )
    memory_free_bytes: Count | None = Field(
        default=None, description="Free memory at the start, null when the kernel does not report it"
    )
    distances: list[Count] = Field(description="ACPI distances to every node, in order")


class HealthCache(Value):
    """One cache of a CPU."""

    level: Count = Field(description="1, 2, 3")
    size_bytes: Count = Field(description="Size of this instance")
    line_bytes: Count | None = Field(
        default=None, description="Size of a line, null when the kernel does not report it"
    )
    cpus: str | None = Field(
        default=None,
        description="CPUs that share it, as the kernel lists them, null when the kernel does not report it",
    )


class HealthMachine(Value):
    """The properties of the machine that decide the measurements."""

    cpu_model: str | None = Field(
        default=None, description="Processor's name, null when the kernel does not report it"
    )
    usable_cpus: str = Field(description="CPUs that this process may use, as the kernel lists them")
    cpus: list[HealthCpu] = Field(description="One row a usable CPU, in order")
    nodes: list[HealthNode] = Field(description="NUMA nodes; one row of number 0 where the kernel has none")
    caches: list[HealthCache] = Field(
        description="Data and unified caches of the CPU on which latency is measured"
    )
    memory_available_bytes: Count | None = Field(
        default=None, description="`MemAvailable` at the start, null when the kernel does not report it"
    )
    transparent_huge_pages: str | None = Field(
        default=None,
        description="`always`, `madvise` or `never`, null when the kernel has no transparent huge pages",
    )


class Estimate(Value):
    """A measured value: the median of repeats and an interval for it."""

    median: float = Field(description="Median of the samples")
    low: float = Field(description="Lower end of the interval for the median")
    high: float = Field(description="Upper end of the interval for the median")
    coverage: float = Field(
        description="Probability that `low` to `high` holds the median (order statistics); below 0.95 when"
        " there are fewer than six samples"
    )
    samples: list[float] = Field(description="The repeats, in the order in which they were measured")


class LatencyPoint(Value):
    """Latency of one working set."""

    pages: str = Field(
        description="`base` (no huge page) or `huge` (transparent huge pages hold at least nine tenths)"
    )
    working_set_bytes: Count = Field(description="Bytes that the cycle touches")
    latency_ns: Estimate = Field(description="Time of one dependent load, ns")


class MemoryLatency(Value):
    """Load-to-use latency by working set: a pointer chase over one random cycle of cache lines."""

    cpu: Count = Field(description="CPU that chases")
    node: Count | None = Field(
        default=None, description="Node of the memory, null when the kernel has no nodes"
    )
    stride_bytes: Count = Field(description="Distance between the pointers")
    points: list[LatencyPoint] = Field(description="Latency by working set, for each size of page")


class BandwidthRow(Value):
    """Bandwidth of one kernel from the CPUs of one node to the memory of another."""

    cpu_node: Count = Field(description="Node whose CPUs work")
    memory_node: Count = Field(description="Node whose memory is used")
    kernel: str = Field(description="`read`, `write`, `write_nontemporal`, `copy` or `triad`")
    threads: Count = Field(description="Threads, one for each usable CPU of the node")
    array_bytes: Count = Field(description="Size of one array over all threads")
    rate_bytes_per_s: Estimate | None = Field(
        default=None, description="Bytes per second, null with the reason in `missing`"
    )
    missing: str | None = Field(default=None, description="Why there is no rate")


class MemoryBandwidth(Value):
    """Bandwidth of each pair of NUMA nodes."""

    binding: str = Field(description="How memory was bound: `mbind`, or `none` on a machine with one node")
    counting: str = Field(description="How bytes are counted, one sentence")
    rows: list[BandwidthRow] = Field(
        description="One row for each node with CPUs, node with memory, and kernel"
    )


class CoreToCore(Value):
    """Time a cache line takes from one CPU to another: half a round trip of two pinned threads."""

    cpus: list[Count] = Field(description="CPUs in the order of rows and columns")
    sample: str | None = Field(
        default=None,
        description="How the CPUs were chosen when not all usable ones are here, null when all are",
    )
    repeats: Count = Field(description="Repeats of each pair")
    round_trips: Count = Field(description="Round trips in one repeat")
    median_ns: list[list[float | None]] = Field(
        description="Median one-way time by row and column, ns; null on the diagonal"
    )
    low_ns: list[list[float | None]] = Field(description="Lower end of the interval for the median, ns")
    high_ns: list[list[float | None]] = Field(description="Upper end of the interval for the median, ns")


class DiskRow(Value):
    """One access pattern."""

    pattern: str = Field(description="Such as `sequential_read`, `random_write`")
    block_bytes: Count = Field(description="Bytes of one operation")
    depth: Count = Field(description="Operations in flight")
    rate_bytes_per_s: Estimate | None = Field(
        default=None, description="Bytes per second, null with the reason in `missing`"
    )
    operations_per_s: Estimate | None = Field(
        default=None, description="Operations per second, null with the reason in `missing`"
    )
    latency_p50_ns: Estimate | None = Field(
        default=None, description="Median time of an operation, ns, null with the reason in `missing`"
    )
    latency_p99_ns: Estimate | None = Field(
        default=None,
        description="99th percentile of an operation, ns, null with the reason in `missing`",
    )
    missing: str | None = Field(default=None, description="Why there are no values")


class DiskHealth(Value):
    """Sequential and random access to a file that has no name."""

    engine: str = Field(description="What did the I/O: `fio` with its version, or `built-in`")
    directory: str = Field(description="Folder of the file")
    file_system: str | None = Field(
        default=None, description="File system's type, null when the kernel does not report it"
    )
    device: str | None = Field(
        default=None, description="Device below it, null when the kernel does not report it"
    )
    file_bytes: Count = Field(description="Size of the file")
    direct: bool = Field(description="Whether the page cache was passed by (`O_DIRECT`)")
    rows: list[DiskRow] = Field(description="One row an access pattern")


class LoopbackHealth(Value):
    """TCP over the loopback interface."""

    client_cpu: Count | None = Field(default=None, description="CPU of the client, null when not pinned")
    server_cpu: Count | None = Field(default=None, description="CPU of the server, null when not pinned")
    block_bytes: Count = Field(description="Bytes of one write of the throughput test")
    rate_bytes_per_s: Estimate = Field(description="Bytes per second over one connection")
    message_bytes: Count = Field(description="Bytes of a message of the round-trip test")
    round_trip_p50_ns: Estimate = Field(description="Median round trip, ns")
    round_trip_p99_ns: Estimate = Field(description="99th percentile of the round trip, ns")


class HealthConditions(Value):
    """What else ran while a part was measured."""

    begin_ns: Count = Field(description="Start of the part")
    end_ns: Count = Field(description="End of the part")
    foreign_busy_ratio: float | None = Field(
        default=None,
        description="CPU time of everything but this process and its children over the CPU time that there"
        " was, null when the kernel does not report it or the part was shorter than its clock's tick",
    )
    steal_ratio: float | None = Field(
        default=None,
        description="CPU time that the hypervisor gave to others over the CPU time that there was, null"
        " likewise",
    )


class HealthResult(Record):
    """What a quick health check measured of one machine: ``health.json``.

    A part that could not be measured is null and has its reason in ``missing``, by its name.
    """

    KIND: ClassVar[str] = "health_result"

    tool: Tool = Field(description="The program that wrote it")
    command: list[str] = Field(description="Its command line")
    clock: Clock = Field(description="Both clocks at the start")
    settings: HealthSettings = Field(description="Settings")
    machine: HealthMachine = Field(description="The properties of the machine that decide the measurements")
    begin_ns: Count = Field(description="Start of the first part")
    end_ns: Count = Field(description="End of the last part")
    interrupted: bool = Field(description="Whether the check was stopped before its end")
    memory_latency: MemoryLatency | None = Field(
        default=None, description="Load-to-use latency by working set"
    )
    memory_bandwidth: MemoryBandwidth | None = Field(
        default=None, description="Bandwidth of each pair of NUMA nodes"
    )
    core_to_core: CoreToCore | None = Field(
        default=None, description="Time a cache line takes from one CPU to another"
    )
    disk: DiskHealth | None = Field(default=None, description="Sequential and random access to a file")
    loopback: LoopbackHealth | None = Field(default=None, description="TCP over the loopback interface")
    conditions: dict[str, HealthConditions] = Field(description="What else ran on the machine, by part")
    missing: dict[str, str] = Field(description="Why parts and values are null, by their names")
