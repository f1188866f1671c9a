//! Hosts that are lost in the middle of loads: what was measured until then is kept, and says so.

use std::fs;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::interval_log;
use super::namespaces::wait_until;
use super::support::{Server, check_counts, check_level, counting, finish, load};

const HOSTS: [&str; 10] = [
    "--host",
    "localhost",
    "--host",
    "localhost",
    "--connections",
    "4",
    "--warmup",
    "100ms",
    "--interval",
    "200ms",
];

/// What must hold of the record of a load that has lost a host.
pub fn check_lost(output: &Output, host: &str) -> Value {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains(&format!("host {host}: ")), "{text}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    check_counts(&result);
    assert_eq!(result["interrupted"], true);
    assert_eq!(result["verdict"]["level"], "invalid");
    assert_eq!(check_level(&result, "interrupted"), "invalid");
    let hosts = result["hosts"].as_array().unwrap();
    let lost: Vec<&Value> = hosts.iter().filter(|row| row["lost"].is_string()).collect();
    assert_eq!(lost.len(), 1, "{hosts:?}");
    assert_eq!(lost[0]["name"], host);
    let completed: Vec<u64> = hosts
        .iter()
        .map(|row| row["completed"].as_u64().unwrap())
        .collect();
    let requests = &result["requests"];
    assert_eq!(completed.iter().sum::<u64>(), requests["completed"]);
    // Every host had a part in it.
    assert!(
        completed.iter().all(|&completed| completed > 0),
        "{hosts:?}"
    );
    let ns = |name: &str| result[name].as_u64().unwrap();
    let seconds = (ns("end_ns") - ns("begin_ns")) as f64 / 1e9;
    assert!(seconds > 0.1, "{result}");
    result
}

/// The processes that `parent` has started.
fn children_of(parent: u32) -> Vec<i32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter(|entry| {
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let after = stat.rsplit(')').next().unwrap_or_default().to_owned();
        after.split_whitespace().nth(1) == Some(&parent.to_string())
    })
    .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
    .collect()
}

/// Starts `command`, kills one of its processes once `begun` holds, and waits for its end.
fn run_and_lose(command: &mut Command, begun: impl Fn() -> bool) -> Output {
    let child = command.spawn().unwrap();
    wait_until(begun, "the load has begun");
    let children = children_of(child.id());
    assert_eq!(children.len(), 2);
    // SAFETY: kill takes a process id and a signal; the process is a child of one that this test started.
    unsafe { libc::kill(children[1], libc::SIGKILL) };
    let output = finish(child, Duration::from_secs(30));
    for pid in children {
        let status = format!("/proc/{pid}/stat");
        assert!(fs::metadata(&status).is_err(), "{pid} goes on");
    }
    output
}

#[test]
fn a_load_keeps_what_was_measured_until_a_host_was_lost() {
    let (server, seen) = counting(|| ());
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("latency.hlog");
    let mut command = load(server.address, &HOSTS);
    command
        .args(["--duration", "60s", "--rate", "400", "--hlog"])
        .arg(&log);
    let output = run_and_lose(&mut command, || seen() > 600);
    let result = check_lost(&output, "localhost");
    assert!(result["hosts"][0]["completed"].as_u64() > Some(100));
    let offered = result["offered_per_s"].as_f64().unwrap();
    assert!((300.0..500.0).contains(&offered), "{offered}");
    let (entries, sums) = interval_log::sums(&log);
    let rows = result["series"].as_array().unwrap();
    assert_eq!(entries, 4 * rows.len());
    let completed = rows.iter().map(|row| row["completed"].as_u64().unwrap());
    assert_eq!(sums["response"].len(), completed.sum::<u64>());
}

fn mode(mode: &str, server: &Server) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steelyard-load"));
    command
        .args([mode, "--target", &server.address.to_string(), "--json"])
        .args(["--progress", "none", "--duration", "1s"])
        .args(HOSTS)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// What must hold of the record of a search that has lost a host.
fn check_search(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains("host localhost: "), "{text}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["interrupted"], true);
    assert_eq!(result["verdict"]["level"], "invalid");
    let claim = result["verdict"]["checks"][0]["claim"].as_str().unwrap();
    assert!(claim.contains("Host localhost was lost"), "{claim}");
    result
}

#[test]
fn a_search_keeps_its_probes_when_a_host_is_lost() {
    // 200 a second for 1.1 s, and the third probe is under way.
    let (server, seen) = counting(|| ());
    let mut command = mode("capacity", &server);
    command.args(["--slo", "p90<=100ms", "--start", "200", "--probes", "12"]);
    let output = run_and_lose(&mut command, || seen() > 500);
    let result = check_search(&output);
    assert!(!result["probes"].as_array().unwrap().is_empty(), "{result}");
    assert!(result["ended"].as_str().unwrap().contains("localhost"));
    assert_eq!(result["settings"]["io"].as_str().unwrap().len(), 5);
}

#[test]
fn a_sweep_keeps_its_points_when_a_host_is_lost() {
    let (server, seen) = counting(|| ());
    let mut command = mode("sweep", &server);
    command.args(["--rates", "200,200,200,200,200,200"]);
    let output = run_and_lose(&mut command, || seen() > 500);
    let result = check_search(&output);
    let points = result["points"].as_array().unwrap().len();
    assert!((1..6).contains(&points), "{points}");
}
