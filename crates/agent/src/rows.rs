//! Rows of the fleet's store as the agent holds them.
//!
//! One struct a table; field names are the columns of `schemas/store.json`, which holds units and meanings. Machine and
//! platform are the same in all rows of an agent and join them when they are written ([`Origin`]); date and cluster
//! are in a file's path.
//!
//! Invariants: None is missing, never 0. Times are Unix seconds of UTC.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Names and values.
pub type Labels = BTreeMap<String, String>;

/// Which machine rows come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The machine's name, unique in its cluster.
    pub machine: String,
    /// Its kind of CPU.
    pub platform: String,
    /// The cluster it belongs to.
    pub cluster: String,
}

/// What may be done to a job's tasks, and for whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobClass {
    /// Somebody waits for its answers: may be a victim, is never capped.
    LatencySensitive,
    /// Work that may be slowed down.
    Batch,
    /// Work that may be all but stopped.
    BestEffort,
}

impl JobClass {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::LatencySensitive, Self::Batch, Self::BestEffort];

    /// The word for it in the store and in rules.
    pub fn name(self) -> &'static str {
        match self {
            Self::LatencySensitive => "latency-sensitive",
            Self::Batch => "batch",
            Self::BestEffort => "best-effort",
        }
    }

    /// The class that a word stands for.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == word)
    }
}

/// A control group that a rule made a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The job it is one of.
    pub job: String,
    /// Its own name, unique on the machine.
    pub task: String,
    /// What may be done to it.
    pub job_class: JobClass,
    /// Configuration labels.
    pub labels: Labels,
    /// Path of its control group below the root of the hierarchy that accounts CPU time; begins with `/`.
    pub cgroup: String,
}

/// CPI as cycles over instructions.
pub const CPI_OF_COUNTERS: &str = "cycles/instructions";
/// The same where the processor counts no reference cycles: the core's own clock, which is slower or faster.
pub const CPI_OF_CORE_CYCLES: &str = "core cycles/instructions";
/// The stand-in for CPI where there are no counters: CPU seconds per operation of the job's own telemetry.
pub const CPI_OF_OPERATIONS: &str = "cpu time per operation";

/// What one task did in one window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskSample {
    /// Who.
    #[serde(flatten)]
    pub task: Arc<Task>,
    /// When the window began.
    pub window_start_unix_s: i64,
    /// How long it was, s.
    pub window_s: f64,
    /// CPU time, s.
    pub cpu_s: f64,
    /// Reference cycles; a journal of before store version 2 calls them `cycles`.
    #[serde(alias = "cycles")]
    pub reference_cycles: Option<i64>,
    /// Instructions.
    pub instructions: Option<i64>,
    /// Cycles per instruction, or what stands in for it.
    pub cpi: Option<f64>,
    /// What `cpi` is: [`CPI_OF_COUNTERS`] or [`CPI_OF_OPERATIONS`]; None where `cpi` is None.
    pub cpi_source: Option<String>,
    /// Misses of the last-level cache.
    pub llc_misses: Option<i64>,
    /// Context switches.
    pub context_switches: Option<i64>,
    /// Page faults.
    pub page_faults: Option<i64>,
    /// Mean resident memory, bytes.
    pub memory_bytes: Option<f64>,
    /// Bytes moved to and from block devices.
    pub storage_bytes: Option<f64>,
    /// Bytes moved over the task's own network interfaces.
    pub network_bytes: Option<f64>,
    /// CPU seconds by NUMA node.
    pub cpu_s_per_node: Option<Vec<f64>>,
    /// Base pages by NUMA node.
    pub pages_per_node: Option<Vec<i64>>,
    /// CPU-memory locality, at most 1.
    pub numa_score: Option<f64>,
    /// Operations that the job counted.
    pub operations: Option<f64>,
    /// Mean latency that the job measured, s.
    pub latency_mean_s: Option<f64>,
    /// 99th percentile of it, s.
    pub latency_p99_s: Option<f64>,
    /// Busy share of the machine's CPUs in this window.
    pub machine_cpu_ratio: Option<f64>,
}

#[cfg(test)]
impl TaskSample {
    /// A sample that has only CPU time.
    pub(crate) fn bare(task: Task, window_start_unix_s: i64, window_s: f64, cpu_s: f64) -> Self {
        Self {
            task: Arc::new(task),
            window_start_unix_s,
            window_s,
            cpu_s,
            reference_cycles: None,
            instructions: None,
            cpi: None,
            cpi_source: None,
            llc_misses: None,
            context_switches: None,
            page_faults: None,
            memory_bytes: None,
            storage_bytes: None,
            network_bytes: None,
            cpu_s_per_node: None,
            pages_per_node: None,
            numa_score: None,
            operations: None,
            latency_mean_s: None,
            latency_p99_s: None,
            machine_cpu_ratio: None,
        }
    }
}

impl TaskSample {
    /// CPU use, CPU seconds a second.
    pub fn cpu_usage(&self) -> f64 {
        self.cpu_s / self.window_s
    }
}

/// What the whole machine did in one window.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct MachineSample {
    /// When the window began.
    pub window_start_unix_s: i64,
    /// How long it was, s.
    pub window_s: f64,
    /// Logical CPUs online.
    pub threads: i64,
    /// Cores online.
    pub cores: Option<i64>,
    /// Busy time of all logical CPUs, s.
    pub cpu_s: f64,
    /// Time with at least one thread of the core busy, summed over cores, s.
    pub core_busy_s: Option<f64>,
    /// Cycles of the cores' own clocks; a journal of before store version 2 calls them `cycles`.
    #[serde(alias = "cycles")]
    pub core_cycles: Option<i64>,
    /// Reference cycles.
    pub reference_cycles: Option<i64>,
    /// Instructions.
    pub instructions: Option<i64>,
    /// Effective frequency while busy, Hz.
    pub frequency_hz: Option<f64>,
    /// Mean power of the processor packages (RAPL), W.
    pub power_w: Option<f64>,
    /// Power cap, W.
    pub power_cap_w: Option<f64>,
    /// Time throttled, s.
    pub throttled_s: Option<f64>,
    /// Time stolen by the hypervisor, s.
    pub steal_s: Option<f64>,
    /// Memory in use, bytes.
    pub memory_used_bytes: Option<i64>,
    /// Memory bandwidth, bytes/s.
    pub memory_bandwidth_bytes_per_s: Option<f64>,
    /// Time disks were busy, summed over disks, s.
    pub disk_busy_s: Option<f64>,
    /// Read from disks, bytes.
    pub disk_read_bytes: Option<i64>,
    /// Written to disks, bytes.
    pub disk_write_bytes: Option<i64>,
    /// Time CPUs waited for I/O, s.
    pub io_wait_s: Option<f64>,
    /// Received from networks, bytes.
    pub network_receive_bytes: Option<i64>,
    /// Sent to networks, bytes.
    pub network_send_bytes: Option<i64>,
    /// Configuration labels.
    pub labels: Labels,
}

/// What a machine is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Machine {
    /// When it was seen so.
    pub seen_unix_s: i64,
    /// CPU vendor.
    pub vendor: Option<String>,
    /// CPU model.
    pub cpu_model: Option<String>,
    /// Sockets.
    pub sockets: Option<i64>,
    /// Cores.
    pub cores: Option<i64>,
    /// Logical CPUs.
    pub threads: Option<i64>,
    /// NUMA nodes.
    pub numa_nodes: Option<i64>,
    /// Whether a core runs several threads.
    pub smt_on: Option<bool>,
    /// Memory, bytes.
    pub memory_bytes: Option<i64>,
    /// Nominal frequency, Hz.
    pub nominal_frequency_hz: Option<f64>,
    /// Highest frequency, Hz.
    pub max_frequency_hz: Option<f64>,
    /// Most memory bandwidth, bytes/s.
    pub memory_bandwidth_limit_bytes_per_s: Option<f64>,
    /// Most disk throughput, bytes/s.
    pub disk_limit_bytes_per_s: Option<f64>,
    /// Most network throughput, bytes/s.
    pub network_limit_bytes_per_s: Option<f64>,
    /// Distances between nodes, row by row.
    pub node_distances: Option<Vec<f64>>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Configuration labels.
    pub labels: Labels,
}

/// One folded stack of one task in one profiled window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProfileRow {
    /// The job.
    pub job: String,
    /// The task.
    pub task: String,
    /// When the window began.
    pub window_start_unix_s: i64,
    /// How long it was, s.
    pub window_s: f64,
    /// What was sampled.
    pub event: String,
    /// Samples a second of each busy CPU that were asked for.
    pub hz: f64,
    /// Frames from the root, parted by `;`; the first is the command.
    pub stack: String,
    /// Samples.
    pub samples: i64,
    /// What they stand for: cycles, or ns.
    pub weight: f64,
    /// Share of machine-minutes that are profiled.
    pub sampled_ratio: f64,
}

/// A victim of interference, who is thought to cause it, and what was done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Incident {
    /// Its name, unique in the fleet.
    pub incident: String,
    /// The victim's job.
    pub victim_job: String,
    /// The victim.
    pub victim_task: String,
    /// When it began.
    pub start_unix_s: i64,
    /// When it ended; None while it lasts.
    pub end_unix_s: Option<i64>,
    /// CPI above which samples are outliers.
    pub threshold_cpi: f64,
    /// The victim's CPI.
    pub victim_cpi: f64,
    /// Outliers so far.
    pub outliers: i64,
    /// The suspect's job; None where no suspect is strong enough.
    pub antagonist_job: Option<String>,
    /// The suspect.
    pub antagonist_task: Option<String>,
    /// Its class.
    pub antagonist_class: Option<JobClass>,
    /// How well its CPU use explains the victim's CPI, -1 to 1.
    pub correlation: Option<f64>,
    /// `none`, `dry-run` or `cap`.
    pub action: String,
    /// Why that and nothing else.
    pub reason: String,
    /// What it may use, CPU seconds a second.
    pub cap_cpu_ratio: Option<f64>,
    /// When the cap began.
    pub cap_start_unix_s: Option<i64>,
    /// When it ended.
    pub cap_end_unix_s: Option<i64>,
    /// Whether the cap was taken back.
    pub undone: Option<bool>,
    /// The victim's CPI under the cap.
    pub victim_cpi_after: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_one_word_everywhere() {
        for class in JobClass::ALL {
            assert_eq!(JobClass::named(class.name()), Some(class));
            let json = serde_json::to_string(&class).unwrap();
            assert_eq!(json, format!("\"{}\"", class.name()));
        }
        assert_eq!(JobClass::named("batch "), None);
    }
}
