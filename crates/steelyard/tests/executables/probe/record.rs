//! `steelyard-probe` end to end, as built: recordings of this machine and of a tree that changes under it.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::support::{Recording, probe, wait_for};
use steelyard_record::monotonic_ns;

const FOUR: &str = "cpu,disk,network,memory";

#[test]
fn back_to_back_ticks_become_complete_parquet() {
    let recording = Recording::new();
    recording.run(&["--sources", FOUR, "--interval", "0", "--count", "300"]);
    let telemetry = recording.telemetry();
    assert!(telemetry.complete);
    assert_eq!(telemetry.end_reason.as_deref(), Some("count"));
    assert_eq!((telemetry.ticks, telemetry.missed_ticks), (300, 0));
    assert!(
        telemetry
            .cost
            .expect("the cost is recorded")
            .cpu_per_tick_ns
            > 0.0
    );
    let memory = recording.parquet("memory");
    assert_eq!(memory.rows, 300);
    assert_eq!(memory.names[..2], ["time_ns", "total_bytes"]);
    let times = &memory.columns["time_ns"];
    assert!(times.is_sorted(), "time goes forward");
    assert_eq!(memory.field("total_bytes", "unit"), Some("bytes"));
    assert_eq!(memory.field("total_bytes", "kind"), Some("gauge"));
    let cpu = recording.parquet("cpu");
    assert_eq!(cpu.rows % 300, 0, "every core has a row at each tick");
    assert_eq!(cpu.field("user_ns", "kind"), Some("counter"));
    let leftover = fs::read_dir(recording.path())
        .expect("the directory can be read")
        .flatten()
        .filter(|entry| {
            !["parquet", "json"]
                .map(|known| entry.path().extension().is_some_and(|own| own == known))
                .contains(&true)
        })
        .count();
    assert_eq!(leftover, 0, "streams and partial files are gone");
}

#[test]
fn every_source_records_here_or_says_why_not() {
    let recording = Recording::new();
    recording.run(&["--interval", "10ms", "--count", "3"]);
    for source in recording.telemetry().sources {
        match &source.file {
            Some(_) => {
                assert!(source.available);
                assert_eq!(
                    source.failed_reads, 0,
                    "{}: {:?}",
                    source.name, source.reason
                );
                let table = recording.parquet(&source.name);
                assert_eq!(table.rows as u64, source.rows, "{}", source.name);
                let columns: Vec<&String> = source.columns.iter().map(|row| &row.name).collect();
                assert_eq!(table.names.iter().collect::<Vec<_>>(), columns);
            }
            None => {
                assert!(!source.available);
                assert!(source.reason.is_some(), "{} says why not", source.name);
            }
        }
    }
}

#[test]
fn ten_milliseconds_are_kept_without_drift_and_what_is_missed_is_counted() {
    let recording = Recording::new();
    recording.run(&[
        "--sources",
        "memory",
        "--interval",
        "10ms",
        "--duration",
        "500ms",
    ]);
    let telemetry = recording.telemetry();
    assert_eq!(telemetry.end_reason.as_deref(), Some("duration"));
    let times = recording.parquet("memory").columns["time_ns"].clone();
    assert_eq!(times.len() as u64, telemetry.ticks);
    // However late some ticks came, neither more nor fewer were due than intervals passed: no drift.
    let passed = (times[times.len() - 1] - telemetry.begin_ns) / 10_000_000;
    let due = telemetry.ticks + telemetry.missed_ticks;
    assert!(
        (50..=passed + 2).contains(&due),
        "{due} due, {passed} passed"
    );

    assert!(times.is_sorted());
}

#[test]
fn a_signal_ends_a_recording_as_it_should_be() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let recording = Recording::new();
        // An hour between ticks: only the signal can end this.
        let mut child = recording
            .start(&["--sources", FOUR, "--interval", "1h"])
            .spawn()
            .expect("the probe starts");
        wait_for(|| recording.path().join("telemetry.json").exists());
        // SAFETY: the child has not been waited for, so that its id is its own.
        unsafe { libc::kill(child.id() as libc::pid_t, signal) };
        assert!(child.wait().expect("the probe ends").success());
        let telemetry = recording.telemetry();
        assert!(telemetry.complete);
        assert_eq!(telemetry.end_reason.as_deref(), Some("signal"));
        assert_eq!(telemetry.ticks, 2, "the first, and one at the end");
        assert_eq!(recording.parquet("memory").rows, 2);
    }
}

#[test]
fn the_end_of_a_command_ends_the_recording_and_its_failure_is_reported() {
    let recording = Recording::new();
    recording.run(&["--sources", "memory", "--interval", "1h", "--", "true"]);
    let telemetry = recording.telemetry();
    assert_eq!(telemetry.end_reason.as_deref(), Some("command"));
    assert_eq!(telemetry.command_exit, Some(0));

    let recording = Recording::new();
    let output = recording
        .start(&[
            "--interval",
            "1h",
            "--sources",
            "memory",
            "--",
            "sh",
            "-c",
            "exit 7",
        ])
        .output()
        .expect("the probe runs");
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(recording.telemetry().command_exit, Some(7));
    assert!(recording.telemetry().complete);

    let recording = Recording::new();
    let output = recording
        .start(&["--sources", "memory", "--", "/no/such/command"])
        .output()
        .expect("the probe runs");
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn a_command_that_outlives_the_recording_is_ended() {
    let recording = Recording::new();
    recording.run(&[
        "--sources",
        "memory",
        "--interval",
        "10ms",
        "--count",
        "2",
        "--",
        "sleep",
        "1000",
    ]);
    assert_eq!(
        recording.telemetry().command_exit,
        Some(128 + libc::SIGTERM)
    );
}

#[test]
fn devices_that_come_and_go_under_a_recording() {
    let tree = tempfile::tempdir().expect("a temporary directory");
    let write = |name: &str, text: &str| {
        let path = tree.path().join(name);
        fs::create_dir_all(path.parent().expect("a file has a directory")).expect("a directory");
        // Renamed into place, so that no read meets half a file.
        fs::write(path.with_extension("new"), text).expect("a file");
        fs::rename(path.with_extension("new"), path).expect("a file in place");
    };
    let interface = |name: &str| format!("{name}: 1 2 3 4 0 0 0 0 5 6 7 8 0 0 0 0\n");
    write("proc/stat", "cpu0 1 2 3 4\ncpu1 1 2 3 4\n");
    write("proc/meminfo", "MemTotal: 8 kB\n");
    write("proc/net/dev", &interface("eth0"));
    write("proc/diskstats", "8 0 sda 1 1 1 1 1 1 1 1 1 1 1\n");
    let recording = Recording::new();
    let root = tree.path().to_str().expect("the path is UTF-8");
    let mut child = recording
        .start(&["--sources", FOUR, "--interval", "10ms", "--root", root])
        .spawn()
        .expect("the probe starts");
    let ticks = |count: u64| std::thread::sleep(Duration::from_millis(10 * count));
    wait_for(|| recording.path().join("telemetry.json").exists());
    ticks(20);
    // A core goes offline, its counters start again, a file vanishes, an interface and a disk come.
    write("proc/stat", "cpu0 0 0 0 1\n");
    fs::remove_file(tree.path().join("proc/meminfo")).expect("the file can be removed");
    write("proc/net/dev", &(interface("eth0") + &interface("eth1")));
    write(
        "proc/diskstats",
        "8 0 sda 1 1 1 1 1 1 1 1 1 1 1\n8 1 sdb 1 1 1 1 1 1 1 1 1 1 1\n",
    );
    ticks(20);
    write("proc/stat", "cpu0 0 0 0 2\ncpu1 5 5 5 5\n");
    write("proc/meminfo", "MemTotal: 9 kB\n");
    ticks(20);
    // SAFETY: the child has not been waited for, so that its id is its own.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) };
    assert!(child.wait().expect("the probe ends").success());

    let telemetry = recording.telemetry();
    let memory = telemetry
        .sources
        .iter()
        .find(|source| source.name == "memory");
    let memory = memory.expect("memory was recorded");
    assert!(memory.failed_reads > 0);
    assert!(memory.reason.is_some());
    let table = recording.parquet("memory");
    assert_eq!(table.rows as u64 + memory.failed_reads, telemetry.ticks);
    let totals = &table.columns["total_bytes"];
    assert_eq!((totals[0], *totals.last().expect("rows")), (8192, 9216));

    let cpu = recording.parquet("cpu");
    let idle = &cpu.columns["idle_ns"];
    assert_eq!(
        (idle[0], *idle.last().expect("rows")),
        (40_000_000, 50_000_000)
    );
    assert!(
        idle.contains(&10_000_000),
        "the counter that fell is stored as it is"
    );
    let ones = cpu.columns["cpu"].iter().filter(|cpu| **cpu == 1).count();
    assert!(ones > 1 && ones < telemetry.ticks as usize);
    for (source, label, later) in [("network", "interface", "eth1"), ("disk", "device", "sdb")] {
        let names = &recording.parquet(source).labels[label];
        assert_ne!(names[0], later);
        assert_eq!(names.last().map(String::as_str), Some(later));
    }
}

#[test]
fn the_clock_is_the_monotonic_one() {
    let before = monotonic_ns();
    let recording = Recording::new();
    recording.run(&["--sources", FOUR, "--interval", "0", "--count", "5"]);
    let after = monotonic_ns();
    let telemetry = recording.telemetry();
    assert!(before <= telemetry.begin_ns && telemetry.end_ns <= Some(after));
    for source in ["cpu", "disk", "network", "memory"] {
        for time in &recording.parquet(source).columns["time_ns"] {
            assert!((before..=after).contains(time), "{source}: {time}");
        }
    }
}

#[test]
fn sources_tell_what_is_there_and_the_page_is_generated() {
    let run = |arguments: &[&str]| {
        let output = probe().arg("sources").args(arguments).output();
        let output = output.expect("the probe runs");
        assert!(output.status.success());
        String::from_utf8(output.stdout).expect("the answer is text")
    };
    let answer: serde_json::Value = serde_json::from_str(&run(&["--json"])).expect("it is JSON");
    assert_eq!(answer["kind"], "probe_sources");
    for source in answer["sources"].as_array().expect("a list of sources") {
        let available = source["available"].as_bool().expect("yes or no");
        assert_eq!(available, source["reason"].is_null(), "{source}");
        assert_eq!(source["columns"][0]["name"], "time_ns");
    }
    let page = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/telemetry.md"
    );
    let page = fs::read_to_string(page).expect("the page is in the repository");
    assert_eq!(
        page,
        run(&["--markdown"]),
        "regenerate it: steelyard-probe sources --markdown > docs/reference/telemetry.md"
    );
    assert!(run(&[]).lines().any(|line| line.starts_with("cpu ")));
}

#[test]
fn wrong_arguments_are_refused_in_one_line() {
    let recording = Recording::new();
    for (arguments, code, words) in [
        (
            vec!["--sources", "cpu,gpu"],
            2,
            "no source is called \"gpu\"",
        ),
        (vec!["--interval", "1ms"], 2, "between 10ms and 1h"),
        (vec!["--interval", "2h"], 2, "between 10ms and 1h"),
        (vec!["--root", "/no/such/root"], 3, "nothing to record"),
    ] {
        let output = recording
            .start(&arguments)
            .stdout(Stdio::null())
            .output()
            .expect("the probe runs");
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
        assert!(message.contains(words), "{arguments:?}: {message}");
    }
}

#[test]
fn it_dies_with_its_parent() {
    let recording = Recording::new();
    let pid_file = recording.path().with_extension("pid");
    // The shell starts the probe and ends; the probe must not outlive it.
    let script = format!(
        "{} record --die-with-parent --sources memory --interval 1h --out {} & echo $! > {}; \
         while [ ! -e {}/telemetry.json ]; do sleep 0.01; done",
        env!("CARGO_BIN_EXE_steelyard-probe"),
        recording.path().display(),
        pid_file.display(),
        recording.path().display(),
    );
    let status = Command::new("sh").args(["-c", &script]).status();
    assert!(status.expect("sh runs").success());
    wait_for(|| recording.telemetry().complete);
    assert_eq!(recording.telemetry().end_reason.as_deref(), Some("signal"));
    fs::remove_file(pid_file).expect("the file is there");
}
