//! `steelyard-rank` from outside: this build does the work that every other build does.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use steelyard_thrift::{
    Fields, Message, MessageKind, Reader, Type, frame, read_frame, write_frame,
};

/// A process of the service that ends with the test.
struct Process {
    child: Child,
    listen: String,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(role: &str, arguments: &[&str]) -> Process {
    let mut child = Command::new(env!("CARGO_BIN_EXE_steelyard-rank"))
        .args([role, "--no-tls", "--die-with-parent"])
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let ready: Value = serde_json::from_str(&line).expect("a line that says ready");
    Process {
        child,
        listen: ready["listen"].as_str().unwrap().to_owned(),
    }
}

/// Asks for a user's feed and returns its checksum.
fn checksum(connection: &mut TcpStream, user: i64) -> String {
    let mut frame = Vec::new();
    write_frame(&mut frame, |message| {
        let call = Message {
            kind: MessageKind::Call,
            seqid: 7,
            name: "rank",
        };
        call.write(message, |arguments| {
            arguments.field_struct(1, |request| request.field_i64(1, user));
        });
    });
    connection.write_all(&frame).unwrap();
    assert!(read_frame(connection, &mut frame, frame::FRAME_BYTES_MAX).unwrap());
    let mut reader = Reader::new(&frame);
    let message = Message::read(&mut reader).unwrap();
    assert_eq!((message.kind, message.seqid), (MessageKind::Reply, 7));
    let mut result = Fields::default();
    let success = result.next(&mut reader).unwrap().unwrap();
    assert_eq!((success.id, success.kind), (0, Type::Struct));
    let mut response = Fields::default();
    let first = response.next(&mut reader).unwrap().unwrap();
    assert_eq!((first.id, first.kind), (1, Type::I64));
    reader.i64().unwrap().to_string()
}

#[test]
fn this_build_answers_what_every_other_build_answers() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/feed/checksums.json");
    let golden: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    // The first entry is the one with little work.
    let golden = &golden["results"][0];
    let words = |name: &str| -> Vec<String> {
        let words = golden[name].as_array().unwrap().iter();
        words
            .map(|word| word.as_str().unwrap().to_owned())
            .collect()
    };
    let (leaf_words, mut root_words) = (words("leaf"), words("root"));
    let leaf = start(
        "leaf",
        &leaf_words.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    root_words.extend(["--leaf".to_owned(), leaf.listen.clone()]);
    let root = start(
        "root",
        &root_words.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    let mut connection = TcpStream::connect(&root.listen).unwrap();
    for (user, expected) in golden["checksums"].as_object().unwrap() {
        let found = checksum(&mut connection, user.parse().unwrap());
        assert_eq!(found, *expected, "user {user}");
    }
}
