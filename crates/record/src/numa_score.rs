use serde::{Deserialize, Serialize};

use crate::version::{Kind, Record};
use crate::{Clock, Tool};

/// CPU-memory locality of processes or control groups over one window.
///
/// Amounts by node are in the order of `nodes`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NumaScore {
    /// Schema version and kind.
    #[serde(flatten)]
    pub kind: Kind,
    /// The program that wrote it.
    pub tool: Tool,
    /// Both clocks when it was written.
    pub clock: Clock,
    /// Start of the window.
    pub begin_ns: u64,
    /// End of the window.
    pub end_ns: u64,
    /// Times that threads were looked at in the window, its end included.
    pub looks: u64,
    /// The machine's NUMA nodes, in order.
    pub nodes: Vec<NumaScoreNode>,
    /// Where distances come from: `slit`, `hmat` or `given`.
    pub distance_source: String,
    /// What was looked at.
    pub subjects: Vec<NumaSubject>,
    /// CPU time that finding all this took, null when it could not be read.
    pub cost_cpu_ns: Option<u64>,
}

/// One NUMA node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NumaScoreNode {
    /// Number; numbers may have gaps.
    pub id: u32,
    /// CPUs, as the kernel lists them; empty for memory without CPUs.
    pub cpus: String,
    /// Memory, null when the kernel does not report it.
    pub memory_bytes: Option<u64>,
    /// Distances from its CPUs to the memory of each node.
    pub distances: Vec<f64>,
}

/// A process or a control group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NumaSubject {
    /// `process` or `cgroup`.
    pub subject: String,
    /// Process id, null of a control group.
    pub pid: Option<u32>,
    /// Name of the process, or path of the control group.
    pub name: String,
    /// Score, 0 (exclusive) to 1; null with the reason in `missing`.
    pub score: Option<f64>,
    /// Why there is no score.
    pub missing: Option<String>,
    /// `window`: CPU time of the window. `lifetime`: it did not run in the window, and the CPU time of its threads since
    /// they began counts where each ran last. Null where there is no CPU time.
    pub cpu_basis: Option<String>,
    /// Where CPU time comes from, in words; null where there is none.
    pub cpu_source: Option<String>,
    /// CPU time by node, seconds; null where there is none.
    pub cpu_seconds_per_node: Option<Vec<f64>>,
    /// `numa_maps` or `memory.numa_stat`; null where memory was not read.
    pub memory_source: Option<String>,
    /// Why memory was not read, null where it was.
    pub memory_missing: Option<String>,
    /// Memory by node; null where it was not read.
    pub memory_bytes_per_node: Option<Vec<u64>>,
    /// Of these, bytes in mappings of which at least one page is mapped more than once: the most that may be shared.
    /// Null of a control group, to which each page is charged once.
    pub shared_bytes_per_node: Option<Vec<u64>>,
    /// Of these, bytes in pages of hugetlbfs.
    pub huge_bytes_per_node: Option<Vec<u64>>,
    /// Of the sum, anonymous memory; null when not known.
    pub anon_bytes: Option<u64>,
    /// Of the sum, pages of files; null when not known.
    pub file_bytes: Option<u64>,
}

impl Record for NumaScore {
    const KIND: &'static str = "numa_score";
}
