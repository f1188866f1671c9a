//! The agent: what each machine of a fleet runs.
//!
//! In: the machine's control groups, its counters, a configuration, and jobs' own telemetry. Out: rows of the fleet's
//! store (`machines`, `machine_samples`, `task_samples`, `profiles`, `incidents`) in Parquet files, uploaded to a
//! folder or an S3-compatible store; figures for Prometheus on loopback.
//!
//! Invariants: a row reaches the store once, whenever the agent or the store goes away; what had to be given up is
//! counted; missing is null, never zero; CPU, memory and disk of the agent itself are bounded and reported.
//!
//! Not here: queries over the store (the control plane's `fleet`), what a machine's counters are called (`probe`), how
//! stacks become names (`profile`).

#![cfg_attr(
    test,
    allow(clippy::too_many_lines, reason = "tests are lists of cases")
)]

pub mod agent;
mod budget;
pub mod check;
pub mod config;
pub mod disk;
pub mod guard;
pub mod health;
pub mod identity;
pub mod private;
pub mod profiling;
pub mod rows;
pub mod run;
pub mod sample;
pub mod spool;
mod starts;
pub mod store;
pub mod table;
#[cfg(test)]
mod testing;
