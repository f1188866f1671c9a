//! Microbenchmarks of the datacenter tax: what a fleet's machines do beside the application.
//!
//! In: settings (time, cores, seed, which benchmarks). Out: a `TaxResult`: for every benchmark the time per
//! operation with an interval, on one core and on all cores at once, and geometric means over them.
//!
//! Invariants: inputs depend on the seed only; every benchmark runs once in every round, in an order that is
//! drawn anew, so that drift hits all alike; the number of operations in a batch is chosen once; a batch that
//! something disturbed is counted and kept; a result whose interval is too wide says so.
//!
//! Not here: scores against another machine (the control plane's `decide`), and application benchmarks.

mod batch;
mod benchmark;
mod benchmarks;
mod error;
mod inputs;
mod progress;
mod runner;
mod summary;
mod verdict;
mod workers;

pub use benchmark::{Category, Microbenchmark, Prepared, Setup, Worker};
pub use benchmarks::{all, select};
pub use error::TaxError;
pub use progress::Progress;
pub use runner::{Cores, Settings, Surroundings, run};
pub use workers::Pin;
