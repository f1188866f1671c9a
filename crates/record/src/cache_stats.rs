use serde::{Deserialize, Serialize};

use crate::version::{Kind, Record};

/// Cumulative counters of a cache server at one moment: one line of `cache-stats.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CacheStats {
    /// Schema version and kind.
    #[serde(flatten)]
    pub kind: Kind,
    /// When the counters were read.
    pub monotonic_ns: u64,
    /// Commands answered.
    pub requests: u64,
    /// Keys of get commands that a fast thread answered from the cache.
    pub fast_requests: u64,
    /// Keys of get commands that went through a slow thread.
    pub slow_requests: u64,
    /// Keys found, as memcached counts them.
    pub get_hits: u64,
    /// Keys not found, as memcached counts them.
    pub get_misses: u64,
    /// Storage commands.
    pub sets: u64,
    /// Items that were removed to make room.
    pub evictions: u64,
    /// Items stored now.
    pub items: u64,
    /// Bytes of keys, values and their bookkeeping stored now.
    pub stored_bytes: u64,
    /// The bound on `stored_bytes`.
    pub memory_limit_bytes: u64,
    /// Open connections now.
    pub connections: u64,
    /// Bytes received from clients.
    pub bytes_read: u64,
    /// Bytes sent to clients.
    pub bytes_written: u64,
    /// Commands answered with an error line.
    pub errors: u64,
    /// Misses waiting for a slow thread now.
    pub slow_queue_depth: u64,
    /// The most that ever waited.
    pub slow_queue_depth_max: u64,
    /// Time misses spent waiting for a slow thread, summed.
    pub slow_wait_ns_total: u64,
    /// The longest such wait.
    pub slow_wait_ns_max: u64,
    /// Time slow threads spent on misses, summed.
    pub slow_service_ns_total: u64,
    /// One row a thread.
    pub threads: Vec<CacheThread>,
    /// User CPU time of the process.
    pub cpu_user_ns: u64,
    /// System CPU time of the process.
    pub cpu_system_ns: u64,
    /// Resident set size, null when it could not be read.
    pub rss_bytes: Option<u64>,
}

/// What one thread of the server did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CacheThread {
    /// Name, such as `fast-0`.
    pub name: String,
    /// `fast` or `slow`.
    pub kind: String,
    /// Requests it answered.
    pub requests: u64,
    /// Its user CPU time, null when it could not be read.
    pub cpu_user_ns: Option<u64>,
    /// Its system CPU time, null when it could not be read.
    pub cpu_system_ns: Option<u64>,
}

impl Record for CacheStats {
    const KIND: &'static str = "cache_stats";
}
