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
    /// Why fields are null, by the field's path.
    pub missing: std::collections::BTreeMap<String, String>,
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
    pub mitigations: std::collections::BTreeMap<String, String>,
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
    pub sysctl: std::collections::BTreeMap<String, String>,
}

impl Record for Machine {
    const KIND: &'static str = "machine";
}
