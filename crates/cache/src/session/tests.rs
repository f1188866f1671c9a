//! Conversations without sockets: what is answered does not depend on how the bytes were cut, and no bytes
//! do harm.

use proptest::prelude::*;

use super::*;
use crate::converse::{Conversations, VALUE_BYTES};

fn bench() -> Conversations {
    Conversations::new().unwrap()
}

fn whole(bytes: &[u8]) -> (Vec<u8>, bool) {
    bench().talk([bytes])
}

/// Lines that are nearly right, and values that nearly fit them.
fn client_bytes() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        prop::sample::select(vec![
            "get",
            "gets",
            "gat",
            "gats",
            "set",
            "add",
            "replace",
            "append",
            "prepend",
            "cas",
            "delete",
            "incr",
            "decr",
            "touch",
            "flush_all",
            "stats",
            "version",
            "verbosity",
            "quit",
            "noreply",
            "a",
            "b",
            "0",
            "1",
            "-1",
            "3",
            "10",
            "4097",
            "99999999999",
            "18446744073709551615",
            "\0",
            "\t",
            " ",
            "HTTP/1.1",
        ])
        .prop_map(|word| word.as_bytes().to_vec()),
        proptest::collection::vec(any::<u8>(), 0..6),
        (240usize..260).prop_map(|length| vec![b'k'; length]),
    ];
    let end = prop::sample::select(vec!["\r\n", "\r\n", "\r\n", "\n", "", "\r"]);
    let line = (proptest::collection::vec(word, 0..8), end)
        .prop_map(|(words, end)| [words.join(&b' '), end.as_bytes().to_vec()].concat());
    let good = (0u8..3, 0usize..30).prop_map(|(key, length)| {
        let mut bytes = format!("set {} 0 0 {length}\r\n", char::from(b'a' + key)).into_bytes();
        bytes.extend(vec![b'7'; length]);
        bytes.extend_from_slice(b"\r\n");
        bytes
    });
    proptest::collection::vec(prop_oneof![2 => line, 1 => good], 0..20)
        .prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn cuts_do_not_change_answers(bytes in client_bytes(), cuts in proptest::collection::vec(0usize..600, 0..30)) {
        let mut cuts: Vec<usize> = cuts.into_iter().filter(|&cut| cut < bytes.len()).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
        let (cut, expected) = (bench().talk(pieces), whole(&bytes));
        // The answer to stats tells the time that has passed.
        if memchr::memmem::find(&bytes, b"stats").is_none() {
            prop_assert_eq!(cut, expected);
        }
    }

    #[test]
    fn single_bytes_give_the_same_answers(bytes in client_bytes()) {
        if memchr::memmem::find(&bytes, b"stats").is_none() {
            prop_assert_eq!(bench().talk(bytes.chunks(1)), whole(&bytes));
        }
    }

    #[test]
    fn noise_does_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..5000)) {
        whole(&bytes);
    }
}

fn answers(text: &str) -> String {
    String::from_utf8(whole(text.as_bytes()).0).unwrap()
}

#[test]
fn answers_in_order() {
    assert_eq!(
        answers("set a 5 0 3\r\nabc\r\nget a b a\r\nadd a 0 0 1\r\nx\r\ndelete a\r\nget a\r\n"),
        "STORED\r\nVALUE a 5 3\r\nabc\r\nVALUE a 5 3\r\nabc\r\nEND\r\nNOT_STORED\r\nDELETED\r\nEND\r\n"
    );
}

#[test]
fn a_long_list_of_large_values_pauses_and_goes_on() {
    let bench = bench();
    let mut bytes = format!("set a 0 0 4000\r\n{}\r\nget", "x".repeat(4000)).into_bytes();
    for _ in 0..1000 {
        bytes.extend_from_slice(b" a");
    }
    bytes.extend_from_slice(b"\r\nversion\r\n");
    let (answers, _) = bench.talk([&bytes[..]]);
    let values = memchr::memmem::find_iter(&answers, b"VALUE a").count();
    assert_eq!(values, 1000);
    assert!(answers.ends_with(protocol::VERSION_LINE));
}

#[test]
fn answers_wait_where_nobody_reads() {
    let bench = bench();
    let worker = bench.worker();
    let mut session = Session::new();
    let mut bytes = format!("set a 0 0 4000\r\n{}\r\n", "x".repeat(4000)).into_bytes();
    for _ in 0..10_000 {
        bytes.extend_from_slice(b"get a\r\n");
    }
    session.receive(&bytes, &worker);
    assert!(session.paused());
    assert!(session.output().kept_bytes() < ANSWER_BYTES + 8192);
}

#[test]
fn lines_have_a_limit() {
    let (answer, closed) = whole(&[b'a'; 2049]);
    assert!(answer.is_empty() && closed);
    let (answer, closed) = whole(&vec![b'a'; 2048]);
    assert!(answer.is_empty() && !closed);
    let list = [&b"get "[..], &b"a ".repeat(3000), b"\r\n"].concat();
    assert_eq!(whole(&list), (b"END\r\n".to_vec(), false));
    let endless = [&b"get "[..], &b"a ".repeat(protocol::KEYS_LINE_BYTES)].concat();
    assert!(whole(&endless).1);
}

#[test]
fn a_value_that_is_too_large_is_swallowed_and_takes_the_old_one_along() {
    assert_eq!(VALUE_BYTES, 4096);
    let text = format!(
        "set a 0 0 1\r\nx\r\nset a 0 0 4097\r\n{}\r\nget a\r\n",
        "y".repeat(4097)
    );
    assert_eq!(
        answers(&text),
        "STORED\r\nSERVER_ERROR object too large for cache\r\nEND\r\n"
    );
}
