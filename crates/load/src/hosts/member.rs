//! One process of a load, as the commanding one sees it.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use steelyard_record::monotonic_ns;

use super::wire::{LINE_MAX, Order, PackedInterval, Report, Share, read_report};
use crate::LoadError;

/// What is kept of a process's standard error, bytes.
const ERRORS_KEPT: usize = 4096;
/// A process that reports nothing for this long is lost: it hangs, or the way to it does.
const SILENCE: Duration = Duration::from_secs(30);
/// What a host's shell may print before the process greets, bytes.
const BANNER_MAX: u64 = 64 << 10;
/// Reports that are read ahead.
const REPORTS_AHEAD: usize = 256;

/// How processes on other hosts are started.
#[derive(Debug, Clone)]
pub struct Remote {
    /// ssh and its options, in words.
    pub ssh: Vec<String>,
    /// `steelyard-load` on other hosts.
    pub command: String,
}

/// A process, its orders and its reports.
pub struct Member {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    reports: Receiver<Result<Report, String>>,
    errors: Arc<Mutex<String>>,
    /// When it last was given an order.
    ordered: Instant,
    /// When it last gave a report.
    last_report: Instant,
    stopping: bool,
    /// How long it may report nothing.
    silence: Duration,
    load: MemberLoad,
}

/// What a process has reported of its load.
#[derive(Debug, Default)]
pub struct MemberLoad {
    /// Its intervals, in order.
    pub intervals: Vec<PackedInterval>,
    /// When the order to measure was sent, here; 0 before.
    pub ordered_ns: u64,
    /// How long after the order came its measure phase began, there.
    pub begun_after_ns: Option<u64>,
    /// What its load came to, when it is over.
    pub share: Option<Share>,
}

impl Member {
    /// Starts the process for `host`.
    pub fn start(host: &str, remote: &Remote) -> Result<Self, LoadError> {
        let mut command = command(host, remote)?;
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Out of the terminal's group: an interrupt is for the commanding process to pass on.
            .process_group(0);
        // SAFETY: prctl is async-signal-safe, and touches nothing of the parent's.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
                steelyard_launch::unblock()
            });
        }
        let mut child = command.spawn().map_err(|source| LoadError::Environment {
            what: format!("host {host}: cannot start {:?}", command.get_program()),
            source,
        })?;
        let (sender, reports) = sync_channel(REPORTS_AHEAD);
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || read_reports(BufReader::new(stdout), &sender));
        }
        let errors = Arc::new(Mutex::new(String::new()));
        if let Some(stderr) = child.stderr.take() {
            let errors = Arc::clone(&errors);
            thread::spawn(move || {
                let mut lines = BufReader::new(stderr);
                let mut line = Vec::new();
                // A longer line comes in pieces.
                while let Ok(1..) = lines
                    .by_ref()
                    .take(ERRORS_KEPT as u64)
                    .read_until(b'\n', &mut line)
                {
                    let text = String::from_utf8_lossy(&line).trim().to_owned();
                    if let Ok(mut kept) = errors.lock()
                        && !text.is_empty()
                    {
                        *kept = text;
                    }
                    line.clear();
                }
            });
        }
        Ok(Self {
            name: host.to_owned(),
            input: child.stdin.take(),
            child,
            reports,
            errors,
            ordered: Instant::now(),
            last_report: Instant::now(),
            stopping: false,
            silence: SILENCE,
            load: MemberLoad::default(),
        })
    }

    /// The host.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it has reported of its load.
    pub fn load(&self) -> &MemberLoad {
        &self.load
    }

    /// Whether its load has begun, or has ended already.
    pub fn is_warm(&self) -> bool {
        !self.load.intervals.is_empty() || self.is_done()
    }

    /// Whether its load has ended.
    pub fn is_done(&self) -> bool {
        self.load.share.is_some()
    }

    /// An error about this host.
    pub fn error(&self, why: &str) -> LoadError {
        LoadError::Host {
            host: self.name.clone(),
            why: why.to_owned(),
        }
    }

    /// Gives an order.
    pub fn send(&mut self, order: &Order) -> Result<(), LoadError> {
        if matches!(order, Order::Load { .. }) {
            (self.load, self.stopping) = (MemberLoad::default(), false);
            self.last_report = Instant::now();
        }
        self.ordered = Instant::now();
        let mut line = serde_json::to_string(order).expect("orders are plain data");
        line.push('\n');
        let sent = self
            .input
            .as_mut()
            .map_or(Ok(()), |input| input.write_all(line.as_bytes()));
        match sent {
            Ok(()) => Ok(()),
            // Why is on its standard error, or in a report that is on its way.
            Err(_) => {
                self.take_reports()?;
                Err(self.gone())
            }
        }
    }

    /// Orders to measure.
    pub fn measure(&mut self) -> Result<(), LoadError> {
        if self.is_done() {
            return Ok(());
        }
        self.load.ordered_ns = monotonic_ns();
        self.send(&Order::Measure)
    }

    /// Sends a sign of life, and passes a stop on once.
    pub fn tell(&mut self, stop: bool, ping: Duration) -> Result<(), LoadError> {
        if stop && !self.stopping {
            self.stopping = true;
            return self.send(&Order::Stop);
        }
        if self.ordered.elapsed() >= ping {
            return self.send(&Order::Ping);
        }
        Ok(())
    }

    /// Notes every report that has come; whether there was any.
    pub fn take_reports(&mut self) -> Result<bool, LoadError> {
        let mut any = false;
        loop {
            match self.reports.try_recv() {
                Ok(Ok(report)) => self.take(report)?,
                Ok(Err(why)) => return Err(self.error(&why)),
                Err(TryRecvError::Disconnected) => return Err(self.gone()),
                Err(TryRecvError::Empty) => break,
            }
            any = true;
        }
        if any {
            self.last_report = Instant::now();
        } else if self.last_report.elapsed() > self.silence {
            return Err(self.error(&format!("no message from it for {:?}", self.silence)));
        }
        Ok(any)
    }

    /// A report, if one comes soon.
    fn poll(&mut self) -> Result<Option<Report>, LoadError> {
        match self.reports.recv_timeout(Duration::from_millis(10)) {
            Ok(Ok(report)) => Ok(Some(report)),
            Ok(Err(why)) => Err(self.error(&why)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(self.gone()),
        }
    }

    /// Notes what a report says.
    fn take(&mut self, report: Report) -> Result<(), LoadError> {
        match report {
            Report::Hello { .. } | Report::Alive => {}
            Report::Interval(interval) => self.load.intervals.push(*interval),
            Report::Begun { after_ns } => self.load.begun_after_ns = after_ns,
            Report::Share(share) => self.load.share = Some(*share),
            Report::Failed { kind, why } if kind == "connect" => {
                return Err(LoadError::Connect {
                    target: format!("the target from host {}", self.name),
                    source: std::io::Error::other(why),
                });
            }
            Report::Failed { why, .. } => return Err(self.error(&why)),
        }
        Ok(())
    }

    /// The next report before `deadline`.
    pub fn wait(&mut self, deadline: Instant, stop: &AtomicBool) -> Result<Report, LoadError> {
        loop {
            if let Some(report) = self.poll()? {
                return Ok(report);
            }
            if stop.load(Ordering::Relaxed) {
                return Err(self.error("interrupted before it answered"));
            }
            if Instant::now() > deadline {
                return Err(self.error("it did not answer"));
            }
        }
    }

    /// What is known of a process that has ended.
    fn gone(&mut self) -> LoadError {
        // Its last words may still be on their way.
        let deadline = Instant::now() + Duration::from_secs(2);
        let mut status = None;
        while status.is_none() && Instant::now() < deadline {
            status = self.child.try_wait().ok().flatten();
            thread::sleep(Duration::from_millis(10));
        }
        thread::sleep(Duration::from_millis(20));
        let words = self
            .errors
            .lock()
            .map(|kept| kept.clone())
            .unwrap_or_default();
        let why = match (words.is_empty(), status) {
            (false, _) => words,
            (true, Some(status)) => format!("its process ended: {status}"),
            (true, None) => "its process closed its output".to_owned(),
        };
        self.error(&why)
    }
}

/// Passes on what a process reports. What stands before its greeting is a banner of the host's shell; one without an
/// end is an error.
fn read_reports(mut lines: impl BufRead, reports: &SyncSender<Result<Report, String>>) {
    let mut banner_left = BANNER_MAX;
    let mut has_greeted = false;
    loop {
        let most = if has_greeted { LINE_MAX } else { banner_left };
        let mut line = Vec::new();
        let Ok(count @ 1..) = lines.by_ref().take(most).read_until(b'\n', &mut line) else {
            return;
        };
        let report = read_report(&String::from_utf8_lossy(&line));
        if !has_greeted {
            banner_left -= count as u64;
            has_greeted = report.is_ok();
            if !has_greeted && banner_left > 0 {
                continue;
            }
        }
        let report = match has_greeted {
            true => report,
            false => Err(format!(
                "it printed {} KiB and no greeting: is it steelyard-load that --remote-command names?",
                BANNER_MAX >> 10
            )),
        };
        let is_over = report.is_err();
        if reports.send(report).is_err() || is_over {
            return;
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // The process ends when its input does; ssh passes that on and ends too.
        self.input = None;
        let deadline = Instant::now() + Duration::from_secs(3);
        while Instant::now() < deadline {
            if self.child.try_wait().ok().flatten().is_some() {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The command that starts `steelyard-load join` on `host`.
fn command(host: &str, remote: &Remote) -> Result<Command, LoadError> {
    let usable = !host.is_empty()
        && !host.starts_with('-')
        && host.chars().all(|c| !c.is_whitespace() && !c.is_control());
    if !usable {
        return Err(LoadError::setting(
            "--host",
            format!("{host:?} is not a host such as user@host"),
        ));
    }
    if host == "localhost" {
        let here = std::env::current_exe().map_err(|source| LoadError::Environment {
            what: "finding this program's file".to_owned(),
            source,
        })?;
        let mut command = Command::new(here);
        command.arg("join");
        return Ok(command);
    }
    let Some((program, options)) = remote.ssh.split_first() else {
        return Err(LoadError::setting("--ssh", "must name a program"));
    };
    let mut command = Command::new(program);
    command.args(options);
    for option in [
        "BatchMode=yes",
        "ConnectTimeout=10",
        "ServerAliveInterval=5",
        "ServerAliveCountMax=3",
    ] {
        command.args(["-o", option]);
    }
    // The far shell takes the text apart: in single quotes it is one word whatever it holds.
    let quoted = format!("'{}'", remote.command.replace('\'', r"'\''"));
    command.args(["-T", host, "--", &format!("{quoted} join")]);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote() -> Remote {
        Remote {
            ssh: vec!["ssh".to_owned(), "-p".to_owned(), "2222".to_owned()],
            command: "/opt/it's here/steelyard-load".to_owned(),
        }
    }

    #[test]
    fn other_hosts_are_reached_by_ssh_without_questions() {
        let command = command("me@there", &remote()).unwrap();
        let words: Vec<&str> = command
            .get_args()
            .map(|word| word.to_str().unwrap())
            .collect();
        assert_eq!(&words[..2], ["-p", "2222"]);
        assert!(words.contains(&"BatchMode=yes"));
        assert_eq!(
            &words[words.len() - 4..],
            [
                "-T",
                "me@there",
                "--",
                r"'/opt/it'\''s here/steelyard-load' join"
            ]
        );
    }

    /// A process that stands for ssh and does what `script` says.
    fn member(script: &str) -> Member {
        let remote = Remote {
            ssh: vec!["sh".to_owned(), "-c".to_owned(), script.to_owned()],
            command: "steelyard-load".to_owned(),
        };
        Member::start("there", &remote).unwrap()
    }

    const HELLO: &str = r#"echo '{"report":"hello","version":"x"}'"#;

    fn wait(member: &mut Member) -> Result<Report, LoadError> {
        let deadline = Instant::now() + Duration::from_secs(30);
        member.wait(deadline, &AtomicBool::new(false))
    }

    #[test]
    fn a_banner_before_the_greeting_is_passed_over_and_a_flood_ends() {
        let mut greets = member(&format!(
            "echo Welcome; printf '\\377\\n'; {HELLO}; sleep 100"
        ));
        assert!(matches!(wait(&mut greets), Ok(Report::Hello { .. })));
        for flood in ["yes", "cat /dev/zero"] {
            let begin = Instant::now();
            let message = wait(&mut member(flood)).unwrap_err().to_string();
            assert!(message.contains("no greeting"), "{message}");
            assert!(begin.elapsed() < Duration::from_secs(20));
        }
    }

    #[test]
    fn a_long_last_word_is_kept_in_part() {
        let mut member = member("head -c 1000000 /dev/zero | tr '\\0' x >&2; exit 3");
        let message = wait(&mut member).unwrap_err().to_string();
        assert!(message.len() < 2 * ERRORS_KEPT, "{}", message.len());
    }

    #[test]
    fn one_that_is_silent_before_its_first_interval_is_lost_and_one_that_lives_is_not() {
        let mut silent = member(&format!("{HELLO}; sleep 100"));
        wait(&mut silent).unwrap();
        silent.silence = Duration::from_millis(300);
        assert!(!silent.take_reports().unwrap());
        thread::sleep(Duration::from_millis(400));
        let message = silent.take_reports().unwrap_err().to_string();
        assert!(
            message.contains("no message from it for 300ms"),
            "{message}"
        );
        let alive = r#"while :; do echo '{"report":"alive"}'; sleep 0.1; done"#;
        let mut living = member(&format!("{HELLO}; {alive}"));
        wait(&mut living).unwrap();
        living.silence = Duration::from_secs(2);
        let end = Instant::now() + Duration::from_secs(3);
        while Instant::now() < end {
            living.take_reports().unwrap();
            thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn hosts_that_would_be_options_are_refused() {
        for host in ["", "-oProxyCommand=x", "a b", "a\nb"] {
            assert!(command(host, &remote()).is_err(), "{host:?}");
        }
    }
}
