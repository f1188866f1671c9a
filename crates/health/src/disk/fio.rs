//! fio as the engine of the disk's I/O, and its JSON output.
//!
//! fio gets the file through /proc/PID/fd: the file has no name of its own, so that nothing of it stays whatever
//! ends first. It is never given a device: the descriptor is that of a regular file.

use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Deserialize;
use steelyard_launch::die_with_parent;

use super::access::{Access, Measured};
use crate::error::HealthError;

/// fio's version line such as `fio-3.33`, none where it is not installed.
pub(crate) fn version() -> Option<String> {
    let output = Command::new("fio")
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let line = text.lines().next()?.trim();
    (output.status.success() && line.starts_with("fio-")).then(|| line.to_owned())
}

/// One repeat of an access pattern by fio.
pub(crate) fn run(
    file: RawFd,
    file_bytes: u64,
    access: &Access,
    duration: Duration,
    seed: u64,
) -> Result<Measured, HealthError> {
    let what = || format!("fio, {}", access.pattern.name());
    // SAFETY: getpid has no preconditions.
    let own = unsafe { libc::getpid() };
    let mut command = Command::new("fio");
    command
        .args([
            "--name=steelyard",
            "--thread=1",
            "--direct=1",
            "--time_based=1",
            "--output-format=json",
        ])
        .args([
            "--ioengine=libaio",
            "--allow_file_create=0",
            "--fallocate=none",
            "--invalidate=0",
        ])
        .args([
            "--refill_buffers=1",
            "--norandommap=1",
            "--group_reporting=1",
        ])
        .arg(format!("--filename=/proc/{own}/fd/{file}"))
        .arg(format!("--size={file_bytes}"))
        .arg(format!("--rw={}", access.pattern.fio_name()))
        .arg(format!("--bs={}", access.block_bytes))
        .arg(format!("--iodepth={}", access.depth))
        .arg(format!("--runtime={}ms", duration.as_millis()))
        .arg(format!("--randseed={seed}"))
        .stdin(Stdio::null());
    // SAFETY: between fork and exec only system calls are made (prctl, getppid).
    unsafe {
        command.pre_exec(move || {
            // An error that needs no memory of its own, which a forked child must not ask for.
            let gone = |_| std::io::Error::from_raw_os_error(libc::ECHILD);
            steelyard_launch::unblock()?;
            steelyard_launch::restore_file_size_signal();
            die_with_parent(libc::SIGKILL, own).map_err(gone)
        })
    };
    let output = command.output().map_err(HealthError::io(what()))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let why = text
            .lines()
            .next_back()
            .unwrap_or("it said nothing")
            .trim()
            .to_owned();
        return Err(HealthError::Unavailable(format!(
            "{}: {} ({why})",
            what(),
            output.status
        )));
    }
    parse(&output.stdout, access.pattern.is_read())
        .map_err(|why| HealthError::Unavailable(format!("{}: {why}", what())))
}

#[derive(Deserialize)]
struct Document {
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    #[serde(default)]
    error: i64,
    read: Direction,
    write: Direction,
}

#[derive(Deserialize)]
struct Direction {
    io_bytes: u64,
    bw_bytes: f64,
    iops: f64,
    clat_ns: Option<Latencies>,
}

#[derive(Deserialize)]
struct Latencies {
    percentile: Option<std::collections::BTreeMap<String, f64>>,
}

/// Reads fio's JSON, before which it may print warnings. Errors are one line.
pub fn parse(output: &[u8], read: bool) -> Result<Measured, String> {
    let start = output
        .iter()
        .position(|byte| *byte == b'{')
        .ok_or("its output has no JSON")?;
    let document: Document = serde_json::from_slice(&output[start..])
        .map_err(|error| format!("its JSON does not fit: {error}"))?;
    let [job] = document.jobs.as_slice() else {
        return Err(format!(
            "its JSON holds {} jobs instead of one",
            document.jobs.len()
        ));
    };
    if job.error != 0 {
        let error = i32::try_from(job.error).map(std::io::Error::from_raw_os_error);
        return Err(error.map_or_else(|_| "an error".to_owned(), |error| error.to_string()));
    }
    let direction = if read { &job.read } else { &job.write };
    // What was not moved in the time has no rate.
    if direction.io_bytes == 0 || !(direction.bw_bytes > 0.0 && direction.iops > 0.0) {
        return Err("it moved nothing".to_owned());
    }
    let percentile = |name: &str| {
        let found = direction
            .clat_ns
            .as_ref()?
            .percentile
            .as_ref()?
            .get(name)
            .copied()?;
        (found > 0.0).then_some(found)
    };
    Ok(Measured {
        rate_bytes_per_s: direction.bw_bytes,
        operations_per_s: direction.iops,
        latency_p50_ns: percentile("50.000000"),
        latency_p99_ns: percentile("99.000000"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOD: &str = r#"fio: a warning
{"fio version": "fio-3.33", "jobs": [{"jobname": "x", "error": 0,
 "read": {"io_bytes": 4096, "bw_bytes": 8192, "iops": 2.0, "clat_ns": {"percentile": {"50.000000": 900, "99.000000": 2000}}},
 "write": {"io_bytes": 0, "bw_bytes": 0, "iops": 0.0, "clat_ns": {"min": 0}}}]}"#;

    #[test]
    fn the_wanted_direction_is_read() {
        let found = parse(GOOD.as_bytes(), true).expect("read");
        assert_eq!(
            (found.rate_bytes_per_s, found.operations_per_s),
            (8192.0, 2.0)
        );
        assert_eq!(
            (found.latency_p50_ns, found.latency_p99_ns),
            (Some(900.0), Some(2000.0))
        );
        assert_eq!(
            parse(GOOD.as_bytes(), false).expect_err("nothing"),
            "it moved nothing"
        );
    }

    #[test]
    fn an_error_is_reported_in_words() {
        let text = GOOD.replace("\"error\": 0", "\"error\": 28");
        assert!(
            parse(text.as_bytes(), true)
                .expect_err("an error")
                .contains("No space left")
        );
        let text = GOOD.replace("\"jobs\": [", "\"jobs\": [], \"more\": [");
        assert!(
            parse(text.as_bytes(), true)
                .expect_err("none")
                .contains("0 jobs")
        );
        assert!(
            parse(b"fio: no such engine", true)
                .expect_err("none")
                .contains("no JSON")
        );
    }

    proptest! {
        #[test]
        fn any_text_is_refused_in_one_line(text in ".{0,80}", cut in 0usize..400) {
            if let Err(why) = parse(text.as_bytes(), true) {
                prop_assert!(!why.contains('\n'));
            }
            let cut = GOOD.len().min(cut);
            prop_assert!(cut >= GOOD.len() || parse(&GOOD.as_bytes()[..cut], true).is_err());
        }
    }
}
