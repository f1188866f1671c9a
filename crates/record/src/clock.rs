use serde::{Deserialize, Serialize};

/// One moment on both clocks, read together, so that a monotonic time can be converted to a date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// `CLOCK_MONOTONIC`, ns.
    pub monotonic_ns: u64,
    /// `CLOCK_REALTIME`, ns since 1970-01-01T00:00:00Z.
    pub realtime_ns: u64,
}

/// A clock of clock_gettime(2) now, ns.
pub fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for one timespec.
    let status = unsafe { libc::clock_gettime(clock, &mut time) };
    assert_eq!(
        status, 0,
        "clock_gettime cannot fail for a clock that exists"
    );
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// `CLOCK_MONOTONIC` now, ns.
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

impl Clock {
    /// Both clocks now.
    pub fn now() -> Self {
        Self {
            monotonic_ns: monotonic_ns(),
            realtime_ns: clock_ns(libc::CLOCK_REALTIME),
        }
    }
}
