//! How fast messages are written and read: `cargo bench -p steelyard-thrift`.
//!
//! The call is as small as calls are (a structure of three numbers). The answer has the shape of FeedSim's stories: a list
//! of structures with numbers, text, a nested structure and a map.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use steelyard_thrift::{
    Fields, FrameBuffer, Message, MessageKind, Reader, ThriftError, Type, Writer, write_frame,
};

const STORIES: u32 = 100;

fn write_call(out: &mut Vec<u8>, seqid: i32) {
    let message = Message {
        kind: MessageKind::Call,
        seqid,
        name: "rank",
    };
    write_frame(out, |out| {
        message.write(out, |arguments| {
            arguments.field_struct(1, |request| {
                request.field_i64(1, 0x1234_5678_9abc);
                request.field_i32(2, 100);
                request.field_i32(3, 1);
            });
        });
    });
}

fn write_story(writer: &mut Writer<'_>, index: u32) {
    writer.structure(|story| {
        story.field_i64(1, 0x10_0000_0000 + i64::from(index));
        story.field_i64(2, 1_700_000_000_000);
        story.field_double(3, f64::from(index) * 0.01);
        story.field_bool(4, index.is_multiple_of(2));
        story.field_string(
            5,
            "A story that somebody may want to read before the others",
        );
        story.field_struct(6, |author| {
            author.field_i64(1, 77_000 + i64::from(index));
            author.field_string(2, "somebody");
        });
        story.field_map(7, Type::I32, Type::I64, 4);
        for key in 0..4 {
            story.i32(key);
            story.i64(i64::from(index) * 1000);
        }
        story.field_list(8, Type::I64, 8);
        for value in 0..8 {
            story.i64(1 << (value * 7));
        }
    });
}

fn write_answer(out: &mut Vec<u8>) {
    let message = Message {
        kind: MessageKind::Reply,
        seqid: 1,
        name: "rank",
    };
    write_frame(out, |out| {
        message.write(out, |result| {
            result.field_struct(0, |response| {
                response.field_i64(1, 0x1234_5678_9abc_def0);
                response.field_list(2, Type::Struct, STORIES);
                for index in 0..STORIES {
                    write_story(response, index);
                }
            });
        });
    });
}

/// Reads every value of a story and sums the numbers.
fn read_story(reader: &mut Reader<'_>) -> Result<i64, ThriftError> {
    let (mut fields, mut sum) = (Fields::default(), 0i64);
    while let Some(field) = fields.next(reader)? {
        match (field.id, field.kind) {
            (1 | 2, Type::I64) => sum = sum.wrapping_add(reader.i64()?),
            (3, Type::Double) => sum += reader.double()? as i64,
            (4, Type::Bool) => sum += i64::from(reader.bool()?),
            (5, Type::Binary) => sum += reader.string()?.len() as i64,
            (6, Type::Struct) => {
                let mut author = Fields::default();
                while let Some(field) = author.next(reader)? {
                    match (field.id, field.kind) {
                        (1, Type::I64) => sum += reader.i64()?,
                        (2, Type::Binary) => sum += reader.string()?.len() as i64,
                        (_, kind) => reader.skip(kind)?,
                    }
                }
            }
            (7, Type::Map) => {
                if let Some((_, _, count)) = reader.map()? {
                    for _ in 0..count {
                        sum = sum.wrapping_add(i64::from(reader.i32()?) + reader.i64()?);
                    }
                }
            }
            (8, Type::List) => {
                let (_, count) = reader.list()?;
                for _ in 0..count {
                    sum = sum.wrapping_add(reader.i64()?);
                }
            }
            (_, kind) => reader.skip(kind)?,
        }
    }
    Ok(sum)
}

fn read_answer(frame: &[u8]) -> Result<i64, ThriftError> {
    let mut reader = Reader::new(frame);
    Message::read(&mut reader)?;
    let (mut result, mut sum) = (Fields::default(), 0);
    while let Some(field) = result.next(&mut reader)? {
        if (field.id, field.kind) != (0, Type::Struct) {
            reader.skip(field.kind)?;
            continue;
        }
        let mut response = Fields::default();
        while let Some(field) = response.next(&mut reader)? {
            if (field.id, field.kind) != (2, Type::List) {
                reader.skip(field.kind)?;
                continue;
            }
            for _ in 0..reader.list()?.1 {
                sum = read_story(&mut reader)?.wrapping_add(sum);
            }
        }
    }
    Ok(sum)
}

fn compact(criterion: &mut Criterion) {
    let mut answer = Vec::new();
    write_answer(&mut answer);
    let mut group = criterion.benchmark_group("compact");

    group.throughput(Throughput::Elements(1));
    let mut out = Vec::with_capacity(1 << 20);
    group.bench_function("write call", |bencher| {
        bencher.iter(|| {
            out.clear();
            write_call(&mut out, black_box(70_000));
            black_box(&out);
        });
    });

    group.throughput(Throughput::Bytes(answer.len() as u64));
    group.bench_function("write answer of 100 stories", |bencher| {
        bencher.iter(|| {
            out.clear();
            write_answer(&mut out);
            black_box(&out);
        });
    });
    group.bench_function("read answer of 100 stories", |bencher| {
        bencher.iter(|| read_answer(black_box(&answer[4..])).unwrap());
    });
    group.bench_function("skip answer of 100 stories", |bencher| {
        bencher.iter(|| {
            let mut reader = Reader::new(black_box(&answer[4..]));
            Message::read(&mut reader).unwrap();
            reader.skip(Type::Struct).unwrap();
        });
    });
    group.bench_function("find the frame in pieces of 1400 bytes", |bencher| {
        let mut frames = FrameBuffer::default();
        bencher.iter(|| {
            let mut found = 0;
            for piece in answer.chunks(1400) {
                let took: Result<(), ThriftError> = frames.take(piece, |frame| {
                    found += frame.len();
                    Ok(())
                });
                took.unwrap();
            }
            assert_eq!(found, answer.len() - 4);
        });
    });
    group.finish();
}

criterion_group!(benches, compact);
criterion_main!(benches);
