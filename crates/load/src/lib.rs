//! Load engine: what `steelyard-load` does.
//!
//! In: settings (target, schedule, key space, phases). Out: a [`steelyard_record::LoadResult`], an HdrHistogram
//! interval log, progress lines. The way of one request: [`schedule`] makes it due (its *intended* time),
//! [`workload`] says what it asks, a [`codec`] turns it into bytes, [`io`] moves them, the codec recognises the
//! answer, and [`latency`] counts response (from intended to answer), service (from send to answer), and of the
//! time from intended to send what the request was queued for want of a free connection, and the rest, which is the
//! generator's own lag.
//!
//! Invariants: intended times never depend on how late anything is; every intended request is counted once, as completed,
//! failed, outstanding or unsent; the same seed gives the same requests. Not here: servers, orchestration,
//! statistics over runs.

#![cfg_attr(
    test,
    allow(clippy::too_many_lines, reason = "tests are lists of cases")
)]

pub mod address;
pub mod capacity;
pub mod codec;
pub mod control;
mod engine;
mod error;
pub mod hosts;
pub mod io;
pub mod latency;
pub mod mix;
pub mod offer;
pub mod progress;
pub mod protocol;
pub mod random;
mod runner;
pub mod schedule;
pub mod settings;
mod sizes;
pub mod slo;
mod summary;
pub mod sweep;
pub mod tally;
pub mod trace;
pub mod verdict;
pub mod workload;

pub use address::{Address, Addresses};
pub use error::LoadError;
pub use protocol::Protocol;
pub use runner::{Surroundings, Watch, Whole, run, run_whole};
pub use settings::{IoChoice, Settings};
pub use sizes::Sizes;
pub use workload::LAWS;
