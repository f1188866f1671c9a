use super::*;
use crate::Sizes;
use crate::settings::Settings;
use crate::workload::Keyspace;
use crate::workload::Popularity;
use proptest::prelude::*;

/// Decodes pieces, and the end of the connection after them.
fn decode_with(heads: &[bool], pieces: &[&[u8]]) -> Result<(Vec<Outcome>, bool), ProtocolError> {
    let (mut codec, mut answers) = (Http::default(), Vec::new());
    codec.heads.extend(heads);
    for piece in pieces {
        codec.decode(piece, &mut Vec::new(), &mut answers)?;
    }
    let said = codec.finished();
    codec.end(&mut answers);
    let finished = said || (codec.finished() && pieces.concat().ends_with(b"the end"));
    let outcomes = answers.into_iter().map(|answer| answer.outcome).collect();
    Ok((outcomes, finished))
}

fn decode(text: &[u8]) -> Result<(Vec<Outcome>, bool), ProtocolError> {
    decode_with(&[], &[text])
}

#[test]
fn requests_carry_what_the_mix_says() {
    let file = r#"
        schema_version = "1.0"
        kind = "mix"
        [[operation]]
        name = "post"
        weight = 1
        http = { method = "POST", path = "/p/{key}?x={{}}", headers = { X-Key = "{key}" }, body = "<{text}>" }
    "#;
    let mix = crate::mix::MixFile::parse(file, "test", std::path::Path::new("")).unwrap();
    let mix = mix.for_protocol(crate::protocol::Protocol::Http).unwrap();
    let keys = Keyspace::new(100, Sizes::fixed(6), Sizes::fixed(5), false).unwrap();
    let workload = Workload::new(keys, Popularity::Uniform, Arc::new(mix)).unwrap();
    let script = Arc::new(HttpScript::of(workload.mix(), &settings_of("127.0.0.1:80")).unwrap());
    let (mut codec, mut out, mut key) = (Http::new(script), Vec::new(), Vec::new());
    let request = Request::of(0, 3);
    codec.encode(&request, &workload, &mut out);
    workload.write_key(&request, &mut key);
    let key = String::from_utf8(key).unwrap();
    let text = String::from_utf8(workload.text(&request, 0).to_vec()).unwrap();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        format!(
            "POST /p/{key}?x={{}} HTTP/1.1\r\nHost: 127.0.0.1:80\r\nX-Key: {key}\r\nContent-Length: 7\r\n\r\n<{text}>"
        )
    );
}

#[test]
fn statuses_are_counted_by_class_and_bodies_passed_over() {
    let text = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHTTP/\
        HTTP/1.1 302 Found\r\nLocation: /x\r\ncontent-length:0\r\n\r\n\
        HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nTransfer-Encoding: gzip, chunked\r\n\r\n\
        5;a=b\r\nab\r\nc\r\n10\r\n0123456789abcdef\r\n0\r\nTrailer: x\r\n\r\n\
        HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\n\r\n\
        HTTP/1.1 503 \r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n";
    assert_eq!(
        decode(text).unwrap(),
        (
            vec![
                Outcome::Class("2xx"),
                Outcome::Class("3xx"),
                Outcome::Refused("status-4xx"),
                Outcome::Class("2xx"),
                Outcome::Class("3xx"),
                Outcome::Refused("status-5xx"),
            ],
            false
        )
    );
}

#[test]
fn the_answer_to_a_head_has_no_body() {
    let text = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx";
    let (outcomes, _) = decode_with(&[true, false], &[text]).unwrap();
    assert_eq!(outcomes, [Outcome::Class("2xx"); 2]);
}

#[test]
fn a_connection_ends_when_the_server_says_so() {
    for text in [
        &b"HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 1\r\n\r\na"[..],
        b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na",
        b"HTTP/1.1 200 OK\r\n\r\nuntil the end",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nuntil the end",
    ] {
        assert_eq!(decode(text).unwrap(), (vec![Outcome::Class("2xx")], true));
    }
    let kept = b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(decode(kept).unwrap(), (vec![Outcome::Class("2xx")], false));
    // Nothing may follow what was the last answer.
    let more = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\nH";
    assert_eq!(decode(more), Err(AFTER_END));
}

#[test]
fn a_part_of_an_answer_is_none() {
    for text in [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcd"[..],
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n",
    ] {
        assert_eq!(decode(text).unwrap(), (vec![], false));
    }
}

#[test]
fn garbage_is_an_error() {
    let long = [
        b"HTTP/1.1 200 OK\r\nX: ".to_vec(),
        vec![b'x'; HEAD_BYTES_MAX],
    ]
    .concat();
    let many = [
        b"HTTP/1.1 200 OK\r\n".to_vec(),
        b"X: y\r\n".repeat(HEAD_BYTES_MAX / 6 + 1),
    ]
    .concat();
    for (bad, why) in [
        (&b"VALUE k 0 1\r\n"[..], GARBAGE),
        (b"HTTP/1.1200 OK\r\n", STATUS_LINE),
        (b"HTTP/2 200 OK\r\n", VERSION),
        (b"HTTP/1.1 20 OK\r\n", STATUS_LINE),
        (b"HTTP/1.1 2000 OK\r\n", STATUS_LINE),
        (b"HTTP/1.1 099 OK\r\n", STATUS_LINE),
        (b"HTTP/1.1 101 Switching\r\n\r\n", UPGRADE),
        (b"HTTP/1.1 200 OK\r\nno colon\r\n", HEADER_LINE),
        (b"HTTP/1.1 200 OK\r\n : a\r\n", HEADER_LINE),
        (b"HTTP/1.1 200 OK\r\n\x01: a\r\n", HEADER_LINE),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            CONTENT_LENGTH,
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\n",
            CONTENT_LENGTH,
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            CONTENT_LENGTH,
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n  2\r\n\r\n",
            CONTENT_LENGTH,
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
            CHUNK,
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
            CHUNK,
        ),
        (&long, HEAD_LENGTH),
        (&many, HEAD_LENGTH),
    ] {
        assert_eq!(
            decode(bad),
            Err(why),
            "{}",
            bad[..bad.len().min(99)].escape_ascii()
        );
    }
}

#[test]
fn forms_that_curl_takes_are_taken() {
    for text in [
        &b"http/1.1 200 OK\r\nContent-Length: 1\r\n\r\na"[..],
        b"HTTP/1.1 200\r\nContent-Length: 1\r\n\r\na",
        b"HTTP/1.1 200 OK\nContent-Length: 1\n\na",
        b"HTTP/1.1 200 OK\r\nContent-Length : 1\r\nX : y\r\n\r\na",
        b"HTTP/1.1 200 OK\r\nContent-Length:\r\n 1\r\n\r\na",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\na",
        b"HTTP/1.1  200\tOK\r\nContent-Length: +1\r\n: nothing\r\n\r\na\r\n",
        b"HTTP/1.1 200 OK\r\nX: y,\r\n\tz: 5\r\nContent-Length: 1\r\n\r\na",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding:\r\n\tchunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na",
    ] {
        let found = decode(text);
        assert_eq!(found, Ok((vec![Outcome::Class("2xx")], false)), "{}", text.escape_ascii());
    }
    let long = [
        b"HTTP/1.1 200 OK\r\nX: ".to_vec(),
        vec![b'x'; 200_000],
        b"\r\nConnection: keep-alive,\r\n close\r\nContent-Length: 0\r\n\r\n".to_vec(),
    ];
    assert_eq!(
        decode(&long.concat()),
        Ok((vec![Outcome::Class("2xx")], true))
    );
    let other = decode(b"HTTP/1.1 999 Denied\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(other, Ok((vec![Outcome::Refused("status-other")], false)));
}

#[test]
fn who_asks_is_in_every_head() {
    let head = |change: &dyn Fn(&mut Settings)| {
        let mut settings = settings_of("127.0.0.1:80");
        change(&mut settings);
        let mix = crate::mix::Mix::of_path("/").unwrap();
        let script = HttpScript::of(&mix, &settings).unwrap();
        let text = script.steps[0][0].head.as_literal().unwrap().to_vec();
        String::from_utf8(text).unwrap()
    };
    let basic = head(&|settings| {
        settings.credentials = Some(crate::settings::Credentials {
            user: "Aladdin".to_owned(),
            password: "open sesame".to_owned(),
        });
    });
    // The example of RFC 7617.
    assert!(basic.contains("\r\nAuthorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n"));
    let bearer = head(&|settings| settings.token = Some(crate::settings::Secret::new("a.b")));
    assert!(bearer.contains("\r\nAuthorization: Bearer a.b\r\n"));
    let unix = head(&|settings| settings.target = crate::Addresses::resolve("unix:@a").unwrap());
    assert_eq!(unix, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
}

fn settings_of(target: &str) -> Settings {
    Settings {
        protocol: crate::Protocol::Http,
        target: crate::Addresses::resolve(target).unwrap(),
        ..crate::settings::tests::settings()
    }
}

fn answer() -> impl Strategy<Value = (Vec<u8>, Outcome)> {
    let body = || proptest::collection::vec(any::<u8>(), 0..200);
    prop_oneof![
        body().prop_map(|body| {
            let head = format!(
                "HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            ([head.into_bytes(), body].concat(), Outcome::Class("2xx"))
        }),
        proptest::collection::vec(body(), 0..4).prop_map(|chunks| {
            let mut text = b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
            for chunk in chunks.iter().filter(|chunk| !chunk.is_empty()) {
                text.extend(format!("{:x}\r\n", chunk.len()).as_bytes());
                text.extend(chunk);
                text.extend(b"\r\n");
            }
            text.extend(b"0\r\n\r\n");
            (text, Outcome::Refused("status-4xx"))
        }),
        Just((
            b"HTTP/1.1 304 Not Modified\r\n\r\n".to_vec(),
            Outcome::Class("3xx")
        )),
    ]
}

proptest! {
    #[test]
    fn any_split_decodes_the_same(
        answers in proptest::collection::vec(answer(), 0..12),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let text: Vec<u8> = answers.iter().flat_map(|(text, _)| text.clone()).collect();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|w| &text[w[0]..w[1]]).collect();
        let expected: Vec<Outcome> = answers.iter().map(|(_, outcome)| *outcome).collect();
        prop_assert_eq!(decode_with(&[], &pieces).unwrap(), (expected, false));
    }

    #[test]
    fn arbitrary_bytes_decode_the_same_in_one_piece_and_in_bytes(
        head in "HTTP/1\\.[01] [0-9]{3} \r\n(([Cc]onnection: close|Transfer-Encoding: chunked|Content-Length: [0-9]|a:)\r\n){0,3}\r\n",
        text in proptest::collection::vec(
            prop_oneof![Just(b'\r'), Just(b'\n'), Just(b':'), Just(b'1'), any::<u8>()],
            0..300,
        )
    ) {
        let text = [head.into_bytes(), text].concat();
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        prop_assert_eq!(decode(&text), decode_with(&[], &bytes));
    }
}
