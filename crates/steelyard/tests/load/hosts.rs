//! One load of several processes: here, and over ssh in a network namespace of its own.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::capacity::listening;
use crate::support::{Server, check_counts, finish, load};

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

fn result(output: &Output) -> Value {
    assert!(
        output.status.success(),
        "{:?}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
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
            .all(|host| host["completed"].as_u64().unwrap() > 0)
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
    assert_eq!(result["settings"]["connections"], 5);
}

#[test]
fn two_processes_here_make_one_load() {
    let server = Server::answering(|_| ());
    let mut command = load(server.address, &QUICK);
    command.args([
        "--host",
        "localhost",
        "--host",
        "localhost",
        "--prefill",
        "--keys",
        "100",
    ]);
    let output = finish(command.spawn().unwrap(), Duration::from_secs(60));
    check_two(&result(&output), 400.0);
}

#[test]
fn a_stop_reaches_every_process() {
    let server = Server::answering(|_| ());
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
    thread::sleep(Duration::from_secs(2));
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

/// Two network namespaces that see each other, gone with everything in them when this is dropped.
struct Namespaces {
    names: [String; 2],
    addresses: [String; 2],
    children: Vec<Child>,
}

fn ip(words: &str) -> Result<(), String> {
    let output = Command::new("ip")
        .args(words.split_whitespace())
        .output()
        .map_err(|error| format!("ip: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "ip {words}: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    ))
}

impl Namespaces {
    fn new() -> Result<Self, String> {
        let id = std::process::id();
        let names = [format!("sya{id}"), format!("syb{id}")];
        let third = id % 250 + 1;
        let addresses = [format!("10.213.{third}.1"), format!("10.213.{third}.2")];
        let it = Self {
            names,
            addresses,
            children: Vec::new(),
        };
        ip(&format!("netns add {}", it.names[0]))?;
        ip(&format!("netns add {}", it.names[1]))?;
        let [a, b] = &it.names;
        ip(&format!(
            "link add v{a} netns {a} type veth peer name v{b} netns {b}"
        ))?;
        for (name, address) in it.names.iter().zip(&it.addresses) {
            ip(&format!("-n {name} address add {address}/24 dev v{name}"))?;
            ip(&format!("-n {name} link set v{name} up"))?;
            ip(&format!("-n {name} link set lo up"))?;
        }
        Ok(it)
    }

    fn command(&self, which: usize, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[which], program]);
        command
    }

    /// Names of the processes in a namespace.
    fn programs(&self, which: usize) -> Vec<String> {
        let output = Command::new("ip")
            .args(["netns", "pids", &self.names[which]])
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout)
            .split_whitespace()
            .map(|pid| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default())
            .map(|line| line.replace('\0', " "))
            .collect()
    }

    fn joined(&self, which: usize) -> usize {
        let programs = self.programs(which);
        programs
            .iter()
            .filter(|line| line.starts_with(env!("CARGO_BIN_EXE_steelyard-load")))
            .count()
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        for name in &self.names {
            let _ = ip(&format!("netns del {name}"));
        }
    }
}

/// An sshd of our own in the second namespace; returns the ssh command that reaches it.
fn start_sshd(namespaces: &mut Namespaces, folder: &Path) -> String {
    for key in ["host", "user"] {
        let status = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(folder.join(key))
            .status()
            .expect("openssh-client is installed");
        assert!(status.success());
    }
    let folder_text = folder.display().to_string();
    let address = &namespaces.addresses[1];
    let config = format!(
        "ListenAddress {address}:2222\nHostKey {folder_text}/host\nAuthorizedKeysFile {folder_text}/user.pub\n\
         StrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\n\
         PermitRootLogin prohibit-password\nPidFile none\n"
    );
    fs::write(folder.join("sshd_config"), config).unwrap();
    let _ = fs::create_dir_all("/run/sshd");
    let sshd = namespaces
        .command(1, "/usr/sbin/sshd")
        .args(["-D", "-e", "-f"])
        .arg(folder.join("sshd_config"))
        .stderr(fs::File::create(folder.join("sshd.log")).unwrap())
        .spawn()
        .expect("openssh-server is installed");
    namespaces.children.push(sshd);
    format!(
        "ssh -F /dev/null -p 2222 -i {folder_text}/user -o UserKnownHostsFile={folder_text}/known \
         -o StrictHostKeyChecking=accept-new -o IdentitiesOnly=yes -o LogLevel=ERROR"
    )
}

fn wait_for_sshd(log: &Path) {
    let begin = Instant::now();
    while !fs::read_to_string(log)
        .unwrap_or_default()
        .contains("Server listening")
    {
        assert!(
            begin.elapsed() < Duration::from_secs(20),
            "{}",
            fs::read_to_string(log).unwrap_or_default()
        );
        thread::sleep(Duration::from_millis(20));
    }
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

fn wait_until(is: impl Fn() -> bool, what: &str) {
    let begin = Instant::now();
    while !is() {
        assert!(
            begin.elapsed() < Duration::from_secs(30),
            "waited for: {what}"
        );
        thread::sleep(Duration::from_millis(50));
    }
}
