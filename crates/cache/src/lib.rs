//! TaoBench's read-through cache, behind the memcached text protocol.
//!
//! In: connections of any memcached client. Out: answers, and statistics. The way of a request: a fast thread
//! (`server`) reads bytes, a `session` cuts them into commands (`protocol`), the `store` answers hits straight
//! into the connection's `output`; in read-through mode a miss goes to the `slow` queue, where a slow thread
//! waits out the backend's `delay`, makes the `object`, stores it and posts the answer to the fast thread's
//! `mailbox`.
//!
//! Invariants: answers leave in the order of their requests and do not depend on how bytes were cut; stored
//! bytes never exceed the limit; no bytes from a client make the server fail.
//!
//! Not here: command line and process set-up (`steelyard-cache` in crates/steelyard), and load (crates/load).

mod clock;
#[doc(hidden)]
pub mod converse;
mod counters;
mod error;
mod mailbox;
mod object;
mod output;
mod protocol;
mod report;
mod server;
mod session;
mod sizes;
mod slow;
mod store;

pub use error::CacheError;
pub use object::{Objects, unpack};
pub use server::{Io, ReadThrough, Server, Settings};
pub use sizes::Sizes;
pub use steelyard_serve::Delay;
pub use steelyard_serve::{Pinning, StatsFile};
