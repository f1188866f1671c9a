//! What the executables of the data plane share: command lines, exit codes and argument values.
//!
//! Not here: anything that measures or serves; each `src/bin/steelyard-*.rs` is a short `main` over the
//! crate of its name.

pub mod args;
mod manual;
pub mod output;

use std::process::ExitCode;

use steelyard_profile::names::printable;

/// How a program ended, as documented for every `steelyard-*` executable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: done.
    Ok,
    /// 1: done, and the answer is no.
    No,
    /// 2: the arguments do not fit.
    Usage,
    /// 3: the machine lacks something.
    Environment,
    /// 4: the work failed.
    Failed,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Ok => Self::from(0),
            Exit::No => Self::from(1),
            Exit::Usage => Self::from(2),
            Exit::Environment => Self::from(3),
            Exit::Failed => Self::from(4),
        }
    }
}

/// A failure that is printed in one line, with the exit code it ends in.
#[derive(Debug)]
pub struct Failure {
    /// Exit code.
    pub exit: Exit,
    /// What happened.
    pub error: anyhow::Error,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Failure {
    /// A failure that ends in `exit`.
    pub fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Self {
        Self {
            exit,
            error: error.into(),
            hint: None,
        }
    }

    /// The same with advice.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::new(Exit::Failed, error)
    }
}

/// The examples of a command, for `after_help`. `--generate-docs` fails for one that the program does not understand.
#[macro_export]
macro_rules! examples {
    ($($line:literal),+ $(,)?) => {
        concat!("Examples:", $("\n  ", $line),+)
    };
}

/// Reads this process's command line, as `clap::Parser::parse` does, but prints what is wrong with it in one line.
///
/// `--generate-docs DIR` writes the program's man pages and shell completions below `DIR` and ends the process.
/// `--help` and `--version` print and end the process with 0; arguments that do not fit end it with
/// [`Exit::Usage`] and one line on standard error, with the values that fit or the nearest name in it.
pub fn parse<A: clap::Parser>() -> A {
    let command = A::command();
    // Records hold the command line as text, so that every program refuses arguments that are not UTF-8.
    let odd = std::env::args_os().find(|argument| argument.to_str().is_none());
    if let Some(odd) = odd {
        refuse(&command, &format!("the argument {odd:?} is not UTF-8"));
    }
    manual::write_if_asked(&command);
    A::try_parse().unwrap_or_else(|error| {
        if !error.use_stderr() {
            show(command.get_name(), &error);
        }
        refuse(&command, &usage(&command, error))
    })
}

/// Prints help or a version, and ends the process: well only where it has arrived.
fn show(name: &str, error: &clap::Error) -> ! {
    use std::io::Write;

    let printed = output::opened()
        .and_then(|()| error.print())
        .and_then(|()| std::io::stdout().flush());
    let Err(failure) = printed.map_err(output::failure) else {
        std::process::exit(0)
    };
    if !failure.error.is::<output::ReaderEnded>() {
        eprintln!("{name}: {}", one_line(&failure.error));
        std::process::exit(4)
    }
    std::process::exit(0)
}

fn refuse(command: &clap::Command, why: &str) -> ! {
    eprintln!("{}: {why}; see --help", command.get_name());
    // The numbers of `Exit` are what `From<Exit> for ExitCode` says; `exit` takes no `ExitCode`.
    std::process::exit(2)
}

/// What is wrong with a command line, in one line: clap's message and tips without its usage.
#[must_use]
pub fn usage(command: &clap::Command, mut error: clap::Error) -> String {
    use clap::error::{ContextKind, ErrorKind};

    let needs_command = matches!(
        error.kind(),
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    if needs_command {
        let names: Vec<&str> = command
            .get_subcommands()
            .filter(|known| !known.is_hide_set())
            .map(clap::Command::get_name)
            .collect();
        return format!("a command is needed: {}", names.join(", "));
    }
    error.remove(ContextKind::Usage);
    let text = error.render().to_string();
    // The last paragraph points to --help. What the user typed stands before it, whatever it holds.
    let message = text
        .rsplit_once("\n\nFor more information")
        .map_or(text.as_str(), |(message, _)| message);
    let paragraphs = message
        .strip_prefix("error: ")
        .unwrap_or(message)
        .split("\n\n");
    let lines = paragraphs.map(|paragraph| {
        let words: Vec<&str> = paragraph.split_whitespace().collect();
        words
            .join(" ")
            .replace(|letter: char| letter.is_control(), "?")
    });
    lines
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join("; ")
}

/// Runs a program's body and turns its end into an exit code, with one line on standard error for a failure.
pub fn run(name: &str, body: impl FnOnce() -> Result<Exit, Failure>) -> ExitCode {
    start_logging();
    // Whoever started this program may have blocked them; it would wait for no signal then, and none would end it.
    let _ = steelyard_launch::unblock();
    steelyard_launch::ignore_file_size_signal();
    match body() {
        Ok(exit) => exit.into(),
        Err(failure) if failure.error.is::<output::ReaderEnded>() => failure.exit.into(),
        Err(failure) => {
            let hint = failure
                .hint
                .map(|hint| format!(": {hint}"))
                .unwrap_or_default();
            // Names from outside stand in errors too.
            let line = format!("{}{hint}", one_line(&failure.error));
            eprintln!("{name}: {}", printable(&line));
            failure.exit.into()
        }
    }
}

/// An error with its chain of causes in one line. Causes that an error's own text has are not repeated.
fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if line.is_empty() {
            line = cause;
        } else if !line.ends_with(&cause) {
            line = format!("{line}: {cause}");
        }
    }
    line
}

/// Logs go to standard error, warnings only unless `RUST_LOG` names more (`debug`, or `steelyard_load=trace`).
fn start_logging() {
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::util::SubscriberInitExt;

    // `Targets` reads what people write in RUST_LOG without the regular expressions of `EnvFilter`, which
    // take longer to compile than all of Steelyard's own code.
    let targets = std::env::var("RUST_LOG")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| {
            tracing_subscriber::filter::Targets::new()
                .with_default(tracing_subscriber::filter::LevelFilter::WARN)
        });
    tracing_subscriber::registry()
        .with(targets)
        .with(tracing_subscriber::fmt::layer().with_writer(std::io::stderr))
        .init();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_stands_once_in_the_line() {
        let cause = || std::io::Error::other("address in use");
        let error = anyhow::Error::new(cause()).context("cannot listen: address in use");
        assert_eq!(one_line(&error), "cannot listen: address in use");
        let silent = anyhow::Error::new(cause()).context("cannot listen");
        assert_eq!(one_line(&silent), "cannot listen: address in use");
    }
}
