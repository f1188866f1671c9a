//! `steelyard-tax` as its users meet it.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn tax(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_steelyard-tax"))
        .args(arguments)
        .output()
        .unwrap()
}

/// What it said on standard error.
fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const QUICKLY: [&str; 7] = [
    "--time",
    "200ms",
    "--batch",
    "100us",
    "--json",
    "--progress",
    "none",
];

#[test]
fn a_short_run_writes_a_whole_record() {
    let folder = tempfile::tempdir().unwrap();
    let (path, lines) = (
        folder.path().join("tax.json"),
        folder.path().join("batches.csv"),
    );
    let mut arguments = vec![
        "run",
        "--only",
        "crc32c",
        "--output",
        path.to_str().unwrap(),
    ];
    arguments.extend(["--batches", lines.to_str().unwrap()]);
    arguments.extend(QUICKLY);
    let output = tax(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let written: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(printed, written);
    let result: steelyard_record::TaxResult = steelyard_record::read(&path).unwrap();
    assert_eq!(result.benchmarks.len(), 3);
    assert!(result.rounds >= 13 && !result.interrupted);
    for row in &result.benchmarks {
        let one = row.one.as_ref().unwrap();
        assert!(one.time_ns > 0.0 && one.checksum.is_some(), "{}", row.name);
    }
    let batches: u64 = result
        .benchmarks
        .iter()
        .flat_map(|row| [&row.one, &row.all])
        .map(|measure| measure.as_ref().unwrap().batches)
        .sum();
    let text = std::fs::read_to_string(lines).unwrap();
    assert_eq!(text.lines().count() as u64, batches + 1);
}

#[test]
fn bad_flags_end_in_2_and_one_line() {
    for arguments in [
        &["run", "--only", "no-such-thing"][..],
        &["run", "--cores", "some"],
        &["run", "--time", "10"],
        &["run", "--time", "0s"],
        &["run", "--cpus", "3-1"],
        &["run", "--cpus", "0,,1"],
        &["list", "--only", "no-such-thing"],
        &["health", "--parts", "nosuch"],
        &["health", "--directory", "/nosuch"],
        &["weigh"],
        &[],
    ] {
        let output = tax(arguments);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{arguments:?} {}",
            said(&output)
        );
        assert!(output.stdout.is_empty());
        let said = said(&output);
        assert!(said.starts_with("steelyard-tax: "), "{said:?}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    let line = said(&tax(&["run", "--only", "no-such-thing"]));
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(line.contains("steelyard-tax list"), "{line}");
}

#[test]
fn a_cpu_that_is_not_there_ends_in_3() {
    let mut arguments = vec!["run", "--cpus", "60000", "--only", "crc32c-64"];
    arguments.extend(QUICKLY);
    let output = tax(&arguments);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains("CPU 60000"), "{}", said(&output));
}

#[test]
fn the_list_names_every_benchmark_with_its_category() {
    let output = tax(&["list", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let rows: Vec<Value> = output
        .stdout
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    for category in ["compression", "hashing", "serialization", "encryption"] {
        assert!(
            rows.iter().any(|row| row["category"] == category),
            "{category}"
        );
    }
    assert!(
        rows.iter()
            .all(|row| row["operation"].as_str().is_some_and(|o| !o.is_empty()))
    );
}

#[test]
fn a_signal_ends_it_with_what_was_measured() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_steelyard-tax"))
        .args([
            "run",
            "--only",
            "crc32c-64",
            "--time",
            "60s",
            "--progress",
            "json",
            "--json",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    // The first line of progress comes after whole rounds.
    let progress = lines
        .find(|line| line.as_ref().unwrap().contains("\"progress\""))
        .unwrap();
    let progress: Value = serde_json::from_str(&progress.unwrap()).unwrap();
    assert!(progress["rounds"].as_u64() > Some(0));
    // SAFETY: the process is our child and has not been waited for.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) };
    for _ in lines {}
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["interrupted"], true);
    assert!(
        result["verdict"]["checks"]
            .as_array()
            .unwrap()
            .iter()
            .any(|c| c["id"] == "interrupted")
    );
}
