//! One batch: a worker's operations between two readings of the clocks.
//!
//! The wall clock gives the time per operation. The thread's CPU clock and its count of involuntary context switches
//! show whether something else had the CPU meanwhile; such a batch is counted, never dropped.

use steelyard_kernel::usage::{Usage, thread_cpu_ns};

use crate::benchmark::Worker;

/// Below this share of CPU time in wall time a batch counts as disturbed. Reading four clocks costs
/// under a microsecond, so that a batch of a millisecond that had its CPU to itself stays above 0.99.
pub const CPU_RATIO_FLOOR: f64 = 0.98;

/// What one batch took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// Operations done.
    pub operations: u64,
    /// `CLOCK_MONOTONIC` at its start, ns.
    pub begin_ns: u64,
    /// Wall time, ns.
    pub wall_ns: u64,
    /// CPU time of the thread, ns.
    pub cpu_ns: u64,
    /// How often the thread was made to leave the CPU.
    pub preemptions: u64,
    /// What the worker computed.
    pub checksum: u64,
}

impl Batch {
    /// Time per operation, ns.
    pub fn time_ns(&self) -> f64 {
        self.wall_ns as f64 / self.operations as f64
    }

    /// Operations per second.
    pub fn rate_per_s(&self) -> f64 {
        self.operations as f64 * 1e9 / self.wall_ns as f64
    }

    /// Whether something else had the CPU meanwhile. Of a worker that `waits` nobody can tell: it leaves the CPU on its
    /// own account, and its partners take it from it (wake-up preemption), which is what is measured.
    pub fn disturbed(&self, waits: bool) -> bool {
        !waits
            && (self.preemptions > 0
                || (self.cpu_ns as f64) < CPU_RATIO_FLOOR * self.wall_ns as f64)
    }
}

/// Runs `worker` once and reads the clocks around it.
pub fn measure(worker: &mut dyn Worker, operations: u64) -> Batch {
    let preempted = Usage::of_thread().preemptions;
    let cpu = thread_cpu_ns();
    let begin_ns = steelyard_record::monotonic_ns();
    let checksum = std::hint::black_box(worker.run(std::hint::black_box(operations)));
    let end_ns = steelyard_record::monotonic_ns();
    let cpu_ns = thread_cpu_ns() - cpu;
    Batch {
        operations,
        begin_ns,
        // A batch of no time at all cannot be: it would make an infinite rate.
        wall_ns: (end_ns - begin_ns).max(1),
        cpu_ns,
        preemptions: Usage::of_thread().preemptions - preempted,
        checksum,
    }
}
