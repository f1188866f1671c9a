//! The guard's figures of itself, for its machine's metrics.

/// Counts since the start, and what is in force now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Samples taken.
    pub samples: u64,
    /// Samples that cannot be true, came twice or too late, or were too many.
    pub samples_rejected: u64,
    /// Samples of jobs without a specification for their source of CPI.
    pub samples_without_spec: u64,
    /// Samples without a CPI, or with too little usage for it to mean anything.
    pub samples_uncounted: u64,
    /// Outliers.
    pub outliers: u64,
    /// Incidents.
    pub incidents: u64,
    /// Caps that would have been made.
    pub dry_runs: u64,
    /// Caps made.
    pub caps: u64,
    /// Caps that could not be made.
    pub cap_failures: u64,
    /// Caps that ended.
    pub caps_ended: u64,
    /// Caps that were not undone because another program had changed the quota.
    pub caps_not_undone: u64,
    /// Times the clock went back by more than the outlier window.
    pub clock_steps: u64,
    /// Caps in force.
    pub caps_active: u64,
    /// Incidents that are not over.
    pub incidents_open: u64,
}

impl Stats {
    /// Each figure with its name for Prometheus, whether it only grows, and what it counts.
    pub fn metrics(&self) -> [(&'static str, bool, &'static str, u64); 14] {
        [
            ("samples_total", true, "Task samples judged.", self.samples),
            (
                "samples_rejected_total",
                true,
                "Task samples rejected: implausible, duplicate, late or beyond the limit.",
                self.samples_rejected,
            ),
            (
                "samples_without_spec_total",
                true,
                "Task samples of jobs without a CPI specification.",
                self.samples_without_spec,
            ),
            (
                "samples_uncounted_total",
                true,
                "Task samples without a CPI or with too little CPU usage.",
                self.samples_uncounted,
            ),
            ("outliers_total", true, "CPI outliers.", self.outliers),
            ("incidents_total", true, "Incidents.", self.incidents),
            (
                "dry_runs_total",
                true,
                "Caps that a dry run would have applied.",
                self.dry_runs,
            ),
            ("caps_total", true, "Caps applied.", self.caps),
            (
                "cap_failures_total",
                true,
                "Caps that could not be applied.",
                self.cap_failures,
            ),
            (
                "caps_ended_total",
                true,
                "Caps that ended.",
                self.caps_ended,
            ),
            (
                "caps_not_undone_total",
                true,
                "Caps not undone because the quota had been changed by another program.",
                self.caps_not_undone,
            ),
            (
                "clock_steps_total",
                true,
                "Backward steps of the wall clock.",
                self.clock_steps,
            ),
            ("caps_active", false, "Caps in force.", self.caps_active),
            (
                "incidents_open",
                false,
                "Incidents in progress.",
                self.incidents_open,
            ),
        ]
    }
}
