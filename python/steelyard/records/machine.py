"""One server's inventory at one moment. The same shape as ``crates/record/src/machine.rs``."""

from typing import ClassVar

from pydantic import Field

from steelyard.records.io import Record
from steelyard.records.values import Clock, Count, Value


class Cache(Value):
    """One level of cache."""

    level: Count = Field(description="1, 2, 3")
    type: str = Field(description="`data`, `instruction` or `unified`")
    size_bytes: Count = Field(description="Size of one instance")
    instances: Count | None = Field(default=None, description="Instances on the machine")


class Cpu(Value):
    """The processors of a machine."""

    model: str | None = Field(default=None, description="Model name")
    vendor: str | None = Field(default=None, description="Vendor")
    architecture: str | None = Field(default=None, description="Instruction set, as `uname -m` says")
    sockets: Count | None = Field(default=None, description="Sockets")
    cores: Count | None = Field(default=None, description="Physical cores")
    logical_cpus: Count = Field(description="Logical CPUs online")
    usable_cpus: Count = Field(description="Logical CPUs that this process may use")
    quota_cpus: float | None = Field(
        default=None, description="CPU time that the cgroup's quota allows, in CPUs, null when unlimited"
    )
    threads_per_core: Count | None = Field(default=None, description="Threads per core")
    frequency_min_hz: Count | None = Field(default=None, description="Lowest frequency, Hz")
    frequency_max_hz: Count | None = Field(default=None, description="Highest frequency, Hz")
    governor: str | None = Field(default=None, description="Frequency governor of CPU 0")
    boost: bool | None = Field(default=None, description="Whether boost is on")
    microcode: str | None = Field(default=None, description="Microcode revision")
    caches: list[Cache] = Field(description="Caches of CPU 0 with the number of instances")
    mitigations: dict[str, str] = Field(description="Vulnerability -> mitigation")


class Memory(Value):
    """The memory of a machine."""

    total_bytes: Count = Field(description="As the kernel counts it")
    limit_bytes: Count | None = Field(default=None, description="What the cgroup allows, null when unlimited")
    swap_bytes: Count = Field(description="Swap space")
    transparent_huge_pages: str | None = Field(
        default=None, description="Transparent huge pages: `always`, `madvise` or `never`"
    )
    huge_pages: Count | None = Field(
        default=None, description="Statically allocated huge pages of the default size"
    )


class NumaNode(Value):
    """One NUMA node."""

    id: Count = Field(description="Number")
    cpus: str = Field(description="CPUs, as the kernel lists them")
    memory_bytes: Count | None = Field(default=None, description="Memory")
    distances: list[Count] = Field(description="ACPI distances to every node, in order")


class Disk(Value):
    """One disk."""

    name: str = Field(description="Kernel name")
    model: str | None = Field(default=None, description="Model")
    size_bytes: Count | None = Field(default=None, description="Capacity")
    rotational: bool | None = Field(default=None, description="Whether it rotates")
    scheduler: str | None = Field(default=None, description="I/O scheduler in use")


class Interface(Value):
    """One network interface."""

    name: str = Field(description="Kernel name")
    speed_bits_per_s: Count | None = Field(
        default=None, description="Line rate, bit/s, null when the driver does not say"
    )
    mtu_bytes: Count | None = Field(default=None, description="Largest packet")
    driver: str | None = Field(default=None, description="Driver")
    receive_queues: Count | None = Field(default=None, description="Receive queues")


class Kernel(Value):
    """The kernel and the settings that move results."""

    release: str | None = Field(default=None, description="Release, as `uname -r` says")
    version: str | None = Field(default=None, description="Version line")
    command_line: str | None = Field(default=None, description="Boot command line")
    clocksource: str | None = Field(default=None, description="Clock source in use")
    boot_id: str | None = Field(default=None, description="Boot id: runs with the same one saw the same boot")
    sysctl: dict[str, str] = Field(description="Chosen sysctl values by name")


class Machine(Record):
    """One server's inventory at one moment: ``machine.json``. Null means that the system did not say."""

    KIND: ClassVar[str] = "machine"

    clock: Clock = Field(description="When it was taken")
    hostname: str | None = Field(default=None, description="Host name")
    cpu: Cpu = Field(description="Processor")
    memory: Memory = Field(description="Memory")
    numa_nodes: list[NumaNode] = Field(description="NUMA nodes, in order")
    disks: list[Disk] = Field(description="Disks, in name order")
    interfaces: list[Interface] = Field(description="Network interfaces, in name order")
    kernel: Kernel = Field(description="Kernel and its settings")
    distribution: str | None = Field(default=None, description="Distribution's name and version")
    hypervisor: str | None = Field(
        default=None, description="Name of the hypervisor when the machine is a guest, null on bare metal"
    )
    container: str | None = Field(
        default=None, description="Name of the container runtime when inside one, null outside"
    )
    missing: dict[str, str] = Field(description="Why fields are null, by the field's path")
