//! Messages to bytes and back: Protocol Buffers (prost), Thrift's compact protocol, JSON (serde_json).
//!
//! One operation is one message, of two sets: `fleet` has the sizes of messages in Google's fleet, most of
//! them tiny; `response` are answers of an API with twenty items. Decoding makes the whole message with strings
//! of its own and drops it again, encoding writes into a buffer that is used again.

use std::sync::Arc;

use prost::Message as _;
use steelyard_thrift::{Fields, Reader, ThriftError, Type, Writer};

use super::buffer::Buffer;
use crate::TaxError;
use crate::benchmark::{Category, Microbenchmark, Prepared, Setup, Worker, fold};
use crate::inputs::{Item, Message, fleet_messages, response_messages};

/// Messages of the set `fleet`: enough that the largest few are among them.
const FLEET_COUNT: usize = 256;
/// Messages of the set `response`, and items of each.
const RESPONSE_COUNT: usize = 16;
const RESPONSE_ITEMS: usize = 20;

/// Room for an encoded message, amply.
const OUT_BYTES: usize = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Protobuf,
    Thrift,
    Json,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Self::Protobuf => "protobuf",
            Self::Thrift => "thrift",
            Self::Json => "json",
        }
    }

    fn encode(self, message: &Message, out: &mut Vec<u8>) {
        out.clear();
        match self {
            Self::Protobuf => message.encode(out).expect("a vector grows"),
            Self::Thrift => write_thrift(message, out),
            Self::Json => serde_json::to_writer(out, message).expect("a vector grows"),
        }
    }

    fn decode(self, bytes: &[u8]) -> Result<Message, String> {
        match self {
            Self::Protobuf => Message::decode(bytes).map_err(|error| error.to_string()),
            Self::Thrift => read_thrift(&mut Reader::new(bytes)).map_err(|error| error.to_string()),
            Self::Json => serde_json::from_slice(bytes).map_err(|error| error.to_string()),
        }
    }
}

fn write_item(fields: &mut Writer<'_>, item: &Item) {
    fields.field_i64(1, item.id as i64);
    fields.field_i32(2, item.owner as i32);
    fields.field_double(3, item.rank);
    fields.field_string(4, &item.title);
    fields.field_list(5, Type::I32, item.counts.len() as u32);
    for &count in &item.counts {
        fields.i32(count as i32);
    }
}

/// Writes what is set, as Thrift does with optional fields and Protocol Buffers always.
fn write_thrift(message: &Message, out: &mut Vec<u8>) {
    Writer::new(out).structure(|fields| {
        if message.id != 0 {
            fields.field_i64(1, message.id as i64);
        }
        if message.kind != 0 {
            fields.field_i32(2, message.kind as i32);
        }
        if message.time_us != 0 {
            fields.field_i64(3, message.time_us as i64);
        }
        if !message.name.is_empty() {
            fields.field_string(4, &message.name);
        }
        if !message.tags.is_empty() {
            fields.field_list(5, Type::Binary, message.tags.len() as u32);
            for tag in &message.tags {
                fields.string(tag);
            }
        }
        if !message.scores.is_empty() {
            fields.field_list(6, Type::Double, message.scores.len() as u32);
            for &score in &message.scores {
                fields.double(score);
            }
        }
        if !message.items.is_empty() {
            fields.field_list(7, Type::Struct, message.items.len() as u32);
            for item in &message.items {
                fields.structure(|fields| write_item(fields, item));
            }
        }
        if message.live {
            fields.field_bool(8, true);
        }
    });
}

fn read_item(reader: &mut Reader<'_>) -> Result<Item, ThriftError> {
    let (mut fields, mut item) = (Fields::default(), Item::default());
    while let Some(field) = fields.next(reader)? {
        match (field.id, field.kind) {
            (1, Type::I64) => item.id = reader.i64()? as u64,
            (2, Type::I32) => item.owner = reader.i32()? as u32,
            (3, Type::Double) => item.rank = reader.double()?,
            (4, Type::Binary) => item.title = reader.string()?.to_owned(),
            (5, Type::List) => {
                let (_, count) = reader.list()?;
                item.counts = (0..count)
                    .map(|_| reader.i32().map(|value| value as u32))
                    .collect::<Result<_, _>>()?;
            }
            (_, kind) => reader.skip(kind)?,
        }
    }
    Ok(item)
}

fn read_thrift(reader: &mut Reader<'_>) -> Result<Message, ThriftError> {
    let (mut fields, mut message) = (Fields::default(), Message::default());
    while let Some(field) = fields.next(reader)? {
        match (field.id, field.kind) {
            (1, Type::I64) => message.id = reader.i64()? as u64,
            (2, Type::I32) => message.kind = reader.i32()? as u32,
            (3, Type::I64) => message.time_us = reader.i64()? as u64,
            (4, Type::Binary) => message.name = reader.string()?.to_owned(),
            (5, Type::List) => {
                let (_, count) = reader.list()?;
                message.tags = (0..count)
                    .map(|_| reader.string().map(str::to_owned))
                    .collect::<Result<_, _>>()?;
            }
            (6, Type::List) => {
                let (_, count) = reader.list()?;
                message.scores = (0..count)
                    .map(|_| reader.double())
                    .collect::<Result<_, _>>()?;
            }
            (7, Type::List) => {
                let (_, count) = reader.list()?;
                message.items = (0..count)
                    .map(|_| read_item(reader))
                    .collect::<Result<_, _>>()?;
            }
            (8, Type::Bool) => message.live = reader.bool()?,
            (_, kind) => reader.skip(kind)?,
        }
    }
    Ok(message)
}

/// All benchmarks of this category.
pub fn benchmarks() -> Vec<Box<dyn Microbenchmark>> {
    let mut found: Vec<Box<dyn Microbenchmark>> = Vec::new();
    for format in [Format::Protobuf, Format::Thrift, Format::Json] {
        for decode in [false, true] {
            for fleet in [true, false] {
                let verb = if decode { "decode" } else { "encode" };
                let set = if fleet { "fleet" } else { "response" };
                found.push(Box::new(Serialization {
                    name: format!("{}-{verb}-{set}", format.name()),
                    format,
                    decode,
                    fleet,
                }));
            }
        }
    }
    found
}

struct Serialization {
    name: String,
    format: Format,
    decode: bool,
    fleet: bool,
}

impl Microbenchmark for Serialization {
    fn name(&self) -> &str {
        &self.name
    }

    fn category(&self) -> Category {
        Category::Serialization
    }

    fn operation(&self) -> &str {
        if self.decode {
            "decodes one message"
        } else {
            "encodes one message"
        }
    }

    fn prepare(&self, setup: &Setup) -> Result<Prepared, TaxError> {
        let messages = if self.fleet {
            fleet_messages(setup.seed, FLEET_COUNT)
        } else {
            response_messages(setup.seed, RESPONSE_COUNT, RESPONSE_ITEMS)
        };
        let pairs: Vec<Pair> = messages
            .into_iter()
            .map(|message| {
                let mut bytes = Vec::new();
                self.format.encode(&message, &mut bytes);
                let bytes = Buffer::copy(&bytes, 1024);
                Pair { message, bytes }
            })
            .collect();
        let bytes: usize = pairs.iter().map(|pair| pair.bytes.len()).sum();
        let count = pairs.len();
        let pairs = Arc::new(pairs);
        let workers = (0..setup.workers)
            .map(|_| {
                Box::new(Core {
                    format: self.format,
                    decode: self.decode,
                    pairs: pairs.clone(),
                    out: Vec::new(),
                }) as _
            })
            .collect();
        Ok(Prepared::new(workers)
            .bytes(bytes as f64 / count as f64)
            .cycle(count as u64))
    }
}

struct Pair {
    message: Message,
    bytes: Buffer,
}

struct Core {
    format: Format,
    decode: bool,
    pairs: Arc<Vec<Pair>>,
    out: Vec<u8>,
}

impl Worker for Core {
    fn begin(&mut self) -> Result<(), String> {
        // So large that it is a mapping of its own, which begins at the same place in a page each time.
        self.out = Vec::with_capacity(OUT_BYTES);
        Ok(())
    }

    fn verify(&mut self) -> Result<(), String> {
        for pair in self.pairs.iter() {
            self.format.encode(&pair.message, &mut self.out);
            if *self.out != *pair.bytes {
                return Err("two encodings of a message differ".to_owned());
            }
            if self.format.decode(&pair.bytes)? != pair.message {
                return Err("the decoded message differs from the original".to_owned());
            }
        }
        Ok(())
    }

    fn run(&mut self, operations: u64) -> u64 {
        let mut sum = 0u64;
        let pairs = self.pairs.clone();
        for pair in pairs.iter().cycle().take(operations as usize) {
            let part = if self.decode {
                let message = self.format.decode(&pair.bytes).expect("as verified");
                // All of it must have been made, not only what the checksum reads.
                std::hint::black_box(&message).id
            } else {
                self.format.encode(&pair.message, &mut self.out);
                std::hint::black_box(&self.out).len() as u64
            };
            sum = fold(sum, part);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes worked out by hand from both specifications.
    #[test]
    fn a_small_message_has_the_bytes_that_the_specifications_give() {
        let message = Message {
            id: 300,
            kind: 1,
            name: "ab".to_owned(),
            live: true,
            ..Message::default()
        };
        let mut out = Vec::new();
        Format::Protobuf.encode(&message, &mut out);
        assert_eq!(
            out,
            [
                0x08, 0xac, 0x02, 0x10, 0x01, 0x22, 2, b'a', b'b', 0x40, 0x01
            ]
        );
        Format::Thrift.encode(&message, &mut out);
        // Zigzag of 300 is 600 = 0xd8 0x04; field 4 is two after field 2, field 8 four after 4.
        assert_eq!(
            out,
            [
                0x16, 0xd8, 0x04, 0x15, 0x02, 0x28, 2, b'a', b'b', 0x41, 0x00
            ]
        );
        Format::Json.encode(&message, &mut out);
        assert!(out.starts_with(b"{\"id\":300,\"kind\":1,\"time_us\":0,\"name\":\"ab\""));
    }
}
