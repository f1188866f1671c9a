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
            own_cpu_ns: Box::new(own_cpu_ns),
            // SAFETY: geteuid has no preconditions.
            uid: unsafe { libc::geteuid() },
            counters: Box::new(ipc::Live::new()),
            mixer: Box::new(|cpus| Mixer::new(mix::live(cpus), Box::new(LiveCode::default()))),
        }
    }
}

/// CPU time of this process so far, ns.
fn own_cpu_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
