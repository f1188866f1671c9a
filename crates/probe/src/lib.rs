//! The probe: samples /proc and /sys into raw telemetry.
//!
//! In: a root directory that holds `proc` and `sys` (the machine's own, or a recorded tree), a list of
//! sources, and a schedule of ticks. Out: a directory with one Parquet file a source and `telemetry.json`.
//! While recording, each source appends to an Arrow IPC stream, `<source>.arrows`, which is readable up to
//! its last whole batch whatever happens to the probe; at the end the streams become Parquet. Instead of the
//! sources, the threads of one program may be recorded ([`Target`]).
//!
//! Invariants: counters are stored as the kernel gives them, times are `CLOCK_MONOTONIC` nanoseconds taken
//! just before each read, a value that could not be read is null and never zero, and at most a second of
//! ticks waits in memory.
//!
//! [`numa`] reads the same trees for one figure, the CPU-memory locality of tasks.
//!
//! Performance counters are asked for with a plan of events; they come from the running kernel, whatever the root.
//!
//! Not here: rates, differences and shares, which are derived from the files afterwards; profiles.

mod descriptors;
mod error;
mod parquet_file;
mod recorder;
mod registry;
mod schedule;
mod session;
mod source;
mod sources;
mod stream;
mod table;
#[cfg(test)]
mod testing;

pub mod counters;
pub mod describe;
pub mod numa;

pub use descriptors::raise_descriptor_limit;
pub use error::ProbeError;
pub use recorder::{Recorder, RecorderSettings};
pub use registry::{definitions, survey};
pub use session::{Session, SessionEnd, record};
pub use source::{Availability, Definition, Source, Tick, Unavailable};
pub use sources::cgroup::{GroupCounters, GroupFiles};
#[doc(hidden)]
pub use sources::parse_anything;
pub use sources::target::Target;
pub use stream::recover;
pub use table::{Column, Table, Type};

/// The guide's blocks of Rust, compiled and run as they stand there.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/extend.md")]
pub struct ExtendGuide;
