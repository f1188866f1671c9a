//! The envelope of a call, and the exception that stands for an answer when the server could not even begin.

use crate::{Fields, Reader, ThriftError, Type, Writer};

/// Every message of the compact protocol begins with it.
const PROTOCOL_ID: u8 = 0x82;
const VERSION: u8 = 1;

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum MessageKind {
    /// A call that is answered.
    Call = 1,
    /// The answer.
    Reply = 2,
    /// An [`ApplicationException`] instead of an answer.
    Exception = 3,
    /// A call that is not answered.
    Oneway = 4,
}

/// The beginning of a message; the structure of its arguments, its result or its exception follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// What it is.
    pub kind: MessageKind,
    /// Distinguishes the calls of one connection; the answer repeats it.
    pub seqid: i32,
    /// The method.
    pub name: &'a str,
}

impl<'a> Message<'a> {
    /// Reads the beginning of a message.
    #[inline]
    pub fn read(reader: &mut Reader<'a>) -> Result<Self, ThriftError> {
        if reader.byte()? != PROTOCOL_ID {
            return Err(ThriftError::Protocol);
        }
        let byte = reader.byte()?;
        let kind = match byte >> 5 {
            1 => MessageKind::Call,
            2 => MessageKind::Reply,
            3 => MessageKind::Exception,
            4 => MessageKind::Oneway,
            _ => return Err(ThriftError::Protocol),
        };
        if byte & 0x1f != VERSION {
            return Err(ThriftError::Protocol);
        }
        let seqid = reader.varint32()? as i32;
        let name = reader.string()?;
        Ok(Self { kind, seqid, name })
    }

    /// Appends the message; `body` writes the fields of its structure.
    #[inline]
    pub fn write(&self, out: &mut Vec<u8>, body: impl FnOnce(&mut Writer<'_>)) {
        out.extend_from_slice(&[PROTOCOL_ID, (self.kind as u8) << 5 | VERSION]);
        let mut writer = Writer::new(out);
        writer.varint(u64::from(self.seqid as u32));
        writer.string(self.name);
        writer.structure(body);
    }
}

/// Kinds of [`ApplicationException`], as Thrift numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum ExceptionKind {
    /// None of the others.
    Unknown = 0,
    /// The service has no such method.
    UnknownMethod = 1,
    /// A message of a kind that was not expected.
    InvalidMessageType = 2,
    /// The answer is to another method.
    WrongMethodName = 3,
    /// The answer is to another call.
    BadSequenceId = 4,
    /// The result is missing.
    MissingResult = 5,
    /// The handler failed.
    InternalError = 6,
    /// The message broke the protocol.
    ProtocolError = 7,
}

impl ExceptionKind {
    fn from_code(code: i32) -> Self {
        match code {
            1 => Self::UnknownMethod,
            2 => Self::InvalidMessageType,
            3 => Self::WrongMethodName,
            4 => Self::BadSequenceId,
            5 => Self::MissingResult,
            6 => Self::InternalError,
            7 => Self::ProtocolError,
            _ => Self::Unknown,
        }
    }

    /// A word for counting.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::UnknownMethod => "unknown-method",
            Self::InvalidMessageType => "invalid-message-type",
            Self::WrongMethodName => "wrong-method-name",
            Self::BadSequenceId => "bad-sequence-id",
            Self::MissingResult => "missing-result",
            Self::InternalError => "internal-error",
            Self::ProtocolError => "protocol-error",
        }
    }
}

/// Thrift's TApplicationException.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApplicationException<'a> {
    /// What went wrong, as a number.
    pub kind: ExceptionKind,
    /// What went wrong, in words.
    pub text: &'a str,
}

impl<'a> ApplicationException<'a> {
    /// Reads the exception that follows the beginning of its message.
    pub fn read(reader: &mut Reader<'a>) -> Result<Self, ThriftError> {
        let (mut kind, mut text) = (ExceptionKind::Unknown, "");
        let mut fields = Fields::default();
        while let Some(field) = fields.next(reader)? {
            match (field.id, field.kind) {
                (1, Type::Binary) => text = reader.string()?,
                (2, Type::I32) => kind = ExceptionKind::from_code(reader.i32()?),
                (_, kind) => reader.skip(kind)?,
            }
        }
        Ok(Self { kind, text })
    }

    /// Appends the message that answers call `seqid` of `method` with this exception.
    pub fn write(&self, out: &mut Vec<u8>, method: &str, seqid: i32) {
        let message = Message {
            kind: MessageKind::Exception,
            seqid,
            name: method,
        };
        message.write(out, |fields| {
            fields.field_string(1, self.text);
            fields.field_i32(2, self.kind as i32);
        });
    }
}
