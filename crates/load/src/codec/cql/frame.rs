//! CQL's frames and the notations of their bodies (cassandra.apache.org, native_protocol_v4.spec).
//!
//! Frames are found in pieces cut anywhere. Of a body only as much is kept as a load wants to know: rows are counted by
//! what stands before them. Invariants: no announced length is believed before its bytes are there; reading past the end
//! is an error, never a panic.

use crate::codec::ProtocolError;

/// Version of the protocol in a request, and in an answer.
pub const REQUEST: u8 = 0x04;
const ANSWER: u8 = 0x84;
const HEADER_BYTES: usize = 9;
/// Largest body, as the specification says.
const BODY_BYTES_MAX: usize = 256 << 20;
/// How much of a body is kept.
const KEPT_BYTES: usize = 1 << 20;

/// What a frame is.
pub mod opcode {
    pub const ERROR: u8 = 0x00;
    pub const STARTUP: u8 = 0x01;
    pub const READY: u8 = 0x02;
    pub const AUTHENTICATE: u8 = 0x03;
    pub const OPTIONS: u8 = 0x05;
    pub const SUPPORTED: u8 = 0x06;
    pub const QUERY: u8 = 0x07;
    pub const RESULT: u8 = 0x08;
    pub const PREPARE: u8 = 0x09;
    pub const EXECUTE: u8 = 0x0a;
    pub const EVENT: u8 = 0x0c;
    pub const AUTH_CHALLENGE: u8 = 0x0e;
    pub const AUTH_RESPONSE: u8 = 0x0f;
    pub const AUTH_SUCCESS: u8 = 0x10;
}

const COMPRESSED: u8 = 0x01;
const TRACED: u8 = 0x02;
const PAYLOAD: u8 = 0x04;
const WARNED: u8 = 0x08;

pub const GARBAGE: ProtocolError = ProtocolError { kind: "garbage" };

/// An answer's frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Which request it answers; -1 where it answers none.
    pub stream: i16,
    /// What it is.
    pub opcode: u8,
    /// Its body, without what stands before it on behalf of flags; the end of a long one is missing.
    pub body: &'a [u8],
}

#[derive(Debug, Clone, Copy)]
struct Header {
    flags: u8,
    stream: i16,
    opcode: u8,
    length: usize,
}

impl Header {
    fn read(bytes: &[u8; HEADER_BYTES]) -> Result<Self, ProtocolError> {
        let [version, flags, high, low, opcode, length @ ..] = *bytes;
        // A server that does not speak this version says so in one of its own.
        if version != ANSWER && !(version & 0x80 != 0 && opcode == opcode::ERROR) {
            return Err(GARBAGE);
        }
        let length = u32::from_be_bytes(length) as usize;
        if length > BODY_BYTES_MAX || flags & COMPRESSED != 0 {
            return Err(GARBAGE);
        }
        Ok(Self {
            flags,
            stream: i16::from_be_bytes([high, low]),
            opcode,
            length,
        })
    }

    fn frame(self, body: &[u8]) -> Result<Frame<'_>, ProtocolError> {
        let mut body = Body(body);
        if self.flags & TRACED != 0 {
            body.take(16)?;
        }
        if self.flags & WARNED != 0 {
            for _ in 0..body.short()? {
                body.string()?;
            }
        }
        if self.flags & PAYLOAD != 0 {
            for _ in 0..body.short()? {
                body.string()?;
                body.bytes()?;
            }
        }
        Ok(Frame {
            stream: self.stream,
            opcode: self.opcode,
            body: body.0,
        })
    }
}

/// Finds frames in pieces cut anywhere.
#[derive(Debug, Default)]
pub struct Frames {
    /// The beginning of a frame, its header included, whose end has not come.
    partial: Vec<u8>,
    /// Bytes of its body that are not kept and still to come.
    passing: usize,
}

impl Frames {
    /// Takes all of `input` and gives every frame it completes to `on_frame`, in order.
    pub fn take(
        &mut self,
        input: &[u8],
        mut on_frame: impl FnMut(Frame<'_>) -> Result<(), ProtocolError>,
    ) -> Result<(), ProtocolError> {
        let mut rest = input;
        while !rest.is_empty() {
            if self.partial.is_empty()
                && let Some((header, after)) = rest.split_first_chunk::<HEADER_BYTES>()
            {
                let header = Header::read(header)?;
                if let Some((body, after)) = after.split_at_checked(header.length) {
                    on_frame(header.frame(&body[..body.len().min(KEPT_BYTES)])?)?;
                    rest = after;
                    continue;
                }
            }
            rest = self.add(rest)?;
            if let Some((header, body)) = self.partial.split_first_chunk::<HEADER_BYTES>() {
                let header = Header::read(header)?;
                if self.passing == 0 && body.len() == header.length.min(KEPT_BYTES) {
                    on_frame(header.frame(body)?)?;
                    self.partial.clear();
                }
            }
        }
        Ok(())
    }

    #[cfg(test)]
    pub fn kept_bytes(&self) -> usize {
        self.partial.capacity()
    }

    /// Takes what the frame under way lacks from the front of `input`; returns the rest of it.
    fn add<'b>(&mut self, input: &'b [u8]) -> Result<&'b [u8], ProtocolError> {
        let Some((header, body)) = self.partial.split_first_chunk::<HEADER_BYTES>() else {
            let take = input.len().min(HEADER_BYTES - self.partial.len());
            self.partial.extend_from_slice(&input[..take]);
            if let Some((header, _)) = self.partial.split_first_chunk::<HEADER_BYTES>() {
                self.passing = Header::read(header)?.length.saturating_sub(KEPT_BYTES);
            }
            return Ok(&input[take..]);
        };
        let lacking = Header::read(header)?.length.min(KEPT_BYTES) - body.len();
        let take = input.len().min(lacking);
        self.partial.extend_from_slice(&input[..take]);
        let rest = &input[take..];
        let pass = rest.len().min(self.passing);
        self.passing -= pass;
        Ok(&rest[pass..])
    }
}

/// What is left to read of a body.
#[derive(Debug, Clone, Copy)]
pub struct Body<'a>(pub &'a [u8]);

impl<'a> Body<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], ProtocolError> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or(GARBAGE)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ProtocolError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(GARBAGE)?;
        self.0 = rest;
        Ok(*taken)
    }

    /// A [short].
    pub fn short(&mut self) -> Result<u16, ProtocolError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    /// An [int].
    pub fn int(&mut self) -> Result<i32, ProtocolError> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    /// A [string]; what is not UTF-8 in it is replaced.
    pub fn string(&mut self) -> Result<std::borrow::Cow<'a, str>, ProtocolError> {
        Ok(String::from_utf8_lossy(self.short_bytes()?))
    }

    /// [short bytes].
    pub fn short_bytes(&mut self) -> Result<&'a [u8], ProtocolError> {
        let length = self.short()?;
        self.take(usize::from(length))
    }

    /// [bytes]: None is null.
    pub fn bytes(&mut self) -> Result<Option<&'a [u8]>, ProtocolError> {
        match usize::try_from(self.int()?) {
            Ok(length) => self.take(length).map(Some),
            Err(_) => Ok(None),
        }
    }
}

/// Appends a request's frame whose body `body` appends.
#[inline]
pub fn write_frame(out: &mut Vec<u8>, stream: u16, opcode: u8, body: impl FnOnce(&mut Vec<u8>)) {
    let [high, low] = stream.to_be_bytes();
    let start = out.len();
    out.extend_from_slice(&[REQUEST, 0, high, low, opcode, 0, 0, 0, 0]);
    body(out);
    let length = (out.len() - start - HEADER_BYTES) as u32;
    out[start + 5..start + HEADER_BYTES].copy_from_slice(&length.to_be_bytes());
}

/// Appends a [string].
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u16).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Appends a [long string].
pub fn write_long_string(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u32).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// The word by which an error of this code is counted.
pub fn error_kind(code: i32) -> &'static str {
    match code {
        0x0000 => "server-error",
        0x000a => "protocol-error",
        0x0100 => "bad-credentials",
        0x1000 => "unavailable",
        0x1001 => "overloaded",
        0x1002 => "bootstrapping",
        0x1003 => "truncate-error",
        0x1100 => "write-timeout",
        0x1200 => "read-timeout",
        0x1300 => "read-failure",
        0x1400 => "function-failure",
        0x1500 => "write-failure",
        0x2000 => "syntax-error",
        0x2100 => "unauthorized",
        0x2200 => "invalid",
        0x2300 => "config-error",
        0x2400 => "already-exists",
        UNPREPARED => "unprepared",
        _ => "unknown-error",
    }
}

/// The server has forgotten a prepared statement.
pub const UNPREPARED: i32 = 0x2500;
