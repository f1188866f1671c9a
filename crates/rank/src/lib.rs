//! FeedSim's ranking service: a root that ranks a user's feed with the help of leaves, over Thrift and TLS.
//!
//! In: connections of any Thrift client (framed transport, compact protocol, `idl/rank.thrift`). Out: feeds with a
//! checksum and the time in each stage, and statistics. The way of a request: an I/O thread (`net::serve`) cuts frames
//! from a connection and queues the call (`pool`); a worker (`server`) goes through the stages (`root`, over `work` and
//! the generated extractors of `steelyard-features`) and waits in one of them for the leaves, whose connections the
//! fan-out threads own (`net::fanout`); the answer goes back by the I/O thread's mailbox. A `leaf` is the same server
//! with other work and a simulated backend before it.
//!
//! Invariants: the checksum of an answer is a function of the request and the work settings, whatever the ISA, the
//! threads, TLS and compression; what may wait is bounded, and what finds no room is refused at once; no bytes from a
//! client end the service.
//!
//! Not here: command line and process set-up (`steelyard-rank` in crates/steelyard), and load (crates/load).

mod compression;
#[doc(hidden)]
pub mod decode;
mod error;
mod leaf;
mod messages;
mod net;
mod pool;
mod report;
mod root;
mod server;
mod service;
mod tls;
mod work;

pub use compression::Compression;
pub use error::RankError;
pub use leaf::LeafWork;
pub use root::RootWork;
pub use server::{Listener, Settings};
pub use setup::{FanoutSettings, leaf, root};
pub use steelyard_features::available as feature_functions_available;
pub use steelyard_serve::Delay;
pub use steelyard_serve::{Pinning, StatsFile};
pub use tls::{Identity, generated, server as tls_server};

mod setup;
