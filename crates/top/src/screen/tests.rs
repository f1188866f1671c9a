//! The loop, over a terminal of cells and keys from a list.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crossterm::event::{KeyCode, KeyEvent};
use ratatui::backend::TestBackend;

use super::*;
use crate::column::Sort;
use crate::session::By;
use crate::testing::{FakeCounters, Machine};

/// Keys that come one after another; time passes while waiting for none.
struct Scripted<'m> {
    machine: &'m Machine,
    keys: VecDeque<Option<char>>,
    now: Duration,
    ticks: u64,
    suspended: usize,
}

impl World for Scripted<'_> {
    fn next(&mut self, patience: Duration) -> io::Result<Option<Event>> {
        match self.keys.pop_front() {
            Some(Some(letter)) => Ok(Some(Event::Key(KeyEvent::from(KeyCode::Char(letter))))),
            Some(None) => {
                self.now += patience;
                self.ticks += 100;
                self.machine.pass(self.ticks);
                Ok(None)
            }
            None => Ok(Some(Event::Key(KeyEvent::from(KeyCode::Char('q'))))),
        }
    }

    fn now(&self) -> Duration {
        self.now
    }

    fn has_ended(&self) -> bool {
        false
    }

    fn suspend(&mut self) -> Result<(), TopError> {
        self.suspended += 1;
        Ok(())
    }
}

fn play(keys: &[Option<char>]) -> String {
    let machine = Machine::new();
    let mut session = machine.session(By::Process, FakeCounters::default());
    let mut world = Scripted {
        machine: &machine,
        keys: keys.iter().copied().collect(),
        now: Duration::ZERO,
        ticks: 0,
        suspended: 0,
    };
    let choices = Choices {
        sort: Sort::Cpu,
        reverse: false,
        filter: String::new(),
        by: By::Process,
        interval: Duration::from_secs(1),
        has_mix: false,
        has_colour: false,
    };
    let mut terminal = Terminal::new(TestBackend::new(100, 20)).unwrap();
    steer(&mut session, choices, &mut terminal, &mut world).unwrap();
    let buffer = terminal.backend().buffer();
    buffer.content.iter().map(|cell| cell.symbol()).collect()
}

#[test]
fn rates_come_with_the_second_look_and_keys_steer() {
    assert!(play(&[]).contains("first sample"));
    let text = play(&[None, None, None, Some('w')]);
    assert!(text.contains("CPU 1.00 of 2"), "{text}");
    assert!(text.contains("▼WAIT%"), "{text}");
    assert!(play(&[Some('h')]).contains("Help"));
    assert!(play(&[None, None, None, Some('g'), None, None, None]).contains("by cgroup"));
}

#[test]
fn a_pause_stops_looking() {
    let text = play(&[Some(' '), None, None, None, None, None, None]);
    assert!(
        text.contains("first sample") && text.contains("paused"),
        "{text}"
    );
}

/// Run by the test below, on a terminal of its own.
#[test]
#[ignore = "takes the terminal"]
fn panics_on_a_terminal() {
    let _screen = Screen::take().unwrap();
    panic!("on purpose");
}

/// A pseudo-terminal: the side of the screen and keyboard, and the side of the program.
fn pseudo_terminal() -> (File, OwnedFd) {
    let (mut screen, mut program) = (-1, -1);
    // SAFETY: both descriptors are valid places; no name, settings or size are asked for.
    let opened = unsafe {
        libc::openpty(
            &mut screen,
            &mut program,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        )
    };
    assert_eq!(opened, 0, "a pseudo-terminal");
    // SAFETY: the kernel has just returned both, so that nothing else owns them.
    unsafe { (File::from_raw_fd(screen), OwnedFd::from_raw_fd(program)) }
}

fn local_modes(terminal: &OwnedFd) -> libc::tcflag_t {
    // SAFETY: termios is plain integers, which tcgetattr fills.
    unsafe {
        let mut modes: libc::termios = std::mem::zeroed();
        assert_eq!(libc::tcgetattr(terminal.as_raw_fd(), &mut modes), 0);
        modes.c_lflag
    }
}

#[test]
fn a_panic_gives_the_terminal_back_before_it_speaks() {
    let (mut screen, program) = pseudo_terminal();
    let before = local_modes(&program);
    let side = || Stdio::from(program.try_clone().unwrap());
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .env("RUST_BACKTRACE", "0")
        .args([
            "--exact",
            "screen::tests::panics_on_a_terminal",
            "--ignored",
            "--nocapture",
        ])
        .stdin(side())
        .stdout(side())
        .stderr(side());
    // SAFETY: both calls are async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            libc::ioctl(0, libc::TIOCSCTTY, 0);
            Ok(())
        });
    }
    let mut child = command.spawn().unwrap();
    // What it says fits in the terminal's buffer, so that it can be read when it has ended.
    assert!(!child.wait().unwrap().success());
    assert_eq!(
        local_modes(&program),
        before,
        "lines and echo are as before"
    );
    drop(command);
    drop(program);
    let mut said = Vec::new();
    // The end of a terminal is an error.
    let _ = screen.read_to_end(&mut said);
    let said = String::from_utf8_lossy(&said);
    let at = |text: &str| {
        said.find(text)
            .unwrap_or_else(|| panic!("{text:?} in {said:?}"))
    };
    assert!(at("\x1b[?1049h") < at("\x1b[?1049l"));
    assert!(at("\x1b[?25h") < at("on purpose"));
    assert!(at("\x1b[?1049l") < at("on purpose"));
}
