//! `steelyard-probe`: records /proc and /sys, watches one program's threads, and lists what can be
//! recorded here; scores where processes run against where their memory is.

mod numa;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use steelyard::output::print;
use steelyard::{Exit, Failure, args, run};
use steelyard_kernel::Tree;
use steelyard_probe::counters::{self, CounterSettings, Scope};
use steelyard_probe::{
    ProbeError, RecorderSettings, Session, Target, describe, record, recover, survey,
};

/// Record telemetry from /proc, /sys and performance counters.
#[derive(Parser)]
#[command(name = "steelyard-probe", version)]
struct Cli {
    #[command(subcommand)]
    command: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Record the machine's counters until a count, a duration, a command or a signal ends it.
    #[command(after_help = steelyard::examples!(
        "steelyard-probe record --out telemetry --duration 60s",
        "steelyard-probe record --out telemetry --counters plan.json -- ./program",
    ))]
    Record(Record),
    /// Record the threads of a program until its end, a count, a duration or a signal.
    #[command(after_help = steelyard::examples!(
        "steelyard-probe watch --pid 4711 --out threads",
        "steelyard-probe watch --cgroup /sys/fs/cgroup/app --duration 30s --out threads",
    ))]
    Watch(Watch),
    /// List the sources that can be read here, and how to enable the others.
    #[command(after_help = steelyard::examples!(
        "steelyard-probe sources",
        "steelyard-probe sources --json",
    ))]
    Sources {
        /// Print JSON with columns and units.
        #[arg(long, conflicts_with = "markdown")]
        json: bool,
        /// Print the reference page of all sources.
        #[arg(long)]
        markdown: bool,
        /// Root of /proc and /sys.
        #[arg(long, default_value = "/")]
        root: PathBuf,
    },
    /// Check which events of a plan can be counted here, for what share of the time, and why others cannot.
    #[command(after_help = steelyard::examples!(
        "steelyard-probe counters --check plan.json",
        "steelyard-probe counters --check plan.json --counter-scope cpu --json",
    ))]
    Counters(TryCounters),
    /// Score the NUMA locality of processes or control groups.
    #[command(after_help = steelyard::examples!(
        "steelyard-probe numa --all",
        "steelyard-probe numa --pid 4711 --duration 5s --json",
    ))]
    Numa(numa::Numa),
    /// Recover a recording that was killed: write its Parquet files.
    #[command(after_help = steelyard::examples!(
        "steelyard-probe recover telemetry",
        "steelyard-probe recover runs/ID/telemetry",
    ))]
    Recover {
        /// Folder of the recording.
        directory: PathBuf,
    },
}

/// How much is recorded, and where.
#[derive(Args)]
struct Extent {
    /// Number of samples.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Time to record.
    #[arg(long, value_parser = args::duration)]
    duration: Option<Duration>,
    /// Folder of the recording; created if it does not exist.
    #[arg(long)]
    out: PathBuf,
}

#[derive(Args)]
struct Record {
    /// Time between samples: 10ms to 1h, or 0 for no pause.
    #[arg(long, default_value = "1s", value_parser = interval)]
    interval: Duration,
    #[command(flatten)]
    extent: Extent,
    /// Root of /proc and /sys.
    #[arg(long, default_value = "/")]
    root: PathBuf,
    #[command(flatten)]
    counting: Counting,
    /// Plan of performance events to count (record counter_plan).
    #[arg(long, value_name = "PLAN")]
    counters: Option<PathBuf>,
    /// Sources to record, separated by commas [default: all].
    #[arg(long, value_delimiter = ',')]
    sources: Option<Vec<String>>,
    /// End when the parent process ends.
    #[arg(long)]
    die_with_parent: bool,
    /// Command to run; the recording ends with it.
    #[arg(last = true)]
    command: Vec<String>,
}

/// Whose events are counted.
#[derive(Args)]
struct Counting {
    /// Scopes to count, separated by commas [default: those of the targets, else system].
    #[arg(long, value_delimiter = ',', value_name = "SCOPE")]
    counter_scope: Vec<CounterScope>,
    /// Process id, or control group as /NAME, to count; repeatable [default: the command].
    #[arg(long, value_parser = target, value_name = "PID|/GROUP")]
    counter_target: Vec<String>,
}

/// Whose events are counted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum CounterScope {
    /// All processes, summed over CPUs.
    System,
    /// All processes, per CPU.
    Cpu,
    /// Processes and their children.
    Process,
    /// Control groups.
    Cgroup,
}

impl From<CounterScope> for Scope {
    fn from(scope: CounterScope) -> Self {
        match scope {
            CounterScope::System => Self::System,
            CounterScope::Cpu => Self::Cpu,
            CounterScope::Process => Self::Process,
            CounterScope::Cgroup => Self::Cgroup,
        }
    }
}

#[derive(Args)]
struct TryCounters {
    /// Plan of performance events (record counter_plan).
    #[arg(long, value_name = "PLAN")]
    check: PathBuf,
    #[command(flatten)]
    counting: Counting,
    /// Time to count.
    #[arg(long, default_value = "200ms", value_parser = args::duration)]
    duration: Duration,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn target(text: &str) -> Result<String, String> {
    if counters::is_pid(text) || (text.starts_with('/') && !text.contains(char::is_control)) {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "{text} is not a process id, nor a control group, which begins with /"
        ))
    }
}

impl Counting {
    fn is_given(&self) -> bool {
        !self.counter_scope.is_empty() || !self.counter_target.is_empty()
    }

    /// What to count of `plan`; `command` says that a command follows.
    fn settings(self, plan: &Path, command: bool) -> Result<CounterSettings, Failure> {
        let pids = self
            .counter_target
            .iter()
            .any(|target| counters::is_pid(target));
        let groups = self
            .counter_target
            .iter()
            .any(|target| !counters::is_pid(target));
        let mut scopes: Vec<CounterScope> = self.counter_scope;
        if scopes.is_empty() {
            scopes.extend(pids.then_some(CounterScope::Process));
            scopes.extend(groups.then_some(CounterScope::Cgroup));
            scopes.extend((!pids && !groups).then_some(CounterScope::System));
        }
        scopes.sort_unstable();
        scopes.dedup();
        let wrong = if pids && !scopes.contains(&CounterScope::Process) {
            Some("a process id is given, but not the scope process")
        } else if groups && !scopes.contains(&CounterScope::Cgroup) {
            Some("a control group is given, but not the scope cgroup")
        } else if !groups && scopes.contains(&CounterScope::Cgroup) {
            Some("--counter-scope cgroup needs --counter-target /GROUP")
        } else {
            None
        };
        if let Some(wrong) = wrong {
            return Err(Failure::new(Exit::Usage, anyhow::anyhow!(wrong)));
        }
        Ok(CounterSettings {
            plan: counters::read_plan(plan).map_err(failure)?,
            scopes: scopes.into_iter().map(Scope::from).collect(),
            targets: self.counter_target,
            command,
        })
    }
}

#[derive(Args)]
#[command(group = clap::ArgGroup::new("target").required(true).multiple(true))]
struct Watch {
    /// Process to watch with its descendants; repeatable.
    #[arg(long, group = "target", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Vec<u32>,
    /// Process whose descendants only are watched; repeatable.
    #[arg(long, group = "target", value_parser = clap::value_parser!(u32).range(1..))]
    below: Vec<u32>,
    /// Folder of a control group to watch, with the groups below it; repeatable.
    #[arg(long, group = "target")]
    cgroup: Vec<PathBuf>,
    /// Time between samples: 10ms to 1h, or 0 for no pause. They take at most 2 % of one CPU.
    #[arg(long, default_value = "100ms", value_parser = interval)]
    interval: Duration,
    #[command(flatten)]
    extent: Extent,
    /// Root of /proc.
    #[arg(long, default_value = "/")]
    root: PathBuf,
    /// End when the parent process ends.
    #[arg(long)]
    die_with_parent: bool,
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
        Verb::Watch(arguments) => run_watch(arguments, parent),
        Verb::Sources {
            json,
            markdown,
            root,
        } => run_sources(json, markdown, root),
        Verb::Counters(arguments) => run_counters(arguments),
        Verb::Numa(arguments) => numa::run(arguments),
        Verb::Recover { directory } => run_recover(&directory),
    })
}

fn run_sources(json: bool, markdown: bool, root: PathBuf) -> Result<Exit, Failure> {
    if markdown {
        print(|out| write!(out, "{}", describe::markdown()))?;
        return Ok(Exit::Ok);
    }
    let tree = Tree::new(root);
    let survey = survey(&tree);
    if json {
        print(|out| writeln!(out, "{}", describe::json(&tree, &survey)))?;
    } else {
        print(|out| write!(out, "{}", describe::text(&survey)))?;
    }
    Ok(Exit::Ok)
}

fn run_record(arguments: Record, parent: i32) -> Result<Exit, Failure> {
    if arguments.die_with_parent {
        steelyard_launch::die_with_parent(libc::SIGTERM, parent)?;
    }
    let counters = match &arguments.counters {
        Some(plan) => {
            let processes = arguments
                .counting
                .counter_scope
                .contains(&CounterScope::Process);
            if processes
                && arguments.command.is_empty()
                && arguments.counting.counter_target.is_empty()
            {
                let wrong = "--counter-scope process needs --counter-target PID, or a command";
                return Err(Failure::new(Exit::Usage, anyhow::anyhow!(wrong)));
            }
            Some(arguments.counting.settings(plan, true)?)
        }
        None if arguments.counting.is_given() => {
            let wrong = "--counter-scope and --counter-target need --counters PLAN";
            return Err(Failure::new(Exit::Usage, anyhow::anyhow!(wrong)));
        }
        None => None,
    };
    let session = Session {
        recorder: RecorderSettings {
            directory: arguments.extent.out,
            root: arguments.root,
            sources: arguments.sources,
            counters,
            target: None,
            interval_ns: arguments.interval.as_nanos() as u64,
            command: std::env::args().collect(),
        },
        count: arguments.extent.count,
        duration: arguments.extent.duration,
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

fn run_counters(arguments: TryCounters) -> Result<Exit, Failure> {
    let settings = arguments.counting.settings(&arguments.check, false)?;
    let checked = counters::check(&settings, &Tree::new("/"), arguments.duration)
        .map_err(|why| Failure::new(Exit::Environment, anyhow::anyhow!(why.reason)))?;
    if arguments.json {
        print(|out| writeln!(out, "{}", checked.json()))?;
    } else {
        print(|out| write!(out, "{}", checked.text()))?;
    }
    Ok(match (checked.is_whole(), checked.counts_anything()) {
        (true, _) => Exit::Ok,
        (false, true) => Exit::No,
        (false, false) => Exit::Environment,
    })
}

fn run_watch(arguments: Watch, parent: i32) -> Result<Exit, Failure> {
    if arguments.die_with_parent {
        steelyard_launch::die_with_parent(libc::SIGTERM, parent)?;
    }
    let session = Session {
        recorder: RecorderSettings {
            directory: arguments.extent.out,
            root: arguments.root,
            sources: None,
            counters: None,
            target: Some(Target {
                pids: arguments.pid,
                below: arguments.below,
                cgroups: arguments.cgroup,
            }),
            interval_ns: arguments.interval.as_nanos() as u64,
            command: std::env::args().collect(),
        },
        count: arguments.extent.count,
        duration: arguments.extent.duration,
        command: Vec::new(),
    };
    record(&session).map_err(failure)?;
    Ok(Exit::Ok)
}

fn run_recover(directory: &std::path::Path) -> Result<Exit, Failure> {
    for recovered in recover(directory).map_err(failure)? {
        let note = recovered
            .cut_short
            .map(|why| format!(" (its end was cut off: {why})"))
            .unwrap_or_default();
        print(|out| writeln!(out, "{}: {} rows{note}", recovered.name, recovered.rows))?;
    }
    Ok(Exit::Ok)
}

/// The exit code and the advice that belong to `error`.
fn failure(error: ProbeError) -> Failure {
    let (exit, hint) = match &error {
        ProbeError::UnknownSource { .. }
        | ProbeError::NoTarget { .. }
        | ProbeError::NoRecording { .. }
        | ProbeError::Unsettled { .. } => (Exit::Usage, None),
        ProbeError::Plan { .. } => (Exit::Usage, Some("docs/guides/counters.md shows a plan")),
        ProbeError::NothingToRecord { .. } => (
            Exit::Environment,
            Some("`steelyard-probe sources` lists the readable sources"),
        ),
        ProbeError::Output { .. } => (
            Exit::Environment,
            Some("choose a directory that can be written with --out"),
        ),
        ProbeError::Command { .. } | ProbeError::System { .. } => (Exit::Environment, None),
        ProbeError::Write { .. } | ProbeError::Parquet { .. } => (
            Exit::Failed,
            Some("the recording until then is readable; `steelyard-probe recover` completes it"),
        ),
        ProbeError::Arrow { .. } | ProbeError::Record(_) => (Exit::Failed, None),
    };
    let failure = Failure::new(exit, error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
