//! What `steelyard-load` measures against theory. One of these tests runs at a time, and none of the others beside
//! it (they are slow): what another test takes of the CPUs would be measured too.

mod delays;
mod theory;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Waits until no other test of accuracy runs.
fn alone() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}
