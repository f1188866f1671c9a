use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::version::{Kind, Record};
use crate::{Clock, Tool};

/// What a quick health check measured of one machine: `health.json`.
///
/// A part that could not be measured is null and has its reason in `missing`, by its name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HealthResult {
    /// Schema version and kind.
    #[serde(flatten)]
    pub kind: Kind,
    /// The program that wrote it.
    pub tool: Tool,
    /// Its command line.
    pub command: Vec<String>,
    /// Both clocks at the start.
    pub clock: Clock,
    /// What was asked for.
    pub settings: HealthSettings,
    /// The machine as far as it decides what is measured.
    pub machine: HealthMachine,
    /// Start of the first part.
    pub begin_ns: u64,
    /// End of the last part.
    pub end_ns: u64,
    /// Whether the check was stopped before its end.
    pub interrupted: bool,
    /// Load-to-use latency by working set.
    pub memory_latency: Option<MemoryLatency>,
    /// Bandwidth of each pair of NUMA nodes.
    pub memory_bandwidth: Option<MemoryBandwidth>,
    /// Time a cache line takes from one CPU to another.
    pub core_to_core: Option<CoreToCore>,
    /// Sequential and random access to a file.
    pub disk: Option<DiskHealth>,
    /// TCP over the loopback interface.
    pub loopback: Option<LoopbackHealth>,
    /// What else ran on the machine, by part.
    pub conditions: BTreeMap<String, HealthConditions>,
    /// Why parts and values are null, by their names.
    pub missing: BTreeMap<String, String>,
}

/// What was asked of a health check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HealthSettings {
    /// `quick` or `full`: how many working sets and repeats.
    pub mode: String,
    /// Parts that were asked for, in order.
    pub parts: Vec<String>,
    /// Folder in which the disk is measured.
    pub directory: String,
    /// Seed of every random choice.
    pub seed: u64,
}

/// The machine as far as it decides what is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HealthMachine {
    /// Processor's name, null when the kernel does not report it.
    pub cpu_model: Option<String>,
    /// CPUs that this process may use, as the kernel lists them.
    pub usable_cpus: String,
    /// One row a usable CPU, in order.
    pub cpus: Vec<HealthCpu>,
    /// NUMA nodes; one row of number 0 where the kernel has none.
    pub nodes: Vec<HealthNode>,
    /// Data and unified caches of the CPU on which latency is measured.
    pub caches: Vec<HealthCache>,
    /// `MemAvailable` at the start, null when the kernel does not report it.
    pub memory_available_bytes: Option<u64>,
    /// `always`, `madvise` or `never`, null when the kernel has no transparent huge pages.
    pub transparent_huge_pages: Option<String>,
}

/// Where a logical CPU is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthCpu {
    /// Number.
    pub id: u32,
    /// Lowest CPU number of its core, null when the kernel does not report it.
    pub core: Option<u32>,
    /// Lowest CPU number that shares its last-level cache, null when the kernel does not report it.
    pub last_level_cache: Option<u32>,
    /// Processor package, null when the kernel does not report it.
    pub socket: Option<u32>,
    /// NUMA node, null when the kernel has none.
    pub node: Option<u32>,
}

/// One NUMA node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthNode {
    /// Number.
    pub id: u32,
    /// Its usable CPUs, as the kernel lists them; empty for memory without CPUs.
    pub cpus: String,
    /// Memory, null when the kernel does not report it.
    pub memory_bytes: Option<u64>,
    /// Free memory at the start, null when the kernel does not report it.
    pub memory_free_bytes: Option<u64>,
    /// ACPI distances to every node, in order.
    pub distances: Vec<u32>,
}

/// One cache of a CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthCache {
    /// 1, 2, 3.
    pub level: u32,
    /// Size of this instance.
    pub size_bytes: u64,
    /// Size of a line, null when the kernel does not report it.
    pub line_bytes: Option<u64>,
    /// CPUs that share it, as the kernel lists them, null when the kernel does not report it.
    pub cpus: Option<String>,
}

/// A measured value: the median of repeats and an interval for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Median of the samples.
    pub median: f64,
    /// Lower end of the interval for the median.
    pub low: f64,
    /// Upper end of the interval for the median.
    pub high: f64,
    /// Probability that `low` to `high` holds the median (order statistics); below 0.95 when there are fewer
    /// than six samples.
    pub coverage: f64,
    /// The repeats, in the order in which they were measured.
    pub samples: Vec<f64>,
}

/// Load-to-use latency by working set: a pointer chase over one random cycle of cache lines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemoryLatency {
    /// CPU that chases.
    pub cpu: u32,
    /// Node of the memory, null when the kernel has no nodes.
    pub node: Option<u32>,
    /// Distance between the pointers.
    pub stride_bytes: u64,
    /// Latency by working set, for each size of page.
    pub points: Vec<LatencyPoint>,
}

/// Latency of one working set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencyPoint {
    /// `base` (no huge page) or `huge` (transparent huge pages hold at least nine tenths).
    pub pages: String,
    /// Bytes that the cycle touches.
    pub working_set_bytes: u64,
    /// Time of one dependent load, ns.
    pub latency_ns: Estimate,
}

/// Bandwidth of each pair of NUMA nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemoryBandwidth {
    /// How memory was bound: `mbind`, or `none` on a machine with one node.
    pub binding: String,
    /// How bytes are counted, one sentence.
    pub counting: String,
    /// One row for each node with CPUs, node with memory, and kernel.
    pub rows: Vec<BandwidthRow>,
}

/// Bandwidth of one kernel from the CPUs of one node to the memory of another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BandwidthRow {
    /// Node whose CPUs work.
    pub cpu_node: u32,
    /// Node whose memory is used.
    pub memory_node: u32,
    /// `read`, `write`, `write_nontemporal`, `copy` or `triad`.
    pub kernel: String,
    /// Threads, one for each usable CPU of the node.
    pub threads: u32,
    /// Size of one array over all threads.
    pub array_bytes: u64,
    /// Bytes per second, null with the reason in `missing`.
    pub rate_bytes_per_s: Option<Estimate>,
    /// Why there is no rate.
    pub missing: Option<String>,
}

/// Time a cache line takes from one CPU to another: half a round trip of two pinned threads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CoreToCore {
    /// CPUs in the order of rows and columns.
    pub cpus: Vec<u32>,
    /// How the CPUs were chosen when not all usable ones are here, null when all are.
    pub sample: Option<String>,
    /// Repeats of each pair.
    pub repeats: u32,
    /// Round trips in one repeat.
    pub round_trips: u64,
    /// Median one-way time by row and column, ns; null on the diagonal.
    pub median_ns: Vec<Vec<Option<f64>>>,
    /// Lower end of the interval for the median, ns.
    pub low_ns: Vec<Vec<Option<f64>>>,
    /// Upper end of the interval for the median, ns.
    pub high_ns: Vec<Vec<Option<f64>>>,
}

/// Sequential and random access to a file that has no name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiskHealth {
    /// What did the I/O: `fio` with its version, or `built-in`.
    pub engine: String,
    /// Folder of the file.
    pub directory: String,
    /// File system's type, null when the kernel does not report it.
    pub file_system: Option<String>,
    /// Device below it, null when the kernel does not report it.
    pub device: Option<String>,
    /// Size of the file.
    pub file_bytes: u64,
    /// Whether the page cache was passed by (`O_DIRECT`).
    pub direct: bool,
    /// One row an access pattern.
    pub rows: Vec<DiskRow>,
}

/// One access pattern.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiskRow {
    /// Such as `sequential_read`, `random_write`.
    pub pattern: String,
    /// Bytes of one operation.
    pub block_bytes: u64,
    /// Operations in flight.
    pub depth: u32,
    /// Bytes per second, null with the reason in `missing`.
    pub rate_bytes_per_s: Option<Estimate>,
    /// Operations per second, null with the reason in `missing`.
    pub operations_per_s: Option<Estimate>,
    /// Median time of an operation, ns, null with the reason in `missing`.
    pub latency_p50_ns: Option<Estimate>,
    /// 99th percentile of an operation, ns, null with the reason in `missing`.
    pub latency_p99_ns: Option<Estimate>,
    /// Why there are no values.
    pub missing: Option<String>,
}

/// TCP over the loopback interface.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoopbackHealth {
    /// CPU of the client, null when not pinned.
    pub client_cpu: Option<u32>,
    /// CPU of the server, null when not pinned.
    pub server_cpu: Option<u32>,
    /// Bytes of one write of the throughput test.
    pub block_bytes: u64,
    /// Bytes per second over one connection.
    pub rate_bytes_per_s: Estimate,
    /// Bytes of a message of the round-trip test.
    pub message_bytes: u64,
    /// Median round trip, ns.
    pub round_trip_p50_ns: Estimate,
    /// 99th percentile of the round trip, ns.
    pub round_trip_p99_ns: Estimate,
}

/// What else ran while a part was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HealthConditions {
    /// Start of the part.
    pub begin_ns: u64,
    /// End of the part.
    pub end_ns: u64,
    /// CPU time of everything but this process and its children over the CPU time that there was, null when
    /// the kernel does not report it or the part was shorter than its clock's tick.
    pub foreign_busy_ratio: Option<f64>,
    /// CPU time that the hypervisor gave to others over the CPU time that there was, null likewise.
    pub steal_ratio: Option<f64>,
}

impl Record for HealthResult {
    const KIND: &'static str = "health_result";
}
