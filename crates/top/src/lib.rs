//! What runs on a machine now: per process, thread or control group its CPU time, waiting, instructions per
//! cycle, page faults, I/O, memory, NUMA locality and the mix of instructions.
//!
//! In: a root with `proc` and `sys` (injected), the kernel's counters and samples where it gives them, and
//! keys. Out: rows of figures, on a terminal, as plain text or as JSON.
//!
//! Stages, each useful to the next only: `sample` reads cumulative counters, `derive` makes rates of two
//! readings, `mix` and `ipc` add counters and samples, `session` joins them to a snapshot, `view`
//! draws it, `app` holds what the user chose, `screen` is the terminal.
//!
//! Invariants: a figure is a number or the reason why there is none, never a zero in place of something
//! unknown; no name from outside reaches a terminal with control characters; the terminal is given back as it
//! was, however the program ends short of SIGKILL.
//!
//! Not here: recording (`probe`), profiles (`profile`), what figures mean (the control plane).

#![cfg_attr(
    test,
    allow(clippy::too_many_lines, reason = "tests are lists of cases")
)]

pub mod app;
pub mod column;
pub mod derive;
mod error;
mod figure;
pub mod format;
pub mod ipc;
pub mod json;
pub mod mix;
pub mod order;
pub mod run;
pub mod sample;
pub mod screen;
pub mod session;
#[cfg(test)]
mod testing;
pub mod text;
pub mod view;

pub use error::TopError;
pub use figure::{Figure, Figures, Reason};
