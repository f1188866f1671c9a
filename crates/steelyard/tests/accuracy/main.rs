//! What `steelyard-load` measures against theory. A binary of its own, in which one test runs at a time: what another
//! test takes of the CPUs would be measured too.

mod delays;
#[path = "../load/support.rs"]
#[allow(dead_code, reason = "each binary of tests uses a part of it")]
mod support;
mod theory;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Waits until no other test of this binary runs.
fn alone() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}
