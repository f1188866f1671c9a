//! What a session needs from outside: clocks, counters and samples.

use crate::ipc::{self, Counters};
use crate::mix::{self, LiveCode, Mixer};

/// What a session needs from outside.
pub struct Outside {
    /// The monotonic clock, ns.
    pub clock: Box<dyn Fn() -> u64>,
    /// CPU time that this program has used, ns.
    pub own_cpu_ns: Box<dyn Fn() -> u64>,
    /// The user that this program runs as.
    pub uid: u32,
    /// Cycles and instructions.
    pub counters: Box<dyn Counters>,
    /// Makes the sampling of instructions.
    pub mixer: Box<dyn FnMut(usize) -> Mixer>,
}

impl Outside {
    /// This machine's.
    pub fn live() -> Self {
        Self {
            clock: Box::new(steelyard_record::monotonic_ns),
            own_cpu_ns: Box::new(steelyard_kernel::usage::process_cpu_ns),
            // SAFETY: geteuid has no preconditions.
            uid: unsafe { libc::geteuid() },
            counters: Box::new(ipc::Live::new()),
            mixer: Box::new(|cpus| Mixer::new(mix::live(cpus), Box::new(LiveCode::default()))),
        }
    }
}
