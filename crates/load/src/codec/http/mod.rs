//! HTTP/1.1 (RFC 9110, RFC 9112): requests from templates, answers counted by the class of their status.
//!
//! Bodies are followed through without keeping them: by Content-Length, in chunks, or until the server closes.
//! Redirects are not followed. A server may end a connection after an answer; it says so, and that is no error. Forms that
//! servers send and the RFCs have abolished are read as curl reads them: continued header lines, space before a colon,
//! `http/1.1`, a bare line feed. What is refused has a kind of its own that names the cause. Not here: cookies, content
//! codings, upgrades.

mod script;

use std::collections::VecDeque;
use std::sync::Arc;

pub use script::HttpScript;

use super::{Answer, Codec, Outcome, ProtocolError};
use crate::workload::{Request, Workload, write_decimal};

/// Most bytes of an answer's head; curl's bound.
const HEAD_BYTES_MAX: usize = 300 << 10;
/// Longest line with a chunk's size.
const CHUNK_LINE_BYTES_MAX: usize = 4 << 10;

/// The answer does not begin as HTTP does.
const GARBAGE: ProtocolError = ProtocolError { kind: "garbage" };
/// HTTP, but not 1.x: the server speaks another version on this port.
const VERSION: ProtocolError = ProtocolError {
    kind: "http-version",
};
/// A status line without a status.
const STATUS_LINE: ProtocolError = ProtocolError {
    kind: "http-status-line",
};
/// A header line without a name or a colon.
const HEADER_LINE: ProtocolError = ProtocolError {
    kind: "http-header-line",
};
/// More than [`HEAD_BYTES_MAX`] in a head or in trailers.
const HEAD_LENGTH: ProtocolError = ProtocolError {
    kind: "http-head-too-long",
};
/// A Content-Length that is no number, or two that differ.
const CONTENT_LENGTH: ProtocolError = ProtocolError {
    kind: "http-content-length",
};
/// A chunk whose size or end is none.
const CHUNK: ProtocolError = ProtocolError { kind: "http-chunk" };
/// An upgrade to a protocol that was not asked for.
const UPGRADE: ProtocolError = ProtocolError {
    kind: "http-upgrade",
};
/// Bytes after the last answer of a connection.
const AFTER_END: ProtocolError = ProtocolError {
    kind: "http-bytes-after-end",
};

/// Where in an answer a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Before or in the status line.
    Status,
    /// In the headers.
    Headers,
    /// This many bytes of the body are still to come.
    Body(u64),
    /// In the line with a chunk's size.
    ChunkSize,
    /// This many bytes of a chunk, its line end included, are still to come.
    Chunk(u64),
    /// In the lines after the last chunk.
    Trailers,
    /// In a body that ends with the connection.
    UntilClose,
    /// After the last answer of the connection.
    Finished,
}

/// What the head under way has said.
#[derive(Debug, Clone, Copy, Default)]
struct Head {
    status: u16,
    length: Option<u64>,
    chunked: bool,
    /// A transfer coding other than chunked comes last: the body ends with the connection.
    coded: bool,
    close: bool,
    keep_alive: bool,
    is_1_0: bool,
    has_headers: bool,
    bytes: usize,
}

/// Headers that say how a body or a connection ends.
const HELD: [&[u8]; 3] = [b"content-length", b"transfer-encoding", b"connection"];

impl Head {
    /// Takes one of [`HELD`].
    fn take(&mut self, line: &[u8]) -> Result<(), ProtocolError> {
        let colon = memchr::memchr(b':', line).ok_or(HEADER_LINE)?;
        let (name, value) = (
            line[..colon].trim_ascii_end(),
            line[colon + 1..].trim_ascii(),
        );
        let mut words = value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
        if name.eq_ignore_ascii_case(b"content-length") {
            // RFC 9110, 8.6: the same number several times is that number.
            for word in words {
                let digits = word.strip_prefix(b"+").unwrap_or(word);
                let length = decimal(digits).ok_or(CONTENT_LENGTH)?;
                if self.length.is_some_and(|known| known != length) {
                    return Err(CONTENT_LENGTH);
                }
                self.length = Some(length);
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            let last = words.next_back().unwrap_or_default();
            self.chunked = last.eq_ignore_ascii_case(b"chunked");
            self.coded = !self.chunked;
        } else {
            for option in words {
                self.close |= option.eq_ignore_ascii_case(b"close");
                self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
            }
        }
        Ok(())
    }
}

/// A connection that speaks HTTP/1.1.
#[derive(Debug)]
pub struct Http {
    script: Arc<HttpScript>,
    /// Whether each request without an answer is a HEAD; empty where the script has none.
    heads: VecDeque<bool>,
    place: Place,
    head: Head,
    /// The beginning of a line whose end has not come yet.
    line: Vec<u8>,
    /// A header that says how the body or the connection ends, until the next line shows that it is whole.
    held: Vec<u8>,
}

impl Default for Http {
    fn default() -> Self {
        Self::new(Arc::default())
    }
}

impl Http {
    /// A fresh connection that sends what `script` holds.
    pub fn new(script: Arc<HttpScript>) -> Self {
        Self {
            script,
            heads: VecDeque::new(),
            place: Place::Status,
            head: Head::default(),
            line: Vec::new(),
            held: Vec::new(),
        }
    }

    /// Takes one line without its line end.
    fn take_line(&mut self, line: &[u8], answers: &mut Vec<Answer>) -> Result<(), ProtocolError> {
        match self.place {
            Place::Status => {
                if line.is_empty() {
                    // Some servers send a line end after a body that its length does not count.
                    self.head.bytes = 0;
                    return Ok(());
                }
                (self.head.status, self.head.is_1_0) = status(line)?;
                self.place = Place::Headers;
            }
            Place::Headers if line.is_empty() => {
                self.take_held()?;
                self.end_head(answers)?;
            }
            Place::Headers => self.take_header(line)?,
            Place::ChunkSize => {
                self.place = match chunk_size(line).ok_or(CHUNK)? {
                    0 => Place::Trailers,
                    bytes => Place::Chunk(bytes.checked_add(2).ok_or(CHUNK)?),
                };
            }
            Place::Trailers if line.is_empty() => self.end_answer(answers),
            Place::Trailers => {}
            Place::Body(_) | Place::Chunk(_) | Place::UntilClose | Place::Finished => {
                return Err(GARBAGE);
            }
        }
        Ok(())
    }

    #[inline]
    fn take_header(&mut self, line: &[u8]) -> Result<(), ProtocolError> {
        if matches!(line[0], b' ' | b'\t') {
            // It continues the header before it, which RFC 9112 has abolished and servers still send.
            if !self.held.is_empty() {
                self.held.push(b' ');
                self.held.extend_from_slice(line.trim_ascii());
            } else if !self.head.has_headers {
                return Err(HEADER_LINE);
            }
            return Ok(());
        }
        self.take_held()?;
        self.head.has_headers = true;
        let colon = memchr::memchr(b':', line).ok_or(HEADER_LINE)?;
        let name = line[..colon].trim_ascii_end();
        let Some(first) = name.first() else {
            // A header without a name says nothing.
            return Ok(());
        };
        if !first.is_ascii_graphic() {
            return Err(HEADER_LINE);
        }
        if matches!(name[0] | 0x20, b'c' | b't')
            && HELD.iter().any(|known| name.eq_ignore_ascii_case(known))
        {
            self.held.extend_from_slice(line);
        }
        Ok(())
    }

    /// Takes the header that waited for its end.
    fn take_held(&mut self) -> Result<(), ProtocolError> {
        if self.held.is_empty() {
            return Ok(());
        }
        let mut line = std::mem::take(&mut self.held);
        let taken = self.head.take(&line);
        line.clear();
        self.held = line;
        taken
    }

    /// The head is whole: finds out how the body ends (RFC 9112, 6.3).
    fn end_head(&mut self, answers: &mut Vec<Answer>) -> Result<(), ProtocolError> {
        let head = self.head;
        if head.status == 101 {
            return Err(UPGRADE);
        }
        if head.status < 200 {
            // An interim answer: the answer is still to come.
            self.head = Head::default();
            self.place = Place::Status;
            return Ok(());
        }
        // What follows the body, its trailers, has a bound of its own.
        self.head.bytes = 0;
        let asked_head = self.heads.front().copied().unwrap_or(false);
        if asked_head || matches!(head.status, 204 | 304) {
            self.end_answer(answers);
        } else if head.chunked {
            self.place = Place::ChunkSize;
        } else if head.coded {
            self.place = Place::UntilClose;
        } else {
            match head.length {
                Some(0) => self.end_answer(answers),
                Some(bytes) => self.place = Place::Body(bytes),
                None => self.place = Place::UntilClose,
            }
        }
        Ok(())
    }

    fn too_long(&self) -> ProtocolError {
        match self.place {
            Place::ChunkSize => CHUNK,
            Place::Status => GARBAGE,
            _ => HEAD_LENGTH,
        }
    }

    fn end_answer(&mut self, answers: &mut Vec<Answer>) {
        self.heads.pop_front();
        let head = std::mem::take(&mut self.head);
        let last =
            head.close || (head.is_1_0 && !head.keep_alive) || self.place == Place::UntilClose;
        self.place = if last { Place::Finished } else { Place::Status };
        let outcome = match head.status / 100 {
            2 => Outcome::Class("2xx"),
            3 => Outcome::Class("3xx"),
            4 => Outcome::Refused("status-4xx"),
            5 => Outcome::Refused("status-5xx"),
            // No class of RFC 9110; some servers and proxies have their own.
            _ => Outcome::Refused("status-other"),
        };
        answers.push(outcome.into());
    }

    /// Passes over the next bytes of a body; returns how many.
    fn skip(&mut self, rest: &[u8], answers: &mut Vec<Answer>) -> Result<usize, ProtocolError> {
        match self.place {
            Place::Body(left) => {
                let take = left.min(rest.len() as u64);
                self.place = Place::Body(left - take);
                if take == left {
                    self.end_answer(answers);
                }
                Ok(take as usize)
            }
            Place::Chunk(left) => {
                let take = left.min(rest.len() as u64);
                for (index, expected) in [(2, b'\r'), (1, b'\n')] {
                    if left >= index
                        && left - index < take
                        && rest[(left - index) as usize] != expected
                    {
                        return Err(CHUNK);
                    }
                }
                self.place = if take == left {
                    Place::ChunkSize
                } else {
                    Place::Chunk(left - take)
                };
                Ok(take as usize)
            }
            Place::UntilClose => Ok(rest.len()),
            _ => Ok(0),
        }
    }
}

impl Codec for Http {
    fn finished(&self) -> bool {
        self.place == Place::Finished
    }

    fn encode(&mut self, request: &Request, workload: &Workload, out: &mut Vec<u8>) {
        let step = &self.script.steps[request.operation][request.step as usize];
        step.head.write(workload, request, out);
        if let Some(body) = &step.body {
            write_decimal(body.len(workload, request) as u64, out);
            out.extend_from_slice(b"\r\n\r\n");
            body.write(workload, request, out);
        }
        if self.script.asks_heads {
            self.heads.push_back(step.is_head);
        }
    }

    fn decode(
        &mut self,
        input: &[u8],
        _out: &mut Vec<u8>,
        answers: &mut Vec<Answer>,
    ) -> Result<(), ProtocolError> {
        let mut rest = input;
        while !rest.is_empty() {
            if self.place == Place::Finished {
                // The server has said that nothing more would come.
                return Err(AFTER_END);
            }
            let skipped = self.skip(rest, answers)?;
            if skipped > 0 {
                rest = &rest[skipped..];
                continue;
            }
            let most = match self.place {
                Place::ChunkSize => CHUNK_LINE_BYTES_MAX,
                _ => HEAD_BYTES_MAX - self.head.bytes.min(HEAD_BYTES_MAX),
            };
            let Some(end) = memchr::memchr(b'\n', rest) else {
                if self.line.len() + rest.len() > most {
                    return Err(self.too_long());
                }
                self.line.extend_from_slice(rest);
                return Ok(());
            };
            if self.line.len() + end > most {
                return Err(self.too_long());
            }
            if self.place != Place::ChunkSize {
                self.head.bytes += self.line.len() + end + 1;
            }
            if self.line.is_empty() {
                let line = &rest[..end];
                self.take_line(line.strip_suffix(b"\r").unwrap_or(line), answers)?;
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(&rest[..end]);
                self.take_line(line.strip_suffix(b"\r").unwrap_or(&line), answers)?;
                line.clear();
                self.line = line;
            }
            rest = &rest[end + 1..];
        }
        Ok(())
    }

    fn end(&mut self, answers: &mut Vec<Answer>) {
        if self.place == Place::UntilClose {
            self.end_answer(answers);
        } else if self.place == Place::Status && self.line.is_empty() {
            // Between answers a server may end an idle connection without a word (RFC 9112, 9.5).
            self.place = Place::Finished;
        }
    }
}

/// The status and whether the version is 1.0, of `HTTP/1.1 200 OK`.
fn status(line: &[u8]) -> Result<(u16, bool), ProtocolError> {
    let (scheme, rest) = line.split_at_checked(5).ok_or(GARBAGE)?;
    if !scheme.eq_ignore_ascii_case(b"HTTP/") {
        return Err(GARBAGE);
    }
    let version = rest.strip_prefix(b"1.").ok_or(VERSION)?;
    let (&minor, rest) = version.split_first().ok_or(VERSION)?;
    if !minor.is_ascii_digit() {
        return Err(VERSION);
    }
    let digits = rest.trim_ascii_start();
    let ends = |byte: u8| matches!(byte, b' ' | b'\t');
    if digits.len() == rest.len() || digits.len() < 3 || digits.get(3).is_some_and(|&b| !ends(b)) {
        return Err(STATUS_LINE);
    }
    let status = decimal(&digits[..3]).ok_or(STATUS_LINE)? as u16;
    match status {
        100.. => Ok((status, minor == b'0')),
        _ => Err(STATUS_LINE),
    }
}

/// A number of decimal digits, nothing else.
fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    digits.iter().try_fold(0u64, |number, &digit| {
        let digit = digit.checked_sub(b'0').filter(|d| *d < 10)?;
        Some(number * 10 + u64::from(digit))
    })
}

/// The size in `HEX[;extension]`.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|&byte| byte == b';').next()?.trim_ascii();
    if digits.is_empty() || digits.len() > 15 {
        return None;
    }
    digits.iter().try_fold(0u64, |number, &digit| {
        let digit = char::from(digit).to_digit(16)?;
        Some(number * 16 + u64::from(digit))
    })
}

#[cfg(test)]
mod tests;
