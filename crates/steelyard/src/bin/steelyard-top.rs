//! `steelyard-top`: what processes, threads and control groups do now, on a terminal, as text or as JSON.

use std::io::{IsTerminal, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use steelyard::{Exit, Failure, args, output, run};
use steelyard_kernel::Tree;
use steelyard_top::column::{SORTS, Sort};
use steelyard_top::run::{Batch, batch};
use steelyard_top::session::{By, Outside, Session};
use steelyard_top::{TopError, app, screen};

/// Show running processes, threads or control groups: CPU time and waits, instructions per cycle, page faults, I/O,
/// memory, NUMA locality and instruction mix.
///
/// On a terminal it runs interactively (h lists the keys); elsewhere, or with --once, --count or --json, it prints
/// text. Values that this user may not read are shown as missing, with the reason.
#[derive(Parser)]
#[command(name = "steelyard-top", version, after_help = steelyard::examples!(
    "steelyard-top",
    "steelyard-top --by cgroup --sort numa",
    "steelyard-top --once --pid 4711 --json",
))]
struct Cli {
    /// Print once and exit, also on a terminal.
    #[arg(long, conflicts_with = "count")]
    once: bool,
    /// Print this many times and exit.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Print JSON, one document per sample.
    #[arg(long)]
    json: bool,
    /// Time between two samples, over which rates are taken: 100ms to 1h.
    #[arg(long, default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// Column to sort by, largest first (for numa the least local first).
    #[arg(long, default_value = "cpu", value_parser = sort)]
    sort: Sort,
    /// Reverse the order.
    #[arg(long)]
    reverse: bool,
    /// Kind of rows.
    #[arg(long, value_enum, default_value = "process")]
    by: Rows,
    /// Show only rows with this text in their name, command line, user, control group or id.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Show only these processes.
    #[arg(long, value_delimiter = ',')]
    pid: Vec<u32>,
    /// Maximum rows to print.
    #[arg(long, value_name = "COUNT")]
    rows: Option<usize>,
    /// Do not sample instructions.
    #[arg(long)]
    no_mix: bool,
    /// Root of /proc and /sys.
    #[arg(long, default_value = "/", hide = true)]
    root: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
enum Rows {
    /// A process.
    Process,
    /// A thread.
    Thread,
    /// A control group with all below it.
    Cgroup,
}

impl From<Rows> for By {
    fn from(rows: Rows) -> Self {
        match rows {
            Rows::Process => Self::Process,
            Rows::Thread => Self::Thread,
            Rows::Cgroup => Self::Cgroup,
        }
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = args::duration(text)?;
    if (Duration::from_millis(100)..=Duration::from_secs(3600)).contains(&interval) {
        Ok(interval)
    } else {
        Err(format!("{text} is not between 100ms and 1h"))
    }
}

fn sort(text: &str) -> Result<Sort, String> {
    Sort::named(text).ok_or_else(|| {
        let names: Vec<&str> = SORTS.iter().map(|sort| sort.1).collect();
        format!("{text} is none of {}", names.join(", "))
    })
}

fn main() -> ExitCode {
    let cli: Cli = steelyard::parse();
    run("steelyard-top", || top(cli))
}

fn top(cli: Cli) -> Result<Exit, Failure> {
    let is_batch = cli.once || cli.count.is_some() || cli.json || !stdout().is_terminal();
    let by = By::from(cli.by);
    let outside = Outside::live();
    // The counters and samples are this machine's, and would not fit another's tree.
    let has_samples = cli.root == std::path::Path::new("/");
    let wants_mix = !cli.no_mix && has_samples;
    let tree = Tree::new(cli.root);
    let mut session = Session::new(&tree, cli.pid, by, wants_mix, outside).map_err(failure)?;
    if is_batch {
        output::opened().map_err(output::failure)?;
        let settings = Batch {
            count: cli.count.unwrap_or(1),
            interval: cli.interval,
            json: cli.json,
            sort: cli.sort,
            reverse: cli.reverse,
            filter: cli.filter,
            rows: cli.rows,
        };
        let wait = &mut |time| {
            std::thread::sleep(time);
            true
        };
        return match batch(&mut session, &settings, wait, &mut stdout().lock()) {
            Err(TopError::Output(error)) => Err(output::failure(error)),
            ended => ended.map(|()| Exit::Ok).map_err(failure),
        };
    }
    let choices = app::Choices {
        sort: cli.sort,
        reverse: cli.reverse,
        filter: cli.filter.unwrap_or_default(),
        by,
        interval: cli.interval,
        has_mix: wants_mix,
        has_colour: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
    };
    screen::interactive(&mut session, choices).map_err(failure)?;
    Ok(Exit::Ok)
}

/// The exit code and the advice that belong to `error`.
fn failure(error: TopError) -> Failure {
    let (exit, hint) = match &error {
        TopError::NoProcess { .. } => (Exit::Usage, None),
        TopError::NoProcesses { .. } => (
            Exit::Environment,
            Some("--root must have proc and sys in it"),
        ),
        TopError::Terminal { .. } => (Exit::Environment, Some("--once prints a table and exits")),
        TopError::Output(_) => (Exit::Failed, None),
    };
    let failure = Failure::new(exit, error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
