//! `steelyard-load`: generates load for a server and reports throughput and latency.

mod arguments;
mod capacity;
mod hosts;
mod plain;
mod resolved;
mod settings;
mod sweep;
mod url;

use std::io::{self, BufRead, BufReader, Write};
use std::process::ExitCode;

use clap::Parser;
use steelyard::output::print_json;
use steelyard::{Exit, Failure};
use steelyard_launch::{GRACE, Stop, die_with_parent, pin_to_cpus};
use steelyard_load::{LoadError, Settings};

use crate::arguments::LoadArguments;
use crate::capacity::CapacityArguments;
use crate::sweep::SweepArguments;

/// Generate load for a server on a schedule, and measure throughput and latency.
///
/// Exit codes: 0 the result is valid or suspect, 1 it is invalid, 2 usage, 3 the server is not there or the machine lacks
/// something, 4 the load failed or was stopped.
///
/// Times: `response`, from when a request was due to its answer; `service`, from its sending; `queued`, waiting for a free
/// connection; `lag`, of the generator itself.
#[derive(Debug, Parser)]
#[command(
    name = "steelyard-load",
    version,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = steelyard::examples!(
        "steelyard-load memcache://127.0.0.1:11211 --connections 64 --depth 4",
        "steelyard-load http://127.0.0.1:8080/ --rate 5000 --duration 30s --json",
        "steelyard-load redis://127.0.0.1:6379 --mix ycsb-a --rate 20000",
    )
)]
struct Line {
    #[command(subcommand)]
    mode: Option<Mode>,
    #[command(flatten)]
    load: LoadArguments,
}

/// What to do instead of one load.
#[derive(Debug, clap::Subcommand)]
enum Mode {
    Capacity(Box<CapacityArguments>),
    Sweep(Box<SweepArguments>),
    /// Join a load of several processes; commands come on standard input
    #[command(hide = true)]
    Join,
}

/// The control input of a held load.
fn orders(load: &LoadArguments) -> Option<Box<dyn BufRead + Send>> {
    let input = || Box::new(BufReader::new(io::stdin())) as Box<dyn BufRead + Send>;
    load.hold.then(input)
}

/// The command line, for records: without the password of a URL.
fn command() -> Vec<String> {
    let given = std::env::args();
    given
        .map(|argument| url::without_password(&argument))
        .collect()
}

/// Pins the controlling thread to the CPUs of the settings.
fn pin(settings: &Settings) -> Result<(), Failure> {
    if settings.cpus.is_empty() {
        return Ok(());
    }
    pin_to_cpus(&settings.cpus).map_err(|source| {
        settings::failure(LoadError::Environment {
            what: "--cpus".to_owned(),
            source,
        })
    })
}

/// Writes a record where the flags ask for it.
fn write<R: steelyard_record::Record>(
    arguments: &LoadArguments,
    record: &R,
) -> Result<(), Failure> {
    Stop::allow_if_asked(GRACE);
    if let Some(path) = &arguments.output {
        steelyard_record::write_atomically(record, path)?;
    }
    if arguments.json {
        print_json(record)?;
    }
    Ok(())
}

/// How a command ends that has written its result: an invalid one answers nothing.
fn exit(is_incomplete: bool, verdict: &steelyard_record::Verdict) -> Exit {
    match (is_incomplete, verdict.level) {
        (true, _) => Exit::Failed,
        (false, steelyard_record::Level::Invalid) => Exit::No,
        _ => Exit::Ok,
    }
}

/// The word of a level.
fn level(level: steelyard_record::Level) -> String {
    let word = serde_json::json!(level);
    word.as_str().unwrap_or_default().to_owned()
}

/// The last lines of every table for a person: the verdict and what it objects to.
fn write_verdict(verdict: &steelyard_record::Verdict, out: &mut dyn Write) -> io::Result<()> {
    let valid = |check: &&steelyard_record::Check| check.level == steelyard_record::Level::Valid;
    let passed = verdict.checks.iter().filter(valid).count();
    writeln!(
        out,
        "verdict     {} ({} of {} checks passed)",
        level(verdict.level),
        passed,
        verdict.checks.len()
    )?;
    for check in verdict
        .checks
        .iter()
        .filter(|check| check.level != steelyard_record::Level::Valid)
    {
        writeln!(out, "            {}: {}", check.id, check.claim)?;
    }
    Ok(())
}

fn body() -> Result<Exit, Failure> {
    // Read before anything else: a parent that ends later is noticed by the change.
    // SAFETY: getppid has no preconditions.
    let parent = unsafe { libc::getppid() };
    let line: Line = steelyard::parse();
    let load = match &line.mode {
        None => &line.load,
        Some(Mode::Capacity(arguments)) => &arguments.load,
        Some(Mode::Sweep(arguments)) => &arguments.load,
        Some(Mode::Join) => {
            hosts::join();
            return Ok(Exit::Ok);
        }
    };
    if load.die_with_parent {
        die_with_parent(libc::SIGKILL, parent)?;
    }
    if line.mode.is_some() && load.trace.is_some() {
        let error = LoadError::setting(
            "--trace",
            "a trace has its own rate, which a search cannot set",
        );
        return Err(Failure::new(Exit::Usage, error));
    }
    let stop = Stop::watch()?.flag();
    match &line.mode {
        None => plain::run(load, stop),
        Some(Mode::Capacity(arguments)) => capacity::run(arguments, stop),
        Some(Mode::Sweep(arguments)) => sweep::run(arguments, stop),
        Some(Mode::Join) => Ok(Exit::Ok),
    }
}

fn main() -> ExitCode {
    steelyard::run("steelyard-load", body)
}
