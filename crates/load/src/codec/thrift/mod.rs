//! Calls of a Thrift service: the compact protocol in frames, many calls in flight on one connection.
//!
//! What never changes of a call is written once; keys, values and drawn numbers are filled in. The ticket of a request is the
//! call's sequence id, so that a server may answer in any order. Answers are read as far as a load wants to know: whether
//! there is a result, and whether a number in it is the expected one. Invariant: an exception, declared or not, is an
//! error of its kind. Not here: other protocols and transports of Thrift, and calls without answers.

use std::collections::VecDeque;
use std::sync::Arc;

use steelyard_thrift::{
    ApplicationException, Fields, FrameBuffer, Message, MessageKind, Reader, ThriftError, Type,
    Writer, write_frame,
};

use super::{Answer, Codec, Outcome, ProtocolError};
use crate::LoadError;
use crate::mix::Effect;
use crate::mix::{Piece, Text};
use crate::mix::{Template, ThriftArgument, ThriftExpectation, ThriftTemplate, ThriftValue};
use crate::workload::{Request, Workload};

/// What every connection of a load sends, by operation and step.
#[derive(Debug, Default)]
pub struct ThriftScript {
    steps: Vec<Vec<Call>>,
}

#[derive(Debug)]
struct Call {
    method: String,
    /// Its arguments, without the end of their structure.
    parts: Vec<Part>,
    effect: Effect,
    expect: Option<ThriftExpectation>,
}

/// A part of a call's arguments.
#[derive(Debug, PartialEq)]
enum Part {
    /// Bytes that never change.
    Literal(Vec<u8>),
    /// The key's number.
    Key,
    /// A number that a text writes.
    Number(Text),
    /// A text with its length before it.
    Bytes(Text),
}

impl ThriftScript {
    /// The calls of `workload`'s mix.
    pub fn of(workload: &Workload) -> Result<Self, LoadError> {
        let operations = workload.operations().iter().map(|operation| {
            // What a step of several finds is not what the operation does.
            let effect = match operation.steps.len() {
                1 => operation.effect,
                _ => Effect::Call,
            };
            let calls = operation.steps.iter().filter_map(|step| match step {
                Template::Thrift(template) => Some(Call::new(template, effect, workload)),
                _ => None,
            });
            let calls: Result<Vec<Call>, String> = calls.collect();
            calls.map_err(|why| {
                LoadError::setting("--mix", format!("operation {}: {why}", operation.name))
            })
        });
        Ok(Self {
            steps: operations.collect::<Result<_, _>>()?,
        })
    }
}

impl Call {
    fn new(template: &ThriftTemplate, effect: Effect, workload: &Workload) -> Result<Self, String> {
        let mut parts = Parts {
            done: Vec::new(),
            literal: Vec::new(),
            workload,
        };
        parts.fields(&template.arguments)?;
        parts.flush();
        Ok(Self {
            method: template.method.clone(),
            parts: parts.done,
            effect,
            expect: template.expect.clone(),
        })
    }
}

/// Writes arguments as parts.
struct Parts<'w> {
    done: Vec<Part>,
    literal: Vec<u8>,
    workload: &'w Workload,
}

impl Parts<'_> {
    fn flush(&mut self) {
        if !self.literal.is_empty() {
            self.done
                .push(Part::Literal(std::mem::take(&mut self.literal)));
        }
    }

    fn push(&mut self, part: Part) {
        self.flush();
        self.done.push(part);
    }

    /// The fields of a structure, without its end.
    fn fields(&mut self, fields: &[ThriftArgument]) -> Result<(), String> {
        let mut last_id = 0;
        for field in fields {
            let wrong = |why: String| format!("argument {}: {why}", field.id);
            let kind = kind(&field.kind).map_err(wrong)?;
            let mut writer = Writer::after(&mut self.literal, last_id);
            last_id = field.id;
            if kind == Type::Bool {
                match &field.value {
                    ThriftValue::Boolean(value) => writer.field_bool(field.id, *value),
                    _ => return Err(wrong("a bool is true or false".to_owned())),
                }
                continue;
            }
            writer.field(field.id, kind);
            self.value(&field.kind, kind, &field.value).map_err(wrong)?;
        }
        Ok(())
    }

    fn value(&mut self, name: &str, kind: Type, value: &ThriftValue) -> Result<(), String> {
        let mut writer = Writer::new(&mut self.literal);
        match (kind, value) {
            (Type::Bool, ThriftValue::Boolean(value)) => writer.bool(*value),
            (Type::Double, ThriftValue::Float(value)) => writer.double(*value),
            (Type::Double, ThriftValue::Integer(value)) => writer.double(*value as f64),
            (Type::I8 | Type::I16 | Type::I32 | Type::I64, ThriftValue::Integer(value)) => {
                check_range(kind, i128::from(*value))?;
                match kind {
                    Type::I8 => writer.i8(*value as i8),
                    _ => writer.i64(*value),
                }
            }
            (Type::I16 | Type::I32 | Type::I64, ThriftValue::Text(text)) => {
                return self.number(kind, text);
            }
            (Type::Binary, ThriftValue::Text(text)) => {
                if name == "string" && text.has_binary() {
                    return Err("{value} is not text: use {text}".to_owned());
                }
                match text.as_literal() {
                    Some(bytes) => writer.binary(bytes),
                    None => self.push(Part::Bytes(text.clone())),
                }
            }
            (Type::Struct, ThriftValue::Struct(fields)) => {
                self.fields(fields)?;
                self.literal.push(0);
            }
            (Type::List, ThriftValue::List(items)) => {
                let name = name.strip_prefix("list:").unwrap_or_default();
                let element = self::kind(name)?;
                writer.list(element, items.len() as u32);
                for item in items {
                    self.value(name, element, item)?;
                }
            }
            _ => return Err(format!("the value is not a {name}")),
        }
        Ok(())
    }

    /// A number that changes: its variable length is that of any number as large, whatever its type.
    fn number(&mut self, kind: Type, text: &Text) -> Result<(), String> {
        let (largest, part) = match text.pieces() {
            [Piece::Key] => (self.workload.keys.count().saturating_sub(1), Part::Key),
            [Piece::Uniform { low, count, .. }] => (low + (count - 1), Part::Number(text.clone())),
            [Piece::ValueBytes] => (0, Part::Number(text.clone())),
            [Piece::Literal(bytes)] => {
                let literal = String::from_utf8_lossy(bytes);
                let number: i64 = literal
                    .parse()
                    .map_err(|_| format!("{literal:?} is not a number"))?;
                check_range(kind, i128::from(number))?;
                Writer::new(&mut self.literal).i64(number);
                return Ok(());
            }
            _ => {
                let why = "only a number, {key} or {uniform:LOW:HIGH} alone can be a number";
                return Err(why.to_owned());
            }
        };
        check_range(kind, i128::from(largest))?;
        self.push(part);
        Ok(())
    }
}

fn check_range(kind: Type, value: i128) -> Result<(), String> {
    let bits = match kind {
        Type::I8 => 8,
        Type::I16 => 16,
        Type::I32 => 32,
        _ => 64,
    };
    let most = (1i128 << (bits - 1)) - 1;
    if (-most - 1..=most).contains(&value) {
        Ok(())
    } else {
        Err(format!("{value} does not fit {bits} bits"))
    }
}

/// The wire's type for a mix's name of it.
fn kind(name: &str) -> Result<Type, String> {
    Ok(match name {
        "bool" => Type::Bool,
        "byte" | "i8" => Type::I8,
        "i16" => Type::I16,
        "i32" => Type::I32,
        "i64" => Type::I64,
        "double" => Type::Double,
        "string" | "binary" => Type::Binary,
        "struct" => Type::Struct,
        _ if name.starts_with("list:") => Type::List,
        _ => {
            return Err(format!(
                "type {name:?} is not one of bool, byte, i8, i16, i32, i64, double, string, binary, struct, list:TYPE"
            ));
        }
    })
}

/// A call without its answer.
#[derive(Debug, Clone, Copy)]
struct Expected {
    ticket: u32,
    operation: usize,
    step: u32,
}

/// A connection that calls a Thrift service.
#[derive(Debug)]
pub struct Thrift {
    script: Arc<ThriftScript>,
    frames: FrameBuffer,
    /// Calls without an answer, oldest first; only what is expected of their answers differs.
    expected: VecDeque<Expected>,
    scratch: Vec<u8>,
}

impl Thrift {
    /// A fresh connection.
    pub fn new(script: Arc<ThriftScript>) -> Self {
        Self {
            script,
            frames: FrameBuffer::default(),
            expected: VecDeque::new(),
            scratch: Vec::new(),
        }
    }
}

/// Reads the digits that a text has written.
fn number(digits: &[u8]) -> i64 {
    digits.iter().fold(0u64, |number, digit| {
        number.wrapping_mul(10).wrapping_add(u64::from(digit & 15))
    }) as i64
}

impl Codec for Thrift {
    fn encode(&mut self, request: &Request, workload: &Workload, out: &mut Vec<u8>) {
        let call = &self.script.steps[request.operation][request.step as usize];
        let message = Message {
            kind: MessageKind::Call,
            seqid: request.ticket as i32,
            name: &call.method,
        };
        let scratch = &mut self.scratch;
        write_frame(out, |out| {
            message.write(out, |writer| {
                for part in &call.parts {
                    match part {
                        Part::Literal(bytes) => writer.raw(bytes),
                        Part::Key => writer.i64(request.key as i64),
                        Part::Number(text) => {
                            scratch.clear();
                            text.write(workload, request, scratch);
                            writer.i64(number(scratch));
                        }
                        Part::Bytes(text) => {
                            scratch.clear();
                            text.write(workload, request, scratch);
                            writer.binary(scratch);
                        }
                    }
                }
            });
        });
        self.expected.push_back(Expected {
            ticket: request.ticket,
            operation: request.operation,
            step: request.step,
        });
    }

    fn decode(
        &mut self,
        input: &[u8],
        _out: &mut Vec<u8>,
        answers: &mut Vec<Answer>,
    ) -> Result<(), ProtocolError> {
        let (script, expected) = (&self.script, &mut self.expected);
        let taken: Result<(), Stop> = self.frames.take(input, |frame| {
            answers.push(answer(frame, script, expected)?);
            Ok(())
        });
        taken.map_err(|stop| ProtocolError { kind: stop.0 })
    }
}

/// Why a connection is of no further use.
struct Stop(&'static str);

impl From<ThriftError> for Stop {
    fn from(error: ThriftError) -> Self {
        Self(error.kind())
    }
}

fn answer(
    frame: &[u8],
    script: &ThriftScript,
    expected: &mut VecDeque<Expected>,
) -> Result<Answer, Stop> {
    let mut reader = Reader::new(frame);
    let message = Message::read(&mut reader)?;
    let ticket = message.seqid as u32;
    // What multiplexes answers nearly in order: the oldest are looked at first.
    let place = expected.iter().position(|e| e.ticket == ticket);
    let call = place
        .and_then(|place| expected.remove(place))
        .ok_or(Stop("unsolicited-answer"))?;
    let call = &script.steps[call.operation][call.step as usize];
    let outcome = match message.kind {
        MessageKind::Reply => result(&mut reader, call)?,
        MessageKind::Exception => {
            Outcome::Refused(ApplicationException::read(&mut reader)?.kind.name())
        }
        MessageKind::Call | MessageKind::Oneway => return Err(Stop("garbage")),
    };
    Ok(Answer {
        ticket: Some(ticket),
        outcome,
    })
}

/// What the structure of an answer says: field 0 is the result, any other an exception that the service declares.
fn result(reader: &mut Reader<'_>, call: &Call) -> Result<Outcome, ThriftError> {
    let Some(field) = Fields::default().next(reader)? else {
        // A method without a result, or one that has found nothing.
        return Ok(match (call.effect, &call.expect) {
            (_, Some(_)) => Outcome::Refused("missing-result"),
            (Effect::Read, None) => Outcome::Miss,
            (Effect::Write, None) => Outcome::Stored,
            (Effect::Call, None) => Outcome::Done,
        });
    };
    if field.id != 0 {
        return Ok(Outcome::Refused("declared-exception"));
    }
    if let Some(expect) = &call.expect {
        match find(reader, field.kind, &expect.fields)? {
            None => return Ok(Outcome::Refused("missing-result")),
            Some(value) if expect.i64.is_some_and(|wanted| wanted != value) => {
                return Ok(Outcome::Refused("wrong-result"));
            }
            Some(_) => {}
        }
    }
    Ok(match call.effect {
        Effect::Read => Outcome::Hit,
        Effect::Write => Outcome::Stored,
        Effect::Call => Outcome::Done,
    })
}

/// The whole number at `path`, ids of fields within fields, in a value of type `kind`; None if there is none.
fn find(reader: &mut Reader<'_>, kind: Type, path: &[i16]) -> Result<Option<i64>, ThriftError> {
    let Some((&id, path)) = path.split_first() else {
        return Ok(match kind {
            Type::I8 => Some(i64::from(reader.i8()?)),
            Type::I16 => Some(i64::from(reader.i16()?)),
            Type::I32 => Some(i64::from(reader.i32()?)),
            Type::I64 => Some(reader.i64()?),
            _ => None,
        });
    };
    if kind != Type::Struct {
        return Ok(None);
    }
    let mut fields = Fields::default();
    while let Some(field) = fields.next(reader)? {
        if field.id == id {
            return find(reader, field.kind, path);
        }
        reader.skip(field.kind)?;
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
