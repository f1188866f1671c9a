//! One load of several processes: here, and over ssh in a network namespace of its own.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use steelyard_load::hosts::wire::{Changes, Order, Report, read_report};
use steelyard_load::settings::Turn;

use super::capacity::listening;
use super::interval_log;
use super::lost_hosts;
use super::namespaces::{Namespaces, start_sshd, wait_for_sshd, wait_until};
use super::support::{Server, check_counts, counting, finish, load, whole};

const QUICK: [&str; 8] = [
    "--duration",
    "1s",
    "--warmup",
    "200ms",
    "--connections",
    "5",
    "--rate",
    "400",
];

const TWO: [&str; 4] = ["--host", "localhost", "--host", "localhost"];

fn result(output: &Output) -> Value {
    let result = whole(output);
    check_counts(&result);
    result
}

/// What must hold of any load of two hosts.
fn check_two(result: &Value, rate: f64) {
    let hosts = result["hosts"].as_array().unwrap();
    assert_eq!(hosts.len(), 2);
    let sum = |name: &str| {
        hosts
            .iter()
            .map(|host| host[name].as_f64().unwrap())
            .sum::<f64>()
    };
    assert_eq!(
        sum("completed"),
        result["requests"]["completed"].as_f64().unwrap()
    );
    assert_eq!(sum("connections"), 5.0);
    assert!(
        hosts
            .iter()
            .all(|host| host["completed"].as_u64().unwrap() > 0),
        "{result}"
    );
    let offered = result["offered_per_s"].as_f64().unwrap();
    // A Poisson count of 400 has a standard deviation of 20.
    assert!((offered / rate - 1.0).abs() < 0.25, "{offered}");
    let measured = result["series"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["phase"] == "measure");
    let due = measured
        .map(|row| row["completed"].as_u64().unwrap())
        .sum::<u64>();
    assert!(due > 0);
    assert_eq!(result["threads"].as_array().unwrap().len(), 2);
    for (name, operation) in result["operations"].as_object().unwrap() {
        let completed = operation["completed"].as_u64().unwrap();
        let response = &operation["response"];
        // Null for an operation that is never drawn, as in a load of one process.
        if completed > 0 || response.is_object() {
            assert_eq!(response["count"], completed, "{name}");
        }
        assert_eq!(response["p50_ns"].is_u64(), completed > 0);
    }
    assert_eq!(result["settings"]["connections"], 5);
}

#[test]
fn two_processes_here_make_one_load() {
    let server = Server::answering(|_| ());
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("latency.hlog");
    let mut command = load(server.address, &QUICK);
    command
        .args(TWO)
        .args(["--prefill", "--keys", "100", "--set-ratio", "0.3"])
        .args(["--interval", "250ms", "--hlog"])
        .arg(&log);
    let output = finish(command.spawn().unwrap(), Duration::from_secs(60));
    let result = result(&output);
    check_two(&result, 400.0);
    let operations = result["operations"].as_object().unwrap();
    let answered = |name: &str| operations[name]["completed"].as_u64().unwrap();
    assert!(answered("get") > 0 && answered("set") > 0, "{operations:?}");

    let (entries, sums) = interval_log::sums(&log);
    let rows = result["series"].as_array().unwrap();
    assert_eq!(entries, 4 * rows.len());
    let completed = rows.iter().map(|row| row["completed"].as_u64().unwrap());
    let completed: u64 = completed.sum();
    assert!(completed >= result["requests"]["completed"].as_u64().unwrap());
    for (tag, sum) in sums {
        assert_eq!(sum.len(), completed, "{tag}");
    }
}

#[test]
fn held_processes_measure_together_when_ordered() {
    let (server, seen) = counting(|| ());
    let mut command = Command::new(env!("CARGO_BIN_EXE_steelyard-load"));
    command
        .args(["--target", &server.address.to_string(), "--json"])
        .args(QUICK)
        .args(TWO)
        .args(["--hold", "--progress", "json", "--interval", "200ms"])
        .args(["--prefill", "--keys", "100"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // Both have filled, 100 requests each, and the warm-up has begun.
    wait_until(|| seen() > 250, "the warm-up has begun");
    thread::sleep(Duration::from_secs(1));
    writeln!(child.stdin.as_mut().unwrap(), "measure").unwrap();
    let output = finish(child, Duration::from_secs(60));
    let result = result(&output);
    check_two(&result, 400.0);
    let events: Vec<Value> = String::from_utf8_lossy(&output.stderr)
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let phase = |name: &str| {
        let is = |event: &&Value| event["event"] == "phase" && event["name"] == name;
        let begin = events.iter().find(is).unwrap_or_else(|| panic!("{name}"));
        begin["begin_ns"].as_u64().unwrap()
    };
    assert!(phase("prefill") < phase("warmup"));
    // The warm-up of 200 ms lasted until the order, and the phases are those of the record.
    assert!(phase("measure") - phase("warmup") > 800_000_000);
    assert!(phase("measure") >= result["begin_ns"].as_u64().unwrap());
    assert_eq!(
        phase("drain"),
        result["begin_ns"].as_u64().unwrap() + 1_000_000_000
    );
    let completed_in = |name: &str| {
        let rows = events.iter().filter(|event| event["phase"] == name);
        rows.map(|row| row["completed"].as_u64().unwrap())
            .sum::<u64>()
    };
    assert!(
        completed_in("warmup") > 0 && completed_in("measure") > 0,
        "{events:?}"
    );
}

#[test]
fn held_processes_end_with_the_control_input() {
    let server = Server::answering(|_| ());
    let mut command = load(server.address, &QUICK);
    command.args(TWO).arg("--hold").stdin(Stdio::null());
    let output = finish(command.spawn().unwrap(), Duration::from_secs(60));
    assert_eq!(output.status.code(), Some(4));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("the control input ended"), "{stderr}");
}

/// A load of `arrival` by two processes, and how many requests its measure phase asked for.
fn intended(arrival: &str) -> u64 {
    let server = Server::answering(|_| ());
    let mut command = load(server.address, &QUICK[..6]);
    command.args(TWO).args(["--arrival", arrival]);
    let output = finish(command.spawn().unwrap(), Duration::from_secs(60));
    let result = result(&output);
    let hosts = result["hosts"].as_array().unwrap();
    let each: Vec<u64> = hosts
        .iter()
        .map(|host| host["completed"].as_u64().unwrap())
        .collect();
    assert!(each[0].abs_diff(each[1]) <= 1, "{each:?}");
    assert_eq!(result["settings"]["arrival"], arrival);
    result["requests"]["intended"].as_u64().unwrap()
}

#[test]
fn laws_of_the_measure_phase_are_dealt_arrival_by_arrival() {
    assert_eq!(intended("ramp:0-800"), 400);
    assert_eq!(intended("step:100,0,501,200"), 201);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("arrivals");
    fs::write(&file, "gaps_ms\n1\n2\n2\n").unwrap();
    // Three in 5 ms, the last at 1000 ms: it belongs to the phase no more.
    assert_eq!(intended(&format!("recorded:{}", file.display())), 599);
}

#[test]
fn a_host_with_another_recording_makes_no_load() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("arrivals");
    fs::write(&file, "gaps_ms\n1\n2\n2\n").unwrap();
    let arrival = format!("recorded:{}", file.display());
    let order = Order::Load {
        arguments: [
            "steelyard-load",
            "--target",
            "127.0.0.1:1",
            "--arrival",
            &arrival,
        ]
        .map(str::to_owned)
        .to_vec(),
        changes: Changes {
            rate_per_s: None,
            connections: 1,
            seed: 1,
            warmup_ns: 0,
            duration_ns: 1_000_000_000,
            drain_ns: 0,
            interval_ns: 100_000_000,
            max_outstanding: 1,
            prefill: false,
            turn: Turn::ALONE,
            recording: Some(1),
        },
    };
    let mut child = Command::new(env!("CARGO_BIN_EXE_steelyard-load"))
        .arg("join")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "{}", serde_json::to_string(&order).unwrap()).unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let hello = read_report(&lines.next().unwrap().unwrap()).unwrap();
    assert!(matches!(hello, Report::Hello { .. }));
    let Report::Failed { kind, why } = read_report(&lines.next().unwrap().unwrap()).unwrap() else {
        panic!("it makes a load");
    };
    assert_eq!(kind, "usage");
    assert!(why.contains("differs from the file"), "{why}");
    drop(input);
    child.wait().unwrap();
}

#[test]
fn a_trace_is_refused_and_so_is_a_log_that_cannot_be_written() {
    let server = Server::answering(|_| ());
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.csv");
    fs::write(&trace, "time_s,operation,key,size\n0,get,a,\n9,get,a,\n").unwrap();
    for (flag, value, code, says) in [
        ("--trace", trace.to_str().unwrap(), 2, "one process"),
        ("--hlog", "/nowhere/x.hlog", 4, "/nowhere/x.hlog"),
    ] {
        let mut command = load(server.address, &[flag, value]);
        let child = command.args(TWO).spawn().unwrap();
        let output = finish(child, Duration::from_secs(30));
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(text.contains(says) && text.lines().count() == 1, "{text}");
    }
}

#[test]
fn a_stop_reaches_every_process() {
    let (server, seen) = counting(|| ());
    let mut command = load(
        server.address,
        &[
            "--host",
            "localhost",
            "--host",
            "localhost",
            "--duration",
            "60s",
        ],
    );
    let child = command.spawn().unwrap();
    wait_until(|| seen() > 0, "the load has begun");
    // SAFETY: kill takes a process id and a signal; the child is ours and not yet waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let output = finish(child, Duration::from_secs(20));
    assert_eq!(output.status.code(), Some(4));
    if !output.stdout.is_empty() {
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(result["interrupted"], true);
    }
}

#[test]
fn a_host_that_cannot_be_reached_is_one_line_and_nothing_stays() {
    let server = Server::answering(|_| ());
    let mut command = load(
        server.address,
        &[
            "--host",
            "localhost",
            "--host",
            "nobody@127.0.0.1",
            "--ssh",
            "ssh -p 1 -F /dev/null",
        ],
    );
    let child = command.spawn().unwrap();
    let parent = child.id();
    let output = finish(child, Duration::from_secs(40));
    assert_eq!(output.status.code(), Some(3));
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(
        text.contains("host nobody@127.0.0.1") && text.contains("refused"),
        "{text}"
    );
    assert!(!alive_child_of(parent));
}

/// Whether a process has this parent.
fn alive_child_of(parent: u32) -> bool {
    fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let after = stat.rsplit(')').next().unwrap_or_default();
        after.split_whitespace().nth(1) == Some(&parent.to_string())
    })
}

#[test]
fn a_load_over_ssh_is_one_load_and_leaves_nothing_behind() {
    let mut namespaces = match Namespaces::new() {
        Ok(namespaces) => namespaces,
        Err(why) if why.contains("permitted") || why.contains("denied") => {
            eprintln!("skipped: network namespaces are not permitted here: {why}");
            return;
        }
        Err(why) => panic!("{why}"),
    };
    let folder = tempfile::tempdir().unwrap();
    let ssh = start_sshd(&mut namespaces, folder.path());
    wait_for_sshd(&folder.path().join("sshd.log"));
    let listen = format!("{}:0", namespaces.addresses[0]);
    let mut server = namespaces
        .command(0, env!("CARGO_BIN_EXE_steelyard-cache"))
        .args(["--listen", &listen])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let address: SocketAddr = listening(&mut server);
    namespaces.children.push(server);

    let program = env!("CARGO_BIN_EXE_steelyard-load");
    let host = format!("root@{}", namespaces.addresses[1]);
    let start = |more: &[&str]| {
        namespaces
            .command(0, program)
            .args([
                "--target",
                &address.to_string(),
                "--json",
                "--progress",
                "none",
            ])
            .args([
                "--host",
                "localhost",
                "--host",
                &host,
                "--ssh",
                &ssh,
                "--remote-command",
                program,
            ])
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let output = finish(start(&QUICK), Duration::from_secs(60));
    let merged = result(&output);
    check_two(&merged, 400.0);
    assert_eq!(merged["hosts"][1]["name"], host.as_str());
    assert_eq!(namespaces.joined(1), 0, "{:?}", namespaces.programs(1));

    // The far process dies in the middle of a load: what both had reported until then is kept.
    let child = start(&["--duration", "60s", "--warmup", "100ms", "--rate", "400"]);
    wait_until(|| namespaces.joined(1) == 1, "the far process has begun");
    thread::sleep(Duration::from_secs(2));
    namespaces.kill_joined(1);
    let output = finish(child, Duration::from_secs(30));
    lost_hosts::check_lost(&output, &host);
    wait_until(|| namespaces.joined(0) == 0, "the near one has ended");

    // Killed outright in the middle of a load: the far process must not go on.
    let mut child = start(&["--duration", "60s"]);
    wait_until(|| namespaces.joined(1) == 1, "the far process has begun");
    thread::sleep(Duration::from_millis(500));
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until(
        || namespaces.joined(1) == 0 && namespaces.joined(0) == 0,
        "all have ended",
    );
}
