//! `steelyard-tax`: microbenchmarks of what a fleet's machines do beside the application.

mod health;
mod run;
mod table;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use steelyard::{Exit, Failure};
use steelyard_tax::TaxError;

/// Measure the datacenter tax: compression, hashing, serialization, encryption and more.
#[derive(Debug, Parser)]
#[command(name = "steelyard-tax", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run microbenchmarks
    #[command(after_help = steelyard::examples!(
        "steelyard-tax run",
        "steelyard-tax run --only compression --time 60s --json",
    ))]
    Run(run::RunArguments),
    /// Check memory, caches, disk and loopback network of this machine
    #[command(after_help = steelyard::examples!(
        "steelyard-tax health",
        "steelyard-tax health --quick --parts disk --directory /data",
    ))]
    Health(health::HealthArguments),
    /// List the benchmarks
    #[command(after_help = steelyard::examples!(
        "steelyard-tax list",
        "steelyard-tax list --only hashing --json",
    ))]
    List(run::ListArguments),
}

/// The exit code and the advice that go with an error.
fn failure(error: TaxError) -> Failure {
    let (exit, hint) = match &error {
        TaxError::Setting { name: "--only", .. } => (Exit::Usage, Some("see steelyard-tax list")),
        TaxError::Setting { .. } => (Exit::Usage, None),
        TaxError::Environment { .. } => {
            (Exit::Environment, Some("see ulimit -a and taskset -p $$"))
        }
        TaxError::Work { .. }
        | TaxError::Thread { .. }
        | TaxError::File { .. }
        | TaxError::Stopped => (Exit::Failed, None),
    };
    let failure = Failure::new(exit, error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

fn main() -> ExitCode {
    // Read before anything else: a parent that ends later is noticed by the change.
    // SAFETY: getppid has no preconditions.
    let parent = unsafe { libc::getppid() };
    let arguments: Arguments = steelyard::parse();
    steelyard::run("steelyard-tax", || -> Result<Exit, Failure> {
        match arguments.command {
            Command::Run(arguments) => run::run(&arguments, parent),
            Command::Health(arguments) => health::run(&arguments, parent),
            Command::List(arguments) => run::list(&arguments),
        }
    })
}
