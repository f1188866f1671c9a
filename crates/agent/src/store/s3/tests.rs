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

fn serve(mut stream: TcpStream, objects: &Objects) {
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
    let (method, target) = (
        first.next().unwrap().to_owned(),
        first.next().unwrap().to_owned(),
    );
    let headers: BTreeMap<&str, &str> = lines.filter_map(|line| line.split_once(": ")).collect();
    let length: usize = headers["content-length"].parse().unwrap();
    while body.len() < length {
        let got = stream.read(&mut chunk).unwrap();
        body.extend(&chunk[..got]);
    }
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let answer = if is_signed(&method, path, query, &headers, &body) {
        answer(&method, path, query, body, objects)
    } else {
        (
            403,
            "<Error><Code>SignatureDoesNotMatch</Code><Message>no</Message></Error>".into(),
        )
    };
    let head = format!(
        "HTTP/1.1 {} X\r\nContent-Length: {}\r\n\r\n",
        answer.0,
        answer.1.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&answer.1).unwrap();
}

fn is_signed(
    method: &str,
    path: &str,
    query: &str,
    headers: &BTreeMap<&str, &str>,
    body: &[u8],
) -> bool {
    let keys = Keys {
        id: "id".to_owned(),
        secret: SECRET.to_owned(),
        token: None,
    };
    let content_hash = hash(body);
    let signed = ["host", "x-amz-content-sha256", "x-amz-date"].map(|name| (name, headers[name]));
    let request = Request {
        method,
        path,
        query,
        headers: &signed,
        content_hash: &content_hash,
        time: headers["x-amz-date"],
        region: "eu-test-1",
    };
    authorization(&request, &keys) == headers["authorization"]
}

fn answer(
    method: &str,
    path: &str,
    query: &str,
    body: Vec<u8>,
    objects: &Objects,
) -> (u16, Vec<u8>) {
    let mut objects = objects.lock().unwrap();
    if !query.is_empty() {
        // Two objects a part.
        let after: usize =
            between(query, "continuation-token=", "&").map_or(0, |token| token.parse().unwrap());
        let prefix = query
            .rsplit("prefix=")
            .next()
            .unwrap()
            .replace("%2F", "/")
            .replace("%3D", "=");
        let keys: Vec<&String> = objects
            .keys()
            .filter(|key| key.starts_with(&prefix))
            .collect();
        let mut text = String::from("<ListBucketResult>");
        for key in keys.iter().skip(after).take(2) {
            text.push_str(&format!(
                "<Contents><Key>{}</Key></Contents>",
                key.replace('&', "&amp;")
            ));
        }
        if keys.len() > after + 2 {
            text.push_str(&format!(
                "<NextContinuationToken>{}</NextContinuationToken>",
                after + 2
            ));
        }
        return (200, text.into_bytes());
    }
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

fn bucket(endpoint: &str, secret: &str) -> S3 {
    let (endpoint, secret) = (endpoint.to_owned(), secret.to_owned());
    let environment = move |name: &str| match name {
        "AWS_ENDPOINT_URL" => Some(endpoint.clone()),
        "AWS_ACCESS_KEY_ID" => Some("id".to_owned()),
        "AWS_SECRET_ACCESS_KEY" => Some(secret.clone()),
        "AWS_REGION" => Some("eu-test-1".to_owned()),
        _ => None,
    };
    S3::new("s3://bucket/fleet/", "bucket/fleet/", &environment).unwrap()
}

#[test]
fn objects_are_put_got_and_listed_with_signatures_that_hold() {
    let objects = Objects::default();
    let mut store = bucket(&server(Arc::clone(&objects)), SECRET);
    let told = super::super::check(&mut store, false)
        .unwrap_err()
        .to_string();
    assert_eq!(
        told,
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
    assert_eq!(store.list("cpi_specs/").unwrap(), keys);
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
fn what_is_wrong_is_told_in_one_line() {
    let address = server(Objects::default());
    let told = bucket(&address, "wrong")
        .put("k", b"")
        .unwrap_err()
        .to_string();
    assert_eq!(
        told,
        "s3://bucket/fleet/k: status 403 SignatureDoesNotMatch: no"
    );
    let told = bucket("http://127.0.0.1:1", SECRET)
        .put("k", b"")
        .unwrap_err()
        .to_string();
    assert!(
        told.starts_with("PUT 127.0.0.1:1/bucket/fleet/k: Connection refused"),
        "{told}"
    );
    let nothing = |_: &str| None;
    let told = S3::new("s3://b", "b", &nothing)
        .unwrap()
        .put("k", b"")
        .unwrap_err()
        .to_string();
    assert!(
        told.ends_with("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set"),
        "{told}"
    );
    assert!(S3::new("s3://", "", &nothing).is_err());
    assert!(S3::new("s3://a b/", "a b/", &nothing).is_err());
    let odd = |name: &str| (name == "AWS_ENDPOINT_URL").then(|| "nonsense".to_owned());
    assert!(S3::new("s3://b", "b", &odd).is_err());
}

#[test]
fn times_are_stamped_as_s3_wants_them() {
    assert_eq!(stamp(1_369_353_600), "20130524T000000Z");
    assert_eq!(stamp(1_369_353_600 + 3661), "20130524T010101Z");
}
