//! `steelyard-exec` with real processes: nothing may outlive its starter, however it ends.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const EXEC: &str = env!("CARGO_BIN_EXE_steelyard-exec");

fn alive(pid: i32) -> bool {
    // A zombie has ended; only its parent has not asked yet.
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        let state = stat.rsplit_once(')').map_or("", |(_, rest)| rest).trim();
        !state.starts_with('Z')
    })
}

fn wait_until_gone(pid: i32) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while alive(pid) {
        assert!(Instant::now() < deadline, "process {pid} is still alive");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Starts `steelyard-exec ARGS`, and reads as many process ids as the script prints.
fn start(arguments: &[&str], script: &str, count: usize) -> (Child, Vec<i32>) {
    let mut child = Command::new(EXEC)
        .args(arguments)
        .args(["--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .spawn()
        .expect("steelyard-exec starts");
    let output = BufReader::new(child.stdout.take().expect("piped"));
    let pids = output
        .lines()
        .take(count)
        .map(|line| line.expect("text").trim().parse().expect("a process id"))
        .collect();
    (child, pids)
}

fn signal(pid: u32, signal: i32) {
    // SAFETY: kill touches no memory; the process has not been reaped by its parent.
    assert_eq!(unsafe { libc::kill(pid as i32, signal) }, 0);
}

/// A shell that prints its own id and that of a grandchild in a session of its own.
const ESCAPING: &str = "setsid sh -c 'echo $$; exec sleep 1000' & echo $$; wait";

#[test]
fn the_exit_code_is_the_commands() {
    let status = Command::new(EXEC)
        .args(["--", "sh", "-c", "exit 7"])
        .status()
        .expect("starts");
    assert_eq!(status.code(), Some(7));
    let status = Command::new(EXEC)
        .args(["--", "sh", "-c", "kill -9 $$"])
        .status()
        .expect("starts");
    assert_eq!(status.code(), Some(137));
    let status = Command::new(EXEC)
        .args(["--", "/no/such/command"])
        .stderr(Stdio::null())
        .status()
        .expect("starts");
    assert_eq!(status.code(), Some(127));
}

/// The shortest time from `sign` to the end of `steelyard-exec sh -c SCRIPT`, of ten.
fn soonest_end(script: &str, sign: Option<i32>) -> Duration {
    let time = || {
        let (mut child, pids) = start(&[], script, 1);
        let begin = Instant::now();
        if let Some(sign) = sign {
            signal(pids[0] as u32, sign);
        }
        child.wait().expect("waits");
        begin.elapsed()
    };
    (0..10).map(|_| time()).min().expect("ten")
}

#[test]
fn a_killed_command_is_reaped_after_its_threads_and_one_that_ends_at_once() {
    let killed = soonest_end("echo $$; exec sleep 1000", Some(libc::SIGKILL));
    assert!(killed >= Duration::from_millis(10), "{killed:?}");
    let ended = soonest_end("echo $$", None);
    assert!(ended < Duration::from_millis(10), "{ended:?}");
}

#[test]
fn a_grandchild_in_another_session_goes_with_the_command() {
    let (mut child, pids) = start(
        &[],
        "setsid sh -c 'echo $$; exec sleep 1000' & read -r _ < /dev/null; sleep 0.2; exit 3",
        1,
    );
    assert_eq!(child.wait().expect("waits").code(), Some(3));
    wait_until_gone(pids[0]);
}

#[test]
fn sigterm_ends_the_command_and_what_it_started() {
    let (mut child, pids) = start(&[], ESCAPING, 2);
    signal(child.id(), libc::SIGTERM);
    assert_eq!(child.wait().expect("waits").code(), Some(143));
    for pid in pids {
        wait_until_gone(pid);
    }
}

#[test]
fn a_command_that_ignores_sigterm_is_killed_after_the_grace_time() {
    let (mut child, pids) = start(
        &["--grace", "50ms"],
        "trap '' TERM; echo $$; while :; do sleep 1; done",
        1,
    );
    signal(child.id(), libc::SIGTERM);
    assert_eq!(child.wait().expect("waits").code(), Some(137));
    wait_until_gone(pids[0]);
}

#[test]
fn sigkill_of_the_starter_ends_everything() {
    // The starter is a shell that runs steelyard-exec; killing it with SIGKILL gives it no chance to act.
    let mut starter = Command::new("sh")
        .args(["-c", r#""$@"; :"#, "sh", EXEC, "--die-with-parent", "--"])
        .args(["sh", "-c", ESCAPING])
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let output = BufReader::new(starter.stdout.take().expect("piped"));
    let pids: Vec<i32> = output
        .lines()
        .take(2)
        .map(|line| line.expect("text").parse().expect("a process id"))
        .collect();
    signal(starter.id(), libc::SIGKILL);
    starter.wait().expect("waits");
    for pid in pids {
        wait_until_gone(pid);
    }
}

#[test]
fn a_background_may_outlive_a_command_that_ends_by_itself_and_only_that() {
    let keeping = ["--keep-background", "--grace=0s"];
    let (mut child, pids) = start(&keeping, "sleep 1000 >/dev/null 2>&1 & echo $!; exit 3", 1);
    assert_eq!(child.wait().expect("waits").code(), Some(3));
    assert!(alive(pids[0]));
    // SAFETY: kill touches no memory; the process is the one that was just seen to live.
    assert_eq!(unsafe { libc::kill(pids[0], libc::SIGKILL) }, 0);
    let (mut child, pids) = start(&keeping, &format!("trap '' TERM; {ESCAPING}"), 2);
    signal(child.id(), libc::SIGTERM);
    child.wait().expect("waits");
    for pid in pids {
        wait_until_gone(pid);
    }
}

#[test]
fn a_lock_is_held_by_the_supervisor_and_not_by_the_background() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("lock");
    let is_locked = || {
        let file = std::fs::File::open(&path).expect("opens");
        file.try_lock_shared().is_err()
    };
    std::fs::File::create(&path).expect("creates");
    let script = r#"exec 9<"$1"; flock 9; exec "$2" --hold=9 --keep-background -- sh -c 'sleep 1000 >/dev/null & echo $!; read line'"#;
    let mut child = Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(&path)
        .arg(EXEC)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped"))
        .read_line(&mut line)
        .expect("text");
    let background: i32 = line.trim().parse().expect("a process id");
    assert!(is_locked());
    drop(child.stdin.take());
    child.wait().expect("waits");
    assert!(alive(background) && !is_locked());
    // SAFETY: as above.
    assert_eq!(unsafe { libc::kill(background, libc::SIGKILL) }, 0);
}

#[test]
fn nothing_is_run_for_a_starter_that_has_ended() {
    let mut starter = Command::new("true").spawn().expect("starts");
    starter.wait().expect("waits");
    let output = Command::new(EXEC)
        .arg(format!("--die-with-parent={}", starter.id()))
        .args(["--", "sleep", "1000"])
        .output()
        .expect("runs");
    assert_eq!(output.status.code(), Some(125));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said, "steelyard-exec: the parent process has ended\n");
    let own = format!("--die-with-parent={}", std::process::id());
    let done = Command::new(EXEC).args([&own, "--", "true"]).status();
    assert!(done.expect("runs").success());
}

#[test]
fn sigkill_of_the_supervisor_ends_the_command() {
    let (mut child, pids) = start(&[], "echo $$; exec sleep 1000", 1);
    signal(child.id(), libc::SIGKILL);
    child.wait().expect("waits");
    wait_until_gone(pids[0]);
}

#[test]
fn the_command_runs_on_the_cpus_it_was_given() {
    let allowed = std::fs::read_to_string("/proc/self/status").expect("status");
    let allowed = allowed
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .expect("listed")
        .trim()
        .split([',', '-'])
        .next()
        .expect("one CPU")
        .to_owned();
    let output = Command::new(EXEC)
        .args([
            "--cpus",
            &allowed,
            "--",
            "grep",
            "Cpus_allowed_list",
            "/proc/self/status",
        ])
        .output()
        .expect("starts");
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(text.split_whitespace().last(), Some(allowed.as_str()));
}

#[test]
fn memory_is_bound_to_nodes_for_the_command_and_what_it_starts() {
    let Ok(maps) = std::fs::read_to_string("/proc/self/numa_maps") else {
        eprintln!("skipped: this kernel has no NUMA support");
        return;
    };
    assert!(!maps.contains(" bind:"), "the test itself is not bound");
    let output = Command::new(EXEC)
        .args([
            "--memory-nodes",
            "0",
            "--",
            "sh",
            "-c",
            "sh -c 'cat /proc/self/numa_maps'",
        ])
        .output()
        .expect("steelyard-exec starts");
    assert!(output.status.success());
    let maps = String::from_utf8(output.stdout).expect("text");
    assert!(
        !maps.is_empty() && maps.lines().all(|line| line.contains(" bind:0")),
        "{maps}"
    );
}

#[test]
fn memory_nodes_that_are_not_there_are_refused_in_one_line() {
    let output = Command::new(EXEC)
        .args(["--memory-nodes", "1000", "--", "echo", "ran"])
        .output()
        .expect("steelyard-exec starts");
    assert_eq!(output.status.code(), Some(125));
    assert!(
        output.stdout.is_empty(),
        "nothing runs without what was asked for"
    );
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(
        said.starts_with("steelyard-exec: cannot bind memory to NUMA nodes 1000"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1);
}
