//! `steelyard-probe`: records what /proc and /sys tell, and says what they can tell here.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use steelyard::{Exit, Failure, args, run};
use steelyard_probe::{
    ProbeError, RecorderSettings, Session, Tree, describe, record, recover, survey,
};

/// Samples /proc and /sys into raw telemetry.
#[derive(Parser)]
#[command(name = "steelyard-probe", version)]
struct Cli {
    #[command(subcommand)]
    command: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Record until a count, a time, a command or a signal ends it.
    Record(Record),
    /// Say which sources can be read here, and how to enable the others.
    Sources {
        /// As JSON, with columns and units.
        #[arg(long, conflicts_with = "markdown")]
        json: bool,
        /// The reference page of all sources, whatever is here.
        #[arg(long)]
        markdown: bool,
        /// Root of the /proc and /sys to look at.
        #[arg(long, default_value = "/")]
        root: PathBuf,
    },
    /// Make Parquet files from what a killed recording left.
    Recover {
        /// Directory of the recording.
        directory: PathBuf,
    },
}

#[derive(Args)]
struct Record {
    /// Time between ticks: 10ms to 1h, or 0 for back to back.
    #[arg(long, default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// End after so many ticks.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// End after so much time.
    #[arg(long, value_parser = args::duration)]
    duration: Option<Duration>,
    /// Directory of the recording; made when it does not exist.
    #[arg(long)]
    out: PathBuf,
    /// Root of the /proc and /sys to read.
    #[arg(long, default_value = "/")]
    root: PathBuf,
    /// Sources to record, with commas between; all when absent.
    #[arg(long, value_delimiter = ',')]
    sources: Option<Vec<String>>,
    /// End when the parent process ends.
    #[arg(long)]
    die_with_parent: bool,
    /// A command to run meanwhile; its end ends the recording.
    #[arg(last = true)]
    command: Vec<String>,
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = args::duration(text)?;
    let allowed = Duration::from_millis(10)..=Duration::from_secs(3600);
    if interval.is_zero() || allowed.contains(&interval) {
        Ok(interval)
    } else {
        Err(format!("{text} is not between 10ms and 1h, nor 0"))
    }
}

fn main() -> ExitCode {
    // SAFETY: getppid has no preconditions. It is asked first, so that a parent that ends meanwhile is noticed.
    let parent = unsafe { libc::getppid() };
    let cli: Cli = steelyard::parse();
    run("steelyard-probe", || match cli.command {
        Verb::Record(arguments) => run_record(arguments, parent),
        Verb::Sources {
            json,
            markdown,
            root,
        } => run_sources(json, markdown, root),
        Verb::Recover { directory } => run_recover(&directory),
    })
}

fn run_sources(json: bool, markdown: bool, root: PathBuf) -> Result<Exit, Failure> {
    if markdown {
        print!("{}", describe::markdown());
        return Ok(Exit::Ok);
    }
    let tree = Tree::new(root);
    let survey = survey(&tree);
    if json {
        println!("{}", describe::json(&tree, &survey));
    } else {
        print!("{}", describe::text(&survey));
    }
    Ok(Exit::Ok)
}

fn run_record(arguments: Record, parent: i32) -> Result<Exit, Failure> {
    if arguments.die_with_parent {
        steelyard_launch::die_with_parent(libc::SIGTERM, parent)?;
    }
    let session = Session {
        recorder: RecorderSettings {
            directory: arguments.out,
            root: arguments.root,
            sources: arguments.sources,
            interval_ns: arguments.interval.as_nanos() as u64,
            command: std::env::args().collect(),
        },
        count: arguments.count,
        duration: arguments.duration,
        command: arguments.command,
    };
    let end = record(&session).map_err(failure)?;
    match end.telemetry.command_exit {
        Some(code) if code != 0 && end.telemetry.end_reason.as_deref() == Some("command") => {
            Err(Failure::new(
                Exit::Failed,
                anyhow::anyhow!("the command ended with {code}; the recording is complete"),
            ))
        }
        _ => Ok(Exit::Ok),
    }
}

fn run_recover(directory: &std::path::Path) -> Result<Exit, Failure> {
    for recovered in recover(directory).map_err(failure)? {
        let note = recovered
            .cut_short
            .map(|why| format!(" (its end was cut off: {why})"))
            .unwrap_or_default();
        println!("{}: {} rows{note}", recovered.name, recovered.rows);
    }
    Ok(Exit::Ok)
}

/// The exit code and the advice that belong to `error`.
fn failure(error: ProbeError) -> Failure {
    let (exit, hint) = match &error {
        ProbeError::UnknownSource { .. } | ProbeError::NoRecording { .. } => (Exit::Usage, None),
        ProbeError::NothingToRecord { .. } => (
            Exit::Environment,
            Some("`steelyard-probe sources` tells what can be read here"),
        ),
        ProbeError::Output { .. } => (
            Exit::Environment,
            Some("choose a directory that can be written with --out"),
        ),
        ProbeError::Command { .. } | ProbeError::System { .. } => (Exit::Environment, None),
        ProbeError::Write { .. } | ProbeError::Parquet { .. } => (
            Exit::Failed,
            Some("what was recorded before is readable; `steelyard-probe recover` finishes it"),
        ),
        ProbeError::Arrow { .. } | ProbeError::Record(_) => (Exit::Failed, None),
    };
    let failure = Failure::new(exit, error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
