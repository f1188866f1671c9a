use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use super::*;

type Objects = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

const SECRET: &str = "secret";

/// A server of a bucket on loopback that checks every signature. It ends with the process.
fn server(objects: Objects) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            serve(stream, &objects);
        }
    });
    format!("http://{address}")
}

type Headers<'a> = BTreeMap<&'a str, &'a str>;
type Reply = (u16, Vec<u8>);

fn serve(stream: TcpStream, objects: &Objects) {
    serve_with(stream, |method, target, headers, body| {
        bucket_answer(method, target, headers, body, objects)
    });
}

fn bucket_answer(
    method: &str,
    target: &str,
    headers: &Headers<'_>,
    body: Vec<u8>,
    objects: &Objects,
) -> Reply {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    if is_signed(method, path, query, headers, &body) {
        return answer(method, path, body, objects);
    }
    let refused = "<Error><Code>SignatureDoesNotMatch</Code><Message>no</Message></Error>";
    (403, refused.into())
}

fn serve_with(mut stream: TcpStream, reply: impl Fn(&str, &str, &Headers<'_>, Vec<u8>) -> Reply) {
    let mut text = Vec::new();
    let mut chunk = [0; 4096];
    let (head, mut body) = loop {
        let got = stream.read(&mut chunk).unwrap();
        text.extend(&chunk[..got]);
        if let Some(end) = text.windows(4).position(|four| four == b"\r\n\r\n") {
            break (
                String::from_utf8(text[..end].to_vec()).unwrap(),
                text[end + 4..].to_vec(),
            );
        }
    };
    let mut lines = head.split("\r\n");
    let mut first = lines.next().unwrap().split(' ');
    let (method, target) = (first.next().unwrap(), first.next().unwrap());
    let headers: Headers<'_> = lines.filter_map(|line| line.split_once(": ")).collect();
    let length: usize = headers["content-length"].parse().unwrap();
    while body.len() < length {
        let got = stream.read(&mut chunk).unwrap();
        body.extend(&chunk[..got]);
    }
    let (status, body) = reply(method, target, &headers, body);
    let length = body.len();
    let tag = match (method, status) {
        ("PUT", 200) => "ETag: \"0\"\r\n",
        _ => "",
    };
    let head = format!("HTTP/1.1 {status} X\r\n{tag}Content-Length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&body).unwrap();
}

/// Whether a request is signed by Signature Version 4, with the keys of the test and a session token where it has one.
/// Source: AWS, "Signature Calculations for the Authorization Header", Amazon S3 API Reference.
fn is_signed(
    method: &str,
    path: &str,
    query: &str,
    headers: &BTreeMap<&str, &str>,
    body: &[u8],
) -> bool {
    use ring::{digest, hmac};
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
    let hash = |bytes: &[u8]| hex(digest::digest(&digest::SHA256, bytes).as_ref());
    let mac = |key: &[u8], text: &str| {
        hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes())
    };
    let authorization = headers["authorization"];
    let part = |name: &str| between(authorization, name, ",").unwrap_or_default();
    let (id, scope) = part("Credential=").split_once('/').unwrap();
    let names = part("SignedHeaders=");
    let lines: String = names
        .split(';')
        .map(|name| format!("{name}:{}\n", headers[name]))
        .collect();
    let content = hash(body);
    let canonical = format!("{method}\n{path}\n{query}\n{lines}\n{names}\n{content}");
    let (time, canonical) = (headers["x-amz-date"], hash(canonical.as_bytes()));
    let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{canonical}");
    let key = scope
        .split('/')
        .fold(format!("AWS4{SECRET}").into_bytes(), |key, part| {
            mac(&key, part).as_ref().to_vec()
        });
    let is_token_right = match headers.get("x-amz-security-token") {
        Some(token) => id.starts_with("temporary") && token.ends_with(id),
        None => id == "id",
    };
    is_token_right
        && headers["x-amz-content-sha256"] == content
        && scope.ends_with("/eu-test-1/s3/aws4_request")
        && authorization.ends_with(&format!("Signature={}", hex(mac(&key, &text).as_ref())))
}

fn answer(method: &str, path: &str, body: Vec<u8>, objects: &Objects) -> (u16, Vec<u8>) {
    let mut objects = objects.lock().unwrap();
    let key = path
        .strip_prefix("/bucket/")
        .unwrap()
        .replace("%25", "%")
        .replace("%3D", "=")
        .replace("%26", "&");
    match method {
        "PUT" => {
            objects.insert(key, body);
            (200, Vec::new())
        }
        _ => match objects.get(&key) {
            Some(found) => (200, found.clone()),
            None => (404, b"<Error><Code>NoSuchKey</Code></Error>".to_vec()),
        },
    }
}

/// An environment that leads to no service outside the test.
fn environment(endpoint: &str, more: &[(&str, &str)]) -> Environment {
    let fixed = [
        ("AWS_ENDPOINT_URL", endpoint),
        ("AWS_REGION", "eu-test-1"),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT", endpoint),
        ("HOME", "/nonexistent"),
    ];
    let all = fixed.iter().chain(more);
    all.map(|(name, value)| (name.to_string(), value.to_string()))
        .collect()
}

fn open(endpoint: &str, more: &[(&str, &str)]) -> S3 {
    let environment = environment(endpoint, more);
    S3::new("s3://bucket/fleet/", "bucket/fleet/", environment).unwrap()
}

fn bucket(endpoint: &str, secret: &str) -> S3 {
    let keys = [
        ("AWS_ACCESS_KEY_ID", "id"),
        ("AWS_SECRET_ACCESS_KEY", secret),
    ];
    open(endpoint, &keys)
}

#[test]
fn objects_are_put_and_got_with_signatures_that_hold() {
    let objects = Objects::default();
    let mut store = bucket(&server(Arc::clone(&objects)), SECRET);
    let message = super::super::check(&mut store, false)
        .unwrap_err()
        .to_string();
    assert_eq!(
        message,
        "s3://bucket/fleet is no store: it has no steelyard-store.json"
    );
    super::super::check(&mut store, true).unwrap();
    super::super::check(&mut store, false).unwrap();
    let keys: Vec<String> = (0..5)
        .map(|n| format!("cpi_specs/date=2026-01-0{n}/a%20&b.{n}.parquet"))
        .collect();
    for (number, key) in keys.iter().enumerate() {
        store.put(key, &vec![7; number * 100_000]).unwrap();
    }
    assert_eq!(store.get(&keys[3]).unwrap().unwrap().len(), 300_000);
    assert_eq!(store.get("nothing").unwrap(), None);
    assert!(
        objects
            .lock()
            .unwrap()
            .contains_key("fleet/steelyard-store.json")
    );
}

#[test]
fn what_is_wrong_is_reported_in_one_line() {
    let address = server(Objects::default());
    let message = bucket(&address, "wrong")
        .put("k", b"")
        .unwrap_err()
        .to_string();
    assert_eq!(
        message,
        "s3://bucket/fleet/k: status 403 SignatureDoesNotMatch: no"
    );
    let message = bucket("http://127.0.0.1:1", SECRET)
        .put("k", b"")
        .unwrap_err()
        .to_string();
    assert!(
        message.starts_with("PUT 127.0.0.1:1/bucket/fleet/k: Connection refused"),
        "{message}"
    );
    let message = open(&address, &[("AWS_EC2_METADATA_DISABLED", "true")])
        .put("k", b"")
        .unwrap_err()
        .to_string();
    assert!(
        message.ends_with("no keys in environment, shared file, web identity, container, instance"),
        "{message}"
    );
    let new = |rest: &str, environment| S3::new(&format!("s3://{rest}"), rest, environment);
    assert!(new("", Environment::default()).is_err());
    assert!(new("a b/", Environment::default()).is_err());
    assert!(new("b", environment("nonsense", &[])).is_err());
}

/// A server that reads the head of each request and answers with pieces, with a pause before each.
fn answering(pieces: &'static [&'static [u8]], pause: Duration, is_endless: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let _ = stream.read(&mut [0; 4096]);
                let last = pieces.last().copied().into_iter();
                let more = last.cycle().take(if is_endless { usize::MAX } else { 0 });
                for piece in pieces.iter().copied().chain(more) {
                    std::thread::sleep(pause);
                    if stream.write_all(piece).is_err() {
                        return;
                    }
                }
                // What was not read when a connection is closed resets it.
                let _ = stream.shutdown(std::net::Shutdown::Write);
                let _ = std::io::copy(&mut stream, &mut std::io::sink());
            });
        }
    });
    format!("http://{address}")
}

#[test]
fn an_answer_that_does_not_end_is_a_failure_in_time() {
    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nETag: \"0\"\r\nTransfer-Encoding: chunked\r\n\r\n";
    let cases: [(&'static [&'static [u8]], u64, &str); 4] = [
        // A byte of the head now and then, nothing at all, small chunks for ever, and large ones.
        (&[b"H", b"T"], 50, "in time"),
        (&[b""], 50, "in time"),
        (&[HEAD, b"1\r\nx\r\n"], 50, "in time"),
        (&[HEAD, b"400\r\n"], 0, "too long"),
    ];
    for (pieces, pause_ms, wanted) in cases {
        let pause = Duration::from_millis(pause_ms);
        let mut store = bucket(&answering(pieces, pause, true), SECRET);
        store.timeout = Duration::from_millis(400);
        let begin = std::time::Instant::now();
        let message = store.put("k", b"content").unwrap_err().to_string();
        assert!(message.contains(wanted), "{message}");
        assert!(begin.elapsed() < Duration::from_secs(5));
    }
}

#[test]
fn what_is_no_answer_of_s3_stores_nothing() {
    let cases: [(&'static [u8], &str); 5] = [
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n<html></html>",
            "no",
        ),
        (
            b"HTTP/1.1 200 OK\r\nETag: x\r\nContent-Length: 13\r\n\r\n<HTML></html>",
            "no",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "no"),
        (b"HTTP/1.1 204 OK\r\n\r\n", "no"),
        (
            b"HTTP/1.1 200 OK\r\nETag: x\r\nContent-Length: 76\r\n\r\n\
              <Error><Code>InternalError</Code><Message>try again later</Message></Error>\n",
            "InternalError",
        ),
    ];
    for (answer, wanted) in cases {
        let address = answering(Box::leak(Box::new([answer])), Duration::ZERO, false);
        let mut store = bucket(&address, SECRET);
        let message = store.put("k", b"content").unwrap_err().to_string();
        match wanted {
            "no" => assert!(message.contains("not one of S3's"), "{message}"),
            other => assert!(message.contains(other), "{message}"),
        }
    }
}

/// What a service of temporary keys answers: the `count`th keys, which expire in `minutes`.
fn temporary(count: usize, minutes: u64) -> [(&'static str, String); 4] {
    let now_s = steelyard_record::Clock::now().realtime_ns / 1_000_000_000;
    let expiry_s = now_s + 60 * minutes;
    let (date, second) = (crate::table::date_of(expiry_s as i64), expiry_s % 86_400);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    let expiry = format!("{date}T{hour:02}:{minute:02}:{:02}Z", second % 60);
    [
        ("AccessKeyId", format!("temporary{count}")),
        ("SecretAccessKey", SECRET.to_owned()),
        ("Token", format!("token of temporary{count}")),
        ("Expiration", expiry),
    ]
}

/// A bucket and, at the same address, the services that give keys to instances and pods. The first keys of an instance
/// expire within the minute, later ones in an hour. `asked` takes what was asked of the services.
fn services(asked: Arc<Mutex<Vec<String>>>) -> String {
    let objects = Objects::default();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            serve_with(stream, |method, target, headers, body| {
                if headers.contains_key("x-amz-content-sha256") {
                    return bucket_answer(method, target, headers, body, &objects);
                }
                let mut asked = asked.lock().unwrap();
                asked.push(format!("{method} {target}"));
                let count = asked.len();
                let as_json = |minutes| {
                    let mut map: BTreeMap<_, _> = temporary(count, minutes).into();
                    map.insert("Code", "Success".to_owned());
                    (200, serde_json::to_vec(&map).unwrap())
                };
                let sent = |name: &str| headers.get(name).copied();
                let role = "/latest/meta-data/iam/security-credentials/";
                match (method, target) {
                    ("PUT", "/latest/api/token")
                        if sent("x-aws-ec2-metadata-token-ttl-seconds").is_some() =>
                    {
                        (200, b"metadata".to_vec())
                    }
                    ("GET", path) if path.starts_with(role) => {
                        match (sent("x-aws-ec2-metadata-token"), &path[role.len()..]) {
                            (Some("metadata"), "") => (200, b"uploader".to_vec()),
                            (Some("metadata"), "uploader") => as_json(u64::from(count > 3) * 60),
                            _ => (401, Vec::new()),
                        }
                    }
                    ("GET", "/pod") if sent("authorization") == Some("pod's token") => as_json(60),
                    ("POST", "/") => {
                        let body = String::from_utf8(body).unwrap();
                        assert!(body.contains("WebIdentityToken=pod%27s+token"), "{body}");
                        assert!(body.contains("RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr"));
                        let [id, secret, token, expiry] =
                            temporary(count, 60).map(|(_, text)| text);
                        let text = format!(
                            "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>\
                             <AccessKeyId>{id}</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey>\
                             <SessionToken>{token}</SessionToken><Expiration>{expiry}</Expiration></Credentials>\
                             </AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
                        );
                        (200, text.into_bytes())
                    }
                    _ => (404, Vec::new()),
                }
            });
        }
    });
    format!("http://{address}")
}

#[test]
fn an_instance_signs_with_keys_that_are_fetched_again_before_they_expire() {
    let asked = Arc::default();
    let mut store = open(&services(Arc::clone(&asked)), &[]);
    let count = || asked.lock().unwrap().len();
    // The first keys are good for no request any more.
    assert!(store.put("k", b"1").is_err());
    assert_eq!(count(), 3);
    store.put("k", b"1").unwrap();
    assert_eq!(store.get("k").unwrap().unwrap(), b"1");
    // The metadata token is good for hours: only the role and its keys were asked for again, and once.
    let path = "/latest/meta-data/iam/security-credentials/";
    let [role, keys] = [path, &format!("{path}uploader")].map(|path| format!("GET {path}"));
    let token = "PUT /latest/api/token".to_owned();
    let wanted = vec![token, role.clone(), keys.clone(), role, keys];
    assert_eq!(*asked.lock().unwrap(), wanted);
}

#[test]
fn a_pod_signs_with_what_its_endpoint_or_the_token_service_gives() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "pod's token\n").unwrap();
    let token = token.to_str().unwrap();
    let asked = Arc::default();
    let address = services(Arc::clone(&asked));
    let endpoint = [
        (
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
            &*format!("{address}/pod"),
        ),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token),
    ];
    let identity = [
        ("AWS_ENDPOINT_URL_STS", &*address),
        ("AWS_ROLE_ARN", "arn:aws:iam::1:role/r"),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", token),
    ];
    for (more, wanted) in [(&endpoint[..], "GET /pod"), (&identity, "POST /")] {
        let mut store = open(&address, more);
        store.put("k", b"1").unwrap();
        assert_eq!(store.get("k").unwrap().unwrap(), b"1");
        assert_eq!(std::mem::take(&mut *asked.lock().unwrap()), [wanted]);
    }
}

#[test]
fn keys_of_the_shared_file_are_read_again_when_they_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("credentials");
    let write = |secret: &str| {
        let keys = format!("aws_access_key_id = id\naws_secret_access_key = {secret}\n");
        std::fs::write(&file, format!("[uploader]\n{keys}")).unwrap();
    };
    write("replaced");
    let named = [
        ("AWS_SHARED_CREDENTIALS_FILE", file.to_str().unwrap()),
        ("AWS_PROFILE", "uploader"),
    ];
    let mut store = open(&server(Objects::default()), &named);
    let message = store.put("k", b"1").unwrap_err().to_string();
    assert!(message.contains("SignatureDoesNotMatch"), "{message}");
    write(SECRET);
    store.put("k", b"1").unwrap();
}
