//! Protocols as codecs without I/O: requests to bytes, bytes to answers.
//!
//! A codec owns one connection's protocol state and never sees a socket, so that one event loop serves every
//! protocol, and a codec can wrap another (TLS around any). Invariants: `decode` takes bytes in pieces cut
//! anywhere and gives the same answers; an answer names its request by ticket, or is the answer to the oldest
//! request of the connection; input that is not the protocol is an error, never a panic and never an endless
//! loop.

mod cql;
mod factory;
mod http;
mod lines;
mod memcached;
mod resp;
mod session;
mod steps;
mod thrift;
mod tls;

pub use cql::{Cql, CqlScript};
pub use factory::{Factory, factory, set_up};
pub use http::{Http, HttpScript};
pub use memcached::{MemcachedScript, MemcachedText};
pub use resp::{Resp, RespScript};
pub use steps::Steps;
pub use thrift::{Thrift, ThriftScript};
pub use tls::{Tls, Trust};

use crate::mix::Effect;
use crate::workload::{Request, Workload};

/// How a request went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The key was there.
    Hit,
    /// The key was not there.
    Miss,
    /// The value was stored.
    Stored,
    /// It went well, and the protocol says no more.
    Done,
    /// It went well, and is counted in the class that the word names.
    Class(&'static str),
    /// The server said no; the word names the kind of error.
    Refused(&'static str),
}

impl Outcome {
    /// Whether it can be the answer to an operation of this effect.
    pub fn answers(self, effect: Effect) -> bool {
        match self {
            Self::Hit | Self::Miss => effect == Effect::Read,
            Self::Stored => effect == Effect::Write,
            Self::Done | Self::Class(_) | Self::Refused(_) => true,
        }
    }
}

/// An answer as it came off a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// The ticket of its request, None where answers come in the order of their requests.
    pub ticket: Option<u32>,
    /// How the request went.
    pub outcome: Outcome,
}

impl From<Outcome> for Answer {
    fn from(outcome: Outcome) -> Self {
        Self {
            ticket: None,
            outcome,
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

    /// Whether the server has said that the connection ends after the answers so far.
    fn finished(&self) -> bool {
        false
    }

    /// Called when the server has closed the connection; appends to `answers` what that completes.
    fn end(&mut self, _answers: &mut Vec<Answer>) {}

    /// Appends `request` to `out`.
    fn encode(&mut self, request: &Request, workload: &Workload, out: &mut Vec<u8>);

    /// Takes all of `input`, appends to `answers` what it completes, and to `out` what the protocol itself
    /// has to say.
    fn decode(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        answers: &mut Vec<Answer>,
    ) -> Result<(), ProtocolError>;

    /// Message for the user about why the connection failed, where the kind of the error says
    /// too little.
    fn complaint(&self) -> Option<&str> {
        None
    }
}

impl Codec for Box<dyn Codec> {
    fn open(&mut self, out: &mut Vec<u8>) {
        (**self).open(out);
    }

    fn ready(&self) -> bool {
        (**self).ready()
    }

    fn finished(&self) -> bool {
        (**self).finished()
    }

    fn end(&mut self, answers: &mut Vec<Answer>) {
        (**self).end(answers);
    }

    fn encode(&mut self, request: &Request, workload: &Workload, out: &mut Vec<u8>) {
        (**self).encode(request, workload, out);
    }

    fn decode(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        answers: &mut Vec<Answer>,
    ) -> Result<(), ProtocolError> {
        (**self).decode(input, out, answers)
    }

    fn complaint(&self) -> Option<&str> {
        (**self).complaint()
    }
}
