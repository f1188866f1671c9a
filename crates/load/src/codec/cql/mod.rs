//! CQL's native protocol, version 4 (cassandra.apache.org, native_protocol_v4.spec): sessions, prepared statements, and
//! many requests in flight on one connection.
//!
//! A connection asks what the server offers, starts a session, proves who it is where that is asked for, and
//! prepares every statement of the mix; then it takes requests. Each request in flight has a stream id of its own, and
//! answers come in any order. A statement that a server has dropped is prepared again, once for each request. Rows are
//! counted and not looked at. Invariants: a stream id in use is never given to another request; what a server sends
//! unasked breaks the connection. Not here: paging, batches, compression, choosing among nodes.

mod frame;
mod script;
mod values;

use std::sync::Arc;

use self::frame::{
    Body, Frame, Frames, GARBAGE, UNPREPARED, error_kind, opcode, write_frame, write_long_string,
    write_string,
};
use self::values::{Bind, Type};
use super::{Answer, Codec, Outcome, ProtocolError};
use crate::mix::Effect;
use crate::workload::{Request, Workload};

pub use script::CqlScript;

/// Values follow the statement's id, and the answer need not repeat the names of columns.
const EXECUTE_FLAGS: u8 = 0x01 | 0x02;

/// What a stream id is in use for.
#[derive(Debug, Clone, Copy)]
enum Use {
    Free,
    /// A request, and whether its statement has been prepared anew for it.
    Request(Request, bool),
    /// The statement of this index is being prepared.
    Prepare(usize),
}

/// How far a connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Options,
    Startup,
    Authentication,
    /// The next statement of the setup is under way.
    Setup(usize),
    /// So many statements have not been prepared.
    Preparing(usize),
    Ready,
}

/// A statement as the server of this connection knows it.
#[derive(Debug, Default)]
struct Prepared {
    /// What comes before the values: id, consistency, flags, number of values.
    head: Vec<u8>,
    /// Whether it is being prepared anew.
    again: bool,
    /// Requests that wait for that.
    waiting: Vec<Request>,
}

/// A connection that speaks CQL.
pub struct Cql {
    script: Arc<CqlScript>,
    frames: Frames,
    stage: Stage,
    prepared: Vec<Prepared>,
    /// The binds of every step, by operation, once their types are known.
    binds: Vec<Vec<Vec<Bind>>>,
    streams: Vec<Use>,
    free: Vec<u16>,
    complaint: Option<String>,
}

impl Cql {
    /// A fresh connection.
    pub fn new(script: Arc<CqlScript>) -> Self {
        let prepared = script.statements.iter().map(|_| Prepared::default());
        let binds = script.steps.iter().map(|steps| {
            let empty = steps.iter().map(|_| Vec::new());
            empty.collect()
        });
        Self {
            prepared: prepared.collect(),
            binds: binds.collect(),
            script,
            frames: Frames::default(),
            stage: Stage::Options,
            streams: Vec::new(),
            free: Vec::new(),
            complaint: None,
        }
    }

    /// Takes a stream id for `what`. The engine keeps to the depth, which is not above the number of ids.
    #[inline]
    fn take_stream(&mut self, what: Use) -> u16 {
        if let Some(stream) = self.free.pop() {
            self.streams[usize::from(stream)] = what;
            return stream;
        }
        let stream = self.streams.len() as u16;
        self.streams.push(what);
        stream
    }

    #[inline]
    fn free_stream(&mut self, stream: u16) {
        self.streams[usize::from(stream)] = Use::Free;
        self.free.push(stream);
    }

    fn fail(&mut self, kind: &'static str, why: impl Into<String>) -> ProtocolError {
        self.complaint = Some(why.into());
        ProtocolError { kind }
    }

    fn on_frame(
        &mut self,
        frame: Frame<'_>,
        out: &mut Vec<u8>,
        answers: &mut Vec<Answer>,
    ) -> Result<(), ProtocolError> {
        if frame.stream < 0 {
            // What the server tells everybody; nothing was registered for, and nothing of it is an answer.
            return if frame.opcode == opcode::EVENT {
                Ok(())
            } else {
                Err(GARBAGE)
            };
        }
        match self.stage {
            Stage::Ready => self.on_answer(frame, out, answers),
            Stage::Preparing(left) if frame.opcode == opcode::RESULT => {
                self.on_prepared(frame.stream, Body(frame.body))?;
                self.free_stream(frame.stream as u16);
                self.stage = match left - 1 {
                    0 => Stage::Ready,
                    left => Stage::Preparing(left),
                };
                Ok(())
            }
            _ => self.on_handshake(frame, out),
        }
    }

    /// A step of the session's beginning.
    fn on_handshake(&mut self, frame: Frame<'_>, out: &mut Vec<u8>) -> Result<(), ProtocolError> {
        let mut body = Body(frame.body);
        match (self.stage, frame.opcode) {
            (Stage::Options, opcode::SUPPORTED) => {
                let version = cql_version(body)?;
                self.stage = Stage::Startup;
                write_frame(out, 0, opcode::STARTUP, |out| {
                    out.extend_from_slice(&1u16.to_be_bytes());
                    write_string(out, "CQL_VERSION");
                    write_string(out, &version);
                });
                Ok(())
            }
            (Stage::Startup, opcode::READY) | (Stage::Authentication, opcode::AUTH_SUCCESS) => {
                self.set_up(0, out);
                Ok(())
            }
            (Stage::Startup, opcode::AUTHENTICATE) => {
                let Some(credentials) = self.script.credentials.clone() else {
                    let why = "the server asks for a password (see --user)";
                    return Err(self.fail("bad-credentials", why));
                };
                self.stage = Stage::Authentication;
                write_frame(out, 0, opcode::AUTH_RESPONSE, |out| {
                    let length = 2 + credentials.user.len() + credentials.password.len();
                    out.extend_from_slice(&(length as u32).to_be_bytes());
                    for part in [&credentials.user, &credentials.password] {
                        out.push(0);
                        out.extend_from_slice(part.as_bytes());
                    }
                });
                Ok(())
            }
            (Stage::Authentication, opcode::AUTH_CHALLENGE) => Err(self.fail(
                "bad-credentials",
                "the server wants more than a name and a password",
            )),
            (Stage::Setup(done), opcode::RESULT) => {
                self.set_up(done + 1, out);
                Ok(())
            }
            (_, opcode::ERROR) => {
                let code = body.int()?;
                let text = body.string()?;
                let statement = match self.stage {
                    Stage::Setup(at) => self.script.setup.get(at).cloned(),
                    Stage::Preparing(_) => self.statement_of(frame.stream).map(str::to_owned),
                    _ => None,
                };
                let text = text.lines().next().unwrap_or_default();
                let why = match statement {
                    Some(statement) => format!("{text} ({statement:?})"),
                    None => text.to_owned(),
                };
                Err(self.fail(error_kind(code), why))
            }
            _ => Err(GARBAGE),
        }
    }

    fn statement_of(&self, stream: i16) -> Option<&str> {
        match self.streams.get(usize::try_from(stream).ok()?)? {
            Use::Prepare(index) => Some(&self.script.statements[*index]),
            _ => None,
        }
    }

    /// Sends the statement of the setup at place `next`; after the last, prepares the mix's.
    fn set_up(&mut self, next: usize, out: &mut Vec<u8>) {
        let script = Arc::clone(&self.script);
        if let Some(statement) = script.setup.get(next) {
            self.stage = Stage::Setup(next);
            write_frame(out, 0, opcode::QUERY, |out| {
                write_long_string(out, statement);
                out.extend_from_slice(&script.consistency.to_be_bytes());
                out.push(0);
            });
            return;
        }
        for index in 0..script.statements.len() {
            self.prepare(index, out);
        }
        self.stage = match script.statements.len() {
            0 => Stage::Ready,
            left => Stage::Preparing(left),
        };
    }

    fn prepare(&mut self, index: usize, out: &mut Vec<u8>) {
        let stream = self.take_stream(Use::Prepare(index));
        let statement = &self.script.statements[index];
        write_frame(out, stream, opcode::PREPARE, |out| {
            write_long_string(out, statement);
        });
    }

    /// Takes what the server says of a statement: its id and the types of its values.
    fn on_prepared(&mut self, stream: i16, mut body: Body<'_>) -> Result<usize, ProtocolError> {
        let Some(&Use::Prepare(index)) = self.streams.get(stream as usize) else {
            return Err(GARBAGE);
        };
        if body.int()? != result::PREPARED {
            return Err(GARBAGE);
        }
        let id = body.short_bytes()?;
        let types = bind_types(&mut body)?;
        let script = Arc::clone(&self.script);
        if let Err(why) = script.bind(index, &types, &mut self.binds) {
            let why = format!("{why} ({:?})", script.statements[index]);
            return Err(self.fail("bind", why));
        }
        let head = &mut self.prepared[index].head;
        head.clear();
        head.extend_from_slice(&(id.len() as u16).to_be_bytes());
        head.extend_from_slice(id);
        head.extend_from_slice(&script.consistency.to_be_bytes());
        head.push(EXECUTE_FLAGS);
        head.extend_from_slice(&(types.len() as u16).to_be_bytes());
        Ok(index)
    }

    #[inline]
    fn execute(&mut self, request: &Request, again: bool, out: &mut Vec<u8>) {
        let stream = self.take_stream(Use::Request(*request, again));
        let (operation, step) = (request.operation, request.step as usize);
        let index = self.script.steps[operation][step].statement;
        let (prepared, binds) = (&self.prepared[index], &self.binds[operation][step]);
        let workload = &self.script.workload;
        write_frame(out, stream, opcode::EXECUTE, |out| {
            out.extend_from_slice(&prepared.head);
            for bind in binds {
                bind.write(workload, request, out);
            }
        });
    }

    /// An answer to a request, or to a statement that was prepared anew.
    fn on_answer(
        &mut self,
        frame: Frame<'_>,
        out: &mut Vec<u8>,
        answers: &mut Vec<Answer>,
    ) -> Result<(), ProtocolError> {
        let stream = frame.stream as u16;
        let in_use = self.streams.get(usize::from(stream)).copied();
        let mut body = Body(frame.body);
        match in_use.unwrap_or(Use::Free) {
            Use::Free => Err(ProtocolError {
                kind: "unsolicited-answer",
            }),
            Use::Prepare(index) => {
                let waiting = std::mem::take(&mut self.prepared[index].waiting);
                self.prepared[index].again = false;
                if frame.opcode == opcode::ERROR {
                    let kind = error_kind(body.int()?);
                    let refused = |request: &Request| Answer {
                        ticket: Some(request.ticket),
                        outcome: Outcome::Refused(kind),
                    };
                    self.free_stream(stream);
                    answers.extend(waiting.iter().map(refused));
                    return Ok(());
                }
                if frame.opcode != opcode::RESULT {
                    return Err(GARBAGE);
                }
                self.on_prepared(frame.stream, body)?;
                self.free_stream(stream);
                for request in waiting {
                    self.execute(&request, true, out);
                }
                Ok(())
            }
            Use::Request(request, again) => {
                self.free_stream(stream);
                let outcome = match frame.opcode {
                    opcode::RESULT => self.outcome(&request, body)?,
                    opcode::ERROR => match body.int()? {
                        UNPREPARED if !again => {
                            self.prepare_again(request, out);
                            return Ok(());
                        }
                        code => Outcome::Refused(error_kind(code)),
                    },
                    _ => return Err(GARBAGE),
                };
                answers.push(Answer {
                    ticket: Some(request.ticket),
                    outcome,
                });
                Ok(())
            }
        }
    }

    /// The server has forgotten the statement of `request`.
    fn prepare_again(&mut self, request: Request, out: &mut Vec<u8>) {
        let step = &self.script.steps[request.operation][request.step as usize];
        let index = step.statement;
        self.prepared[index].waiting.push(request);
        if !std::mem::replace(&mut self.prepared[index].again, true) {
            self.prepare(index, out);
        }
    }

    fn outcome(&self, request: &Request, mut body: Body<'_>) -> Result<Outcome, ProtocolError> {
        let kind = body.int()?;
        let effect = self.script.steps[request.operation][request.step as usize].effect;
        Ok(match (kind, effect) {
            (result::ROWS, Effect::Read) => match row_count(&mut body)? {
                0 => Outcome::Miss,
                _ => Outcome::Hit,
            },
            (result::VOID, Effect::Write) => Outcome::Stored,
            (result::VOID | result::ROWS | result::SET_KEYSPACE | result::SCHEMA_CHANGE, _) => {
                Outcome::Done
            }
            _ => return Err(GARBAGE),
        })
    }
}

/// Kinds of results.
mod result {
    pub const VOID: i32 = 1;
    pub const ROWS: i32 = 2;
    pub const SET_KEYSPACE: i32 = 3;
    pub const PREPARED: i32 = 4;
    pub const SCHEMA_CHANGE: i32 = 5;
}

/// The newest version 3 of the language among those that the server names.
fn cql_version(mut body: Body<'_>) -> Result<String, ProtocolError> {
    for _ in 0..body.short()? {
        let name = body.string()?;
        let mut versions = Vec::new();
        for _ in 0..body.short()? {
            versions.push(body.string()?.into_owned());
        }
        if name == "CQL_VERSION"
            && let Some(version) = versions.into_iter().rfind(|v| v.starts_with("3."))
        {
            return Ok(version);
        }
    }
    Ok("3.0.0".to_owned())
}

const GLOBAL_TABLE: i32 = 0x01;
const MORE_PAGES: i32 = 0x02;
const NO_METADATA: i32 = 0x04;

/// The types of a prepared statement's values.
fn bind_types(body: &mut Body<'_>) -> Result<Vec<Type>, ProtocolError> {
    let flags = body.int()?;
    let columns = body.int()?;
    let keys = body.int()?;
    for _ in 0..keys {
        body.short()?;
    }
    read_columns(body, flags, columns)
}

fn read_columns(body: &mut Body<'_>, flags: i32, columns: i32) -> Result<Vec<Type>, ProtocolError> {
    let mut types = Vec::new();
    if flags & GLOBAL_TABLE != 0 {
        body.string()?;
        body.string()?;
    }
    for _ in 0..columns {
        if flags & GLOBAL_TABLE == 0 {
            body.string()?;
            body.string()?;
        }
        body.string()?;
        types.push(Type::read(body)?);
    }
    Ok(types)
}

/// How many rows there are, from what stands before them.
fn row_count(body: &mut Body<'_>) -> Result<i32, ProtocolError> {
    let flags = body.int()?;
    let columns = body.int()?;
    if flags & MORE_PAGES != 0 {
        body.bytes()?;
    }
    // A server may tell the columns although it was not asked to.
    if flags & NO_METADATA == 0 {
        read_columns(body, flags, columns)?;
    }
    body.int()
}

impl Codec for Cql {
    fn open(&mut self, out: &mut Vec<u8>) {
        write_frame(out, 0, opcode::OPTIONS, |_| {});
    }

    fn ready(&self) -> bool {
        self.stage == Stage::Ready
    }

    fn encode(&mut self, request: &Request, _workload: &Workload, out: &mut Vec<u8>) {
        let step = &self.script.steps[request.operation][request.step as usize];
        let prepared = &mut self.prepared[step.statement];
        if prepared.again {
            prepared.waiting.push(*request);
        } else {
            self.execute(request, false, out);
        }
    }

    fn decode(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        answers: &mut Vec<Answer>,
    ) -> Result<(), ProtocolError> {
        let mut frames = std::mem::take(&mut self.frames);
        let taken = frames.take(input, |frame| self.on_frame(frame, out, answers));
        self.frames = frames;
        taken
    }

    fn complaint(&self) -> Option<&str> {
        self.complaint.as_deref()
    }
}

#[cfg(test)]
mod tests;
