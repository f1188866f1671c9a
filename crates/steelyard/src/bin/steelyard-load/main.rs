//! `steelyard-load`: puts load on a server and tells what came back.

mod arguments;
mod plain;
mod settings;

use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Parser;
use steelyard::{Exit, Failure};
use steelyard_launch::{die_with_parent, pin_to_cpus};
use steelyard_load::{LoadError, Settings};

use crate::arguments::LoadArguments;

/// Puts load on a server, on schedule, and tells throughput and latency.
#[derive(Debug, Parser)]
#[command(name = "steelyard-load", version)]
struct Line {
    #[command(flatten)]
    load: LoadArguments,
}

/// Set by SIGINT and SIGTERM.
static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn stop(_signal: libc::c_int) {
    STOP.store(true, Ordering::Relaxed);
}

fn catch_signals() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only stores to an atomic, which is safe in a signal handler.
        unsafe { libc::signal(signal, stop as *const () as libc::sighandler_t) };
    }
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
    if let Some(path) = &arguments.output {
        steelyard_record::write_atomically(record, path)?;
    }
    if arguments.json {
        let mut out = std::io::stdout().lock();
        serde_json::to_writer(&mut out, record)?;
        writeln!(out)?;
    }
    Ok(())
}

fn body() -> Result<Exit, Failure> {
    // Read before anything else: a parent that ends later is noticed by the change.
    // SAFETY: getppid has no preconditions.
    let parent = unsafe { libc::getppid() };
    let line = Line::parse();
    if line.load.die_with_parent {
        die_with_parent(libc::SIGKILL, parent)?;
    }
    catch_signals();
    plain::run(&line.load, &STOP)
}

fn main() -> ExitCode {
    steelyard::run("steelyard-load", body)
}
