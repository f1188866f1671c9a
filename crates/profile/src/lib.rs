//! Profiles: stack samples, taken here or read from other programs' files, as folded stacks and pprof.
//!
//! In: perf_event sampling of processes, control groups, commands or the whole machine (`record`), or a file:
//! perf.data, the text of `perf script`, pprof (`input`). Out: a `Profile` of names and counts, written as
//! folded stacks (`folded`) or pprof (`pprof`).
//!
//! Invariants: memory grows with distinct stacks, not with samples; counts of different events are never
//! added; a name is shown only where it is known to be right; what is missing is reported with its reason.
//!
//! Not here: what a profile means (tax map, differences, flame graphs), which the control plane finds out
//! from the folded file.

mod elf;
mod error;
mod events;
pub mod folded;
pub mod input;
pub mod names;
pub mod perf_data;
pub mod pprof;
mod profile;
mod python;
pub mod record;
mod sample;
pub mod script;
pub mod stacks;
mod symbols;
pub mod times;
pub mod unwind;

pub use error::ProfileError;
pub use input::{Format, Wanted};
pub use profile::{Head, Profile, Weight, WeightUnit};
pub use symbols::{Function, Listed, list_functions};
