//! `steelyard-agent`: what each machine of a fleet runs.

use std::io::{Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use steelyard::{Exit, Failure, run};
use steelyard_agent::cgroups::Hierarchies;
use steelyard_agent::identity::Finder;
use steelyard_agent::identity::rules::Rules;
use steelyard_probe::Tree;

/// Samples a machine's tasks for a fleet's store.
#[derive(Parser)]
#[command(name = "steelyard-agent", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print who is a task here, one JSON document a line.
    Tasks {
        /// Root of the /proc and /sys to read.
        #[arg(long, default_value = "/")]
        root: PathBuf,
    },
}

fn main() -> ExitCode {
    let cli: Cli = steelyard::parse();
    run("steelyard-agent", || match cli.command {
        Command::Tasks { root } => tasks(root),
    })
}

fn tasks(root: PathBuf) -> Result<Exit, Failure> {
    let tree = Tree::new(root);
    let hierarchies = Hierarchies::of(&tree);
    if hierarchies.version().is_none() {
        let error = std::io::Error::other(
            "no hierarchy of control groups that accounts CPU time is mounted",
        );
        return Err(
            Failure::new(Exit::Environment, error).hint("mount -t cgroup2 none /sys/fs/cgroup")
        );
    }
    let rules = Rules::new(&[], true).map_err(std::io::Error::other)?;
    let found = Finder::new(&tree, hierarchies, rules, 10_000).look();
    let mut out = stdout().lock();
    for task in &found.tasks {
        serde_json::to_writer(&mut out, &**task)?;
        writeln!(out)?;
    }
    Ok(Exit::Ok)
}
