//! What the servers of the data plane share, whatever they serve.
//!
//! In: the kernel's view of this process and its limits. Out: the acceptor where connections come in and signals end a server,
//! intervals of its statistics and the file that they go to, mailboxes that wake a thread's event loop, a register of threads with their CPU time,
//! delays of a simulated backend, seeded random numbers.
//!
//! Invariants: nothing here knows a protocol; a panic in a registered thread ends the process, because a server that
//! went on without the thread would leave clients waiting for ever.
//!
//! Not here: event loops of connections, protocols, statistics records (`crates/cache`, `crates/rank`).

mod acceptor;
mod delay;
mod limits;
mod mailbox;
mod stats_file;
mod table;
mod threads;

pub use acceptor::{Acceptor, Intervals, Seen};
pub use delay::Delay;
pub use limits::{
    CgroupTooSmall, TooLittleMemory, allow_connections, check_available, check_cgroup,
};
pub use mailbox::Mailbox;
pub use stats_file::{StatsFile, StatsFileError, StatsWriter};
pub use table::Table;
pub use threads::{Pinning, ThreadRow, Threads, give_up};
