//! The terminal: taken, given back however the program ends, and the loop between keys and looks.
//!
//! Invariant: raw mode, the alternate screen and the hidden cursor are undone on return, on a panic, on SIGTERM,
//! SIGINT, SIGHUP and SIGQUIT, and while the program is stopped; a terminal that is gone ends the loop.

use std::fs::File;
use std::io::{self, IsTerminal, Write, stdout};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use crossterm::cursor::Show;
use crossterm::event::{self, Event};
use crossterm::execute;
use crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::Terminal;
use ratatui::backend::{Backend, CrosstermBackend};
use steelyard_launch::Stop;

use crate::TopError;
use crate::app::{Action, App, Choices};
use crate::session::Session;
use crate::view;

/// Longest wait for a key, so that a signal is noticed and rings of samples are emptied in time.
const PATIENCE: Duration = Duration::from_millis(250);

/// Shortest time that rates are taken over.
const SHORTEST: Duration = Duration::from_millis(300);

/// The terminal while it is ours.
pub struct Screen;

impl Screen {
    /// Takes the terminal, and has a panic give it back before its message is printed.
    pub fn take() -> Result<Self, TopError> {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            Self::give_back();
            before(panic);
        }));
        Self::enter()?;
        Ok(Self)
    }

    fn enter() -> Result<(), TopError> {
        let failed = |source| TopError::Terminal {
            what: "steer",
            source,
        };
        enable_raw_mode().map_err(failed)?;
        execute!(stdout(), EnterAlternateScreen).map_err(|error| {
            Self::give_back();
            failed(error)
        })
    }

    /// Gives it back; whatever fails, the rest is tried.
    fn give_back() {
        let _ = execute!(stdout(), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
        let _ = stdout().flush();
    }

    /// Stops this process as a shell's job, with the terminal given back meanwhile.
    fn suspend() -> Result<(), TopError> {
        Self::give_back();
        // SAFETY: raise has no preconditions; SIGTSTP's default action stops the process until SIGCONT.
        unsafe { libc::raise(libc::SIGTSTP) };
        Self::enter()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        Self::give_back();
    }
}

/// Where keys and time come from.
pub trait World {
    /// Waits for a key, or for a change of the screen, at most so long.
    fn next(&mut self, patience: Duration) -> io::Result<Option<Event>>;
    /// Time since some moment.
    fn now(&self) -> Duration;
    /// Whether a signal asks to end, or the terminal is gone.
    fn has_ended(&self) -> bool;
    /// Stops as a shell's job.
    fn suspend(&mut self) -> Result<(), TopError>;
}

struct Live {
    begin: Instant,
    stop: &'static Stop,
    /// Where keys come from, as crossterm has it: standard input, else the controlling terminal.
    keys: Option<File>,
    has_hung_up: bool,
}

impl Live {
    fn new(stop: &'static Stop) -> Self {
        let keys = match io::stdin().is_terminal() {
            true => None,
            false => File::open("/dev/tty").ok(),
        };
        Self {
            begin: Instant::now(),
            stop,
            keys,
            has_hung_up: false,
        }
    }

    /// Waits for a key or a signal. A terminal that is gone is noticed here: crossterm would read its end over and over.
    fn wait(&mut self, patience: Duration) {
        let entry = |fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let keys = self.keys.as_ref().map_or(0, AsRawFd::as_raw_fd);
        let mut entries = [entry(keys), entry(self.stop.descriptor())];
        let wait_ms = i32::try_from(patience.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: the pointer and the length describe `entries`.
        let ready = unsafe { libc::poll(entries.as_mut_ptr(), 2, wait_ms) };
        let gone = libc::POLLHUP | libc::POLLERR | libc::POLLNVAL;
        self.has_hung_up |= ready > 0 && entries[0].revents & gone != 0;
    }
}

impl World for Live {
    fn next(&mut self, patience: Duration) -> io::Result<Option<Event>> {
        self.wait(patience);
        if self.has_ended() {
            return Ok(None);
        }
        match event::poll(Duration::ZERO) {
            Ok(true) => event::read().map(Some),
            Ok(false) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    fn has_ended(&self) -> bool {
        self.has_hung_up || self.stop.is_asked()
    }

    fn suspend(&mut self) -> Result<(), TopError> {
        Screen::suspend()
    }
}

/// Shows `session` on the terminal until the user leaves.
pub fn interactive(session: &mut Session, choices: Choices) -> Result<(), TopError> {
    let stop = Stop::watch().map_err(|source| TopError::Terminal {
        what: "wait for signals beside",
        source,
    })?;
    let screen = Screen::take()?;
    stop.on_forced_end(Some(Screen::give_back));
    let failed = |source| TopError::Terminal {
        what: "draw on",
        source,
    };
    let mut terminal = Terminal::new(CrosstermBackend::new(stdout())).map_err(failed)?;
    let mut world = Live::new(stop);
    let ended = steer(session, choices, &mut terminal, &mut world);
    drop(screen);
    ended
}

/// The loop, over any terminal and world.
pub fn steer<B>(
    session: &mut Session,
    choices: Choices,
    terminal: &mut Terminal<B>,
    world: &mut dyn World,
) -> Result<(), TopError>
where
    B: Backend,
{
    let mut app = App::new(choices);
    app.see(session.look());
    let mut last = world.now();
    // The second look comes soon, so that rates do not keep the user waiting.
    let mut due = last + app.choices.interval.min(Duration::from_millis(500));
    let mut changed = true;
    loop {
        if changed {
            draw(terminal, &mut app)?;
        }
        let patience = match app.paused {
            true => PATIENCE,
            false => due.saturating_sub(world.now()).min(PATIENCE),
        };
        let event = world.next(patience).map_err(|source| TopError::Terminal {
            what: "read keys from",
            source,
        })?;
        if world.has_ended() {
            return Ok(());
        }
        let action = match event {
            Some(Event::Key(key)) => app.key(key),
            Some(Event::Resize(..)) => Action::Draw,
            _ => Action::None,
        };
        changed = action != Action::None;
        match action {
            Action::Quit => return Ok(()),
            Action::Suspend => {
                world.suspend()?;
                terminal.clear().map_err(|error| drawing(&error))?;
            }
            Action::Mix => session.set_mix(app.choices.has_mix),
            Action::Look => {
                session.set_by(app.choices.by);
                // Rates over less would be made of single clock ticks.
                due = last + SHORTEST;
            }
            Action::Draw | Action::None => {}
        }
        due = due.min(last + app.choices.interval);
        session.take_samples();
        if app.paused || world.now() < due {
            continue;
        }
        session.select(app.selected_pid());
        app.see(session.look());
        changed = true;
        last = world.now();
        due = last + app.choices.interval;
    }
}

fn drawing(error: &impl std::fmt::Display) -> TopError {
    TopError::Terminal {
        what: "draw on",
        source: io::Error::other(error.to_string()),
    }
}

fn draw<B>(terminal: &mut Terminal<B>, app: &mut App) -> Result<(), TopError>
where
    B: Backend,
{
    terminal
        .draw(|frame| view::draw(frame, app))
        .map(|_| ())
        .map_err(|error| drawing(&error))
}

#[cfg(test)]
mod tests;
