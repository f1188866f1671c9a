//! `steelyard-profile record --pid` of a process whose children do the work.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::support::{is_refused, profile, stderr};
use super::{BUSY, child};

/// A process whose parent is this one.
fn child_of(parent: u32) -> Option<i32> {
    let wanted = format!("\nPPid:\t{parent}\n");
    std::fs::read_dir("/proc")
        .ok()?
        .flatten()
        .find_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
            status.contains(&wanted).then_some(pid)
        })
}

/// As the programs of a pipeline are, of which the shell alone is named.
#[test]
fn children_that_were_there_before_are_sampled() {
    let mut shell = Command::new("sh")
        .args(["-c", "\"$@\"; true", "sh"])
        .args(child())
        .env(BUSY, "20000")
        .stdout(Stdio::null())
        .spawn()
        .expect("a shell");
    let id = shell.id();
    let begin = Instant::now();
    let child_of_shell = loop {
        if let Some(pid) = child_of(id) {
            break pid;
        }
        assert!(
            begin.elapsed() < Duration::from_secs(60),
            "the shell starts nothing"
        );
        std::thread::sleep(Duration::from_millis(5));
    };
    let pid = id.to_string();
    let output = profile()
        .args(["record", "--hz", "199", "--duration", "1s", "--pid", &pid])
        .output()
        .expect("it runs");
    // SAFETY: a child of our own child, which has not ended and been waited for.
    unsafe { libc::kill(child_of_shell, libc::SIGKILL) };
    shell.wait().expect("it ends");
    if is_refused(&output) {
        return;
    }
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("steelyard_test_burns"),
        "{text}\n{}",
        stderr(&output)
    );
}
