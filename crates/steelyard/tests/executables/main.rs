//! The executables of the data plane, run as their users run them. One binary: each links all of the crates.

#![allow(clippy::too_many_lines, reason = "tests are lists of cases")]

mod accuracy;
mod exec;
mod load;
mod probe;
mod profile;
mod rank;
mod tax;
mod usage;
