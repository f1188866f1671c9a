//! A server whose every delay is known, and the program under test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// What the server does with one connection.
pub type Behaviour = Arc<dyn Fn(TcpStream) + Send + Sync>;

/// A listener that hands each connection to a thread of its own.
pub struct Server {
    pub address: SocketAddr,
}

impl Server {
    pub fn start(behaviour: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let behaviour: Behaviour = Arc::new(behaviour);
        // The threads end with the test process.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let behaviour = Arc::clone(&behaviour);
                stream.set_nodelay(true).unwrap();
                thread::spawn(move || behaviour(stream));
            }
        });
        Self { address }
    }

    /// A server that answers every request with a small value, after `before` has seen its text.
    pub fn answering(before: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self::start(move |stream| {
            let mut write = stream.try_clone().unwrap();
            let mut read = BufReader::new(stream);
            while let Some(request) = next_request(&mut read) {
                before(&request);
                if write.write_all(answer(&request).as_bytes()).is_err() {
                    break;
                }
            }
        })
    }
}

/// Reads one request line, and the value that follows a `set`.
pub fn next_request(read: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    if read.read_line(&mut line).ok()? == 0 {
        return None;
    }
    if line.starts_with("set ") {
        let bytes: usize = line.split_whitespace().nth(4)?.parse().ok()?;
        let mut value = vec![0; bytes + 2];
        read.read_exact(&mut value).ok()?;
    }
    Some(line)
}

/// The answer that memcached would give.
pub fn answer(request: &str) -> String {
    let mut words = request.split_whitespace();
    match (words.next(), words.next()) {
        (Some("get"), Some(key)) => format!("VALUE {key} 0 4\r\nabcd\r\nEND\r\n"),
        (Some("set"), _) => "STORED\r\n".to_owned(),
        _ => "ERROR\r\n".to_owned(),
    }
}

/// The program with its target and quiet defaults.
pub fn load(target: SocketAddr, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steelyard-load"));
    command
        .args([
            "--target",
            &target.to_string(),
            "--json",
            "--progress",
            "none",
        ])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Waits for an end within `limit`; a program that goes on is a failure, not a hanging test.
pub fn finish(mut child: Child, limit: Duration) -> Output {
    let begin = Instant::now();
    let mut stdout = child.stdout.take().unwrap();
    let reader = thread::spawn(move || {
        let mut text = Vec::new();
        stdout.read_to_end(&mut text).unwrap();
        text
    });
    let mut stderr = child.stderr.take();
    let errors = thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(stderr) = &mut stderr {
            stderr.read_to_end(&mut text).unwrap();
        }
        text
    });
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begin.elapsed() > limit {
            child.kill().unwrap();
            panic!("steelyard-load was still running after {limit:?}");
        }
        thread::sleep(Duration::from_millis(5));
    };
    Output {
        status,
        stdout: reader.join().unwrap(),
        stderr: errors.join().unwrap(),
    }
}

/// Runs the program and returns its result.
pub fn result(target: SocketAddr, arguments: &[&str]) -> Value {
    let output = finish(
        load(target, arguments).spawn().unwrap(),
        Duration::from_secs(60),
    );
    let result = whole(&output);
    check_counts(&result);
    result
}

/// The result of a load that ran to its end: its exit code says what its verdict does, which depends on the machine.
pub fn whole(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 1)), "{code:?}: {said}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let is_invalid = result["verdict"]["level"] == "invalid";
    assert_eq!(
        code,
        Some(i32::from(is_invalid)),
        "{}: {said}",
        result["verdict"]
    );
    result
}

/// Every request that was due in the phase ends in exactly one of the counts, and every other figure is of these
/// requests, or says that it is of what happened in the phase.
pub fn check_counts(result: &Value) {
    let requests = &result["requests"];
    let n = |name: &str| {
        requests[name]
            .as_u64()
            .unwrap_or_else(|| panic!("{name} in {requests}"))
    };
    assert_eq!(n("intended"), n("sent") + n("unsent"), "{requests}");
    assert_eq!(
        n("sent"),
        n("completed") + n("errors") + n("outstanding_at_end"),
        "{requests}"
    );
    let kinds: u64 = requests["errors_by_kind"]
        .as_object()
        .unwrap()
        .values()
        .map(|n| n.as_u64().unwrap())
        .sum();
    assert_eq!(kinds, n("errors"), "{requests}");
    let counted = |name: &str| result["latency"][name]["count"].as_u64().unwrap();
    assert_eq!(counted("response"), n("completed"), "{requests}");
    assert_eq!(counted("service"), n("completed"), "{requests}");
    assert_eq!(counted("lag"), n("sent"), "{requests}");
    assert_eq!(counted("queued"), n("sent"), "{requests}");
    let seconds = (n_of(result, "end_ns") - n_of(result, "begin_ns")) as f64 / 1e9;
    let in_phase = n("completed") - n("completed_after") + n("completed_from_before");
    let per_s = |count: u64| {
        if seconds > 0.0 {
            count as f64 / seconds
        } else {
            0.0
        }
    };
    let is_rate = |rate: &Value, count: u64| (rate.as_f64().unwrap() - per_s(count)).abs() < 1e-6;
    assert!(is_rate(&result["throughput_per_s"], in_phase), "{result}");
    if result["settings"]["loop"] == "open" {
        assert!(is_rate(&result["offered_per_s"], n("intended")), "{result}");
        let achieved = result["achieved_ratio"].as_f64().unwrap();
        let ratio = in_phase as f64 / n("intended").max(1) as f64;
        assert!((achieved - ratio).abs() < 1e-9, "{achieved} {ratio}");
    }
    let errors = n("errors") - n("errors_after") + n("errors_from_before");
    check_parts(result, [in_phase, errors]);
}

fn n_of(of: &Value, name: &str) -> u64 {
    of[name]
        .as_u64()
        .unwrap_or_else(|| panic!("{name} in {of}"))
}

/// Classes, operations, rows, threads and hosts add up to the whole.
fn check_parts(result: &Value, [in_phase, errors]: [u64; 2]) {
    let requests = &result["requests"];
    let completed = n_of(requests, "completed");
    if let Some(classes) = requests["answers_by_class"].as_object() {
        let kinds = requests["errors_by_kind"].as_object().unwrap().iter();
        let refused = kinds.filter(|(kind, _)| kind.starts_with("status-"));
        let refused: u64 = refused.map(|(_, count)| count.as_u64().unwrap()).sum();
        let answers: u64 = classes.values().map(|count| count.as_u64().unwrap()).sum();
        assert_eq!(answers, completed + refused, "{requests}");
    }
    let sum = |rows: &[&Value], name: &str| rows.iter().map(|row| n_of(row, name)).sum::<u64>();
    let operations: Vec<&Value> = result["operations"].as_object().unwrap().values().collect();
    let is_lost = |host: &Value| host["lost"].is_string();
    let hosts: Vec<&Value> = result["hosts"].as_array().into_iter().flatten().collect();
    if !hosts.is_empty() {
        assert_eq!(sum(&hosts, "completed"), completed, "{hosts:?}");
        assert_eq!(sum(&hosts, "errors"), n_of(requests, "errors"), "{hosts:?}");
    }
    let rows = result["series"].as_array().unwrap().iter();
    let rows: Vec<&Value> = rows.filter(|row| row["phase"] == "measure").collect();
    assert_eq!(sum(&rows, "completed"), in_phase);
    assert_eq!(sum(&rows, "errors"), errors);
    // No row spans a change of phase, also where the phase was ended early. Several hosts begin a little apart.
    let phase = [n_of(result, "begin_ns"), n_of(result, "end_ns")];
    let within =
        |row: &&Value| n_of(row, "begin_ns") >= phase[0] && n_of(row, "end_ns") <= phase[1];
    assert!(
        !hosts.is_empty() || rows.iter().all(within),
        "{phase:?} {rows:?}"
    );
    assert_eq!(sum(&rows, "sent_bytes"), n_of(result, "sent_bytes"));
    assert_eq!(sum(&rows, "received_bytes"), n_of(result, "received_bytes"));
    // What a lost host tells only at its end is not there.
    if !hosts.iter().any(|host| is_lost(host)) {
        assert_eq!(sum(&operations, "completed"), completed);
        let threads: Vec<&Value> = result["threads"].as_array().unwrap().iter().collect();
        assert_eq!(sum(&threads, "completed"), in_phase);
    }
}

/// The level of one check of the verdict.
pub fn check_level<'a>(result: &'a Value, id: &str) -> &'a str {
    let checks = result["verdict"]["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["id"] == id);
    check.unwrap_or_else(|| panic!("no check {id} in {checks:?}"))["level"]
        .as_str()
        .unwrap()
}

/// CLOCK_MONOTONIC, as the program under test reads it.
pub fn now_ns() -> u64 {
    steelyard_record::monotonic_ns()
}

/// Sleeps until a moment of that clock.
pub fn sleep_until(at_ns: u64) {
    loop {
        let now = now_ns();
        if now >= at_ns {
            return;
        }
        thread::sleep(Duration::from_nanos(at_ns - now));
    }
}

/// A server that does `work` for each request, and tells how many it has seen.
pub fn counting(work: impl Fn() + Send + Sync + 'static) -> (Server, impl Fn() -> u64) {
    let seen = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&seen);
    let server = Server::answering(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        work();
    });
    (server, move || seen.load(Ordering::Relaxed))
}
