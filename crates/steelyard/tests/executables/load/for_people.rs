//! What a load says at its end to a person, and how its exit code follows from it.

use std::io::{BufReader, Write};
use std::net::SocketAddr;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use super::support::{Server, finish, next_request};

const SHORT: &str = "--warmup 0s --duration 300ms --drain 200ms --progress none";

/// Runs the program against `url`, where HOST is the server, as a person does.
fn load_output(server: SocketAddr, url: &str, more: &str) -> (Output, String) {
    let child = Command::new(env!("CARGO_BIN_EXE_steelyard-load"))
        .arg(url.replace("HOST", &server.to_string()))
        .args(SHORT.split_whitespace())
        .args(more.split_whitespace())
        .args(
            ["--connections", "2"]
                .iter()
                .filter(|_| !more.contains("--connections")),
        )
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let output = finish(child, Duration::from_secs(20));
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    (output, text)
}

/// A server of HTTP that answers with one status.
fn web(status: &'static str) -> Server {
    Server::start(move |stream| {
        let mut write = stream.try_clone().unwrap();
        let mut read = BufReader::new(stream);
        while let Some(line) = next_request(&mut read) {
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
            if line == "\r\n" && write.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    })
}

fn line<'a>(text: &'a str, name: &str) -> &'a str {
    let mut lines = text.lines();
    lines
        .find(|line| line.starts_with(name))
        .unwrap_or_else(|| panic!("no {name} in {text}"))
}

#[test]
fn a_load_of_which_every_request_failed_ends_with_1_and_says_so() {
    let server = web("404 Not Found");
    for mode in ["", "--json", "--output /dev/null"] {
        let (output, _) = load_output(server.address, "http://HOST/absent", mode);
        assert_eq!(output.status.code(), Some(1), "{mode}");
    }
    let (_, text) = load_output(server.address, "http://HOST/absent", "");
    assert!(line(&text, "sent").contains(": 0 completed, "), "{text}");
    assert!(line(&text, "answers").starts_with("answers     0 2xx, 0 3xx, "));
    assert!(line(&text, "errors").contains("status-4xx"), "{text}");
    assert!(line(&text, "verdict").starts_with("verdict     invalid ("));
}

#[test]
fn redirects_and_keys_that_are_not_there_are_said() {
    let server = web("302 Found");
    let (_, text) = load_output(server.address, "http://HOST/", "");
    assert!(line(&text, "answers").ends_with("(redirects are not followed)"));
    assert!(
        line(&text, "bytes").ends_with(" received in the 0.3 s, for every request"),
        "{text}"
    );
    let server = Server::start(|stream| {
        let mut write = stream.try_clone().unwrap();
        let mut read = BufReader::new(stream);
        while next_request(&mut read).is_some() {
            if write.write_all(b"END\r\n").is_err() {
                return;
            }
        }
    });
    let (_, text) = load_output(server.address, "memcache://HOST", "");
    assert!(
        line(&text, "hits").starts_with("hits        0 of "),
        "{text}"
    );
    assert!(line(&text, "hits").ends_with("(0.0 %)"), "{text}");
}

#[test]
fn an_answer_that_takes_longer_than_the_timeout_is_an_error() {
    let server = Server::start(|stream| {
        let mut read = BufReader::new(stream);
        while next_request(&mut read).is_some() {}
    });
    let (output, text) = load_output(server.address, "memcache://HOST", "--timeout 20ms");
    assert_eq!(output.status.code(), Some(1));
    assert!(line(&text, "errors").contains(" timeout)"), "{text}");
    let server = Server::answering(|_| ());
    let (_, text) = load_output(server.address, "memcache://HOST", "--timeout 60s");
    assert!(!text.contains("timeout"), "{text}");
}

#[test]
fn a_log_that_does_not_fit_on_its_disk_ends_with_4_and_one_line() {
    let server = Server::answering(|_| ());
    for more in ["", "--host localhost --remote-command REMOTE"] {
        let more = more.replace("REMOTE", env!("CARGO_BIN_EXE_steelyard-load"));
        let more = format!("--hlog /dev/full {more}");
        let (output, _) = load_output(server.address, "memcache://HOST", &more);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(4), "{more}: {said}");
        assert_eq!(said.lines().count(), 1, "{more}: {said}");
        assert!(said.contains("/dev/full: No space left"), "{said}");
    }
    // What is no file of a disk takes a log as well.
    let (output, _) = load_output(server.address, "memcache://HOST", "--hlog /dev/null");
    assert!(matches!(output.status.code(), Some(0 | 1)));
}

#[test]
fn a_server_that_ends_connections_before_all_are_up_is_refused() {
    // One connection at a time, and each is closed soon.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        use std::io::Read;
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 512]);
            let _ = stream.write_all(b"+OK\r\n");
        }
    });
    let (output, _) = load_output(address, "redis://:word@HOST", "--connections 3");
    let said = String::from_utf8(output.stderr).unwrap();
    // 1 where all were up for a moment, and the load began.
    assert!(matches!(output.status.code(), Some(1 | 3)), "{said}");
}

#[test]
fn files_of_editors_and_spreadsheets_are_read_or_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let trace = "time_s,operation,key,size\n0,get,a,\n9,get,a,\n";
    let mix = "schema_version = \"1.0\"\nkind = \"mix\"\n[[operation]]\nname = \"get\"\nweight = 1\n\
               effect = \"read\"\nmemcached = [\"get\", \"{key}\"]\n";
    let wide = |text: &str| -> Vec<u8> {
        let units = std::iter::once(0xfeff).chain(text.encode_utf16());
        units.flat_map(u16::to_le_bytes).collect()
    };
    let marked = |text: &str| format!("\u{feff}{text}").into_bytes();
    for (flag, content, code) in [
        ("--trace", marked(trace), 0),
        ("--trace", wide(trace), 2),
        ("--mix", mix.as_bytes().to_vec(), 0),
        ("--mix", marked(mix), 0),
        ("--mix", wide(mix), 0),
    ] {
        let file = folder.path().join("file.toml");
        std::fs::write(&file, content).unwrap();
        let address = "127.0.0.1:1".parse().unwrap();
        let more = format!("--check {flag} {}", file.display());
        let (output, _) = load_output(address, "memcache://HOST", &more);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{flag}: {said}");
        assert_eq!(said.contains("UTF-16"), code == 2, "{said}");
    }
}
