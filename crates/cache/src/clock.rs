//! The store's clock: whole seconds since the program started, from 2 on, so that 0 can mean never and 1 past.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use steelyard_record::monotonic_ns;

const FIRST_S: u64 = 2;

fn start_ns() -> u64 {
    static START: OnceLock<u64> = OnceLock::new();
    *START.get_or_init(monotonic_ns)
}

/// The second it is.
pub fn now_s() -> u32 {
    let start = start_ns();
    (monotonic_ns().saturating_sub(start) / 1_000_000_000 + FIRST_S) as u32
}

/// `CLOCK_REALTIME` at second 0.
pub fn epoch_s() -> i64 {
    let realtime_s = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs());
    realtime_s as i64 - i64::from(now_s())
}
