//! Protocols as codecs without I/O: requests to bytes, bytes to answers.
//!
//! A codec owns one connection's protocol state and never sees a socket, so that one event loop serves every
//! protocol, and a codec can wrap another (TLS around any). Invariants: `decode` takes bytes in pieces cut
//! anywhere and gives the same answers; answers come in the order of their requests (a protocol that
//! multiplexes puts them in order inside its codec); input that is not the protocol is an error, never a
//! panic and never an endless loop.

mod memcached;

pub use memcached::MemcachedText;

use crate::keyspace::Keyspace;
use crate::workload::{Operation, Request};

/// How a request went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The key was there.
    Hit,
    /// The key was not there.
    Miss,
    /// The value was stored.
    Stored,
    /// The server said no; the word names the kind of error.
    Refused(&'static str),
}

impl Outcome {
    /// The operation that this answers, where the answer tells.
    pub fn operation(self) -> Option<Operation> {
        match self {
            Self::Hit | Self::Miss => Some(Operation::Get),
            Self::Stored => Some(Operation::Set),
            Self::Refused(_) => None,
        }
    }
}

/// The server sent what the protocol does not allow; the connection is of no further use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{kind}")]
pub struct ProtocolError {
    /// Kind of error, for counting.
    pub kind: &'static str,
}

/// One connection's protocol.
pub trait Codec: Send {
    /// Called on a fresh connection; appends what the protocol opens with.
    fn open(&mut self, _out: &mut Vec<u8>) {}

    /// Whether requests may be encoded; false until a handshake is over.
    fn ready(&self) -> bool {
        true
    }

    /// Appends `request` to `out`.
    fn encode(&mut self, request: Request, keys: &Keyspace, out: &mut Vec<u8>);

    /// Takes all of `input`, appends to `answers` what it completes, and to `out` what the protocol itself
    /// has to say.
    fn decode(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        answers: &mut Vec<Outcome>,
    ) -> Result<(), ProtocolError>;
}
