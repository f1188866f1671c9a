//! Two network namespaces on this machine, one of them with a real sshd in it.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

/// Two network namespaces that see each other, gone with everything in them when this is dropped.
pub struct Namespaces {
    pub names: [String; 2],
    pub addresses: [String; 2],
    pub children: Vec<Child>,
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
    pub fn new() -> Result<Self, String> {
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

    pub fn command(&self, which: usize, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[which], program]);
        command
    }

    /// The processes in a namespace, with their names.
    pub fn programs(&self, which: usize) -> Vec<(i32, String)> {
        let output = Command::new("ip")
            .args(["netns", "pids", &self.names[which]])
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout)
            .split_whitespace()
            .map(|pid| {
                let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                (pid.parse().unwrap(), line.replace('\0', " "))
            })
            .collect()
    }

    fn loads(&self, which: usize) -> Vec<i32> {
        let programs = self.programs(which).into_iter();
        let ours = env!("CARGO_BIN_EXE_steelyard-load");
        let loads = programs.filter(|(_, line)| line.starts_with(ours));
        loads.map(|(pid, _)| pid).collect()
    }

    /// How many processes of loads there are in a namespace.
    pub fn joined(&self, which: usize) -> usize {
        self.loads(which).len()
    }

    /// Kills the processes of loads in a namespace.
    pub fn kill_joined(&self, which: usize) {
        for pid in self.loads(which) {
            // SAFETY: kill takes a process id and a signal; the process is in a namespace of ours.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
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
pub fn start_sshd(namespaces: &mut Namespaces, folder: &Path) -> String {
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

pub fn wait_for_sshd(log: &Path) {
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

/// Waits until it holds, half a minute at most.
pub fn wait_until(is: impl Fn() -> bool, what: &str) {
    let begin = Instant::now();
    while !is() {
        assert!(
            begin.elapsed() < Duration::from_secs(30),
            "waited for: {what}"
        );
        thread::sleep(Duration::from_millis(50));
    }
}
