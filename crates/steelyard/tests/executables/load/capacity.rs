//! Capacity searches and sweeps against a server whose capacity is known, and how they end when it is
//! not there, goes away, or is too slow.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::namespaces::wait_until;
use super::support::{Server, counting, finish, whole};

/// A server that takes this long for each request, one after the other; and how many it has seen.
fn one_at_a_time(service: Duration) -> (Server, impl Fn() -> u64) {
    let desk = Mutex::new(());
    counting(move || {
        let _mine = desk.lock().unwrap();
        thread::sleep(service);
    })
}

/// A search or a sweep of `target`, whose outputs are taken.
pub fn mode(mode: &str, target: SocketAddr, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steelyard-load"));
    command
        .args([mode, "--target", &target.to_string(), "--json"])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

const QUICK: [&str; 6] = [
    "--duration",
    "1s",
    "--warmup",
    "100ms",
    "--connections",
    "8",
];

fn run(command: &mut Command) -> Output {
    finish(command.spawn().unwrap(), Duration::from_secs(120))
}

fn record(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn a_server_that_collapses_under_overload_has_no_capacity_above_what_it_falls_to() {
    // One at a time at most 500/s; with twelve waiting 200/s, until nobody waits.
    let (desk, waiting) = (Mutex::new(()), AtomicUsize::new(0));
    let collapsed = AtomicBool::new(false);
    let (server, _) = counting(move || {
        if waiting.fetch_add(1, Ordering::SeqCst) >= 12 {
            collapsed.store(true, Ordering::SeqCst);
        }
        let mine = desk.lock().unwrap();
        let slow = collapsed.load(Ordering::SeqCst);
        thread::sleep(Duration::from_millis(if slow { 5 } else { 2 }));
        drop(mine);
        if waiting.fetch_sub(1, Ordering::SeqCst) == 1 {
            collapsed.store(false, Ordering::SeqCst);
        }
    });
    let output = run(mode("capacity", server.address, &[]).args([
        "--warmup",
        "100ms",
        "--duration",
        "500ms",
        "--connections",
        "16",
        "--slo",
        "p90<=100ms,achieved>=90%",
        "--probes",
        "7",
        "--time",
        "7s",
        "--start",
        "300",
    ]));
    let result = whole(&output);
    let probes = result["probes"].as_array().unwrap();
    if probes.iter().any(|probe| probe["outcome"] == "generator") {
        // A machine that is busy with other work cannot overload the server.
        return;
    }
    let collapse = &result["collapse"];
    if collapse.is_null() {
        // So few seconds may not show it; a capacity that it may fall from is not stated then, either.
        let low = result["interval"]["low_per_s"].as_f64();
        assert!(low.is_none_or(|low| low < 260.0), "{result}");
        return;
    }
    let served = collapse["served_per_s"].as_f64();
    assert!(served.is_some_and(|served| served < 260.0), "{result}");
    if let Some(back) = collapse["back_per_s"].as_f64() {
        assert!(Some(back) < served, "{collapse}");
        assert_eq!(result["interval"]["low_per_s"].as_f64(), Some(back));
    }
    assert_eq!(result["estimate_per_s"], result["collapse"]["held_per_s"]);
    let checks = result["verdict"]["checks"].as_array().unwrap();
    let claim = checks
        .iter()
        .find(|check| check["id"] == "collapse")
        .unwrap()["claim"]
        .as_str();
    assert!(claim.unwrap().starts_with("The server"), "{claim:?}");
}

#[test]
fn the_capacity_of_a_known_server_is_found() {
    // At most 500/s; the sleep takes a little longer than asked, so the capacity is somewhat below.
    let (server, _) = one_at_a_time(Duration::from_millis(2));
    let begin = Instant::now();
    let output = run(mode("capacity", server.address, &QUICK).args([
        "--slo",
        "p90<=100ms",
        "--probes",
        "9",
        "--progress",
        "json",
    ]));
    let result = whole(&output);
    if result["answer"] == "unknown" {
        assert_eq!(result["verdict"]["level"], "invalid", "{result}");
    }
    assert!(begin.elapsed() < Duration::from_secs(60));
    assert_eq!(result["kind"], "capacity_result");
    assert_eq!(result["slo"], "p90<=100ms,errors<=0.001,achieved>=0.99");
    assert!(result["probes"].as_array().unwrap().len() <= 8);
    assert_eq!(result["settings"]["rate_per_s"], Value::Null);
    let closed = result["closed_loop"]["throughput_per_s"].as_f64().unwrap();
    assert!(closed > 0.0 && closed < 500.0, "{closed}");
    for probe in result["probes"].as_array().unwrap() {
        let met = probe["criteria"]
            .as_array()
            .unwrap()
            .iter()
            .all(|c| c["met"] == true);
        assert_eq!(met, probe["outcome"] == "met", "{probe}");
    }
    // A machine that is busy with other work gives the generator too little CPU time; the answer says so.
    if result["answer"] == "interval" {
        let interval = &result["interval"];
        let (low, high) = (
            interval["low_per_s"].as_f64().unwrap(),
            interval["high_per_s"].as_f64().unwrap(),
        );
        assert!(low < high && high < 900.0, "{interval}");
        assert_eq!(result["curve"].as_array().unwrap().len(), 40);
        let estimate = result["estimate_per_s"].as_f64().unwrap();
        assert!(low <= estimate && estimate <= high);
    } else {
        assert!(
            ["at-least", "unknown"].contains(&result["answer"].as_str().unwrap()),
            "{result}"
        );
    }
    let events = String::from_utf8_lossy(&output.stderr);
    assert!(
        events
            .lines()
            .any(|line| line.contains("\"event\":\"probe\""))
    );
}

#[test]
fn a_server_that_never_meets_the_objective_is_a_no() {
    let (server, _) = one_at_a_time(Duration::from_millis(5));
    let output = run(mode("capacity", server.address, &QUICK).args(["--slo", "p50<=1ms"]));
    let result = record(&output);
    assert_eq!(output.status.code(), Some(1), "{result}");
    assert_eq!(result["answer"], "never");
    assert_eq!(result["interval"], Value::Null);
    assert!(result["probes"].as_array().unwrap().len() >= 3);
}

#[test]
fn a_search_that_is_stopped_leaves_what_it_has() {
    let (server, seen) = one_at_a_time(Duration::from_millis(2));
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let before = seen();
        let child = mode("capacity", server.address, &QUICK)
            .args(["--slo", "p95<=50ms"])
            .spawn()
            .unwrap();
        // The closed loop of 1.1 s has 550 at most.
        wait_until(|| seen() > before + 600, "the first probe has begun");
        // SAFETY: kill takes a process id and a signal; the child is ours and not yet waited for.
        unsafe { libc::kill(child.id() as i32, signal) };
        let output = finish(child, Duration::from_secs(20));
        let result = record(&output);
        assert_eq!(output.status.code(), Some(4), "{result}");
        assert_eq!(result["interrupted"], true);
        assert_eq!(result["verdict"]["level"], "invalid");
    }
}

#[test]
fn a_server_that_dies_leaves_a_partial_search() {
    // A server of its own process, which can be ended.
    let mut server = Command::new(env!("CARGO_BIN_EXE_steelyard-cache"))
        .args(["--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let address = listening(&mut server);
    let mut child = mode("capacity", address, &QUICK)
        .args(["--slo", "p95<=50ms", "--progress", "json"])
        .spawn()
        .unwrap();
    wait_for_event(&mut child, "probe");
    server.kill().unwrap();
    server.wait().unwrap();
    let output = finish(child, Duration::from_secs(60));
    assert_eq!(
        output.status.code(),
        Some(4),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let result = record(&output);
    assert_eq!(result["ended"], "The server has stopped answering.");
    assert_eq!(result["interrupted"], false);
    assert_eq!(result["verdict"]["level"], "invalid");
}

/// Waits until the program tells this event; the rest of what it tells is left to be read.
fn wait_for_event(child: &mut std::process::Child, name: &str) {
    let mut stderr = BufReader::with_capacity(1, child.stderr.as_mut().unwrap());
    let mut line = String::new();
    while !line.contains(&format!("\"event\":\"{name}\"")) {
        line.clear();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "no {name}");
    }
}

/// The address in the line that a server prints when it listens.
pub fn listening(server: &mut std::process::Child) -> SocketAddr {
    let mut line = String::new();
    BufReader::new(server.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    let event: Value = serde_json::from_str(&line).unwrap();
    let address = ["listen", "address"]
        .iter()
        .find_map(|key| event[key].as_str());
    address.unwrap_or_else(|| panic!("{line}")).parse().unwrap()
}

#[test]
fn a_sweep_measures_each_rate_once_in_a_shuffled_order() {
    let (server, _) = one_at_a_time(Duration::from_millis(1));
    let arguments = ["--rates", "50,100,200,400", "--seed", "3"];
    let output = run(mode("sweep", server.address, &QUICK).args(arguments));
    let result = whole(&output);
    let points = result["points"].as_array().unwrap();
    let rates: Vec<f64> = points
        .iter()
        .map(|p| p["rate_per_s"].as_f64().unwrap())
        .collect();
    assert_eq!(rates, [50.0, 100.0, 200.0, 400.0]);
    let mut positions: Vec<u64> = points
        .iter()
        .map(|p| p["position"].as_u64().unwrap())
        .collect();
    assert_ne!(positions, [0, 1, 2, 3]);
    positions.sort_unstable();
    assert_eq!(positions, [0, 1, 2, 3]);
    for point in points {
        assert!(point["latency"]["response"]["count"].as_u64().unwrap() > 10);
    }
    let output =
        run(mode("sweep", server.address, &QUICK).args(["--points", "3", "--order", "ascending"]));
    let result = record(&output);
    let points = result["points"].as_array().unwrap();
    assert_eq!(points.len(), 3);
    assert!(points.iter().enumerate().all(|(i, p)| p["position"] == i));
    assert!(result["closed_loop_per_s"].as_f64().unwrap() > 0.0);
}

#[test]
fn what_cannot_be_searched_is_one_line() {
    let address = "127.0.0.1:9".parse().unwrap();
    for (name, arguments, code) in [
        ("capacity", &["--slo", "p95<500ms"][..], 2),
        ("capacity", &["--slo", "p95<=500ms", "--rate", "5"], 2),
        ("capacity", &["--slo", "p95<=500ms", "--probes", "1"], 2),
        ("capacity", &["--slo", "p95<=500ms", "--time", "100ms"], 2),
        (
            "capacity",
            &["--slo", "p95<=500ms", "--arrival", "ramp:1-2"],
            2,
        ),
        ("capacity", &["--slo", "p95<=500ms"], 3),
        ("sweep", &["--rates", "0,5"], 2),
        ("sweep", &["--points", "1"], 2),
        ("sweep", &["--points", "3", "--host=-x"], 2),
        (
            "sweep",
            &["--points", "3", "--host", "localhost", "--connections", "0"],
            2,
        ),
    ] {
        let mut command = mode(name, address, arguments);
        let output = run(command
            .args(["--progress", "none"])
            .args(["--duration", "1s"]));
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{arguments:?}: {text}");
        assert!(output.stdout.is_empty());
    }
}
