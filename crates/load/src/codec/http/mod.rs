//! HTTP/1.1 (RFC 9110, RFC 9112): requests from templates, answers counted by the class of their status.
//!
//! Bodies are followed through without keeping them: by Content-Length, in chunks, or until the server closes.
//! Redirects are not followed. A server may end a connection after an answer; it says so, and that is no error. Not
//! here: cookies, authentication, content codings, upgrades.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use super::{Answer, Codec, Outcome, ProtocolError};
use crate::mix::Text;
use crate::mix::{HttpTemplate, Mix, Template};
use crate::workload::{Request, Workload, write_decimal};

/// Most bytes of an answer's head.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Longest line with a chunk's size.
const CHUNK_LINE_BYTES_MAX: usize = 4 << 10;

const GARBAGE: ProtocolError = ProtocolError { kind: "garbage" };

/// What every connection of a load sends, by operation and step.
#[derive(Debug, Default)]
pub struct HttpScript {
    steps: Vec<Vec<Step>>,
    /// Whether any of them is a HEAD, whose answers announce bodies that do not come.
    asks_heads: bool,
}

#[derive(Debug)]
struct Step {
    /// The head, up to the length of the body if there is one.
    head: Text,
    body: Option<Text>,
    is_head: bool,
}

impl HttpScript {
    /// The requests of `mix` for the server at `target`.
    pub fn of(mix: &Mix, target: SocketAddr) -> Self {
        let steps: Vec<Vec<Step>> = mix
            .operations
            .iter()
            .map(|operation| {
                let templates = operation.steps.iter();
                let http = templates.filter_map(|template| match template {
                    Template::Http(http) => Some(Step::of(http, target)),
                    _ => None,
                });
                http.collect()
            })
            .collect();
        let asks_heads = steps.iter().flatten().any(|step| step.is_head);
        Self { steps, asks_heads }
    }
}

impl Step {
    fn of(http: &HttpTemplate, target: SocketAddr) -> Self {
        let mut head = vec![
            Text::literal(format!("{} ", http.method)),
            http.path.clone(),
            Text::literal(" HTTP/1.1\r\n"),
        ];
        if !http
            .headers
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case("host"))
        {
            head.push(Text::literal(format!("Host: {target}\r\n")));
        }
        for (name, value) in &http.headers {
            head.push(Text::literal(format!("{name}: ")));
            head.push(value.clone());
            head.push(Text::literal("\r\n"));
        }
        // RFC 9110, 8.6: these methods expect a body, and say so when they have none.
        let expects = matches!(http.method.as_str(), "POST" | "PUT" | "PATCH");
        let body = (expects || !http.body.is_empty()).then(|| http.body.clone());
        head.push(Text::literal(if body.is_some() {
            "Content-Length: "
        } else {
            "\r\n"
        }));
        Self {
            head: Text::concat(head),
            body,
            is_head: http.method == "HEAD",
        }
    }
}

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
    bytes: usize,
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
        }
    }

    /// Takes one line without its line end.
    fn take_line(&mut self, line: &[u8], answers: &mut Vec<Answer>) -> Result<(), ProtocolError> {
        match self.place {
            Place::Status => {
                if line.is_empty() && self.head.bytes == 0 {
                    // RFC 9112, 2.2 lets servers pass over an empty line before a request; some send one after a body.
                    return Err(GARBAGE);
                }
                (self.head.status, self.head.is_1_0) = status(line).ok_or(GARBAGE)?;
                self.place = Place::Headers;
            }
            Place::Headers if line.is_empty() => self.end_head(answers)?,
            Place::Headers => self.take_header(line)?,
            Place::ChunkSize => {
                self.place = match chunk_size(line).ok_or(GARBAGE)? {
                    0 => Place::Trailers,
                    bytes => Place::Chunk(bytes.checked_add(2).ok_or(GARBAGE)?),
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
        let colon = memchr::memchr(b':', line).ok_or(GARBAGE)?;
        let name = &line[..colon];
        // Also refuses lines that continue the one before, which RFC 9112 has abolished.
        if !name.first().is_some_and(u8::is_ascii_graphic) || name.last() == Some(&b' ') {
            return Err(GARBAGE);
        }
        if !matches!(name[0] | 0x20, b'c' | b't') {
            return Ok(());
        }
        let value = line[colon + 1..].trim_ascii();
        if name.eq_ignore_ascii_case(b"content-length") {
            let length = decimal(value).ok_or(GARBAGE)?;
            if self.head.length.is_some_and(|known| known != length) {
                return Err(GARBAGE);
            }
            self.head.length = Some(length);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            let last = value.rsplit(|&byte| byte == b',').next().unwrap_or(value);
            self.head.chunked = last.trim_ascii().eq_ignore_ascii_case(b"chunked");
            self.head.coded = !self.head.chunked;
        } else if name.eq_ignore_ascii_case(b"connection") {
            for option in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                self.head.close |= option.eq_ignore_ascii_case(b"close");
                self.head.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
            }
        }
        Ok(())
    }

    /// The head is whole: finds out how the body ends (RFC 9112, 6.3).
    fn end_head(&mut self, answers: &mut Vec<Answer>) -> Result<(), ProtocolError> {
        let head = self.head;
        if head.status == 101 {
            return Err(GARBAGE);
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
            _ => Outcome::Refused("status-5xx"),
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
                        return Err(GARBAGE);
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
                return Err(GARBAGE);
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
                    return Err(GARBAGE);
                }
                self.line.extend_from_slice(rest);
                return Ok(());
            };
            if self.line.len() + end > most {
                return Err(GARBAGE);
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
fn status(line: &[u8]) -> Option<(u16, bool)> {
    let version = line.strip_prefix(b"HTTP/1.")?;
    let (&minor, rest) = version.split_first()?;
    let digits = rest.strip_prefix(b" ")?;
    if !minor.is_ascii_digit() || digits.len() < 3 || digits.get(3).is_some_and(|&b| b != b' ') {
        return None;
    }
    let status = decimal(&digits[..3])? as u16;
    (100..600)
        .contains(&status)
        .then_some((status, minor == b'0'))
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
