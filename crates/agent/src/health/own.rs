//! CPU time and memory of the agent itself.

use steelyard_kernel::usage::{Usage, rss_bytes};

/// CPU time and memory of this process and its children that have ended.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Own {
    /// CPU time, s.
    pub cpu_s: f64,
    /// Resident memory of this process, bytes; None where /proc is not mounted.
    pub resident_bytes: Option<u64>,
}

/// What it used so far.
pub fn own() -> Own {
    Own {
        cpu_s: (Usage::of_process().cpu_ns() + Usage::of_children().cpu_ns()) as f64 / 1e9,
        resident_bytes: rss_bytes(),
    }
}
