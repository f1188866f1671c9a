//! A small process that takes back an agent's caps when the agent is gone, however it went.
//!
//! The agent holds one end of a pipe, the watchdog reads the other: the kernel closes the agent's end when the agent ends, by
//! SIGKILL too, and the watchdog does what the agent's next start would do. It lives only while there is a cap.
//!
//! Invariants: it takes back nothing while the agent lives, and only this agent's caps; a signal meant for the agent's process
//! group or service does not end it.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// How to start one, and the one that runs.
#[derive(Debug)]
pub struct Watchdog {
    program: PathBuf,
    state: PathBuf,
    owner: String,
    child: Option<Child>,
}

impl Watchdog {
    /// `program undo --spool STATE --owner OWNER --when-stdin-closes` is what is run.
    pub fn new(program: PathBuf, state: PathBuf, owner: String) -> Self {
        Self {
            program,
            state,
            owner,
            child: None,
        }
    }

    /// Starts it unless it runs.
    pub fn wake(&mut self) -> io::Result<()> {
        if let Some(child) = &mut self.child
            && child.try_wait()?.is_none()
        {
            return Ok(());
        }
        let mut command = Command::new(&self.program);
        command
            .arg("undo")
            .arg("--spool")
            .arg(&self.state)
            .args(["--owner", &self.owner, "--when-stdin-closes"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        // SAFETY: between fork and exec only async-signal-safe calls are made (setsid, signal).
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
                    libc::signal(signal, libc::SIG_IGN);
                }
                Ok(())
            });
        }
        self.child = Some(command.spawn()?);
        Ok(())
    }

    /// Ends it: there is no cap.
    pub fn rest(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.stdin.take());
            // It has nothing to do but to see that, which takes milliseconds.
            let _ = child.wait();
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.rest();
    }
}

/// Waits until the other end of standard input is closed.
pub fn wait_for_end() -> io::Result<()> {
    let mut byte = [0; 64];
    let mut input = io::stdin().lock();
    loop {
        match input.read(&mut byte) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
