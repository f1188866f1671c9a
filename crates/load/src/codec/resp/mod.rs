//! Redis' protocol, RESP: commands as arrays of bulk strings, answers of RESP2 and RESP3
//! (redis.io/docs/latest/develop/reference/protocol-spec).
//!
//! Commands are templates whose constant parts are built once. Answers are followed through without keeping them: what is
//! looked up is known to be there or not by the answer's first line. A push message is no answer, an error
//! anywhere inside an answer makes it an error. Before the first request stand who asks and the database ([`greeting`]). Not
//! here: the handshake of RESP3, cluster redirection.

mod greeting;

use std::collections::VecDeque;
use std::sync::Arc;

use self::greeting::Greeting;
use super::lines::{self, Framing, Lines};
use super::{Answer, Codec, Outcome, ProtocolError};
use crate::mix::{Effect, Text};
use crate::mix::{Mix, Template};
use crate::settings::Settings;
use crate::workload::{Request, Workload, decimal_digits, write_decimal};

/// Largest bulk string that a server may announce; Redis' own bound is 512 MiB unless configured.
const BULK_BYTES_MAX: u64 = 1 << 32;
/// Most elements of one aggregate.
const ELEMENTS_MAX: u64 = 1 << 32;
/// Deepest nesting of aggregates.
const DEPTH_MAX: usize = 64;

const GARBAGE: ProtocolError = ProtocolError { kind: "garbage" };

/// What every connection of a load sends, by operation and step.
#[derive(Debug, Default)]
pub struct RespScript {
    steps: Vec<Vec<Command>>,
    greeting: Greeting,
}

#[derive(Debug)]
struct Command {
    parts: Vec<Part>,
    effect: Effect,
}

#[derive(Debug)]
enum Part {
    /// Bytes that never change.
    Literal(Vec<u8>),
    /// A bulk string that does.
    Word(Text),
}

impl RespScript {
    /// The commands of `mix`, after those that `settings` open a connection with.
    pub fn of(mix: &Mix, settings: &Settings) -> Self {
        let command = |template: &Template, effect| {
            let parts = match template {
                Template::Redis(words) => parts(words),
                _ => Vec::new(),
            };
            Command { parts, effect }
        };
        let steps = mix.operations.iter().map(|operation| {
            // What a step of several finds is not what the operation does.
            let effect = match operation.steps.len() {
                1 => operation.effect,
                _ => Effect::Call,
            };
            let commands = operation.steps.iter().map(|step| command(step, effect));
            commands.collect()
        });
        Self {
            steps: steps.collect(),
            greeting: Greeting::of(settings),
        }
    }
}

fn parts(words: &[Text]) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut literal = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        if let Some(bytes) = word.as_literal() {
            literal.extend_from_slice(format!("${}\r\n", bytes.len()).as_bytes());
            literal.extend_from_slice(bytes);
            literal.extend_from_slice(b"\r\n");
        } else {
            if !literal.is_empty() {
                parts.push(Part::Literal(std::mem::take(&mut literal)));
            }
            parts.push(Part::Word(word.clone()));
        }
    }
    if !literal.is_empty() {
        parts.push(Part::Literal(literal));
    }
    parts
}

/// What an answer is, as far as a load wants to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Null, or an aggregate without elements.
    Nothing,
    /// Anything else.
    Something,
}

/// An aggregate whose elements are still coming.
#[derive(Debug, Clone, Copy)]
struct Aggregate {
    /// Elements that are still to come.
    left: u64,
    /// What it is besides the elements of an answer.
    role: Role,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Part of an answer.
    Answer,
    /// Remarks before the element that they are about.
    Attribute,
    /// A message of its own, which answers nothing.
    Push,
}

/// A connection that speaks RESP.
#[derive(Debug)]
pub struct Resp {
    script: Arc<RespScript>,
    /// Effects of the commands without an answer, oldest first.
    expected: VecDeque<Effect>,
    framing: Framing,
    aggregates: Vec<Aggregate>,
    /// The shape of the answer under way.
    shape: Shape,
    /// The first error in the answer under way.
    error: Option<&'static str>,
    /// Commands of the greeting that have been answered.
    greeted: usize,
    complaint: Option<String>,
}

impl Default for Resp {
    fn default() -> Self {
        Self::new(Arc::default())
    }
}

impl Resp {
    /// A fresh connection that sends what `script` holds.
    pub fn new(script: Arc<RespScript>) -> Self {
        Self {
            script,
            expected: VecDeque::new(),
            framing: Framing::default(),
            aggregates: Vec::new(),
            shape: Shape::Something,
            error: None,
            greeted: 0,
            complaint: None,
        }
    }

    /// Takes the answer to a command of the greeting.
    fn take_greeting(&mut self, line: &[u8]) -> Result<(), ProtocolError> {
        let asked = self.script.greeting.asked[self.greeted];
        match line.split_first() {
            Some((b'+', _)) => {
                self.greeted += 1;
                Ok(())
            }
            Some((b'-', text)) => {
                let text = String::from_utf8_lossy(text);
                self.complaint = Some(format!("the server refused {asked}: {text}"));
                Err(ProtocolError {
                    kind: "bad-credentials",
                })
            }
            _ => {
                self.complaint = Some(format!("the server's answer about {asked} is not Redis'"));
                Err(GARBAGE)
            }
        }
    }

    fn take_aggregate(
        &mut self,
        kind: u8,
        text: &[u8],
        answers: &mut Vec<Answer>,
    ) -> Result<(), ProtocolError> {
        let role = match kind {
            b'>' if self.aggregates.is_empty() => Role::Push,
            b'>' => return Err(GARBAGE),
            b'|' => Role::Attribute,
            _ => Role::Answer,
        };
        let elements = length(text, ELEMENTS_MAX)?;
        if role == Role::Answer {
            let nothing = elements.unwrap_or(0) == 0;
            self.begin(if nothing {
                Shape::Nothing
            } else {
                Shape::Something
            });
        }
        let left = match (kind, elements) {
            (b'*', None) => 0,
            (_, None) => return Err(GARBAGE),
            (b'%' | b'|', Some(pairs)) => 2 * pairs,
            (_, Some(elements)) => elements,
        };
        if left > 0 {
            if self.aggregates.len() >= DEPTH_MAX {
                return Err(GARBAGE);
            }
            self.aggregates.push(Aggregate { left, role });
        } else if role == Role::Answer {
            self.complete(answers);
        }
        Ok(())
    }

    /// An element of this shape begins.
    #[inline]
    fn begin(&mut self, shape: Shape) {
        if self.aggregates.is_empty() {
            self.shape = shape;
        }
    }

    fn note_error(&mut self, kind: &'static str) {
        if self.aggregates.iter().all(|a| a.role == Role::Answer) {
            self.error.get_or_insert(kind);
        }
    }

    /// An element has ended, and with it perhaps the aggregates around it and the answer.
    #[inline]
    fn complete(&mut self, answers: &mut Vec<Answer>) {
        while let Some(aggregate) = self.aggregates.last_mut() {
            aggregate.left -= 1;
            if aggregate.left > 0 {
                return;
            }
            let role = aggregate.role;
            self.aggregates.pop();
            if role != Role::Answer {
                return;
            }
        }
        let effect = self.expected.pop_front().unwrap_or(Effect::Call);
        let outcome = match (self.error.take(), effect, self.shape) {
            (Some(kind), ..) => Outcome::Refused(kind),
            (None, Effect::Read, Shape::Nothing) => Outcome::Miss,
            (None, Effect::Read, Shape::Something) => Outcome::Hit,
            // A conditional store whose condition did not hold.
            (None, Effect::Write, Shape::Nothing) => Outcome::Refused("not-stored"),
            (None, Effect::Write, Shape::Something) => Outcome::Stored,
            (None, Effect::Call, _) => Outcome::Done,
        };
        answers.push(outcome.into());
    }
}

impl Lines for Resp {
    /// An error's or a simple string's text.
    const LINE_BYTES_MAX: usize = 64 << 10;
    const GARBAGE: ProtocolError = GARBAGE;

    #[inline]
    fn framing(&mut self) -> &mut Framing {
        &mut self.framing
    }

    fn take_line(&mut self, line: &[u8], answers: &mut Vec<Answer>) -> Result<(), ProtocolError> {
        if !self.ready() {
            return self.take_greeting(line);
        }
        let (&kind, text) = line.split_first().ok_or(GARBAGE)?;
        match kind {
            b'$' | b'=' | b'!' => {
                if kind == b'!' {
                    self.note_error("error");
                }
                match length(text, BULK_BYTES_MAX)? {
                    None => self.begin(Shape::Nothing),
                    Some(bytes) => {
                        self.begin(Shape::Something);
                        self.framing.announce(bytes as usize);
                        return Ok(());
                    }
                }
            }
            b'*' | b'~' | b'>' | b'%' | b'|' => return self.take_aggregate(kind, text, answers),
            b'-' => {
                self.begin(Shape::Something);
                self.note_error(error_kind(text));
            }
            b'_' if text.is_empty() => self.begin(Shape::Nothing),
            b':' if is_integer(text) => self.begin(Shape::Something),
            b'+' | b',' | b'(' => self.begin(Shape::Something),
            b'#' if matches!(text, b"t" | b"f") => self.begin(Shape::Something),
            _ => return Err(GARBAGE),
        }
        self.complete(answers);
        Ok(())
    }

    #[inline]
    fn end_announced(&mut self, answers: &mut Vec<Answer>) {
        self.complete(answers);
    }
}

impl Codec for Resp {
    fn open(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.script.greeting.bytes);
    }

    #[inline]
    fn ready(&self) -> bool {
        self.greeted == self.script.greeting.asked.len()
    }

    fn complaint(&self) -> Option<&str> {
        self.complaint.as_deref()
    }

    fn encode(&mut self, request: &Request, workload: &Workload, out: &mut Vec<u8>) {
        let command = &self.script.steps[request.operation][request.step as usize];
        for part in &command.parts {
            match part {
                Part::Literal(bytes) => out.extend_from_slice(bytes),
                Part::Word(text) => {
                    let bytes = text.len(workload, request);
                    out.reserve(bytes + decimal_digits(bytes as u64) + 5);
                    if let 10..100 = bytes {
                        let (tens, ones) = (b'0' + (bytes / 10) as u8, b'0' + (bytes % 10) as u8);
                        out.extend_from_slice(&[b'$', tens, ones, b'\r', b'\n']);
                    } else {
                        out.push(b'$');
                        write_decimal(bytes as u64, out);
                        out.extend_from_slice(b"\r\n");
                    }
                    text.write(workload, request, out);
                    out.extend_from_slice(b"\r\n");
                }
            }
        }
        self.expected.push_back(command.effect);
    }

    fn decode(
        &mut self,
        input: &[u8],
        _out: &mut Vec<u8>,
        answers: &mut Vec<Answer>,
    ) -> Result<(), ProtocolError> {
        lines::decode(self, input, answers)
    }
}

/// A length up to `most`, or None for -1.
#[inline]
fn length(digits: &[u8], most: u64) -> Result<Option<u64>, ProtocolError> {
    if digits == b"-1" {
        return Ok(None);
    }
    if digits.is_empty() || digits.len() > 10 {
        return Err(GARBAGE);
    }
    let mut number = 0u64;
    for &digit in digits {
        let value = digit.wrapping_sub(b'0');
        if value > 9 {
            return Err(GARBAGE);
        }
        number = number * 10 + u64::from(value);
    }
    if number > most {
        return Err(GARBAGE);
    }
    Ok(Some(number))
}

fn is_integer(text: &[u8]) -> bool {
    let digits = text
        .strip_prefix(b"-")
        .or_else(|| text.strip_prefix(b"+"))
        .unwrap_or(text);
    (1..=20).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit)
}

/// The kind under which an error is counted: by the word that Redis begins it with.
fn error_kind(text: &[u8]) -> &'static str {
    const KINDS: [(&[u8], &str); 17] = [
        (b"MOVED", "moved"),
        (b"ASK", "ask"),
        (b"TRYAGAIN", "try-again"),
        (b"CLUSTERDOWN", "cluster-down"),
        (b"CROSSSLOT", "cross-slot"),
        (b"LOADING", "loading"),
        (b"OOM", "out-of-memory"),
        (b"WRONGTYPE", "wrong-type"),
        (b"NOAUTH", "no-auth"),
        (b"NOPERM", "no-permission"),
        (b"READONLY", "read-only"),
        (b"MISCONF", "misconfigured"),
        (b"BUSY", "busy"),
        (b"NOSCRIPT", "no-script"),
        (b"EXECABORT", "exec-abort"),
        (b"MASTERDOWN", "master-down"),
        (b"UNKILLABLE", "busy"),
    ];
    let word = text.split(|&byte| byte == b' ').next().unwrap_or_default();
    KINDS
        .iter()
        .find(|(known, _)| *known == word)
        .map_or("error", |(_, kind)| kind)
}

#[cfg(test)]
mod tests;
