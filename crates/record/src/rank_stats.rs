use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::version::{Kind, Record};

/// Cumulative counters of a process of the ranking service at one moment: one line of `rank-stats.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankStats {
    /// Schema version and kind.
    #[serde(flatten)]
    pub kind: Kind,
    /// When the counters were read.
    pub monotonic_ns: u64,
    /// `root` or `leaf`.
    pub role: String,
    /// Which of several processes of this role it is, from 0.
    pub instance: u32,
    /// How many there are.
    pub instances: u32,
    /// What a request is made of: the settings that the checksum depends on, by the name of their flag.
    pub work: BTreeMap<String, String>,
    /// Machine code of the hot feature extractors, bytes; null for a leaf, which has none.
    pub feature_code_bytes: Option<u64>,
    /// Requests answered with a result.
    pub requests: u64,
    /// Requests answered with an exception, by its kind.
    pub refused_by_kind: BTreeMap<String, u64>,
    /// Sum of the checksums of all results, modulo 2^64, in 16 hexadecimal digits.
    pub checksum_sum: String,
    /// Time from a request's arrival until its answer was handed to the I/O thread, summed.
    pub service_ns_total: u64,
    /// Time in each stage of the requests answered with a result, in the order of the stages.
    pub stages: Vec<RankStage>,
    /// Requests waiting for a worker now.
    pub queue_depth: u64,
    /// The most that ever waited.
    pub queue_depth_max: u64,
    /// Requests in the simulated backend now; null where there is none.
    pub backend_depth: Option<u64>,
    /// Open connections now.
    pub connections: u64,
    /// Connections ever accepted.
    pub connections_total: u64,
    /// Connections closed because what they sent was no call.
    pub closed_malformed: u64,
    /// Connections closed because they stood still in the middle of something.
    pub closed_stalled: u64,
    /// Bytes received from clients.
    pub bytes_read: u64,
    /// Bytes sent to clients.
    pub bytes_written: u64,
    /// One row a thread.
    pub threads: Vec<RankThread>,
    /// User CPU time of the process.
    pub cpu_user_ns: u64,
    /// System CPU time of the process.
    pub cpu_system_ns: u64,
    /// Resident set size, null when it could not be read.
    pub rss_bytes: Option<u64>,
}

/// Time that requests spent in one stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankStage {
    /// Name, such as `features`.
    pub name: String,
    /// By the clock, summed over requests.
    pub wall_ns_total: u64,
    /// CPU time of the thread that worked on the request, summed over requests.
    pub cpu_ns_total: u64,
}

/// What one thread of the service did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankThread {
    /// Name, such as `worker-0`.
    pub name: String,
    /// `io`, `worker`, `fan-out` or `backend`.
    pub kind: String,
    /// Requests it worked on; null for threads that pass them on.
    pub requests: Option<u64>,
    /// Its user CPU time, null when it could not be read.
    pub cpu_user_ns: Option<u64>,
    /// Its system CPU time, null when it could not be read.
    pub cpu_system_ns: Option<u64>,
}

impl Record for RankStats {
    const KIND: &'static str = "rank_stats";
}
