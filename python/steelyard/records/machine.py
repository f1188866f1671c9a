"""One server's inventory at one moment."""

from typing import ClassVar

from pydantic import Field

from steelyard.records.io import Record
from steelyard.records.values import Clock, Count, Value

SCHEMA_VERSION = "1.2"
"""1.1 added what ``steelyard machine`` diffs and checks, 1.2 the processor's identifier; all of it is
optional to a reader."""


class Cache(Value):
    """One level of cache."""

    level: Count = Field(description="1, 2, 3")
    type: str = Field(description="`data`, `instruction` or `unified`")
    size_bytes: Count = Field(description="Size of one instance")
    instances: Count | None = Field(default=None, description="Instances on the machine")


class IdleState(Value):
    """One state that an idle CPU may enter."""

    name: str = Field(description="As the driver calls it, such as `C6`")
    exit_latency_ns: Count | None = Field(default=None, description="Time to wake from it")
    residency_ns: Count | None = Field(default=None, description="Shortest stay that saves energy")
    is_enabled: bool | None = Field(default=None, description="Whether the CPU may enter it")


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
    offline_cpus: str | None = Field(
        default=None, description="CPUs that are there but offline, as the kernel lists them; empty when none"
    )
    isolated_cpus: str | None = Field(
        default=None, description="CPUs that the scheduler leaves alone (`isolcpus`); empty when none"
    )
    smt: str | None = Field(
        default=None, description="SMT as the kernel controls it: `on`, `off`, `forceoff`, `notsupported`"
    )
    cores_by_threads: dict[str, Count] = Field(
        default={}, description="Online threads of a core -> cores with so many"
    )
    governors: dict[str, Count] = Field(default={}, description="Frequency governor -> CPUs that have it")
    frequency_driver: str | None = Field(default=None, description="Frequency driver")
    frequency_limit_hz: Count | None = Field(
        default=None, description="Frequency that the settings allow the most limited CPU, Hz"
    )
    frequency_limited_cpus: Count | None = Field(
        default=None, description="CPUs that the settings hold below what their processor can do"
    )
    energy_preference: str | None = Field(
        default=None, description="Energy-performance preference of the first CPU"
    )
    idle_driver: str | None = Field(default=None, description="Driver of idle states")
    idle_governor: str | None = Field(default=None, description="Governor of idle states")
    idle_states: list[IdleState] = Field(
        default=[], description="Idle states of the first CPU, lightest first"
    )
    thermal_throttles: Count | None = Field(
        default=None, description="Times that a core was slowed for heat since boot, summed over cores"
    )
    steal_ratio: float | None = Field(
        default=None, description="Share of CPU time since boot that the hypervisor gave to others"
    )
    performance_monitors: list[str] = Field(
        default=[], description="Kinds of perf events that the kernel has, such as `cpu`, `software`"
    )
    identifier: str | None = Field(
        default=None,
        description="Vendor, family, model (hexadecimal) and stepping as `GenuineIntel-6-55-7`, or Arm's"
        " main ID register as `0x00000000413fd0c1`, of the first CPU. Absent before 1.2",
    )


class HugePagePool(Value):
    """The huge pages of one size that are set aside."""

    size_bytes: Count = Field(description="Size of one page")
    pages: Count = Field(description="Pages set aside")
    free_pages: Count | None = Field(default=None, description="Of these, pages that nobody uses")


class Dimm(Value):
    """One slot for a memory module, as the firmware describes it."""

    locator: str = Field(description="Name of the slot, as on the board")
    bank: str | None = Field(default=None, description="Name of its bank or channel")
    size_bytes: Count | None = Field(default=None, description="Size of the module; 0 when the slot is empty")
    type: str | None = Field(default=None, description="Such as `DDR5`")
    rated_transfers_per_s: Count | None = Field(default=None, description="Rated speed")
    configured_transfers_per_s: Count | None = Field(default=None, description="Configured speed")
    ranks: Count | None = Field(default=None, description="Ranks")
    manufacturer: str | None = Field(default=None, description="Manufacturer")
    part: str | None = Field(default=None, description="Part number")


class Memory(Value):
    """The memory of a machine."""

    total_bytes: Count = Field(description="As the kernel counts it")
    limit_bytes: Count | None = Field(default=None, description="Limit of the cgroup, null when unlimited")
    swap_bytes: Count = Field(description="Swap space")
    transparent_huge_pages: str | None = Field(
        default=None, description="Transparent huge pages: `always`, `madvise` or `never`"
    )
    huge_pages: Count | None = Field(
        default=None, description="Statically allocated huge pages of the default size"
    )
    swap_used_bytes: Count | None = Field(default=None, description="Swap space in use")
    transparent_huge_page_defrag: str | None = Field(
        default=None, description="When a fault waits for a huge page: `always`, `madvise`, `never`"
    )
    huge_page_pools: list[HugePagePool] = Field(default=[], description="Huge pages set aside, by size")
    dimms: list[Dimm] = Field(default=[], description="Memory slots, in the firmware's order")
    corrected_errors: Count | None = Field(
        default=None, description="Memory errors that were corrected since boot (EDAC)"
    )
    uncorrected_errors: Count | None = Field(
        default=None, description="Memory errors that could not be corrected since boot (EDAC)"
    )


class MemoryAccess(Value):
    """What the firmware (HMAT) says of a node's memory, seen from the nearest CPUs."""

    read_latency_ns: Count | None = Field(default=None, description="Read latency")
    write_latency_ns: Count | None = Field(default=None, description="Write latency")
    read_bytes_per_s: Count | None = Field(default=None, description="Read bandwidth")
    write_bytes_per_s: Count | None = Field(default=None, description="Write bandwidth")


class SideCache(Value):
    """A cache in front of a node's memory."""

    level: Count = Field(description="1 is the one next to memory")
    size_bytes: Count | None = Field(default=None, description="Size")


class NumaNode(Value):
    """One NUMA node."""

    id: Count = Field(description="Number")
    cpus: str = Field(description="CPUs, as the kernel lists them")
    memory_bytes: Count | None = Field(default=None, description="Memory")
    distances: list[Count] = Field(description="ACPI distances to every node, in order")
    access: MemoryAccess | None = Field(default=None, description="Latency and bandwidth, from HMAT")
    side_caches: list[SideCache] = Field(default=[], description="Caches in front of the node's memory")


class Disk(Value):
    """One disk."""

    name: str = Field(description="Kernel name")
    model: str | None = Field(default=None, description="Model")
    size_bytes: Count | None = Field(default=None, description="Capacity")
    rotational: bool | None = Field(default=None, description="Whether it rotates")
    scheduler: str | None = Field(default=None, description="I/O scheduler in use")
    hardware_queues: Count | None = Field(default=None, description="Queues between kernel and device")
    queue_requests: Count | None = Field(default=None, description="Requests that a queue holds")
    read_ahead_bytes: Count | None = Field(default=None, description="Read-ahead")
    write_cache: str | None = Field(default=None, description="`write back` or `write through`")
    numa_node: Count | None = Field(default=None, description="NUMA node that the device is on")


class LinkSettings(Value):
    """What ``ethtool`` tells of an interface: only the running kernel can be asked."""

    receive_ring: Count | None = Field(default=None, description="Descriptors of a receive ring")
    receive_ring_max: Count | None = Field(default=None, description="The most that the driver allows")
    transmit_ring: Count | None = Field(default=None, description="Descriptors of a transmit ring")
    transmit_ring_max: Count | None = Field(default=None, description="The most that the driver allows")
    channels: Count | None = Field(default=None, description="Channels that receive, combined ones included")
    channels_max: Count | None = Field(default=None, description="The most that the driver allows")
    receive_delay_ns: Count | None = Field(
        default=None, description="How long an interrupt for a received packet may be put off"
    )
    adaptive_receive: bool | None = Field(default=None, description="Whether the driver adapts this delay")
    offloads: dict[str, str] = Field(
        default={}, description="Offload -> `on`, `off`, or `off [fixed]` where it cannot be changed"
    )


class Interface(Value):
    """One network interface."""

    name: str = Field(description="Kernel name")
    speed_bits_per_s: Count | None = Field(
        default=None, description="Line rate, bit/s, null when the driver does not report it"
    )
    mtu_bytes: Count | None = Field(default=None, description="Largest packet")
    driver: str | None = Field(default=None, description="Driver")
    receive_queues: Count | None = Field(default=None, description="Receive queues")
    transmit_queues: Count | None = Field(default=None, description="Transmit queues")
    steered_queues: Count | None = Field(
        default=None, description="Receive queues whose packets the kernel spreads over CPUs (RPS)"
    )
    state: str | None = Field(default=None, description="`up`, `down` or `unknown`")
    duplex: str | None = Field(default=None, description="`full` or `half`")
    numa_node: Count | None = Field(default=None, description="NUMA node that the device is on")
    settings: LinkSettings | None = Field(default=None, description="Rings, channels and offloads")


class PciLink(Value):
    """The link of a PCI Express device."""

    transfers_per_s: Count | None = Field(default=None, description="Rate of one lane now")
    transfers_max_per_s: Count | None = Field(default=None, description="Capability of the device")
    width: Count | None = Field(default=None, description="Lanes in use")
    width_max: Count | None = Field(default=None, description="Lanes that the device has")


class PciDevice(Value):
    """One PCI device that moves data: storage, network, display, accelerator."""

    address: str = Field(description="Domain:bus:device.function")
    type: str = Field(description="`storage`, `network`, `display` or `accelerator`")
    vendor_id: str | None = Field(default=None, description="Vendor, hexadecimal")
    device_id: str | None = Field(default=None, description="Device, hexadecimal")
    driver: str | None = Field(default=None, description="Driver")
    numa_node: Count | None = Field(default=None, description="NUMA node that the device is on")
    link: PciLink | None = Field(default=None, description="Its link, null when it is not PCI Express")


class Interrupts(Value):
    """Which CPUs have served the devices' interrupts since boot."""

    total: Count = Field(description="Interrupts of devices")
    serving_cpus: Count = Field(description="CPUs that served at least one in a hundred of them")
    busiest_cpu: Count = Field(description="The CPU that served most")
    busiest_ratio: float = Field(description="Its share")


class Resctrl(Value):
    """Control of cache and memory bandwidth by groups of tasks."""

    resources: list[str] = Field(description="What can be divided or watched: `L3`, `MB`, `L3_MON`")
    groups: Count = Field(description="Groups beside the default one")


class Firmware(Value):
    """The names that DMI gives to the machine; no serial numbers."""

    vendor: str | None = Field(default=None, description="Manufacturer of the system")
    product: str | None = Field(default=None, description="Product")
    board: str | None = Field(default=None, description="Main board")
    bios_vendor: str | None = Field(default=None, description="Maker of the firmware")
    bios_version: str | None = Field(default=None, description="Version of the firmware")
    bios_date: str | None = Field(default=None, description="Date of the firmware")


class Kernel(Value):
    """The kernel and the settings that move results."""

    release: str | None = Field(default=None, description="Release, as `uname -r` says")
    version: str | None = Field(default=None, description="Version line")
    command_line: str | None = Field(default=None, description="Boot command line")
    clocksource: str | None = Field(default=None, description="Clock source in use")
    boot_id: str | None = Field(default=None, description="Boot id: runs with the same one saw the same boot")
    sysctl: dict[str, str] = Field(description="Chosen sysctl values by name")
    clocksources: list[str] = Field(default=[], description="Clock sources that could be used")


class Machine(Record):
    """One server's inventory at one moment: ``machine.json``. Null means that the system did not say."""

    KIND: ClassVar[str] = "machine"

    schema_version: str = Field(default=SCHEMA_VERSION, pattern=r"^\d+\.\d+$")
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
    pci_devices: list[PciDevice] = Field(default=[], description="PCI devices that move data, by address")
    interrupts: Interrupts | None = Field(default=None, description="Where devices' interrupts were served")
    resctrl: Resctrl | None = Field(default=None, description="Control of cache and bandwidth, null without")
    firmware: Firmware = Field(default=Firmware(), description="Names of the system and its firmware")
    missing: dict[str, str] = Field(description="Why fields are null, by the field's path")
