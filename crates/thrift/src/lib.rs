//! Thrift's compact protocol in frames: what a client and a server put on the wire.
//!
//! In and out: bytes in slices and `Vec<u8>`, never a socket. [`Writer`] appends values, [`Reader`] takes them off,
//! [`message`] holds the envelope of a call with its answer or exception, [`frame`] the length-prefixed transport and
//! how to find frames in pieces cut anywhere. Written after the specification in the Thrift repository
//! (doc/specs/thrift-compact-protocol.md and thrift-rpc.md).
//!
//! Invariants: no input panics; no announced length is believed before its bytes are there, so that memory is bounded
//! by the input; nesting that the reader walks through on its own is bounded by [`DEPTH_MAX`]. Not here: an IDL compiler
//! (a service of a few messages is written by hand, see the example at [`Fields`]), other protocols and transports.

mod error;
pub mod frame;
pub mod message;
mod reader;
mod types;
mod writer;

pub use error::ThriftError;
pub use frame::{FrameBuffer, read_frame, write_frame};
pub use message::{ApplicationException, ExceptionKind, Message, MessageKind};
pub use reader::{Field, Fields, Reader};
pub use types::Type;
pub use writer::Writer;

/// How deep structures and collections may be nested in what is skipped.
pub const DEPTH_MAX: u32 = 64;
