//! Servers that misbehave, and loads that are stopped: counted, bounded in time, never a crash.

use std::io::{BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::namespaces::wait_until;
use super::support::{
    Server, answer, check_counts, check_level, counting, finish, load, next_request, result,
};

const SHORT: [&str; 8] = [
    "--warmup",
    "0s",
    "--duration",
    "1s",
    "--drain",
    "300ms",
    "--connections",
    "4",
];

fn both(server: &Server, more: &[&str], look: impl Fn(&Value)) {
    for io in ["auto", "epoll"] {
        let begin = Instant::now();
        look(&result(
            server.address,
            &[&SHORT[..], more, &["--io", io]].concat(),
        ));
        assert!(
            begin.elapsed() < Duration::from_secs(10),
            "{io} took {:?}",
            begin.elapsed()
        );
    }
}

#[test]
fn garbage_is_counted_and_the_connection_made_anew() {
    let server = Server::start(|mut stream| {
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(b"\x00\xff\x13 not memcached\r\n");
        let _ = stream.read(&mut [0; 4096]);
    });
    both(&server, &[], |result| {
        assert!(
            result["requests"]["errors_by_kind"]["garbage"]
                .as_u64()
                .unwrap()
                > 4
        );
        assert_eq!(result["requests"]["completed"], 0);
        assert_eq!(result["verdict"]["level"], "invalid");
        assert_eq!(check_level(result, "errors"), "invalid");
        // Backoff: four connections that double from 1 ms lose some ten times each in a second.
        assert!(result["requests"]["errors"].as_u64().unwrap() < 200);
    });
}

#[test]
fn a_server_that_closes_is_counted() {
    let server = Server::start(|stream| {
        let mut write = stream.try_clone().unwrap();
        let mut read = BufReader::new(stream);
        for _ in 0..20 {
            let Some(request) = next_request(&mut read) else {
                return;
            };
            let _ = write.write_all(answer(&request).as_bytes());
        }
        let _ = next_request(&mut read);
    });
    both(&server, &["--depth", "2"], |result| {
        assert!(result["requests"]["completed"].as_u64().unwrap() >= 80);
        let kinds = &result["requests"]["errors_by_kind"];
        let lost =
            ["connection-closed", "connection-reset"].map(|kind| kinds[kind].as_u64().unwrap_or(0));
        assert!(lost.iter().sum::<u64>() >= 4, "{kinds}");
        assert_eq!(check_level(result, "connections"), "suspect");
    });
}

#[test]
fn a_server_that_dies_for_good_leaves_its_requests_unsent() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let streams: Vec<_> = (0..4).map(|_| listener.accept().unwrap().0).collect();
        thread::sleep(Duration::from_millis(200));
        drop((listener, streams));
    });
    let result = result(address, &SHORT);
    assert_eq!(result["requests"]["completed"], 0);
    assert_eq!(result["requests"]["unsent"], 4);
    assert_eq!(check_level(&result, "unsent"), "invalid");
    // Each connection is lost once; what nobody takes afterwards is no connection.
    let checks = result["verdict"]["checks"].as_array().unwrap();
    let lost = checks.iter().find(|check| check["id"] == "connections");
    let lost = lost.unwrap();
    assert_eq!(lost["value"], 4.0, "{lost}");
    let claim = lost["claim"].as_str().unwrap();
    assert!(!claim.contains(" 0 attempts"), "{claim}");
}

#[test]
fn a_silent_server_does_not_hold_the_load_up() {
    let server =
        Server::start(|mut stream| while stream.read(&mut [0; 4096]).is_ok_and(|n| n > 0) {});
    both(&server, &["--depth", "3"], |result| {
        assert_eq!(result["requests"]["outstanding_at_end"], 12);
        assert_eq!(check_level(result, "unanswered"), "invalid");
        assert_eq!(check_level(result, "samples"), "invalid");
        assert_eq!(result["latency"]["response"]["p50_ns"], Value::Null);
    });
    both(
        &server,
        &["--rate", "1000", "--max-outstanding", "50"],
        |result| {
            assert_eq!(result["requests"]["outstanding_at_end"], 4);
            assert!(result["requests"]["unsent"].as_u64().unwrap() > 900);
            assert_eq!(check_level(result, "unsent"), "invalid");
        },
    );
}

#[test]
fn refusals_are_errors_by_kind() {
    let count = AtomicU64::new(0);
    let server = Server::start(move |stream| {
        let mut write = stream.try_clone().unwrap();
        let mut read = BufReader::new(stream);
        while let Some(request) = next_request(&mut read) {
            let text = if count.fetch_add(1, Ordering::Relaxed).is_multiple_of(10) {
                "SERVER_ERROR out of memory\r\n".to_owned()
            } else {
                answer(&request)
            };
            let _ = write.write_all(text.as_bytes());
        }
    });
    both(&server, &[], |result| {
        assert!(
            result["requests"]["errors_by_kind"]["server-error"]
                .as_u64()
                .unwrap()
                > 0
        );
        assert_eq!(check_level(result, "errors"), "invalid");
        assert_eq!(check_level(result, "connections"), "valid");
    });
}

#[test]
fn large_values_cross_full_socket_buffers() {
    let server = Server::start(|stream| {
        let mut write = stream.try_clone().unwrap();
        let mut read = BufReader::new(stream);
        while let Some(request) = next_request(&mut read) {
            let _ = write.write_all(answer(&request).as_bytes());
        }
    });
    both(
        &server,
        &[
            "--set-ratio",
            "1",
            "--value-sizes",
            "3000000",
            "--keys",
            "10",
            "--depth",
            "4",
        ],
        |result| {
            assert!(result["operations"]["set"]["completed"].as_u64().unwrap() > 0);
            assert_eq!(result["requests"]["errors"], 0);
            assert!(result["sent_bytes"].as_u64().unwrap() > 3_000_000);
        },
    );
}

#[test]
fn large_answers_are_put_together() {
    let server = Server::start(|stream| {
        let mut write = stream.try_clone().unwrap();
        let mut read = BufReader::new(stream);
        let value = [vec![b'\n'; 1_000_000], b"\r\nEND\r\n".to_vec()].concat();
        while let Some(request) = next_request(&mut read) {
            let key = request.split_whitespace().nth(1).unwrap();
            let head = format!("VALUE {key} 0 1000000\r\n");
            if write.write_all(head.as_bytes()).is_err() || write.write_all(&value).is_err() {
                return;
            }
        }
    });
    both(&server, &["--depth", "2"], |result| {
        let completed = result["operations"]["get"]["hits"].as_u64().unwrap();
        assert!(completed > 0);
        assert_eq!(result["requests"]["errors"], 0);
    });
}

#[test]
fn a_server_that_answers_for_other_keys_completes_nothing() {
    let server = Server::start(|stream| {
        let mut write = stream.try_clone().unwrap();
        let mut read = BufReader::new(stream);
        while next_request(&mut read).is_some() {
            if write.write_all(b"VALUE other 0 1\r\nx\r\nEND\r\n").is_err() {
                return;
            }
        }
    });
    both(&server, &["--depth", "2"], |result| {
        assert_eq!(result["requests"]["completed"], 0);
        let kinds = &result["requests"]["errors_by_kind"];
        assert!(kinds["wrong-key"].as_u64().unwrap() > 4, "{kinds}");
        assert_eq!(result["verdict"]["level"], "invalid");
    });
}

#[test]
fn a_sweep_over_a_server_that_never_answers_is_invalid() {
    let server =
        Server::start(|mut stream| while matches!(stream.read(&mut [0; 4096]), Ok(1..)) {});
    let output = Command::new(env!("CARGO_BIN_EXE_steelyard-load"))
        .args(["sweep", &format!("memcache://{}", server.address), "--json"])
        .args([
            "--progress",
            "none",
            "--rates",
            "50,100",
            "--connections",
            "4",
        ])
        .args([
            "--warmup",
            "100ms",
            "--duration",
            "500ms",
            "--drain",
            "200ms",
        ])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(check_level(&result, "rates-errors"), "invalid");
}

#[test]
fn nothing_listening_is_one_line() {
    let address = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let output = finish(load(address, &[]).spawn().unwrap(), Duration::from_secs(10));
    assert_eq!(output.status.code(), Some(3));
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(
        text.starts_with("steelyard-load: cannot connect to 127.0.0.1:")
            && text.contains("refused"),
        "{text}"
    );
    assert!(output.stdout.is_empty());
}

#[test]
fn settings_that_cannot_be_are_usage_errors() {
    let address = "127.0.0.1:9".parse().unwrap();
    for arguments in [
        &["--connections", "1", "--threads", "2"][..],
        &["--depth", "0"],
        &["--rate", "-5"],
        &["--set-ratio", "1.5"],
        &["--key-distribution", "zipf:x"],
        &["--key-sizes", "300"],
        &["--value-sizes", "/nowhere.json"],
        &["--keys", "0"],
        &["--duration", "0"],
    ] {
        let output = finish(
            load(address, arguments).spawn().unwrap(),
            Duration::from_secs(10),
        );
        assert_eq!(
            output.status.code(),
            Some(2),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn a_signal_ends_the_load_with_a_result_that_says_so() {
    let (server, seen) = counting(|| ());
    for (arguments, phase) in [
        (&["--warmup", "0s"][..], "measure"),
        (&["--warmup", "50s"], "warmup"),
    ] {
        let before = seen();
        let child = load(
            server.address,
            &[arguments, &["--duration", "50s"]].concat(),
        )
        .spawn()
        .unwrap();
        wait_until(|| seen() > before + 200, "the load has begun");
        // SAFETY: kill takes a process id and a signal; the child is ours and not yet waited for.
        unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
        let output = finish(child, Duration::from_secs(10));
        assert_eq!(output.status.code(), Some(4));
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        check_counts(&result);
        assert_eq!(result["interrupted"], true);
        assert_eq!(check_level(&result, "interrupted"), "invalid");
        assert_eq!(
            result["requests"]["completed"].as_u64().unwrap() > 0,
            phase == "measure"
        );
    }
}

#[test]
fn a_held_load_whose_orders_end_is_interrupted() {
    let server = Server::answering(|_| ());
    let mut command = load(
        server.address,
        &["--hold", "--warmup", "100ms", "--duration", "50s"],
    );
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    thread::sleep(Duration::from_millis(300));
    drop(child.stdin.take());
    let output = finish(child, Duration::from_secs(10));
    assert_eq!(output.status.code(), Some(4));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["interrupted"], true);
}

#[test]
fn an_output_that_cannot_be_written_is_a_failure() {
    let server = Server::answering(|_| ());
    let output = finish(
        load(server.address, &["--hlog", "/nowhere/x.hlog"])
            .spawn()
            .unwrap(),
        Duration::from_secs(10),
    );
    assert_eq!(output.status.code(), Some(4));
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("/nowhere/x.hlog")
    );
}
