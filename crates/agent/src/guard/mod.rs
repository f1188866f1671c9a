//! The local CPI2 guard: who suffers on this machine, who is the cause, and what is done about it.
//!
//! In: the task samples of each window, and what is normal (`cpi_specs`), which a thread of its own pulls from the store.
//! Out: incidents; and, only where it was told so, caps on the CPU time of a batch or best-effort task, which are always taken
//! back; an audit log of what was done and why.
//!
//! The journey of one window: `watch` judges each sample against its specification (`spec`), keeps the last minutes of all
//! tasks (`history`), and asks for a victim's suspects by the evidence (`evidence`; by the paper's rule by correlation, `suspects`) whether something is to be done
//! (`decide`). `caps` writes the undoing down (`journal`), changes the quota (`quota`), and takes it back when its time is over,
//! when the agent ends, or, after a kill, by `watchdog` or at the next start (`service`).
//!
//! Invariants: nothing is changed unless [`Action::Cap`] was asked for; only knobs of a CPU quota, and each only after its old
//! value is on the disk; what somebody else wrote meanwhile is left alone; time and the roots of control groups are injected.
//!
//! Not here: how samples are taken, and how specifications are made.
//!
//! Source: Zhang et al., "CPI2: CPU performance isolation for shared compute clusters", EuroSys 2013.

mod audit;
mod caps;
mod clock;
pub mod config;
mod confirm;
mod decide;
mod episodes;
mod evidence;
mod history;
mod incident;
mod journal;
mod pull;
mod quota;
mod sample;
mod seam;
mod service;
mod settings;
mod spec;
mod spec_file;
mod stats;
mod suspects;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod vectors_tests;
mod watch;
mod watchdog;

pub use caps::{Replayed, Undoing};
pub use clock::Moment;
pub use journal::{Ended, Entry, parse as parse_journal_entry};
pub use pull::Known;
pub use quota::{Hierarchy, QuotaError};
pub use seam::Watcher;
pub use service::{Config, GuardError, Service, own_group, undo};
pub use settings::{Action, JobList, Settings};
pub use spec::Specs;
pub use spec_file::decode as decode_specs;
pub use stats::Stats;
pub use suspects::correlation;
pub use watchdog::wait_for_end;
