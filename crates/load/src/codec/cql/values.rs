//! Types of columns, and binds: from a mix's texts to values of the type that a prepared statement asks for.
//!
//! A text is bound once per connection, when the statement's types are known, so that sending only writes. Where the
//! column holds a number or a UUID, `{key}` is the key's number, or a UUID made of it. Invariant: what has been bound can
//! be written for every request.

use super::frame::{Body, GARBAGE};
use crate::codec::ProtocolError;
use crate::mix::{Piece, Text};
use crate::random::mix;
use crate::workload::{Request, Workload};

/// How deep collections and tuples may nest in a type.
const DEPTH_MAX: u32 = 32;
const UUID_SALT: u64 = 0x7575_6964_7575_6964;

/// A column's type, as far as a bind needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// Text in UTF-8 (text, varchar, ascii).
    Text,
    /// Bytes.
    Blob,
    /// A whole number of so many bytes (tinyint 1, smallint 2, int 4, bigint, counter and timestamp 8).
    Integer(usize),
    /// 32-bit floating point.
    Float,
    /// 64-bit floating point.
    Double,
    /// True or false.
    Boolean,
    /// A UUID: of any version, or of version 1 (timeuuid).
    Uuid {
        /// Version of those that are made here.
        version: u8,
    },
    /// A type that cannot be bound here, by its code.
    Other(u16),
}

impl Type {
    /// Reads an [option], which is a type.
    pub fn read(body: &mut Body<'_>) -> Result<Self, ProtocolError> {
        Self::read_within(body, DEPTH_MAX)
    }

    fn read_within(body: &mut Body<'_>, depth: u32) -> Result<Self, ProtocolError> {
        let depth = depth.checked_sub(1).ok_or(GARBAGE)?;
        let code = body.short()?;
        Ok(match code {
            0x0001 | 0x000d => Self::Text,
            0x0002 | 0x0005 | 0x000b => Self::Integer(8),
            0x0009 => Self::Integer(4),
            0x0013 => Self::Integer(2),
            0x0014 => Self::Integer(1),
            0x0003 => Self::Blob,
            0x0004 => Self::Boolean,
            0x0007 => Self::Double,
            0x0008 => Self::Float,
            0x000c => Self::Uuid { version: 4 },
            0x000f => Self::Uuid { version: 1 },
            0x0000 => {
                body.string()?;
                Self::Other(code)
            }
            // list, set
            0x0020 | 0x0022 => {
                Self::read_within(body, depth)?;
                Self::Other(code)
            }
            // map
            0x0021 => {
                Self::read_within(body, depth)?;
                Self::read_within(body, depth)?;
                Self::Other(code)
            }
            // A type of the user's: keyspace, name, fields.
            0x0030 => {
                body.string()?;
                body.string()?;
                for _ in 0..body.short()? {
                    body.string()?;
                    Self::read_within(body, depth)?;
                }
                Self::Other(code)
            }
            // tuple
            0x0031 => {
                for _ in 0..body.short()? {
                    Self::read_within(body, depth)?;
                }
                Self::Other(code)
            }
            code => Self::Other(code),
        })
    }

    fn name(self) -> String {
        match self {
            Self::Text => "text".to_owned(),
            Self::Blob => "blob".to_owned(),
            Self::Integer(1) => "tinyint".to_owned(),
            Self::Integer(2) => "smallint".to_owned(),
            Self::Integer(4) => "int".to_owned(),
            Self::Integer(_) => "bigint".to_owned(),
            Self::Float => "float".to_owned(),
            Self::Double => "double".to_owned(),
            Self::Boolean => "boolean".to_owned(),
            Self::Uuid { version: 1 } => "timeuuid".to_owned(),
            Self::Uuid { .. } => "uuid".to_owned(),
            Self::Other(code) => format!("a type with the code {code:#06x}"),
        }
    }
}

/// A text bound to a column.
#[derive(Debug, Clone, PartialEq)]
pub enum Bind {
    /// Its bytes as they are.
    Bytes(Text),
    /// A value that never changes, with its length before it.
    Constant(Vec<u8>),
    /// The key's number as this type.
    KeyNumber(Type),
    /// A UUID made of the key, of this version.
    KeyUuid(u8),
    /// A whole number drawn for each request, as this type.
    Number(Text, Type),
}

impl Bind {
    /// Binds `text` to a column of type `kind`; the error says why it cannot be.
    pub fn new(text: &Text, kind: Type, workload: &Workload) -> Result<Self, String> {
        let refuse = |why: &str| Err(format!("{}: {why}", kind.name()));
        match kind {
            Type::Other(_) => return refuse("cannot be bound"),
            Type::Blob => return Ok(Self::Bytes(text.clone())),
            Type::Text if text.has_binary() => {
                return refuse("{value} is not text: use {text}");
            }
            Type::Text => return Ok(Self::Bytes(text.clone())),
            _ => {}
        }
        if let Some(literal) = text.as_literal() {
            let literal = std::str::from_utf8(literal).unwrap_or_default();
            return match constant(literal, kind) {
                Some(value) => Ok(Self::Constant(value)),
                None => refuse(&format!("{literal:?} is none")),
            };
        }
        let largest = match text.pieces() {
            [Piece::Key] => workload.keys.count().saturating_sub(1),
            [Piece::Uniform { low, count, .. }] => low + (count - 1),
            [Piece::ValueBytes] => i64::MAX as u64,
            _ => return refuse("only a number, {key} or {uniform:LOW:HIGH} alone can be bound"),
        };
        match (kind, text.pieces()) {
            (Type::Uuid { version }, [Piece::Key]) => Ok(Self::KeyUuid(version)),
            (Type::Uuid { .. } | Type::Boolean, _) => refuse("a number is not"),
            (Type::Integer(bytes), [piece]) => {
                let most = i64::MAX as u64 >> (64 - 8 * bytes as u32);
                // The sizes of values are far below the largest int.
                let fits = largest <= most || (*piece == Piece::ValueBytes && bytes >= 4);
                match piece {
                    _ if !fits => refuse(&format!("{largest} is above its largest, {most}")),
                    Piece::Key => Ok(Self::KeyNumber(kind)),
                    _ => Ok(Self::Number(text.clone(), kind)),
                }
            }
            (_, [Piece::Key]) => Ok(Self::KeyNumber(kind)),
            _ => Ok(Self::Number(text.clone(), kind)),
        }
    }

    /// Appends the value for `request`, with its length before it.
    #[inline]
    pub fn write(&self, workload: &Workload, request: &Request, out: &mut Vec<u8>) {
        match self {
            Self::Bytes(text) => {
                let start = out.len();
                out.extend_from_slice(&[0; 4]);
                text.write(workload, request, out);
                let length = (out.len() - start - 4) as u32;
                out[start..start + 4].copy_from_slice(&length.to_be_bytes());
            }
            Self::Constant(value) => out.extend_from_slice(value),
            Self::KeyNumber(kind) => write_number(request.key, *kind, out),
            Self::KeyUuid(version) => {
                out.extend_from_slice(&16u32.to_be_bytes());
                out.extend_from_slice(&key_uuid(request.key, *version));
            }
            Self::Number(text, kind) => {
                // At most 20 digits, and `new` has seen to it that the number fits.
                let start = out.len();
                text.write(workload, request, out);
                let digits = &out[start..];
                let number = digits.iter().fold(0u64, |n, digit| {
                    n.wrapping_mul(10).wrapping_add(u64::from(digit & 15))
                });
                out.truncate(start);
                write_number(number, *kind, out);
            }
        }
    }
}

fn write_value(value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(value.len() as u32).to_be_bytes());
    out.extend_from_slice(value);
}

fn write_number(number: u64, kind: Type, out: &mut Vec<u8>) {
    match kind {
        Type::Integer(bytes) => write_integer(number as i64, bytes, out),
        Type::Float => write_value(&(number as f32).to_be_bytes(), out),
        _ => write_value(&(number as f64).to_be_bytes(), out),
    }
}

fn write_integer(value: i64, bytes: usize, out: &mut Vec<u8>) {
    write_value(&value.to_be_bytes()[8 - bytes..], out);
}

/// The value that `literal` writes, with its length before it.
fn constant(literal: &str, kind: Type) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    match kind {
        Type::Integer(bytes) => {
            let value: i64 = literal.parse().ok()?;
            let most = i64::MAX >> (64 - 8 * bytes as u32);
            if !(-most - 1..=most).contains(&value) {
                return None;
            }
            write_integer(value, bytes, &mut out);
        }
        Type::Float => write_value(&literal.parse::<f32>().ok()?.to_be_bytes(), &mut out),
        Type::Double => write_value(&literal.parse::<f64>().ok()?.to_be_bytes(), &mut out),
        Type::Boolean => write_value(&[u8::from(literal.parse::<bool>().ok()?)], &mut out),
        Type::Uuid { .. } => write_value(&parse_uuid(literal)?, &mut out),
        Type::Text | Type::Blob | Type::Other(_) => return None,
    }
    Some(out)
}

/// The bytes of a UUID as it is written: 8, 4, 4, 4 and 12 hexadecimal digits.
fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let groups: Vec<usize> = text.split('-').map(str::len).collect();
    if groups != [8, 4, 4, 4, 12] {
        return None;
    }
    let digits: String = text.split('-').collect();
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    Some(u128::from_str_radix(&digits, 16).ok()?.to_be_bytes())
}

/// The UUID of a key: a function of its number, with the bits that tell version and variant (RFC 9562).
fn key_uuid(key: u64, version: u8) -> [u8; 16] {
    let high = mix(key ^ UUID_SALT);
    // The number itself is in it, so that no two keys below 2^62 share one.
    let bits = u128::from(high) << 64 | u128::from(key);
    let mut bytes = bits.to_be_bytes();
    bytes[6] = bytes[6] & 0x0f | version << 4;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    bytes
}
