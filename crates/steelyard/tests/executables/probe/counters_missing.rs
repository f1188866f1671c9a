//! `steelyard-probe record --counters` and `counters --check` on hosts that lack something or refuse, and with PMUs by
//! their folders.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::plans::{Plan, check, event, refusal, software};
use super::support::{Recording, probe};
use serde_json::Value;
use steelyard_record::PlannedEvent;

#[test]
fn cycles_and_instructions_are_counted_where_there_are_counters() {
    let plan = Plan::new(vec![
        event("cycles", "hardware", 0),
        event("instructions", "hardware", 1),
    ]);
    let (status, checked) = check(&plan, &["--counter-scope", "process"]);
    if checked["events"].as_array().expect("events").is_empty() {
        let reason = &checked["missing_items"];
        assert!(
            reason["cycles"]
                .as_str()
                .is_some_and(|reason| reason.len() > 20),
            "{reason}"
        );
        assert_eq!(status, Some(3));
        eprintln!("skipped: no hardware counters here: {reason}");
        return;
    }
    for row in checked["events"].as_array().expect("events") {
        assert!(
            row["count"].as_u64().is_some_and(|count| count > 1_000_000),
            "{row}"
        );
        assert!(
            row["coverage_ratio"]
                .as_f64()
                .is_some_and(|ratio| ratio > 0.0),
            "{row}"
        );
    }
}

#[test]
fn a_pmu_is_found_by_its_folder_and_its_lists() {
    if !Path::new("/sys/bus/event_source/devices/msr/events/tsc").exists() {
        eprintln!("skipped: PMU msr has no event tsc here");
        return;
    }
    let listed = PlannedEvent {
        terms: BTreeMap::new(),
        ..event("tsc", "msr", 0)
    };
    let mut by_term = event("tsc-by-term", "msr", 0);
    by_term.terms = BTreeMap::from([("event".to_owned(), 0)]);
    let plan = Plan::new(vec![listed, by_term, event("nothing", "msr", 77)]);
    let (status, checked) = check(&plan, &["--counter-scope", "process"]);
    assert_eq!(status, Some(1), "one event is not counted");
    let counts: Vec<u64> = checked["events"]
        .as_array()
        .expect("events")
        .iter()
        .filter_map(|row| row["count"].as_u64())
        .collect();
    assert_eq!(counts.len(), 2, "{checked}");
    assert!(
        counts[0] > 0 && counts[0].abs_diff(counts[1]) < counts[0] / 10,
        "{counts:?}"
    );
    assert!(checked["missing_items"]["nothing"].is_string());
}

/// `command` with perf_event_open failing with `errno`, as a container's seccomp profile makes it.
fn without_perf_event(command: &mut Command, errno: i32) -> &mut Command {
    let statement = |code: u32, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    };
    let filter = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        libc::sock_filter {
            jf: 1,
            ..statement(
                libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
                libc::SYS_perf_event_open as u32,
            )
        },
        statement(
            libc::BPF_RET | libc::BPF_K,
            libc::SECCOMP_RET_ERRNO | errno as u32,
        ),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    // SAFETY: only system calls between fork and exec; the filter lives in the closure.
    unsafe {
        command.pre_exec(move || {
            let program = libc::sock_fprog {
                len: filter.len() as u16,
                filter: filter.as_ptr().cast_mut(),
            };
            if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) != 0
            {
                return Err(io::Error::last_os_error());
            }
            Ok(())
        })
    }
}

#[test]
fn a_host_that_refuses_gets_its_recording_and_the_reason() {
    let plan = Plan::new(software());
    for (errno, words) in [
        (libc::EPERM, "seccomp"),
        (libc::ENOSYS, "CONFIG_PERF_EVENTS"),
    ] {
        let recording = Recording::new();
        let mut command = recording.start(&[
            "--sources",
            "memory",
            "--count",
            "1",
            "--counters",
            &plan.path(),
        ]);
        let output = without_perf_event(&mut command, errno)
            .output()
            .expect("it runs");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let telemetry = recording.telemetry();
        assert_eq!(recording.parquet("memory").rows, 1);
        let counters = &telemetry.sources[1];
        assert!(!counters.available);
        let reason = counters.reason.as_deref().expect("a reason");
        assert!(reason.contains(words) && !reason.contains('\n'), "{reason}");
        let mut command = probe();
        command.args(["counters", "--check", &plan.path()]);
        let output = without_perf_event(&mut command, errno)
            .output()
            .expect("it runs");
        assert_eq!(output.status.code(), Some(3));
        assert!(String::from_utf8_lossy(&output.stdout).contains(words));
    }
}

#[test]
fn a_user_without_rights_counts_his_own_user_mode() {
    let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    if level.trim() != "2" {
        eprintln!(
            "skipped: kernel.perf_event_paranoid is {} here, not 2",
            level.trim()
        );
        return;
    }
    let plan = Plan::new(software());
    let folder = tempfile::tempdir().expect("a folder");
    // The executable stands where another user may not go.
    let copy = folder.path().join("steelyard-probe");
    std::fs::copy(env!("CARGO_BIN_EXE_steelyard-probe"), &copy).expect("copied");
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755))
        .expect("one's own");
    let run = |scope: &str| {
        let mut command = Command::new(&copy);
        command.args([
            "counters",
            "--check",
            &plan.path(),
            "--json",
            "--counter-scope",
            scope,
        ]);
        // SAFETY: geteuid has no preconditions.
        if unsafe { libc::geteuid() } == 0 {
            command.uid(65534).gid(65534);
        }
        let output = command.output().expect("it runs");
        let checked: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        (output.status.code(), checked)
    };
    let (code, own) = run("process");
    assert_eq!(code, Some(1), "{own}");
    let names: Vec<&str> = own["events"]
        .as_array()
        .expect("events")
        .iter()
        .filter_map(|row| row["event"].as_str())
        .collect();
    assert_eq!(
        names,
        ["cpu-clock", "task-clock", "page-faults:u", "minor-faults:u"]
    );
    let missing = own["missing_items"]["context-switches"]
        .as_str()
        .expect("a reason");
    assert!(
        missing.contains("kernel.perf_event_paranoid is 2"),
        "{missing}"
    );
    let (code, all) = run("system");
    assert_eq!(code, Some(3), "{all}");
    let missing = all["missing_items"]["cpu-clock"]
        .as_str()
        .expect("a reason");
    assert!(
        missing.contains("sysctl kernel.perf_event_paranoid=0"),
        "{missing}"
    );
}

#[test]
fn the_limit_of_open_files_is_raised_as_far_as_it_goes() {
    let plan = Plan::new(software());
    let run = |soft: u64, hard: Option<u64>| {
        let recording = Recording::new();
        let mut command = recording.start(&[
            "--sources",
            "memory",
            "--count",
            "1",
            "--counters",
            &plan.path(),
        ]);
        // SAFETY: system calls only between fork and exec.
        unsafe {
            command.pre_exec(move || {
                let mut limit: libc::rlimit = std::mem::zeroed();
                libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
                limit.rlim_cur = soft;
                limit.rlim_max = hard.unwrap_or(limit.rlim_max);
                match libc::setrlimit(libc::RLIMIT_NOFILE, &limit) {
                    0 => Ok(()),
                    _ => Err(io::Error::last_os_error()),
                }
            });
        }
        assert!(command.status().expect("it runs").success());
        recording.telemetry().sources.remove(1)
    };
    if let Some(reason) = refusal(&plan, &[]) {
        eprintln!("skipped: the system cannot be counted here: {reason}");
        return;
    }
    let raised = run(16, None);
    assert!(
        raised.available && raised.missing_items.is_empty(),
        "{raised:?}"
    );
    let refused = run(20, Some(20));
    assert!(
        refused
            .reason
            .as_deref()
            .is_some_and(|why| why.contains("ulimit -Hn")),
        "{refused:?}"
    );
}

#[test]
fn words_that_do_not_fit_are_one_line() {
    let plan = Plan::new(software());
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out").display().to_string();
    let absent = folder.path().join("absent.json").display().to_string();
    let cases: [&[&str]; 7] = [
        &["--counters", &absent],
        &["--counters", &plan.path(), "--counter-target", "x"],
        &["--counters", &plan.path(), "--counter-scope", "process"],
        &["--counters", &plan.path(), "--counter-scope", "cgroup"],
        &[
            "--counters",
            &plan.path(),
            "--counter-scope",
            "system",
            "--counter-target",
            "1",
        ],
        &["--counter-scope", "system"],
        &["--sources", "counters"],
    ];
    for case in cases {
        let output = probe()
            .args(["record", "--count", "1", "--out", &out])
            .args(case)
            .output()
            .expect("it runs");
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{case:?}: {message}");
        assert!(
            !message.is_empty() && !message.contains("panicked"),
            "{case:?}: {message}"
        );
    }
    let gone = [
        "--sources",
        "memory",
        "--count",
        "1",
        "--counters",
        &plan.path(),
        "--counter-target",
        "999999999",
    ];
    let output = probe()
        .args(["record", "--out", &out])
        .args(gone)
        .output()
        .expect("it runs");
    assert!(
        output.status.success(),
        "a process that is gone is a reason, and the rest is recorded"
    );
    let text = std::fs::read_to_string(Path::new(&out).join("telemetry.json")).expect("written");
    assert!(text.contains("there is no such process"), "{text}");
}

#[test]
fn without_a_plan_nothing_is_counted_and_sources_tells_whether_it_could_be() {
    let recording = Recording::new();
    recording.run(&["--count", "1"]);
    assert!(
        recording
            .telemetry()
            .sources
            .iter()
            .all(|source| source.name != "counters")
    );
    let output = probe()
        .args(["sources", "--json"])
        .output()
        .expect("it runs");
    let survey: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let sources = survey["sources"].as_array().expect("sources");
    let counters = sources
        .iter()
        .find(|source| source["name"] == "counters")
        .expect("a list of counters");
    let is_explained = counters["available"] == true || counters["reason"].is_string();
    assert!(is_explained, "{counters}");
    let text = probe().arg("sources").output().expect("it runs").stdout;
    assert!(
        String::from_utf8_lossy(&text)
            .lines()
            .any(|line| line.starts_with("counters"))
    );
}
