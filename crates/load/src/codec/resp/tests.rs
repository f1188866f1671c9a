use super::*;
use crate::Sizes;
use crate::protocol::Protocol;
use crate::settings::tests::settings;
use crate::workload::Keyspace;
use crate::workload::{GET, Popularity, SET};
use proptest::prelude::*;

fn workload() -> Workload {
    let keys = Keyspace::new(100, Sizes::fixed(12), Sizes::fixed(30), true).unwrap();
    let mix = Mix::of_gets_and_sets(Protocol::Redis, 0.5).unwrap();
    Workload::new(keys, Popularity::Uniform, Arc::new(mix)).unwrap()
}

/// Decodes pieces on a connection that awaits answers to as many reads, stores or calls as need be.
fn decode(effect: Effect, pieces: &[&[u8]]) -> Result<Vec<Outcome>, ProtocolError> {
    let (mut codec, mut answers) = (Resp::default(), Vec::new());
    codec.expected.extend([effect; 100]);
    for piece in pieces {
        codec.decode(piece, &mut Vec::new(), &mut answers)?;
    }
    Ok(answers.into_iter().map(|answer| answer.outcome).collect())
}

#[test]
fn commands_are_arrays_of_bulk_strings() {
    let workload = workload();
    let script = Arc::new(RespScript::of(workload.mix(), &settings()));
    let (mut codec, mut out) = (Resp::new(script), Vec::new());
    codec.encode(&Request::of(GET, 7), &workload, &mut out);
    codec.encode(&Request::of(SET, 7), &workload, &mut out);
    let mut key = Vec::new();
    workload.keys.write_key(7, &mut key);
    let expected = [
        b"*2\r\n$3\r\nGET\r\n$12\r\n",
        &key[..],
        b"\r\n*3\r\n$3\r\nSET\r\n$12\r\n",
        &key,
        b"\r\n$30\r\n",
        workload.keys.value(7),
        b"\r\n",
    ];
    assert_eq!(out, expected.concat());
}

#[test]
fn answers_are_judged_by_what_was_asked() {
    let text =
        b"$3\r\na\r\n\r\n$-1\r\n$0\r\n\r\n*0\r\n*-1\r\n_\r\n*1\r\n$-1\r\n:0\r\n-WRONGTYPE no\r\n";
    assert_eq!(
        decode(Effect::Read, &[text]).unwrap(),
        [
            Outcome::Hit,
            Outcome::Miss,
            Outcome::Hit,
            Outcome::Miss,
            Outcome::Miss,
            Outcome::Miss,
            Outcome::Hit,
            Outcome::Hit,
            Outcome::Refused("wrong-type"),
        ]
    );
    assert_eq!(
        decode(Effect::Write, &[b"+OK\r\n$-1\r\n:1\r\n-OOM full\r\n"]).unwrap(),
        [
            Outcome::Stored,
            Outcome::Refused("not-stored"),
            Outcome::Stored,
            Outcome::Refused("out-of-memory"),
        ]
    );
}

#[test]
fn nested_answers_are_one_and_pushed_messages_none() {
    let text = b"*2\r\n*2\r\n$1\r\na\r\n:-5\r\n*0\r\n\
        >2\r\n+message\r\n*1\r\n+x\r\n\
        |1\r\n+ttl\r\n:3\r\n%1\r\n+k\r\n~2\r\n#t\r\n,1.5\r\n\
        *2\r\n+fine\r\n-ERR inside\r\n\
        |1\r\n+note\r\n-ERR of the note\r\n+OK\r\n\
        >0\r\n=7\r\ntxt:abc\r\n!5\r\nERR x\r\n(123\r\n";
    assert_eq!(
        decode(Effect::Call, &[text]).unwrap(),
        [
            Outcome::Done,
            Outcome::Done,
            Outcome::Refused("error"),
            Outcome::Done,
            Outcome::Done,
            Outcome::Refused("error"),
            Outcome::Done,
        ]
    );
}

#[test]
fn garbage_is_an_error() {
    let deep = b"*1\r\n".repeat(DEPTH_MAX + 1);
    for bad in [
        &b"HTTP/1.1 400 Bad Request\r\n"[..],
        b"\r\n",
        b"+OK\n",
        b"$x\r\n",
        b"$-2\r\n",
        b"$\r\n",
        b"$99999999999\r\n",
        b"$2\r\nabcd",
        b"$2\r\nab\rX",
        b":1x\r\n",
        b"#y\r\n",
        b"_x\r\n",
        b"%-1\r\n",
        b"*1\r\n>1\r\n",
        &deep,
        &vec![b'+'; Resp::LINE_BYTES_MAX + 2],
    ] {
        assert_eq!(decode(Effect::Call, &[bad]), Err(GARBAGE), "{bad:?}");
    }
}

fn element(depth: u32) -> BoxedStrategy<Vec<u8>> {
    let leaf = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..200).prop_map(|value| {
            [format!("${}\r\n", value.len()).as_bytes(), &value, b"\r\n"].concat()
        }),
        Just(b"$-1\r\n".to_vec()),
        Just(b"*0\r\n".to_vec()),
        Just(b"*-1\r\n".to_vec()),
        any::<i64>().prop_map(|n| format!(":{n}\r\n").into_bytes()),
        "[ -~]{0,30}".prop_map(|text| format!("+{text}\r\n").into_bytes()),
    ];
    leaf.prop_recursive(depth, 32, 5, |inner| {
        proptest::collection::vec(inner, 1..5).prop_map(|items| {
            [format!("*{}\r\n", items.len()).into_bytes(), items.concat()].concat()
        })
    })
    .boxed()
}

fn cut<'a>(text: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
    cuts.extend([0, text.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|w| &text[w[0]..w[1]]).collect()
}

proptest! {
    #[test]
    fn any_split_decodes_the_same(
        answers in proptest::collection::vec(element(4), 0..12),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let text = answers.concat();
        let decoded = decode(Effect::Call, &cut(&text, &cuts)).unwrap();
        prop_assert_eq!(decoded, vec![Outcome::Done; answers.len()]);
    }

    #[test]
    fn arbitrary_bytes_decode_the_same_in_one_piece_and_in_bytes(
        text in proptest::collection::vec(
            prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'*'), Just(b'$'), Just(b'1'), any::<u8>()],
            0..300,
        )
    ) {
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        prop_assert_eq!(decode(Effect::Read, &[&text]), decode(Effect::Read, &bytes));
    }
}
