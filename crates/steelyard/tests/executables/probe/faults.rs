//! `steelyard-probe` when the world fails it: killed, out of space, nowhere to write.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use super::support::{Recording, probe, wait_for};

fn recover(recording: &Recording) -> String {
    let output = probe().arg("recover").arg(recording.path()).output();
    let output = output.expect("the probe runs");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{message}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Starts a recording, lets it write for more than a second, and kills it.
fn killed() -> Recording {
    let recording = Recording::new();
    let mut child = recording
        .start(&["--sources", "cpu,memory", "--interval", "10ms"])
        .spawn()
        .expect("the probe starts");
    // The first flush comes within a second; two tell that they go on.
    let rows = || {
        let there = recording.path().join("memory.arrows");
        fs::metadata(there).map_or(0, |file| file.len())
    };
    wait_for(|| rows() > 0);
    let schema_only = rows();
    wait_for(|| rows() > schema_only);
    let one_flush = rows();
    wait_for(|| rows() > one_flush);
    child.kill().expect("the probe can be killed");
    child.wait().expect("the probe ends");
    recording
}

#[test]
fn what_a_killed_recording_flushed_is_readable_and_can_be_made_parquet() {
    let recording = killed();
    let telemetry = recording.telemetry();
    assert!(!telemetry.complete);
    assert_eq!(telemetry.end_reason, None);
    assert_eq!(telemetry.sources[0].file.as_deref(), Some("cpu.arrows"));
    let stream = recording.stream("memory");
    // At most a second waits for a flush, which is a hundred ticks; two flushes were seen.
    assert!(stream.rows > 20, "{} rows", stream.rows);

    recover(&recording);
    let table = recording.parquet("memory");
    assert_eq!(table.columns["time_ns"], stream.columns["time_ns"]);
    assert!(!recording.path().join("memory.arrows").exists());
    let telemetry = recording.telemetry();
    assert!(telemetry.complete);
    assert_eq!(telemetry.end_reason.as_deref(), Some("killed; recovered"));
    let memory = telemetry
        .sources
        .iter()
        .find(|source| source.name == "memory");
    let memory = memory.expect("memory was recorded");
    assert_eq!(memory.rows, stream.rows as u64);
    assert_eq!(memory.file.as_deref(), Some("memory.parquet"));
    assert!(telemetry.end_ns >= table.columns["time_ns"].last().copied());
    // A second time there is nothing left to do.
    assert_eq!(recover(&recording), "");
}

#[test]
fn a_stream_cut_anywhere_keeps_its_whole_batches() {
    let recording = killed();
    let path = recording.path().join("memory.arrows");
    let whole = fs::read(&path).expect("the stream can be read");
    let rows = recording.stream("memory").rows;
    let mut last = 0;
    // The schema's message is about a kilobyte; from there on any length must do.
    for length in (whole.len() / 3..=whole.len()).step_by(97) {
        fs::write(&path, &whole[..length]).expect("the stream can be cut");
        let answer = recover(&recording);
        let found = recording.parquet("memory").rows;
        assert!(
            (last..=rows).contains(&found),
            "{found} rows of {length} bytes: {answer}"
        );
        last = found;
    }
    // Killed before even the schema was written: nothing to recover, and no reason to fail.
    fs::write(&path, &whole[..40]).expect("the stream can be cut");
    assert!(recover(&recording).contains("memory: 0 rows"));
    fs::write(&path, &whole).expect("the stream can be made whole");
    recover(&recording);
    assert_eq!(recording.parquet("memory").rows, rows);
}

#[test]
fn a_directory_without_a_recording_is_no_recording() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let output = probe().arg("recover").arg(directory.path()).output();
    let output = output.expect("the probe runs");
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(
        message.contains("no telemetry.json and no .arrows file"),
        "{message}"
    );
}

/// Asserts that a recording into `recording` ended for want of space and that what came before is readable.
fn assert_ended_for_want_of_space(recording: &Recording, output: &std::process::Output) {
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{message}");
    assert_eq!(message.lines().count(), 1, "one line: {message}");
    assert!(message.contains("cannot write"), "{message}");
    let table = match recording.path().join("memory.parquet").exists() {
        true => recording.parquet("memory"),
        false => recording.stream("memory"),
    };
    assert!(table.rows > 0, "earlier rows are readable");
    let times = &table.columns["time_ns"];
    assert!(times.is_sorted());
    // Where even the last telemetry.json has no room, the first stands, which says that nothing was finished.
    let telemetry = recording.telemetry();
    let end_reason = telemetry.end_reason.as_deref();
    assert!(end_reason.is_some_and(|reason| reason.starts_with("error: ")) || !telemetry.complete);
}

#[test]
fn a_file_size_limit_ends_the_recording_with_an_error() {
    let recording = Recording::new();
    let mut command = recording.start(&["--sources", "memory,vmstat", "--interval", "0"]);
    // SAFETY: setrlimit is async-signal-safe and its argument outlives the call.
    unsafe {
        command.pre_exec(|| {
            let limit = libc::rlimit {
                rlim_cur: 3 << 20,
                rlim_max: 3 << 20,
            };
            match libc::setrlimit(libc::RLIMIT_FSIZE, &limit) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    let output = command.output().expect("the probe runs");
    assert_ended_for_want_of_space(&recording, &output);
}

#[test]
fn a_full_disk_ends_the_recording_with_an_error() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let point = directory.path().join("small");
    fs::create_dir(&point).expect("a directory");
    let status = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=2m", "tmpfs"])
        .arg(&point)
        .stderr(std::process::Stdio::null())
        .status();
    if !status.is_ok_and(|status| status.success()) {
        eprintln!(
            "skipped: a small tmpfs can be mounted by root only; the test of the size limit stands for it"
        );
        return;
    }
    let mounted = Mounted(point.clone());
    let recording = Recording::at(point.join("telemetry"));
    let output = recording
        .start(&["--sources", "memory,vmstat", "--interval", "0"])
        .output()
        .expect("the probe runs");
    assert_ended_for_want_of_space(&recording, &output);
    drop(mounted);
}

/// Unmounts when it goes.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_directory_that_cannot_be_written_is_reported() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    // A file in the way fails for everyone; a directory without permission fails for all but root.
    let in_the_way = directory.path().join("file");
    fs::write(&in_the_way, "").expect("a file");
    let closed = directory.path().join("closed");
    fs::create_dir(&closed).expect("a directory");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).expect("permissions");
    let writable = OpenOptions::new()
        .create(true)
        .append(true)
        .open(closed.join("try"))
        .is_ok();
    let mut places = vec![in_the_way, PathBuf::from("/proc/no-such-place")];
    if !writable {
        places.push(closed);
    }
    for place in places {
        let recording = Recording::at(place.join("telemetry"));
        let output = recording
            .start(&["--sources", "memory", "--count", "1"])
            .output()
            .expect("the probe runs");
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{message}");
        assert!(message.contains("--out"), "{message}");
    }
}
