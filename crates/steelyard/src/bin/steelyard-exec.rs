//! `steelyard-exec`: runs a command so that nothing of it outlives its starter.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use steelyard::args;
use steelyard_launch::{LaunchError, Supervision, supervise};

/// Run a command in its own process group, on chosen CPUs and memory, and end all its processes with it.
///
/// The exit code is the command's, or 128 + the signal that ended it; 125 when the supervisor failed,
/// 126 when the command could not be run, 127 when the command was not found, 2 for wrong arguments.
#[derive(Parser)]
#[command(name = "steelyard-exec", version, after_help = steelyard::examples!(
    "steelyard-exec -- ./server --port 8080",
    "steelyard-exec --cpus 0-3 --memory-nodes 0 --log server.log -- ./server",
))]
struct Arguments {
    /// CPUs for the command, such as 0-3,8
    #[arg(long, value_parser = cpus)]
    cpus: Option<List>,
    /// NUMA nodes for memory of the command and its children, such as 0 or 0-1
    #[arg(long, value_parser = nodes)]
    memory_nodes: Option<List>,
    /// End the command when the process that started this one ends; with its id, also where it has ended already
    #[arg(long, value_name = "PID", num_args = 0..=1, require_equals = true)]
    die_with_parent: Option<Option<i32>>,
    /// Time between SIGTERM and SIGKILL when the command is ended
    #[arg(long, default_value = "5s", value_parser = args::duration)]
    grace: Duration,
    /// Let what the command leaves running go on when it ends by itself
    #[arg(long)]
    keep_background: bool,
    /// Keep this open descriptor from the command, such as one that holds a lock; repeatable
    #[arg(long, value_name = "FD", value_parser = clap::value_parser!(i32).range(3..))]
    hold: Vec<i32>,
    /// Write the command's standard output and error to this file
    #[arg(long)]
    log: Option<PathBuf>,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, required = true)]
    command: Vec<String>,
}

#[derive(Clone)]
struct List(Vec<usize>);

fn cpus(text: &str) -> Result<List, String> {
    args::cpu_list(text).map(List)
}

fn nodes(text: &str) -> Result<List, String> {
    args::node_list(text).map(List)
}

fn main() -> ExitCode {
    let arguments: Arguments = steelyard::parse();
    if let Some(path) = &arguments.log
        && let Err(error) = redirect_output(path)
    {
        eprintln!("steelyard-exec: {}: {error}", path.display());
        return ExitCode::from(125);
    }
    // SAFETY: getppid has no preconditions.
    let starter = || unsafe { libc::getppid() };
    let supervision = Supervision {
        command: arguments.command,
        cpus: arguments.cpus.map(|list| list.0),
        memory_nodes: arguments.memory_nodes.map(|list| list.0),
        parent: arguments
            .die_with_parent
            .map(|parent| parent.unwrap_or_else(starter)),
        grace: arguments.grace,
        keeps_background: arguments.keep_background,
        held: arguments.hold,
    };
    match supervise(&supervision) {
        Ok(ended) => ExitCode::from(ended.code()),
        Err(error) => {
            eprintln!("steelyard-exec: {error}");
            ExitCode::from(match error {
                LaunchError::Start { source, .. }
                    if source.kind() == std::io::ErrorKind::NotFound =>
                {
                    127
                }
                LaunchError::Start { .. } => 126,
                _ => 125,
            })
        }
    }
}

fn redirect_output(path: &std::path::Path) -> std::io::Result<()> {
    use std::os::fd::AsRawFd;
    let file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)?;
    for stream in [1, 2] {
        // SAFETY: both descriptors are open, and nothing of this process has written to them yet.
        if unsafe { libc::dup2(file.as_raw_fd(), stream) } < 0 {
            return Err(std::io::Error::last_os_error());
        }
    }
    Ok(())
}
