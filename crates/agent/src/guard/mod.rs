//! The local CPI2 guard: who suffers on this machine, who is the cause, and what is done about it.
//!
//! In: the task samples of each window, and what is normal (`cpi_specs`), which a thread of its own pulls from the store.
//! Out: incidents; and, only where this is enabled, caps on the CPU time of a batch or best-effort task, which are always taken
//! back; an audit log of what was done and why.
//!
//! The journey of one window: `watch` judges each sample against its specification (`specs`), keeps the last minutes of all
//! tasks, and asks whether something is to be done about a victim's suspects, by the evidence or, by the paper's rule, by correlation
//! (`detection`). `capping` writes the undoing down, changes the quota, and takes it back when its time is over, when the agent
//! ends, or, after a kill, by its watchdog or at the next start (`service`).
//!
//! Invariants: nothing is changed unless [`Action::Cap`] was asked for; only knobs of a CPU quota, and each only after its old
//! value is on the disk; what another program wrote meanwhile is left alone; time and the roots of control groups are injected.
//!
//! Not here: how samples are taken, and how specifications are made.
//!
//! Source: Zhang et al., "CPI2: CPU performance isolation for shared compute clusters", EuroSys 2013.

mod capping;
mod clock;
pub mod config;
mod detection;
mod incident;
mod service;
mod settings;
mod specs;
mod stats;
#[cfg(test)]
mod testing;
mod watch;
mod watcher;

pub use capping::caps::{Replayed, Undoing};
pub use capping::journal::{Ended, Entry, parse as parse_journal_entry};
pub use capping::quota::{Hierarchy, QuotaError};
pub use capping::watchdog::wait_for_end;
pub use clock::Moment;
pub use detection::suspects::correlation;
pub use service::{Config, GuardError, Service, own_group, undo};
pub use settings::{Action, JobList, Settings};
pub use specs::file::decode as decode_specs;
pub use specs::pull::Known;
pub use specs::spec::Specs;
pub use stats::Stats;
pub use watcher::Watcher;
