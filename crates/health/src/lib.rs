//! A quick health check of one machine: memory, caches, disk and loopback network, in a couple of minutes.
//!
//! In: settings and the root under which /proc and /sys are read. Out: a `HealthResult`, every value the
//! median of repeats with an interval. Invariants: a result is checked before it is reported (sums of what was
//! read, contents of what was written, cycles that close); threads are pinned; a part that cannot be measured
//! here is null with its reason; the machine is left as it was found: memory is unmapped, the file that the
//! disk is measured with has no name and ends with the process.
//!
//! Not here: judging the values (`steelyard health` compares them with earlier ones), stress tests.

#![cfg_attr(
    test,
    allow(clippy::too_many_lines, reason = "tests are lists of cases")
)]

mod bandwidth;
mod conditions;
mod context;
mod core_to_core;
mod disk;
mod error;
mod estimate;
mod latency;
mod loopback;
mod pages;
mod plan;
mod run;
#[cfg(test)]
mod testing;
mod topology;

pub use context::{Mode, Settings};
pub use disk::parse_fio;
pub use error::HealthError;
pub use estimate::estimate;
pub use plan::plan;
pub use run::{PARTS, Surroundings, run};
pub use topology::{Node, Topology};
