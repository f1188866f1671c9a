use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::Sizes;
use crate::mix::MixFile;
use crate::protocol::Protocol;
use crate::settings::Credentials;
use crate::workload::Keyspace;
use crate::workload::Popularity;

const MIX: &str = r#"
schema_version = "1.0"
kind = "mix"
[cql]
setup = ["CREATE KEYSPACE k", "CREATE TABLE k.t"]
consistency = "QUORUM"
[[operation]]
name = "read"
weight = 1
effect = "read"
cql = { statement = "SELECT * FROM t WHERE id = ?", binds = ["{key}"] }
[[operation]]
name = "write"
weight = 1
effect = "write"
cql = { statement = "INSERT", binds = ["{key}", "{value}"] }
"#;
const READ: usize = 0;
const WRITE: usize = 1;
/// bigint, and blob.
const BIGINT: u16 = 0x0002;
const BLOB: u16 = 0x0003;

fn workload(file: &str) -> Arc<Workload> {
    let file = MixFile::parse(file, "test", Path::new("")).unwrap();
    let mix = file.for_protocol(Protocol::Cql).unwrap();
    let keys = Keyspace::new(1000, Sizes::fixed(12), Sizes::fixed(30), true).unwrap();
    Arc::new(Workload::new(keys, Popularity::Uniform, Arc::new(mix)).unwrap())
}

fn script(credentials: Option<Credentials>) -> Arc<CqlScript> {
    Arc::new(CqlScript::of(&workload(MIX), credentials).unwrap())
}

/// What a client has sent: stream, opcode, body.
fn requests(mut bytes: &[u8]) -> Vec<(u16, u8, Vec<u8>)> {
    let mut requests = Vec::new();
    while !bytes.is_empty() {
        assert_eq!(bytes[..2], [frame::REQUEST, 0]);
        let length = u32::from_be_bytes(bytes[5..9].try_into().unwrap()) as usize;
        let stream = u16::from_be_bytes([bytes[2], bytes[3]]);
        requests.push((stream, bytes[4], bytes[9..9 + length].to_vec()));
        bytes = &bytes[9 + length..];
    }
    requests
}

fn answer(stream: u16, opcode: u8, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_frame(&mut out, stream, opcode, |out| out.extend_from_slice(body));
    out[0] = 0x84;
    out
}

fn error(stream: u16, code: i32, text: &str) -> Vec<u8> {
    let mut body = code.to_be_bytes().to_vec();
    write_string(&mut body, text);
    answer(stream, opcode::ERROR, &body)
}

fn prepared(stream: u16, id: &str, types: &[u16]) -> Vec<u8> {
    let mut body = result::PREPARED.to_be_bytes().to_vec();
    write_string(&mut body, id);
    body.extend_from_slice(&GLOBAL_TABLE.to_be_bytes());
    body.extend_from_slice(&(types.len() as u32).to_be_bytes());
    body.extend_from_slice(&1u32.to_be_bytes());
    body.extend_from_slice(&0u16.to_be_bytes());
    write_string(&mut body, "k");
    write_string(&mut body, "t");
    for kind in types {
        write_string(&mut body, "column");
        body.extend_from_slice(&kind.to_be_bytes());
    }
    // The columns of the result: none.
    body.extend_from_slice(&[0; 8]);
    answer(stream, opcode::RESULT, &body)
}

fn rows(stream: u16, count: u32) -> Vec<u8> {
    let mut body = result::ROWS.to_be_bytes().to_vec();
    body.extend_from_slice(&NO_METADATA.to_be_bytes());
    body.extend_from_slice(&1u32.to_be_bytes());
    body.extend_from_slice(&count.to_be_bytes());
    for _ in 0..count {
        body.extend_from_slice(&[0, 0, 0, 3, b'a', b'b', b'c']);
    }
    answer(stream, opcode::RESULT, &body)
}

fn void(stream: u16) -> Vec<u8> {
    answer(stream, opcode::RESULT, &result::VOID.to_be_bytes())
}

/// A client with what it has sent and received.
struct Client {
    cql: Cql,
    out: Vec<u8>,
    answers: Vec<Answer>,
    next_ticket: u32,
}

impl Client {
    fn new(script: Arc<CqlScript>) -> Self {
        let mut client = Self {
            cql: Cql::new(script),
            out: Vec::new(),
            answers: Vec::new(),
            next_ticket: 100,
        };
        client.cql.open(&mut client.out);
        client
    }

    fn said(&mut self) -> Vec<(u16, u8, Vec<u8>)> {
        requests(&std::mem::take(&mut self.out))
    }

    fn receive(&mut self, bytes: &[u8]) -> Result<(), ProtocolError> {
        self.cql.decode(bytes, &mut self.out, &mut self.answers)
    }

    /// Up to where the session begins.
    fn greeted(script: Arc<CqlScript>) -> Self {
        let mut client = Self::new(script);
        assert_eq!(client.said(), [(0, opcode::OPTIONS, vec![])]);
        let mut supported = 2u16.to_be_bytes().to_vec();
        for (name, values) in [
            ("COMPRESSION", &["lz4"][..]),
            ("CQL_VERSION", &["2.0.0", "3.4.7"]),
        ] {
            write_string(&mut supported, name);
            supported.extend_from_slice(&(values.len() as u16).to_be_bytes());
            for value in values {
                write_string(&mut supported, value);
            }
        }
        client
            .receive(&answer(0, opcode::SUPPORTED, &supported))
            .unwrap();
        let said = client.said();
        assert_eq!(said[0].1, opcode::STARTUP);
        assert!(said[0].2.ends_with(b"3.4.7"));
        client
    }

    /// Up to where it takes requests.
    fn ready() -> Self {
        let mut client = Self::greeted(script(None));
        client.receive(&answer(0, opcode::READY, &[])).unwrap();
        let said = client.said();
        assert_eq!(said.len(), 2);
        for (stream, opcode, body) in said {
            assert_eq!(opcode, opcode::PREPARE);
            let types: &[u16] = if body.ends_with(b"INSERT") {
                &[BIGINT, BLOB]
            } else {
                &[BIGINT]
            };
            assert!(!client.cql.ready());
            let id = if types.len() == 1 { "r" } else { "w" };
            client.receive(&prepared(stream, id, types)).unwrap();
        }
        assert!(client.cql.ready());
        client
    }

    /// Asks, and returns the stream.
    fn ask(&mut self, operation: usize) -> u16 {
        let request = Request {
            ticket: self.next_ticket,
            ..Request::of(operation, 7)
        };
        self.next_ticket += 1;
        let workload = Arc::clone(&self.cql.script.workload);
        self.cql.encode(&request, &workload, &mut self.out);
        let said = self.said();
        assert_eq!((said.len(), said[0].1), (1, opcode::EXECUTE));
        said[0].0
    }

    fn take_answers(&mut self) -> Vec<(Option<u32>, Outcome)> {
        self.answers
            .drain(..)
            .map(|a| (a.ticket, a.outcome))
            .collect()
    }
}

#[test]
fn values_are_written_as_the_statement_types_them() {
    let mut client = Client::ready();
    let request = Request::of(WRITE, 7);
    let workload = Arc::clone(&client.cql.script.workload);
    client.cql.encode(&request, &workload, &mut client.out);
    let (_, _, body) = client.said().remove(0);
    let mut expected = vec![0, 1, b'w', 0, 4, EXECUTE_FLAGS, 0, 2, 0, 0, 0, 8];
    expected.extend_from_slice(&7i64.to_be_bytes());
    expected.extend_from_slice(&30u32.to_be_bytes());
    expected.extend_from_slice(workload.value(&request, 0));
    assert_eq!(body, expected);
}

#[test]
fn answers_find_their_requests_in_any_order() {
    let mut client = Client::ready();
    let streams = [READ, READ, WRITE, READ].map(|operation| client.ask(operation));
    let mut bytes = rows(streams[3], 0);
    bytes.extend(void(streams[2]));
    bytes.extend(error(streams[0], 0x1200, "too late"));
    bytes.extend(rows(streams[1], 2));
    client.receive(&bytes).unwrap();
    assert_eq!(
        client.take_answers(),
        [
            (Some(103), Outcome::Miss),
            (Some(102), Outcome::Stored),
            (Some(100), Outcome::Refused("read-timeout")),
            (Some(101), Outcome::Hit),
        ]
    );
    // Streams are used again, and only when they are free.
    let again = [READ; 5].map(|operation| client.ask(operation));
    let mut different = again.to_vec();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), 5);
    assert!(client.cql.streams.len() <= 5, "{:?}", again);
}

#[test]
fn a_forgotten_statement_is_prepared_again_once() {
    let mut client = Client::ready();
    let (first, second) = (client.ask(READ), client.ask(READ));
    client.receive(&error(first, UNPREPARED, "who?")).unwrap();
    client.receive(&error(second, UNPREPARED, "who?")).unwrap();
    let said = client.said();
    assert_eq!((said.len(), said[0].1), (1, opcode::PREPARE));
    // What is asked meanwhile waits too.
    let request = Request {
        ticket: 200,
        ..Request::of(READ, 8)
    };
    let workload = Arc::clone(&client.cql.script.workload);
    client.cql.encode(&request, &workload, &mut client.out);
    assert!(client.out.is_empty());
    client
        .receive(&prepared(said[0].0, "r2", &[BIGINT]))
        .unwrap();
    let said = client.said();
    assert_eq!(said.len(), 3);
    for (stream, opcode, body) in &said {
        assert_eq!(*opcode, opcode::EXECUTE);
        assert_eq!(body[..4], [0, 2, b'r', b'2']);
        client.receive(&error(*stream, UNPREPARED, "who?")).unwrap();
    }
    let refused = Outcome::Refused("unprepared");
    assert_eq!(
        client.take_answers(),
        [100, 101, 200].map(|ticket| (Some(ticket), refused))
    );
    // And a statement that has become impossible is refused to all who wait for it.
    let stream = client.ask(READ);
    client.receive(&error(stream, UNPREPARED, "who?")).unwrap();
    let (stream, ..) = client.said().remove(0);
    client.receive(&error(stream, 0x2200, "no table")).unwrap();
    assert_eq!(
        client.take_answers(),
        [(Some(102), Outcome::Refused("invalid"))]
    );
}

#[test]
fn a_password_is_given_where_it_is_asked_for() {
    let mut class = Vec::new();
    write_string(&mut class, "PasswordAuthenticator");
    let asked = answer(0, opcode::AUTHENTICATE, &class);
    let mut client = Client::greeted(script(None));
    let refused = client.receive(&asked).unwrap_err();
    assert_eq!(refused.kind, "bad-credentials");
    assert!(client.cql.complaint().unwrap().contains("--user"));

    let credentials = Credentials {
        user: "me".to_owned(),
        password: "secret".to_owned(),
    };
    assert!(!format!("{credentials:?}").contains("secret"));
    let mut client = Client::greeted(script(Some(credentials)));
    client.receive(&asked).unwrap();
    let (_, opcode, body) = client.said().remove(0);
    assert_eq!(opcode, opcode::AUTH_RESPONSE);
    assert_eq!(body, b"\0\0\0\x0a\0me\0secret");
    client
        .receive(&answer(0, opcode::AUTH_SUCCESS, &[255; 4]))
        .unwrap();
    assert_eq!(client.said().len(), 2);
}

#[test]
fn errors_before_the_first_request_are_reported() {
    // The server speaks another version.
    let mut client = Client::new(script(None));
    let mut bytes = error(0, 0x000a, "unsupported protocol version (4)\nmore");
    bytes[0] = 0x85;
    assert_eq!(client.receive(&bytes).unwrap_err().kind, "protocol-error");
    assert_eq!(
        client.cql.complaint(),
        Some("unsupported protocol version (4)")
    );
    let prepare = |types: &[u16]| {
        let mut client = Client::greeted(script(None));
        client.receive(&answer(0, opcode::READY, &[])).unwrap();
        let streams: Vec<u16> = client.said().iter().map(|s| s.0).collect();
        let failed = client
            .receive(&prepared(streams[1], "w", types))
            .unwrap_err();
        (failed.kind, client.cql.complaint().unwrap().to_owned())
    };
    for (types, words) in [
        (&[BIGINT][..], "takes 1 values, and the mix binds 2"),
        (&[BIGINT, 0x000d], "text: {value} is not text"),
        (&[BIGINT, 0x0010], "0x0010"),
        (&[BIGINT, BIGINT], "bigint: only a number"),
        (&[0x0014, BLOB], "999 is above its largest, 127"),
    ] {
        let (kind, complaint) = prepare(types);
        assert_eq!(kind, "bind");
        assert!(complaint.contains(words), "{complaint}");
        assert!(complaint.contains("INSERT"), "{complaint}");
    }
    // A statement that cannot be prepared.
    let mut client = Client::greeted(script(None));
    client.receive(&answer(0, opcode::READY, &[])).unwrap();
    let (stream, ..) = client.said().remove(0);
    let refused = client
        .receive(&error(stream, 0x2200, "no table t"))
        .unwrap_err();
    assert_eq!(refused.kind, "invalid");
    let complaint = client.cql.complaint().unwrap();
    assert!(complaint.contains("no table t") && complaint.contains("SELECT"));
}

#[test]
fn the_setup_runs_in_order_and_says_what_failed() {
    let setup = Arc::new(script(None).setup().unwrap());
    let mut client = Client::greeted(Arc::clone(&setup));
    client.receive(&answer(0, opcode::READY, &[])).unwrap();
    let changed = answer(0, opcode::RESULT, &result::SCHEMA_CHANGE.to_be_bytes());
    for statement in ["CREATE KEYSPACE k", "CREATE TABLE k.t"] {
        assert!(!client.cql.ready());
        let (_, opcode, body) = client.said().remove(0);
        assert_eq!(opcode, opcode::QUERY);
        let mut expected = Vec::new();
        write_long_string(&mut expected, statement);
        expected.extend_from_slice(&[0, 4, 0]);
        assert_eq!(body, expected);
        client.receive(&changed).unwrap();
    }
    assert!(client.cql.ready());
    let mut client = Client::greeted(setup);
    client.receive(&answer(0, opcode::READY, &[])).unwrap();
    let refused = client
        .receive(&error(0, 0x2000, "line 1: what?"))
        .unwrap_err();
    assert_eq!(refused.kind, "syntax-error");
    let complaint = client.cql.complaint().unwrap();
    assert!(complaint.contains("what?") && complaint.contains("CREATE KEYSPACE k"));
}

#[test]
fn what_was_not_asked_for_breaks_the_connection() {
    let mut client = Client::ready();
    assert_eq!(
        client.receive(&void(3)).unwrap_err().kind,
        "unsolicited-answer"
    );
    let mut client = Client::ready();
    let stream = client.ask(READ);
    client.receive(&rows(stream, 1)).unwrap();
    assert_eq!(
        client.receive(&rows(stream, 1)).unwrap_err().kind,
        "unsolicited-answer"
    );
    // Events belong to nobody.
    let mut client = Client::ready();
    client
        .receive(&answer(0xffff, opcode::EVENT, b"\0\0"))
        .unwrap();
    for bad in [
        &b"HTTP/1.1 400 Bad Request\r\n"[..],
        &answer(0xffff, opcode::RESULT, &[]),
        &[0x84, 0, 0, 0, 8, 0xff, 0, 0, 0],
        &[0x84, 1, 0, 0, 8, 0, 0, 0, 0],
    ] {
        let mut client = Client::ready();
        client.ask(READ);
        assert_eq!(client.receive(bad), Err(GARBAGE));
    }
}

#[test]
fn remarks_before_a_body_and_columns_in_it_are_passed_over() {
    let mut client = Client::ready();
    let stream = client.ask(READ);
    let mut body = vec![7; 16];
    body.extend_from_slice(&1u16.to_be_bytes());
    write_string(&mut body, "this is slow");
    body.extend_from_slice(&1u16.to_be_bytes());
    write_string(&mut body, "who");
    body.extend_from_slice(&[255; 4]);
    body.extend_from_slice(&result::ROWS.to_be_bytes());
    body.extend_from_slice(&MORE_PAGES.to_be_bytes());
    body.extend_from_slice(&2u32.to_be_bytes());
    body.extend_from_slice(&[0, 0, 0, 2, 1, 1]);
    // list<tuple<int, varchar>> and a type of the user's.
    let kinds: [&[u8]; 2] = [
        &[0, 0x20, 0, 0x31, 0, 2, 0, 9, 0, 13],
        &[0, 0x30, 0, 1, b'k', 0, 1, b'u', 0, 1, 0, 1, b'f', 0, 9],
    ];
    for kind in kinds {
        for name in ["k", "t", "column"] {
            write_string(&mut body, name);
        }
        body.extend_from_slice(kind);
    }
    body.extend_from_slice(&1u32.to_be_bytes());
    let mut bytes = answer(stream, opcode::RESULT, &body);
    bytes[1] = 0x02 | 0x04 | 0x08;
    client.receive(&bytes).unwrap();
    assert_eq!(client.take_answers(), [(Some(100), Outcome::Hit)]);
}

#[test]
fn long_answers_are_counted_without_being_kept() {
    let mut client = Client::ready();
    let (long, short) = (client.ask(READ), client.ask(READ));
    let mut bytes = rows(long, 1_000_000);
    bytes.extend(rows(short, 0));
    for piece in bytes.chunks(100_000) {
        client.receive(piece).unwrap();
    }
    assert_eq!(
        client.take_answers(),
        [(Some(100), Outcome::Hit), (Some(101), Outcome::Miss)]
    );
    let kept = client.cql.frames.kept_bytes();
    assert!(kept < 3 << 20, "{kept}");
}

#[test]
fn binds_of_every_type_are_written() {
    let workload = workload(MIX);
    let bound = |text: &str, kind| {
        let text = crate::mix::Text::parse(text).unwrap();
        Bind::new(&text, kind, &workload).map(|bind| {
            let mut out = Vec::new();
            bind.write(&workload, &Request::of(READ, 258), &mut out);
            out
        })
    };
    let uuid = "01020304-0506-0708-090a-0b0c0d0e0f10";
    for (text, kind, bytes) in [
        ("{key}", Type::Integer(2), &[0, 0, 0, 2, 1, 2][..]),
        ("{key}", Type::Integer(4), &[0, 0, 0, 4, 0, 0, 1, 2]),
        ("-2", Type::Integer(1), &[0, 0, 0, 1, 0xfe]),
        (
            "{value_bytes}",
            Type::Integer(4),
            &[0, 0, 0, 4, 0, 0, 0, 30],
        ),
        ("{uniform:5:5}", Type::Integer(1), &[0, 0, 0, 1, 5]),
        ("{key}", Type::Float, &[0, 0, 0, 4, 0x43, 0x81, 0, 0]),
        ("0.5", Type::Float, &[0, 0, 0, 4, 0x3f, 0, 0, 0]),
        (
            "1",
            Type::Double,
            &[0, 0, 0, 8, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0],
        ),
        ("true", Type::Boolean, &[0, 0, 0, 1, 1]),
        (
            "a{value_bytes}",
            Type::Text,
            &[0, 0, 0, 3, b'a', b'3', b'0'],
        ),
        (
            uuid,
            Type::Uuid { version: 4 },
            &[
                0, 0, 0, 16, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
            ],
        ),
    ] {
        assert_eq!(bound(text, kind).unwrap(), bytes, "{text} as {kind:?}");
    }
    let made = bound("{key}", Type::Uuid { version: 1 }).unwrap();
    assert_eq!((made.len(), made[10] >> 4, made[12] >> 6), (20, 1, 2));
    for (text, kind) in [
        ("300", Type::Integer(1)),
        ("x", Type::Integer(8)),
        ("{uniform:0:128}", Type::Integer(1)),
        ("{key}", Type::Boolean),
        ("{key}{key}", Type::Integer(8)),
        ("0102", Type::Uuid { version: 4 }),
        (
            "+1020304-0506-0708-090a-0b0c0d0e0f10",
            Type::Uuid { version: 4 },
        ),
        ("x", Type::Other(0x10)),
    ] {
        assert!(bound(text, kind).is_err(), "{text} as {kind:?}");
    }
}

proptest! {
    #[test]
    fn any_pieces_give_the_same(piece in 1usize..60, counts in prop::collection::vec(0u32..4, 1..20)) {
        let mut client = Client::ready();
        let mut bytes = Vec::new();
        for count in &counts {
            let stream = client.ask(READ);
            bytes.extend(rows(stream, *count));
        }
        for piece in bytes.chunks(piece) {
            client.receive(piece).unwrap();
        }
        let found: Vec<bool> = client.answers.iter().map(|a| a.outcome == Outcome::Hit).collect();
        prop_assert_eq!(found, counts.iter().map(|n| *n > 0).collect::<Vec<bool>>());
    }

    #[test]
    fn noise_never_panics(noise in prop::collection::vec(any::<u8>(), 0..300), opcode in 0u8..18, at in 0usize..3) {
        // Alone, and as the body of a frame that is expected, at three places of a session.
        for bytes in [noise.clone(), answer(0, opcode, &noise)] {
            let mut client = match at {
                0 => Client::new(script(None)),
                1 => Client::greeted(script(None)),
                _ => Client::ready(),
            };
            if at == 2 {
                client.ask(READ);
            }
            let _ = client.receive(&bytes);
        }
    }
}
