//! What other programs rely on: the hold and progress lines, the interval log, the record, and memcached.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use steelyard_record::LoadResult;

use super::interval_log;
use super::namespaces::wait_until;
use super::support::{Server, counting, finish, load, result, whole};

#[test]
fn a_held_load_measures_when_ordered() {
    let (server, seen) = counting(|| ());
    let arguments = [
        "--hold",
        "--warmup",
        "200ms",
        "--interval",
        "200ms",
        "--duration",
        "600ms",
        "--threads",
        "2",
    ];
    let mut command = load(server.address, &arguments);
    command.args(["--connections", "4"]).stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    wait_until(|| seen() > 0, "the warm-up has begun");
    thread::sleep(Duration::from_millis(900));
    writeln!(child.stdin.as_mut().unwrap(), "measure").unwrap();
    let output = finish(child, Duration::from_secs(10));
    let result = whole(&output);
    let rows = result["series"].as_array().unwrap();
    let of = |phase: &str| {
        rows.iter()
            .filter(|row| row["phase"] == phase)
            .collect::<Vec<_>>()
    };
    assert!(of("warmup").len() >= 3);
    let measured = of("measure");
    assert_eq!(measured.len(), 3);
    assert_eq!(measured[0]["begin_ns"], result["begin_ns"]);
    assert_eq!(measured[2]["end_ns"], result["end_ns"]);
    // Rows follow one another without a gap, on the grid of the intervals.
    for pair in rows.windows(2) {
        assert_eq!(pair[0]["end_ns"], pair[1]["begin_ns"]);
    }
    let length = result["end_ns"].as_u64().unwrap() - result["begin_ns"].as_u64().unwrap();
    assert_eq!(length, 600_000_000);
}

#[test]
fn progress_lines_tell_phases_and_intervals() {
    let server = Server::answering(|_| ());
    let mut command = Command::new(env!("CARGO_BIN_EXE_steelyard-load"));
    command.args([
        "--target",
        &server.address.to_string(),
        "--progress",
        "json",
        "--prefill",
        "--keys",
        "50",
    ]);
    command.args([
        "--warmup",
        "300ms",
        "--duration",
        "400ms",
        "--interval",
        "100ms",
        "--threads",
        "2",
    ]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let output = finish(command.spawn().unwrap(), Duration::from_secs(20));
    let lines: Vec<Value> = String::from_utf8(output.stderr)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let phases: Vec<&str> = lines
        .iter()
        .filter(|line| line["event"] == "phase")
        .map(|line| line["name"].as_str().unwrap())
        .collect();
    assert_eq!(phases, ["prefill", "warmup", "measure", "drain"]);
    let intervals: Vec<&Value> = lines
        .iter()
        .filter(|line| line["event"] == "interval")
        .collect();
    assert_eq!(
        intervals
            .iter()
            .filter(|line| line["phase"] == "warmup")
            .count(),
        3
    );
    assert_eq!(
        intervals
            .iter()
            .filter(|line| line["phase"] == "measure")
            .count(),
        4
    );
    assert!(intervals[3]["completed"].as_u64().unwrap() > 0);
    assert!(intervals[3]["response_p99_ns"].as_u64() >= intervals[3]["response_p50_ns"].as_u64());
}

#[test]
fn the_interval_log_adds_up_to_the_series() {
    let server = Server::answering(|_| ());
    let folder = tempfile::tempdir().unwrap();
    let (log, output) = (
        folder.path().join("latency.hlog"),
        folder.path().join("load.json"),
    );
    let result = result(
        server.address,
        &[
            "--warmup",
            "300ms",
            "--duration",
            "700ms",
            "--interval",
            "100ms",
            "--threads",
            "2",
            "--hlog",
            log.to_str().unwrap(),
            "--output",
            output.to_str().unwrap(),
        ],
    );
    let record: LoadResult = steelyard_record::read(&output).unwrap();
    assert_eq!(serde_json::to_value(&record).unwrap(), result);

    let (entries, sums) = interval_log::sums(&log);
    let rows = result["series"].as_array().unwrap();
    assert_eq!(entries, 4 * rows.len());
    assert_eq!(
        sums.keys().collect::<Vec<_>>(),
        ["lag", "queued", "response", "service"]
    );
    let completed: u64 = rows
        .iter()
        .map(|row| row["completed"].as_u64().unwrap())
        .sum();
    assert_eq!(sums["response"].len(), completed);
    assert_eq!(sums["service"].len(), completed);
    assert_eq!(sums["lag"].len(), completed);
    assert_eq!(sums["queued"].len(), completed);
}

/// Debian's memcached on a free port.
struct Memcached {
    child: Child,
    address: std::net::SocketAddr,
}

impl Memcached {
    fn start() -> Option<Self> {
        let address = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let child = Command::new("memcached")
            .args([
                "-u",
                "nobody",
                "-l",
                "127.0.0.1",
                "-t",
                "1",
                "-p",
                &address.port().to_string(),
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(child) = child else {
            assert!(
                std::env::var_os("CI").is_none(),
                "memcached is missing: scripts/install-test-packages brings it"
            );
            eprintln!("skipped: memcached is not installed (apt-get install memcached)");
            return None;
        };
        let begin = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(
                begin.elapsed() < Duration::from_secs(10),
                "memcached does not listen"
            );
            thread::sleep(Duration::from_millis(10));
        }
        Some(Self { child, address })
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn memcached_holds_every_key_that_was_prefilled() {
    let Some(server) = Memcached::start() else {
        return;
    };
    for io in ["auto", "epoll"] {
        let mut sizes = tempfile::NamedTempFile::new().unwrap();
        let text = r#"{"schema_version":"1.0","kind":"distribution","unit":"bytes","quantiles":[[0,1],[0.9,500],[1,20000]]}"#;
        sizes.write_all(text.as_bytes()).unwrap();
        let result = result(
            server.address,
            &[
                "--io",
                io,
                "--prefill",
                "--keys",
                "2000",
                "--key-distribution",
                "zipf:1",
                "--set-ratio",
                "0.1",
                "--value-sizes",
                sizes.path().to_str().unwrap(),
                "--threads",
                "2",
                "--connections",
                "6",
                "--depth",
                "4",
                "--warmup",
                "100ms",
                "--duration",
                "1s",
            ],
        );
        assert_eq!(result["requests"]["errors"], 0);
        let get = &result["operations"]["get"];
        assert_eq!(get["misses"], 0);
        assert_eq!(get["hits"], get["completed"]);
        let (gets, sets) = (
            get["completed"].as_f64().unwrap(),
            result["operations"]["set"]["completed"].as_f64().unwrap(),
        );
        assert!(
            (0.05..0.15).contains(&(sets / (gets + sets))),
            "{gets} {sets}"
        );
        assert_eq!(result["settings"]["threads"], 2);
    }
    // The values are there in the size that the key gives, by memcached's own account.
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(b"stats\r\n").unwrap();
    let items = BufReader::new(stream)
        .lines()
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("STAT curr_items ").map(str::to_owned));
    assert_eq!(items.as_deref(), Some("2000"));
}

#[test]
fn a_prefill_by_reading_asks_for_every_key_once() {
    let Some(server) = Memcached::start() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("load.json");
    result(
        server.address,
        &[
            "--prefill=get",
            "--keys",
            "5000",
            "--warmup",
            "0s",
            "--duration",
            "100ms",
            "--rate",
            "1",
            "--arrival",
            "constant",
            "--output",
            output.to_str().unwrap(),
        ],
    );
    assert!(File::open(&output).is_ok());
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(b"stats\r\n").unwrap();
    let gets = BufReader::new(stream)
        .lines()
        .map_while(Result::ok)
        .find_map(|line| {
            line.strip_prefix("STAT cmd_get ")
                .and_then(|n| n.parse::<u64>().ok())
        });
    // Every key once, and the one request that falls due in 100 ms at one a second.
    assert_eq!(gets, Some(5001));
}
