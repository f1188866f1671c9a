use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Clock;
use crate::version::{Kind, Record};

/// One server's inventory at one moment: `machine.json`. Null means that the system did not say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Schema version and kind.
    #[serde(flatten)]
    pub kind: Kind,
    /// When it was taken.
    pub clock: Clock,
    /// Host name.
    pub hostname: Option<String>,
    /// Processor.
    pub cpu: Cpu,
    /// Memory.
    pub memory: Memory,
    /// NUMA nodes, in order.
    pub numa_nodes: Vec<NumaNode>,
    /// Disks, in name order.
    pub disks: Vec<Disk>,
    /// Network interfaces, in name order.
    pub interfaces: Vec<Interface>,
    /// Kernel and its settings.
    pub kernel: Kernel,
    /// Distribution's name and version.
    pub distribution: Option<String>,
    /// Name of the hypervisor when the machine is a guest, null on bare metal.
    pub hypervisor: Option<String>,
    /// Name of the container runtime when inside one, null outside.
    pub container: Option<String>,
    /// PCI devices that move data, by address.
    #[serde(default)]
    pub pci_devices: Vec<PciDevice>,
    /// Where devices' interrupts were served.
    #[serde(default)]
    pub interrupts: Option<Interrupts>,
    /// Control of cache and bandwidth, null without.
    #[serde(default)]
    pub resctrl: Option<Resctrl>,
    /// Names of the system and its firmware.
    #[serde(default)]
    pub firmware: Firmware,
    /// Why fields are null, by the field's path.
    pub missing: BTreeMap<String, String>,
}

/// The processors of a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// Model name.
    pub model: Option<String>,
    /// Vendor.
    pub vendor: Option<String>,
    /// Instruction set, as `uname -m` says.
    pub architecture: Option<String>,
    /// Sockets.
    pub sockets: Option<u32>,
    /// Physical cores.
    pub cores: Option<u32>,
    /// Logical CPUs online.
    pub logical_cpus: u32,
    /// Logical CPUs that this process may use.
    pub usable_cpus: u32,
    /// CPU time that the cgroup's quota allows, in CPUs, null when unlimited.
    pub quota_cpus: Option<f64>,
    /// Threads per core.
    pub threads_per_core: Option<u32>,
    /// Lowest frequency, Hz.
    pub frequency_min_hz: Option<u64>,
    /// Highest frequency, Hz.
    pub frequency_max_hz: Option<u64>,
    /// Frequency governor of CPU 0.
    pub governor: Option<String>,
    /// Whether boost is on.
    pub boost: Option<bool>,
    /// Microcode revision.
    pub microcode: Option<String>,
    /// Caches of CPU 0 with the number of instances.
    pub caches: Vec<Cache>,
    /// Vulnerability -> mitigation.
    pub mitigations: BTreeMap<String, String>,
    /// CPUs that are there but offline, as the kernel lists them; empty when none.
    #[serde(default)]
    pub offline_cpus: Option<String>,
    /// CPUs that the scheduler leaves alone (`isolcpus`); empty when none.
    #[serde(default)]
    pub isolated_cpus: Option<String>,
    /// SMT as the kernel controls it: `on`, `off`, `forceoff`, `notsupported`.
    #[serde(default)]
    pub smt: Option<String>,
    /// Online threads of a core -> cores with so many.
    #[serde(default)]
    pub cores_by_threads: BTreeMap<String, u64>,
    /// Frequency governor -> CPUs that have it.
    #[serde(default)]
    pub governors: BTreeMap<String, u64>,
    /// Frequency driver.
    #[serde(default)]
    pub frequency_driver: Option<String>,
    /// Frequency that the settings allow the most limited CPU, Hz.
    #[serde(default)]
    pub frequency_limit_hz: Option<u64>,
    /// CPUs that the settings hold below what their processor can do.
    #[serde(default)]
    pub frequency_limited_cpus: Option<u64>,
    /// Energy-performance preference of the first CPU.
    #[serde(default)]
    pub energy_preference: Option<String>,
    /// Driver of idle states.
    #[serde(default)]
    pub idle_driver: Option<String>,
    /// Governor of idle states.
    #[serde(default)]
    pub idle_governor: Option<String>,
    /// Idle states of the first CPU.
    #[serde(default)]
    pub idle_states: Vec<IdleState>,
    /// Times that a core was slowed for heat since boot, summed over cores.
    #[serde(default)]
    pub thermal_throttles: Option<u64>,
    /// Share of CPU time since boot that the hypervisor gave to others.
    #[serde(default)]
    pub steal_ratio: Option<f64>,
    /// Kinds of perf events that the kernel has, such as `cpu`, `software`.
    #[serde(default)]
    pub performance_monitors: Vec<String>,
    /// Vendor, family, model (hexadecimal) and stepping as `GenuineIntel-6-55-7`, or Arm's main ID register as
    /// `0x00000000413fd0c1`, of the first CPU. Absent before 1.2.
    #[serde(default)]
    pub identifier: Option<String>,
}

/// One level of cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// 1, 2, 3.
    pub level: u32,
    /// `data`, `instruction` or `unified`.
    pub r#type: String,
    /// Size of one instance.
    pub size_bytes: u64,
    /// Instances on the machine.
    pub instances: Option<u32>,
}

/// The memory of a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// As the kernel counts it.
    pub total_bytes: u64,
    /// What the cgroup allows, null when unlimited.
    pub limit_bytes: Option<u64>,
    /// Swap space.
    pub swap_bytes: u64,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    pub transparent_huge_pages: Option<String>,
    /// Statically allocated huge pages of the default size.
    pub huge_pages: Option<u64>,
    /// Swap space in use.
    #[serde(default)]
    pub swap_used_bytes: Option<u64>,
    /// When a fault waits for a huge page: `always`, `madvise`, `never`.
    #[serde(default)]
    pub transparent_huge_page_defrag: Option<String>,
    /// Huge pages set aside, by size.
    #[serde(default)]
    pub huge_page_pools: Vec<HugePagePool>,
    /// Memory slots, in the firmware's order.
    #[serde(default)]
    pub dimms: Vec<Dimm>,
    /// Memory errors that were corrected since boot (EDAC).
    #[serde(default)]
    pub corrected_errors: Option<u64>,
    /// Memory errors that could not be corrected since boot (EDAC).
    #[serde(default)]
    pub uncorrected_errors: Option<u64>,
}

/// One NUMA node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumaNode {
    /// Number.
    pub id: u32,
    /// CPUs, as the kernel lists them.
    pub cpus: String,
    /// Memory.
    pub memory_bytes: Option<u64>,
    /// ACPI distances to every node, in order.
    pub distances: Vec<u32>,
    /// Latency and bandwidth, from HMAT.
    #[serde(default)]
    pub access: Option<MemoryAccess>,
    /// Caches in front of the node's memory.
    #[serde(default)]
    pub side_caches: Vec<SideCache>,
}

/// One disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// Kernel name.
    pub name: String,
    /// Model.
    pub model: Option<String>,
    /// Capacity.
    pub size_bytes: Option<u64>,
    /// Whether it rotates.
    pub rotational: Option<bool>,
    /// I/O scheduler in use.
    pub scheduler: Option<String>,
    /// Queues between kernel and device.
    #[serde(default)]
    pub hardware_queues: Option<u64>,
    /// Requests that a queue holds.
    #[serde(default)]
    pub queue_requests: Option<u64>,
    /// Read-ahead.
    #[serde(default)]
    pub read_ahead_bytes: Option<u64>,
    /// `write back` or `write through`.
    #[serde(default)]
    pub write_cache: Option<String>,
    /// NUMA node that the device is on.
    #[serde(default)]
    pub numa_node: Option<u64>,
}

/// One network interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Kernel name.
    pub name: String,
    /// Line rate, bit/s, null when the driver does not say.
    pub speed_bits_per_s: Option<u64>,
    /// Largest packet.
    pub mtu_bytes: Option<u64>,
    /// Driver.
    pub driver: Option<String>,
    /// Receive queues.
    pub receive_queues: Option<u32>,
    /// Transmit queues.
    #[serde(default)]
    pub transmit_queues: Option<u64>,
    /// Receive queues whose packets the kernel spreads over CPUs (RPS).
    #[serde(default)]
    pub steered_queues: Option<u64>,
    /// `up`, `down` or `unknown`.
    #[serde(default)]
    pub state: Option<String>,
    /// `full` or `half`.
    #[serde(default)]
    pub duplex: Option<String>,
    /// NUMA node that the device is on.
    #[serde(default)]
    pub numa_node: Option<u64>,
    /// Rings, channels and offloads.
    #[serde(default)]
    pub settings: Option<LinkSettings>,
}

/// The kernel and the settings that move results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// Release, as `uname -r` says.
    pub release: Option<String>,
    /// Version line.
    pub version: Option<String>,
    /// Boot command line.
    pub command_line: Option<String>,
    /// Clock source in use.
    pub clocksource: Option<String>,
    /// Boot id: runs with the same one saw the same boot.
    pub boot_id: Option<String>,
    /// Chosen sysctl values by name.
    pub sysctl: BTreeMap<String, String>,
    /// Clock sources that could be used.
    #[serde(default)]
    pub clocksources: Vec<String>,
}

/// One state that an idle CPU may enter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleState {
    /// As the driver calls it, such as `C6`.
    pub name: String,
    /// Time to wake from it.
    #[serde(default)]
    pub exit_latency_ns: Option<u64>,
    /// Shortest stay that saves energy.
    #[serde(default)]
    pub residency_ns: Option<u64>,
    /// Whether the CPU may enter it.
    #[serde(default)]
    pub is_enabled: Option<bool>,
}

/// The huge pages of one size that are set aside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HugePagePool {
    /// Size of one page.
    pub size_bytes: u64,
    /// Pages set aside.
    pub pages: u64,
    /// Of these, unused pages.
    #[serde(default)]
    pub free_pages: Option<u64>,
}

/// One slot for a memory module, as the firmware describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dimm {
    /// Name of the slot, as on the board.
    pub locator: String,
    /// Name of its bank or channel.
    #[serde(default)]
    pub bank: Option<String>,
    /// Size of the module; 0 when the slot is empty.
    #[serde(default)]
    pub size_bytes: Option<u64>,
    /// Such as `DDR5`.
    #[serde(default)]
    pub r#type: Option<String>,
    /// What the module can do.
    #[serde(default)]
    pub rated_transfers_per_s: Option<u64>,
    /// What it runs at.
    #[serde(default)]
    pub configured_transfers_per_s: Option<u64>,
    /// Ranks.
    #[serde(default)]
    pub ranks: Option<u64>,
    /// Manufacturer.
    #[serde(default)]
    pub manufacturer: Option<String>,
    /// Part number.
    #[serde(default)]
    pub part: Option<String>,
}

/// What the firmware (HMAT) says of a node's memory, seen from the nearest CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryAccess {
    /// Read latency.
    #[serde(default)]
    pub read_latency_ns: Option<u64>,
    /// Write latency.
    #[serde(default)]
    pub write_latency_ns: Option<u64>,
    /// Read bandwidth.
    #[serde(default)]
    pub read_bytes_per_s: Option<u64>,
    /// Write bandwidth.
    #[serde(default)]
    pub write_bytes_per_s: Option<u64>,
}

/// A cache in front of a node's memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SideCache {
    /// 1 is the one next to memory.
    pub level: u64,
    /// Size.
    #[serde(default)]
    pub size_bytes: Option<u64>,
}

/// Output of `ethtool` for an interface, which only the running kernel has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkSettings {
    /// Descriptors of a receive ring.
    #[serde(default)]
    pub receive_ring: Option<u64>,
    /// The most that the driver allows.
    #[serde(default)]
    pub receive_ring_max: Option<u64>,
    /// Descriptors of a transmit ring.
    #[serde(default)]
    pub transmit_ring: Option<u64>,
    /// The most that the driver allows.
    #[serde(default)]
    pub transmit_ring_max: Option<u64>,
    /// Channels that receive, combined ones included.
    #[serde(default)]
    pub channels: Option<u64>,
    /// The most that the driver allows.
    #[serde(default)]
    pub channels_max: Option<u64>,
    /// How long an interrupt for a received packet may be put off.
    #[serde(default)]
    pub receive_delay_ns: Option<u64>,
    /// Whether the driver adapts this delay.
    #[serde(default)]
    pub adaptive_receive: Option<bool>,
    /// Offload -> `on`, `off`, or `off [fixed]` where it cannot be changed.
    #[serde(default)]
    pub offloads: BTreeMap<String, String>,
}

/// The link of a PCI Express device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PciLink {
    /// Rate of one lane now.
    #[serde(default)]
    pub transfers_per_s: Option<u64>,
    /// What the device can do.
    #[serde(default)]
    pub transfers_max_per_s: Option<u64>,
    /// Lanes in use.
    #[serde(default)]
    pub width: Option<u64>,
    /// Lanes that the device has.
    #[serde(default)]
    pub width_max: Option<u64>,
}

/// One PCI device that moves data: storage, network, display, accelerator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PciDevice {
    /// Domain:bus:device.function.
    pub address: String,
    /// `storage`, `network`, `display` or `accelerator`.
    pub r#type: String,
    /// Vendor, hexadecimal.
    #[serde(default)]
    pub vendor_id: Option<String>,
    /// Device, hexadecimal.
    #[serde(default)]
    pub device_id: Option<String>,
    /// Driver.
    #[serde(default)]
    pub driver: Option<String>,
    /// NUMA node that the device is on.
    #[serde(default)]
    pub numa_node: Option<u64>,
    /// Its link, null when it is not PCI Express.
    #[serde(default)]
    pub link: Option<PciLink>,
}

/// Which CPUs have served the devices' interrupts since boot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interrupts {
    /// Interrupts of devices.
    pub total: u64,
    /// CPUs that served at least one in a hundred of them.
    pub serving_cpus: u64,
    /// The CPU that served most.
    pub busiest_cpu: u64,
    /// Its share.
    pub busiest_ratio: f64,
}

/// Control of cache and memory bandwidth by groups of tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resctrl {
    /// What can be divided or watched: `L3`, `MB`, `L3_MON`.
    pub resources: Vec<String>,
    /// Groups beside the default one.
    pub groups: u64,
}

/// The names that DMI gives to the machine; no serial numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Firmware {
    /// Manufacturer of the system.
    #[serde(default)]
    pub vendor: Option<String>,
    /// Product.
    #[serde(default)]
    pub product: Option<String>,
    /// Main board.
    #[serde(default)]
    pub board: Option<String>,
    /// Maker of the firmware.
    #[serde(default)]
    pub bios_vendor: Option<String>,
    /// Version of the firmware.
    #[serde(default)]
    pub bios_version: Option<String>,
    /// Date of the firmware.
    #[serde(default)]
    pub bios_date: Option<String>,
}

impl Record for Machine {
    const KIND: &'static str = "machine";
    const VERSION: &'static str = "1.2";
}
