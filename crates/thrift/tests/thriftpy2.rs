//! Steelyard and thriftpy2 write the same bytes and understand each other.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use steelyard_thrift::{
    ApplicationException, ExceptionKind, Fields, Message, MessageKind, Reader, Type, Writer,
    write_frame,
};

/// What peer.py calls `everything`.
fn write_everything(writer: &mut Writer<'_>) {
    writer.field_bool(1, true);
    writer.field_bool(2, false);
    writer.field_i8(3, -7);
    writer.field_i16(4, -300);
    writer.field_i32(5, i32::MAX);
    writer.field_i64(6, i64::MAX);
    writer.field_double(7, -0.1);
    writer.field_string(8, "Grüße");
    writer.field_binary(9, &(0..=255).collect::<Vec<u8>>());
    let inner = |number, yes| {
        move |inner: &mut Writer<'_>| {
            inner.field_i64(1, number);
            inner.field_bool(2, yes);
        }
    };
    writer.field_struct(10, inner(-1, true));
    writer.field_list(11, Type::I32, 3);
    [0, 1, -1].iter().for_each(|value| writer.i32(*value));
    writer.field_list(12, Type::Binary, 20);
    (0..20).for_each(|value: u32| writer.string(&value.to_string()));
    writer.field_map(13, Type::Binary, Type::I64, 2);
    for (key, value) in [("a", 1), ("b", i64::MIN)] {
        writer.string(key);
        writer.i64(value);
    }
    writer.field_map(14, Type::I32, Type::Bool, 0);
    writer.field_list(15, Type::Bool, 3);
    [true, false, true]
        .iter()
        .for_each(|value| writer.bool(*value));
    writer.field_list(16, Type::Struct, 3);
    (0..3).for_each(|number| writer.structure(inner(number, false)));
    writer.field_i32(200, -1);
    writer.field_i64(201, -(1 << 40));
    writer.field_list(202, Type::List, 3);
    for values in [&[1i16, 2][..], &[], &[3]] {
        writer.list(Type::I16, values.len() as u32);
        values.iter().for_each(|value| writer.i16(*value));
    }
}

fn framed(kind: MessageKind, field: i16) -> Vec<u8> {
    let message = Message {
        kind,
        seqid: 70_000,
        name: "echo",
    };
    let mut out = Vec::new();
    write_frame(&mut out, |out| {
        message.write(out, |body| body.field_struct(field, write_everything));
    });
    out
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.trim().as_bytes();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

#[test]
fn thriftpy2_writes_and_understands_the_same() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = here.join("../../.venv/bin/python");
    if !python.exists() {
        println!("skipped: thriftpy2 comes with `make build`");
        return;
    }
    let mut peer = Command::new(python)
        .arg(here.join("tests/peer.py"))
        .arg(here.join("tests/peer.thrift"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(peer.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let theirs = unhex(&line);

    let mut exception = Vec::new();
    write_frame(&mut exception, |out| {
        let exception = ApplicationException {
            kind: ExceptionKind::InternalError,
            text: "no stories today",
        };
        exception.write(out, "echo", 5);
    });
    let mut input = peer.stdin.take().unwrap();
    for frame in [framed(MessageKind::Reply, 0), exception] {
        writeln!(input, "{}", hex(&frame)).unwrap();
    }
    drop(input);
    let mut report = String::new();
    stdout.read_to_string(&mut report).unwrap();
    assert!(peer.wait().unwrap().success());
    assert_eq!(
        report.trim(),
        r#"[["echo", 70000, true], ["echo", 5, 6, "no stories today"]]"#
    );

    assert_eq!(hex(&theirs), hex(&framed(MessageKind::Call, 1)));
    let mut reader = Reader::new(&theirs[4..]);
    let message = Message::read(&mut reader).unwrap();
    assert_eq!(
        (message.kind, message.seqid, message.name),
        (MessageKind::Call, 70_000, "echo")
    );
    let mut arguments = Fields::default();
    let field = arguments.next(&mut reader).unwrap().unwrap();
    assert_eq!((field.id, field.kind), (1, Type::Struct));
    let (mut fields, mut ids) = (Fields::default(), Vec::new());
    while let Some(field) = fields.next(&mut reader).unwrap() {
        ids.push(field.id);
        match field.id {
            1 | 2 => assert_eq!(reader.bool(), Ok(field.id == 1)),
            7 => assert_eq!(reader.double(), Ok(-0.1)),
            8 => assert_eq!(reader.string(), Ok("Grüße")),
            201 => assert_eq!(reader.i64(), Ok(-(1 << 40))),
            _ => reader.skip(field.kind).unwrap(),
        }
    }
    assert_eq!(ids, (1..=16).chain(200..=202).collect::<Vec<i16>>());
    assert_eq!(arguments.next(&mut reader), Ok(None));
    assert!(reader.rest().is_empty());
}
