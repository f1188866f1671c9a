//! Redis and HTTP servers that misbehave: counted by kind, bounded in time, never a crash.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::support::{Server, check_level, result};

const SHORT: [&str; 8] = [
    "--warmup",
    "0s",
    "--duration",
    "400ms",
    "--drain",
    "200ms",
    "--connections",
    "3",
];

/// What a server does with one request, before it reads the next.
type Reply = fn(&mut TcpStream) -> std::io::Result<()>;

/// Reads RESP commands and HTTP requests without bodies alike: up to the lines that end them.
fn next_request(read: &mut impl BufRead) -> Option<()> {
    let mut line = String::new();
    if read.read_line(&mut line).ok()? == 0 {
        return None;
    }
    let lines = match line.strip_prefix('*') {
        Some(words) => 2 * words.trim().parse::<usize>().ok()?,
        None => usize::MAX,
    };
    for _ in 0..lines {
        line.clear();
        if read.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if lines == usize::MAX && line == "\r\n" {
            break;
        }
    }
    Some(())
}

fn serving(reply: Reply) -> Server {
    Server::start(move |stream| {
        let mut write = stream.try_clone().unwrap();
        let mut read = BufReader::new(stream);
        while next_request(&mut read).is_some() {
            if reply(&mut write).is_err() {
                return;
            }
        }
    })
}

fn look(protocol: &str, reply: Reply, more: &[&str], judge: impl Fn(&Value)) {
    let server = serving(reply);
    for io in ["auto", "epoll"] {
        let begin = Instant::now();
        let arguments = [&["--protocol", protocol, "--io", io], &SHORT[..], more].concat();
        judge(&result(server.address, &arguments));
        assert!(begin.elapsed() < Duration::from_secs(10), "{protocol} {io}");
    }
}

fn errors(result: &Value, kind: &str) -> u64 {
    result["requests"]["errors_by_kind"][kind]
        .as_u64()
        .unwrap_or(0)
}

#[test]
fn garbage_ends_a_connection_and_is_counted() {
    for protocol in ["redis", "http"] {
        look(
            protocol,
            |stream| stream.write_all(b"\x00\x13 neither\r\n"),
            &[],
            |result| {
                assert!(errors(result, "garbage") > 3, "{}", result["requests"]);
                assert_eq!(result["requests"]["completed"], 0);
                assert_eq!(check_level(result, "errors"), "invalid");
            },
        );
    }
}

#[test]
fn half_an_answer_and_then_the_end_is_no_answer() {
    let halves: [(&str, Reply); 3] = [
        ("redis", |stream| {
            stream.write_all(b"$100\r\nnot a hundred")?;
            stream.shutdown(std::net::Shutdown::Both)
        }),
        ("http", |stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nnot a hundred")?;
            stream.shutdown(std::net::Shutdown::Both)
        }),
        ("http", |stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Le")?;
            stream.shutdown(std::net::Shutdown::Both)
        }),
    ];
    for (protocol, reply) in halves {
        look(protocol, reply, &[], |result| {
            let lost = errors(result, "connection-closed") + errors(result, "connection-reset");
            assert!(lost > 3, "{}", result["requests"]);
            assert_eq!(result["requests"]["completed"], 0);
            assert_eq!(check_level(result, "connections"), "suspect");
        });
    }
}

#[test]
fn half_an_answer_and_then_nothing_is_outstanding() {
    let stalls: [(&str, Reply); 2] = [
        ("redis", |stream| stream.write_all(b"*2\r\n+a\r\n")),
        ("http", |stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab")
        }),
    ];
    for (protocol, reply) in stalls {
        look(protocol, reply, &[], |result| {
            assert_eq!(result["requests"]["outstanding_at_end"], 3);
            assert_eq!(check_level(result, "unanswered"), "invalid");
        });
    }
}

#[test]
fn an_answer_to_nothing_ends_the_connection() {
    let doubles: [(&str, Reply); 2] = [
        ("redis", |stream| stream.write_all(b"+OK\r\n+OK\r\n")),
        ("http", |stream| {
            stream.write_all(&b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".repeat(2))
        }),
    ];
    for (protocol, reply) in doubles {
        look(protocol, reply, &[], |result| {
            assert!(result["requests"]["completed"].as_u64().unwrap() > 0);
            assert_ne!(check_level(result, "connections"), "valid");
        });
    }
}

#[test]
fn bodies_that_end_with_the_connection_are_answers() {
    look(
        "http",
        |stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nall of it until the end")?;
            stream.shutdown(std::net::Shutdown::Write)
        },
        &[],
        |result| {
            assert!(result["requests"]["completed"].as_u64().unwrap() > 3);
            assert_eq!(result["requests"]["errors"], 0);
            assert_eq!(check_level(result, "connections"), "valid");
        },
    );
}

#[test]
fn what_a_server_left_unanswered_when_it_ended_a_connection_is_sent_again() {
    // Each connection takes what is in its pipeline and answers one request only.
    static ANSWERED: AtomicU64 = AtomicU64::new(0);
    for more in [&["--depth", "5"][..], &["--depth", "5", "--rate", "200"]] {
        ANSWERED.store(0, Ordering::Relaxed);
        let server = Server::start(|mut stream| {
            let mut read = BufReader::new(stream.try_clone().unwrap());
            if next_request(&mut read).is_some() {
                ANSWERED.fetch_add(1, Ordering::Relaxed);
                let _ = stream.write_all(
                    b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
                );
                let _ = stream.shutdown(std::net::Shutdown::Write);
                let _ = stream.read_to_end(&mut Vec::new());
            }
        });
        let arguments = [&["--protocol", "http"], &SHORT[..], more].concat();
        let result = result(server.address, &arguments);
        assert_eq!(result["requests"]["errors"], 0, "{}", result["requests"]);
        let completed = result["requests"]["completed"].as_u64().unwrap();
        assert!(completed > 3, "{}", result["requests"]);
        assert!(completed <= ANSWERED.load(Ordering::Relaxed));
    }
}
