//! Servers that want to know who asks: the flags and URLs that say it, and what is refused.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::support::{Server, finish, whole};

const SHORT: &str = "--warmup 0s --duration 200ms --connections 2 --progress none --json";

fn run(server: SocketAddr, line: &str) -> Output {
    let child = Command::new(env!("CARGO_BIN_EXE_steelyard-load"))
        .args(line.replace("HOST", &server.to_string()).split_whitespace())
        .args(SHORT.split_whitespace())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    finish(child, Duration::from_secs(20))
}

/// The words of the next command.
fn command(read: &mut impl BufRead) -> Option<Vec<String>> {
    let mut number = || {
        let mut line = String::new();
        read.read_line(&mut line).ok()?;
        let count: usize = line.get(1..)?.trim().parse().ok()?;
        Some((count, line.starts_with('*')))
    };
    let (count, _) = number()?;
    let mut words = Vec::new();
    for _ in 0..count {
        let mut line = String::new();
        read.read_line(&mut line).ok()?;
        let mut word = vec![0; line.get(1..)?.trim().parse::<usize>().ok()? + 2];
        read.read_exact(&mut word).ok()?;
        word.truncate(word.len() - 2);
        words.push(String::from_utf8(word).ok()?);
    }
    Some(words)
}

/// A Redis of two users, default and `me`, whose passwords are `default-word` and `my word`; what connections opened with
/// is kept.
fn redis() -> (Server, Arc<Mutex<Vec<String>>>) {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&seen);
    let server = Server::start(move |stream| {
        let mut write = stream.try_clone().unwrap();
        let mut read = BufReader::new(stream);
        let mut known = false;
        while let Some(words) = command(&mut read) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            if words[0] != "GET" {
                kept.lock().unwrap().push(words.join(" "));
            }
            known |= matches!(
                words.as_slice(),
                ["AUTH", "default-word"] | ["AUTH", "me", "my word"]
            );
            let answer = match (known, words[0]) {
                (true, "AUTH") => "+OK\r\n",
                (false, "AUTH") => "-WRONGPASS invalid username-password pair\r\n",
                (false, _) => "-NOAUTH Authentication required.\r\n",
                (true, "SELECT") if words[1] == "99" => "-ERR DB index is out of range\r\n",
                (true, "SELECT") => "+OK\r\n",
                (true, _) => "$-1\r\n",
            };
            if write.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    });
    (server, seen)
}

#[test]
fn redis_gets_the_user_and_the_database() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, "my word\n").unwrap();
    let path = file.to_str().unwrap();
    for (line, opened) in [
        ("redis://:default-word@HOST", &["AUTH default-word"][..]),
        (
            "redis://me:my%20word@HOST/3",
            &["AUTH me my word", "SELECT 3"],
        ),
        (
            &format!("--protocol redis --target HOST --user me --password-file {path}"),
            &["AUTH me my word"],
        ),
    ] {
        let (server, seen) = redis();
        let output = run(server.address, line);
        let result = whole(&output);
        assert_eq!(result["requests"]["errors"], 0, "{line}");
        assert!(result["requests"]["completed"].as_u64().unwrap() > 0);
        let seen = seen.lock().unwrap();
        assert_eq!(seen.len(), 2 * opened.len(), "{line}: {seen:?}");
        assert!(
            seen.iter().all(|words| opened.contains(&words.as_str())),
            "{seen:?}"
        );
        // Records hold the command line.
        let written = result["command"].to_string();
        assert!(!written.contains("word@"), "{written}");
    }
}

#[test]
fn a_login_or_a_database_that_is_refused_is_one_line() {
    for (line, says) in [
        (
            "redis://:no@HOST",
            "refused the user or the password: WRONGPASS",
        ),
        (
            "redis://:default-word@HOST/99",
            "refused the database: ERR DB index",
        ),
    ] {
        let (server, _) = redis();
        let output = run(server.address, line);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains(says) && said.lines().count() == 1, "{said}");
        assert!(!said.contains("default-word"), "{said}");
    }
    // Nothing said about who asks: each request is refused, by the kind of its error.
    let (server, _) = redis();
    let result = whole(&run(server.address, "redis://HOST"));
    assert_eq!(result["requests"]["completed"], 0);
    assert!(
        result["requests"]["errors_by_kind"]["no-auth"]
            .as_u64()
            .unwrap()
            > 0
    );
}

#[test]
fn http_sends_basic_and_bearer() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    std::fs::write(&file, "a-token\nand more\n").unwrap();
    let path = file.to_str().unwrap();
    for (line, header) in [
        ("http://me:pw@HOST/", "Authorization: Basic bWU6cHc="),
        (
            &format!("http://HOST/ --user me --password-file {path}"),
            "Authorization: Basic bWU6YS10b2tlbg==",
        ),
        (
            &format!("http://HOST/ --token-file {path}"),
            "Authorization: Bearer a-token",
        ),
    ] {
        let header = header.to_owned();
        let server = Server::start(move |stream| {
            let mut write = stream.try_clone().unwrap();
            let mut read = BufReader::new(stream);
            let (mut line, mut known) = (String::new(), false);
            while read.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
                known |= line.trim() == header;
                if line == "\r\n" {
                    let status = if known { "204 No Content" } else { "401 No" };
                    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
                    if write.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                    known = false;
                }
                line.clear();
            }
        });
        let result = whole(&run(server.address, line));
        assert_eq!(result["requests"]["errors"], 0, "{line}");
        assert!(
            result["requests"]["answers_by_class"]["2xx"]
                .as_u64()
                .unwrap()
                > 0
        );
    }
}

#[test]
fn flags_that_a_protocol_has_not_are_refused_by_name() {
    let address = "127.0.0.1:1".parse().unwrap();
    for (line, says) in [
        (
            "memcache://HOST --user me",
            "--user: memcached has no users",
        ),
        (
            "http://HOST --set-ratio 0.5",
            "--set-ratio: http has no gets and sets",
        ),
        (
            "--protocol redis --target HOST --path /a",
            "--path: redis has no paths",
        ),
        (
            "redis://HOST --token-file a",
            "--token-file: redis has no bearer tokens",
        ),
        (
            "http://HOST/a --keys 5",
            "--keys: no request of this load has a key",
        ),
        (
            "http://HOST/{key} --value-sizes 5",
            "--value-sizes: no request of this load has a value",
        ),
        ("memcache://me:pw@HOST", "URL: memcached has no users"),
    ] {
        let output = run(address, line);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(says) && said.lines().count() == 1, "{said}");
    }
}
