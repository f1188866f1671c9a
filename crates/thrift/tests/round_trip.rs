//! What is written is read again, whatever it is; what is no message is an error.

use proptest::prelude::*;
use steelyard_thrift::{
    ApplicationException, DEPTH_MAX, ExceptionKind, Fields, FrameBuffer, Message, MessageKind,
    Reader, ThriftError, Type, Writer, read_frame, write_frame,
};

/// Any value that the protocol can hold.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Bool(bool),
    I8(i8),
    I16(i16),
    I32(i32),
    I64(i64),
    Double(u64),
    Binary(Vec<u8>),
    List(Type, Vec<Value>),
    Map(Type, Type, Vec<(Value, Value)>),
    Struct(Vec<(i16, Value)>),
}

impl Value {
    fn kind(&self) -> Type {
        match self {
            Self::Bool(_) => Type::Bool,
            Self::I8(_) => Type::I8,
            Self::I16(_) => Type::I16,
            Self::I32(_) => Type::I32,
            Self::I64(_) => Type::I64,
            Self::Double(_) => Type::Double,
            Self::Binary(_) => Type::Binary,
            Self::List(..) => Type::List,
            Self::Map(..) => Type::Map,
            Self::Struct(_) => Type::Struct,
        }
    }

    fn write(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Bool(value) => writer.bool(*value),
            Self::I8(value) => writer.i8(*value),
            Self::I16(value) => writer.i16(*value),
            Self::I32(value) => writer.i32(*value),
            Self::I64(value) => writer.i64(*value),
            Self::Double(bits) => writer.double(f64::from_bits(*bits)),
            Self::Binary(bytes) => writer.binary(bytes),
            Self::List(kind, values) => {
                writer.list(*kind, values.len() as u32);
                values.iter().for_each(|value| value.write(writer));
            }
            Self::Map(key, value, pairs) => {
                writer.map(*key, *value, pairs.len() as u32);
                for (key, value) in pairs {
                    key.write(writer);
                    value.write(writer);
                }
            }
            Self::Struct(fields) => writer.structure(|writer| {
                for (id, value) in fields {
                    if let Self::Bool(value) = value {
                        writer.field_bool(*id, *value);
                    } else {
                        writer.field(*id, value.kind());
                        value.write(writer);
                    }
                }
            }),
        }
    }

    fn read(reader: &mut Reader<'_>, kind: Type) -> Result<Self, ThriftError> {
        Ok(match kind {
            Type::Bool => Self::Bool(reader.bool()?),
            Type::I8 => Self::I8(reader.i8()?),
            Type::I16 => Self::I16(reader.i16()?),
            Type::I32 => Self::I32(reader.i32()?),
            Type::I64 => Self::I64(reader.i64()?),
            Type::Double => Self::Double(reader.double()?.to_bits()),
            Type::Binary => Self::Binary(reader.binary()?.to_vec()),
            Type::List | Type::Set => {
                let (kind, count) = reader.list()?;
                let values = (0..count).map(|_| Self::read(reader, kind));
                Self::List(kind, values.collect::<Result<_, _>>()?)
            }
            Type::Map => match reader.map()? {
                None => Self::Map(Type::Bool, Type::Bool, Vec::new()),
                Some((key, value, count)) => {
                    let pairs = (0..count)
                        .map(|_| Ok((Self::read(reader, key)?, Self::read(reader, value)?)));
                    Self::Map(key, value, pairs.collect::<Result<_, _>>()?)
                }
            },
            Type::Struct => {
                let (mut fields, mut values) = (Fields::default(), Vec::new());
                while let Some(field) = fields.next(reader)? {
                    values.push((field.id, Self::read(reader, field.kind)?));
                }
                Self::Struct(values)
            }
        })
    }
}

fn scalar() -> BoxedStrategy<Value> {
    prop_oneof![
        any::<bool>().prop_map(Value::Bool),
        any::<i8>().prop_map(Value::I8),
        any::<i16>().prop_map(Value::I16),
        any::<i32>().prop_map(Value::I32),
        any::<i64>().prop_map(Value::I64),
        any::<u64>().prop_map(Value::Double),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(Value::Binary),
    ]
    .boxed()
}

fn value() -> BoxedStrategy<Value> {
    scalar()
        .prop_recursive(4, 64, 20, |inner| {
            let list = prop::collection::vec(inner.clone(), 0..20).prop_map(|mut values| {
                let kind = values.first().map_or(Type::I8, Value::kind);
                values.retain(|value| value.kind() == kind);
                Value::List(kind, values)
            });
            let map = prop::collection::vec((inner.clone(), inner.clone()), 0..20).prop_map(
                |mut pairs| {
                    let kinds = pairs
                        .first()
                        .map_or((Type::Bool, Type::Bool), |(k, v)| (k.kind(), v.kind()));
                    pairs.retain(|(k, v)| (k.kind(), v.kind()) == kinds);
                    Value::Map(kinds.0, kinds.1, pairs)
                },
            );
            let fields = prop::collection::vec((any::<i16>(), inner), 0..20);
            prop_oneof![list, map, fields.prop_map(Value::Struct)]
        })
        .boxed()
}

proptest! {
    #[test]
    fn every_value_comes_back(value in value()) {
        let mut bytes = Vec::new();
        value.write(&mut Writer::new(&mut bytes));
        let mut reader = Reader::new(&bytes);
        prop_assert_eq!(Value::read(&mut reader, value.kind()).unwrap(), value.clone());
        prop_assert!(reader.rest().is_empty());
        let mut reader = Reader::new(&bytes);
        reader.skip(value.kind()).unwrap();
        prop_assert!(reader.rest().is_empty());
        for cut in 0..bytes.len() {
            let mut reader = Reader::new(&bytes[..cut]);
            prop_assert!(reader.skip(value.kind()).is_err());
        }
    }

    #[test]
    fn noise_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), code in 1u8..13) {
        let kind = Type::from_code(code).unwrap();
        let mut reader = Reader::new(&bytes);
        let _ = Value::read(&mut reader, kind);
        let _ = Reader::new(&bytes).skip(kind);
        let mut reader = Reader::new(&bytes);
        if Message::read(&mut reader).is_ok() {
            let _ = ApplicationException::read(&mut reader);
        }
    }

    #[test]
    fn frames_are_found_in_any_pieces(
        messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..20),
        cuts in prop::collection::vec(1usize..30, 1..50),
    ) {
        let mut stream = Vec::new();
        for message in &messages {
            write_frame(&mut stream, |out| out.extend_from_slice(message));
        }
        let (mut buffer, mut found) = (FrameBuffer::new(50), Vec::new());
        let (mut rest, mut cuts) = (&stream[..], cuts.iter().cycle());
        while !rest.is_empty() {
            let (piece, after) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
            buffer.take::<ThriftError>(piece, |frame| {
                found.push(frame.to_vec());
                Ok(())
            }).unwrap();
            rest = after;
        }
        prop_assert_eq!(&found, &messages);
        let (mut source, mut frame, mut read) = (&stream[..], Vec::new(), Vec::new());
        while read_frame(&mut source, &mut frame, 50).unwrap() {
            read.push(frame.clone());
        }
        prop_assert_eq!(read, messages);
    }

    #[test]
    fn messages_come_back(seqid: i32, name in "[a-zA-Z:]{0,20}", oneway: bool) {
        let kind = if oneway { MessageKind::Oneway } else { MessageKind::Call };
        let message = Message { kind, seqid, name: &name };
        let mut bytes = Vec::new();
        message.write(&mut bytes, |fields| fields.field_i64(1, 5));
        let mut reader = Reader::new(&bytes);
        prop_assert_eq!(Message::read(&mut reader).unwrap(), message);
        let mut fields = Fields::default();
        prop_assert_eq!(fields.next(&mut reader).unwrap().unwrap().id, 1);
        prop_assert_eq!(reader.i64().unwrap(), 5);
        prop_assert_eq!(fields.next(&mut reader).unwrap(), None);
    }
}

#[test]
fn what_breaks_the_protocol_is_named() {
    let skip = |kind, bytes: &[u8]| Reader::new(bytes).skip(kind).unwrap_err();
    assert_eq!(skip(Type::Struct, &[0x1d]), ThriftError::Type(13));
    assert_eq!(skip(Type::Struct, &[]), ThriftError::Short);
    assert_eq!(skip(Type::I64, &[0xff; 10]), ThriftError::Number);
    assert_eq!(
        skip(Type::I32, &[0xff, 0xff, 0xff, 0xff, 0x7f]),
        ThriftError::Number
    );
    assert_eq!(skip(Type::I16, &[0x80, 0x80, 0x04]), ThriftError::Number);
    assert_eq!(skip(Type::Binary, &[5, 1]), ThriftError::Short);
    // Two billion elements announced in six bytes.
    let bytes = [0xf7, 0xff, 0xff, 0xff, 0xff, 0x07];
    assert_eq!(skip(Type::List, &bytes), ThriftError::Count(0x7fff_ffff));
    assert_eq!(
        skip(Type::Map, &[0x80, 0x01, 0x88]),
        ThriftError::Count(128)
    );
    // A field id that the deltas drive beyond 16 bits.
    let mut bytes = vec![0x03, 0xfe, 0xff, 0x03, 0];
    bytes.extend([0xf3, 0]);
    assert_eq!(skip(Type::Struct, &bytes), ThriftError::FieldId);
    assert_eq!(
        Reader::new(&[2, 0xff, 0xfe]).string(),
        Err(ThriftError::Text)
    );
    for bytes in [
        &[0x80u8, 0x21, 0, 0][..],
        &[0x82, 0x22, 0, 0],
        &[0x82, 0xa1, 0, 0],
    ] {
        assert_eq!(
            Message::read(&mut Reader::new(bytes)),
            Err(ThriftError::Protocol)
        );
    }
}

#[test]
fn nesting_is_bounded() {
    // A structure in a structure and so on: each is field 1 of the one around it.
    let nested = |depth: usize| [vec![0x1c; depth], vec![0; depth + 1]].concat();
    let most = DEPTH_MAX as usize - 1;
    assert_eq!(Reader::new(&nested(most)).skip(Type::Struct), Ok(()));
    assert_eq!(
        Reader::new(&nested(most + 1)).skip(Type::Struct),
        Err(ThriftError::Depth)
    );
    assert_eq!(
        Reader::new(&vec![0x19; 1 << 20]).skip(Type::List),
        Err(ThriftError::Depth)
    );
}

#[test]
fn large_frames_are_refused_before_they_come() {
    let mut buffer = FrameBuffer::new(1000);
    let error = buffer.take::<ThriftError>(b"HTTP/1.1 400 Bad Request", |_| Ok(()));
    assert_eq!(
        error,
        Err(ThriftError::Frame {
            bytes: u32::from_be_bytes(*b"HTTP"),
            max: 1000
        })
    );
    let mut frame = Vec::new();
    assert!(read_frame(&mut &[0u8, 0, 4, 0, 1][..], &mut frame, 1000).is_err());
    assert!(read_frame(&mut &[0u8, 0][..], &mut frame, 1000).is_err());
    assert!(!read_frame(&mut &[][..], &mut frame, 1000).unwrap());
    // An announcement costs nothing until its bytes come.
    let error = read_frame(&mut &[0u8, 0x80, 0, 0, 1][..], &mut frame, u32::MAX).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
    assert!(frame.capacity() < 1 << 16);
}

#[test]
fn exceptions_come_back() {
    let exception = ApplicationException {
        kind: ExceptionKind::UnknownMethod,
        text: "no such method",
    };
    let mut bytes = Vec::new();
    exception.write(&mut bytes, "rank", -3);
    let mut reader = Reader::new(&bytes);
    let message = Message::read(&mut reader).unwrap();
    assert_eq!((message.kind, message.seqid), (MessageKind::Exception, -3));
    assert_eq!(ApplicationException::read(&mut reader), Ok(exception));
}
