use std::path::Path;

use proptest::prelude::*;
use steelyard_thrift::ExceptionKind;

use super::*;
use crate::Sizes;
use crate::mix::MixFile;
use crate::protocol::Protocol;
use crate::workload::Keyspace;
use crate::workload::Popularity;

const MIX: &str = r#"
schema_version = "1.0"
kind = "mix"
[[operation]]
name = "rank"
weight = 1
[operation.thrift]
method = "rank"
arguments = [
  { id = 1, type = "struct", value = [
    { id = 1, type = "i64", value = "{key}" },
    { id = 2, type = "i32", value = 100 },
    { id = 3, type = "bool", value = true },
    { id = 4, type = "string", value = "{text}" },
    { id = 20, type = "list:i16", value = [1, -2] },
  ] },
  { id = 2, type = "double", value = 0.5 },
  { id = 3, type = "i32", value = "{uniform:5:5}" },
]
expect = { fields = [1, 2], i64 = 77 }
[[operation]]
name = "read"
weight = 1
effect = "read"
thrift = { method = "find" }
"#;
const RANK: usize = 0;
const READ: usize = 1;

fn workload(file: &str) -> Arc<Workload> {
    let file = MixFile::parse(file, "test", Path::new("")).unwrap();
    let mix = file.for_protocol(Protocol::Thrift).unwrap();
    let keys = Keyspace::new(1000, Sizes::fixed(12), Sizes::fixed(30), true).unwrap();
    Arc::new(Workload::new(keys, Popularity::Uniform, Arc::new(mix)).unwrap())
}

struct Client {
    thrift: Thrift,
    workload: Arc<Workload>,
    answers: Vec<Answer>,
}

impl Client {
    fn new() -> Self {
        let workload = workload(MIX);
        let script = Arc::new(ThriftScript::of(&workload).unwrap());
        Self {
            thrift: Thrift::new(script),
            workload,
            answers: Vec::new(),
        }
    }

    fn ask(&mut self, operation: usize, ticket: u32) -> Vec<u8> {
        let request = Request {
            ticket,
            ..Request::of(operation, 7)
        };
        let mut out = Vec::new();
        self.thrift.encode(&request, &self.workload, &mut out);
        out
    }

    fn receive(&mut self, bytes: &[u8]) -> Result<Vec<(Option<u32>, Outcome)>, &'static str> {
        let decoded = self
            .thrift
            .decode(bytes, &mut Vec::new(), &mut self.answers);
        decoded.map_err(|error| error.kind)?;
        let answers = self.answers.drain(..);
        Ok(answers.map(|a| (a.ticket, a.outcome)).collect())
    }
}

fn reply(seqid: i32, body: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let message = Message {
        kind: MessageKind::Reply,
        seqid,
        name: "rank",
    };
    let mut out = Vec::new();
    write_frame(&mut out, |out| message.write(out, body));
    out
}

#[test]
fn a_call_is_written_as_the_mix_says() {
    let mut client = Client::new();
    let request = Request::of(RANK, 7);
    let mut expected = Vec::new();
    let message = Message {
        kind: MessageKind::Call,
        seqid: 300,
        name: "rank",
    };
    write_frame(&mut expected, |out| {
        message.write(out, |arguments| {
            arguments.field_struct(1, |request_of| {
                request_of.field_i64(1, 7);
                request_of.field_i32(2, 100);
                request_of.field_bool(3, true);
                request_of.field_binary(4, client.workload.text(&request, 0));
                request_of.field_list(20, Type::I16, 2);
                request_of.i16(1);
                request_of.i16(-2);
            });
            arguments.field_double(2, 0.5);
            arguments.field_i32(3, 5);
        });
    });
    assert_eq!(client.ask(RANK, 300), expected);
}

#[test]
fn answers_are_matched_and_checked() {
    let mut client = Client::new();
    for ticket in 0..8 {
        client.ask(if ticket < 6 { RANK } else { READ }, ticket);
    }
    let with = |seqid, value| {
        reply(seqid, move |result| {
            result.field_struct(0, |response| {
                response.field_string(3, "before");
                response.field_struct(1, |inner| {
                    inner.field_map(1, Type::I32, Type::I32, 0);
                    inner.field_i64(2, value);
                });
            });
        })
    };
    let mut exception = Vec::new();
    write_frame(&mut exception, |out| {
        let exception = ApplicationException {
            kind: ExceptionKind::UnknownMethod,
            text: "no such method",
        };
        exception.write(out, "rank", 3);
    });
    let frames = [
        with(1, 77),
        with(0, 78),
        reply(2, |result| {
            result.field_struct(0, |response| response.field_i64(1, 77))
        }),
        exception,
        reply(4, |result| {
            result.field_struct(1, |declared| declared.field_string(1, "no"))
        }),
        reply(5, |_| {}),
        reply(6, |_| {}),
        reply(7, |result| result.field_i32(0, 1)),
    ];
    let refused = Outcome::Refused;
    assert_eq!(
        client.receive(&frames.concat()).unwrap(),
        [
            (Some(1), Outcome::Done),
            (Some(0), refused("wrong-result")),
            (Some(2), refused("missing-result")),
            (Some(3), refused("unknown-method")),
            (Some(4), refused("declared-exception")),
            (Some(5), refused("missing-result")),
            (Some(6), Outcome::Miss),
            (Some(7), Outcome::Hit),
        ]
    );
}

#[test]
fn what_is_no_answer_breaks_the_connection() {
    let mut client = Client::new();
    let call = client.ask(RANK, 1);
    assert_eq!(client.receive(&call), Err("garbage"));
    let mut client = Client::new();
    client.ask(RANK, 1);
    assert_eq!(client.receive(&reply(2, |_| {})), Err("unsolicited-answer"));
    for (bytes, kind) in [
        (&b"HTTP/1.1 400 Bad Request\r\n"[..], "frame-too-large"),
        (&[0, 0, 0, 2, 0x82, 0x41], "short-message"),
        (&[0, 0, 0, 4, 0x80, 1, 0, 2], "garbage"),
        (&[0, 0, 0, 0], "short-message"),
    ] {
        let mut client = Client::new();
        client.ask(RANK, 1);
        assert_eq!(client.receive(bytes), Err(kind), "{bytes:?}");
    }
}

#[test]
fn arguments_that_do_not_fit_are_refused_with_the_reason() {
    for (argument, words) in [
        (
            r#"{ id = 1, type = "int", value = 1 }"#,
            "is not one of bool",
        ),
        (
            r#"{ id = 1, type = "i8", value = 300 }"#,
            "does not fit 8 bits",
        ),
        (
            r#"{ id = 1, type = "i32", value = "x" }"#,
            "is not a number",
        ),
        (
            r#"{ id = 1, type = "i16", value = "{uniform:0:40000}" }"#,
            "40000 does not fit 16 bits",
        ),
        (r#"{ id = 1, type = "i64", value = "{key}1" }"#, "alone"),
        (r#"{ id = 1, type = "bool", value = 1 }"#, "true or false"),
        (
            r#"{ id = 1, type = "string", value = "{value}" }"#,
            "use {text}",
        ),
        (r#"{ id = 1, type = "struct", value = 1 }"#, "not a struct"),
        (
            r#"{ id = 1, type = "list:i32", value = ["a"] }"#,
            "is not a number",
        ),
    ] {
        let file = MIX.replace("arguments = [", &format!("arguments = [{argument},"));
        let error = ThriftScript::of(&workload(&file)).unwrap_err().to_string();
        assert!(error.contains(words), "{argument}: {error}");
        assert!(error.contains("operation rank"), "{error}");
    }
}

proptest! {
    #[test]
    fn noise_never_panics(noise in prop::collection::vec(any::<u8>(), 0..200), piece in 1usize..50) {
        let mut framed = Vec::new();
        write_frame(&mut framed, |out| {
            let message = Message { kind: MessageKind::Reply, seqid: 1, name: "rank" };
            message.write(out, |_| {});
            out.pop();
            out.extend_from_slice(&noise);
        });
        for bytes in [noise, framed] {
            let mut client = Client::new();
            client.ask(RANK, 1);
            for piece in bytes.chunks(piece) {
                if client.receive(piece).is_err() {
                    break;
                }
            }
        }
    }
}
