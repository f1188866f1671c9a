//! The two clocks of the guard, read by its caller and handed in.

use std::fs;
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// One moment on both clocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment {
    /// Seconds of Unix time: what records say. It may be set back or forth.
    pub unix_s: f64,
    /// Seconds since the machine was started, sleep included (`CLOCK_BOOTTIME`): what a cap's length is measured by, so
    /// that a clock set back does not lengthen it.
    pub boot_s: f64,
}

impl Moment {
    /// This moment.
    pub fn now() -> Self {
        Self {
            unix_s: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or(Duration::ZERO)
                .as_secs_f64(),
            boot_s: steelyard_record::clock_ns(libc::CLOCK_BOOTTIME) as f64 / 1e9,
        }
    }

    /// The moment `seconds` later on both clocks.
    pub fn after(self, seconds: f64) -> Self {
        Self {
            unix_s: self.unix_s + seconds,
            boot_s: self.boot_s + seconds,
        }
    }

    /// Unix time in whole seconds.
    pub fn unix_whole_s(self) -> i64 {
        self.unix_s.floor() as i64
    }
}

/// The kernel's name for the time since the machine was started: what was changed under another name is gone.
pub fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?
        .trim()
        .to_owned())
}
