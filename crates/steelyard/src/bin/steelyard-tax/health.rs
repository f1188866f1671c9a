//! The command `health`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use steelyard::output::{print, print_json};
use steelyard::{Exit, Failure};
use steelyard_health::{HealthError, Mode, PARTS, Settings, Surroundings, Topology, plan};
use steelyard_launch::{GRACE, Stop, die_with_parent};
use steelyard_record::{Estimate, HealthResult};

/// What to check.
#[derive(Debug, Args)]
pub struct HealthArguments {
    /// Take about 20 s instead of 2 minutes
    #[arg(long)]
    quick: bool,
    /// Check only these parts, separated by commas: memory_latency, memory_bandwidth, core_to_core, disk, loopback
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    parts: Vec<String>,
    /// Folder on the disk to measure; an unnamed file is used
    #[arg(long, value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    /// Program for disk I/O: fio if installed (auto), or this program (built-in)
    #[arg(long, value_enum, default_value = "auto")]
    disk_engine: EngineArgument,
    /// Seed for random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print what would be measured (JSON), and measure nothing
    #[arg(long)]
    plan: bool,
    /// With --plan: root of /proc and /sys, such as a recorded tree
    #[arg(long, value_name = "DIR", default_value = "/", requires = "plan")]
    root: PathBuf,
    /// File for the result (JSON)
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Format of progress lines on standard error
    #[arg(long, value_enum, default_value = "text")]
    progress: ProgressArgument,
    /// End when the parent process ends
    #[arg(long, hide = true)]
    die_with_parent: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EngineArgument {
    Auto,
    BuiltIn,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ProgressArgument {
    Json,
    Text,
    None,
}

fn failure(error: HealthError) -> Failure {
    let exit = match &error {
        HealthError::Setting { .. } => Exit::Usage,
        HealthError::Unavailable(_) => Exit::Environment,
        _ => Exit::Failed,
    };
    Failure::new(exit, error)
}

fn settings(arguments: &HealthArguments) -> Settings {
    let all = || PARTS.iter().map(|part| (*part).to_owned()).collect();
    Settings {
        mode: if arguments.quick {
            Mode::Quick
        } else {
            Mode::Full
        },
        parts: if arguments.parts.is_empty() {
            all()
        } else {
            arguments.parts.clone()
        },
        directory: arguments.directory.clone(),
        fio: arguments.disk_engine == EngineArgument::Auto,
        seed: arguments.seed,
    }
}

/// Runs the checks, prints and stores the result.
pub fn run(arguments: &HealthArguments, parent: libc::pid_t) -> Result<Exit, Failure> {
    if arguments.die_with_parent {
        die_with_parent(libc::SIGKILL, parent)?;
    }
    let stop = Stop::watch()?;
    let settings = settings(arguments);
    if arguments.plan {
        let usable = (arguments.root == Path::new("/"))
            .then(steelyard_launch::usable_cpus)
            .transpose()?;
        let topology = Topology::read(&arguments.root, usable.as_deref());
        print(|out| writeln!(out, "{:#}", plan(&topology, settings.mode)))?;
        return Ok(Exit::Ok);
    }
    // Before any progress is shown, so that the error stands alone.
    settings.check().map_err(failure)?;
    let topology = Topology::read(&arguments.root, Some(&steelyard_launch::usable_cpus()?));
    let progress = |part: &str, ratio: f64| tell(arguments.progress, part, ratio);
    let surroundings = Surroundings {
        command: std::env::args().collect(),
        stop: stop.flag(),
        progress: &progress,
    };
    let result = steelyard_health::run(&settings, &topology, &surroundings);
    stop.allow(GRACE);
    if arguments.progress == ProgressArgument::Text {
        eprint!("\r\x1b[K");
    }
    let result = result.map_err(failure)?;
    if let Some(path) = &arguments.output {
        steelyard_record::write_atomically(&result, path)?;
    }
    if arguments.json {
        print_json(&result)?;
    } else if arguments.output.is_none() {
        print(|out| table(&result, out))?;
    }
    Ok(if result.interrupted {
        Exit::Failed
    } else {
        Exit::Ok
    })
}

/// Writes one line of progress; a missing reader is no error.
fn tell(progress: ProgressArgument, part: &str, ratio: f64) {
    let mut out = std::io::stderr().lock();
    let _ = match progress {
        ProgressArgument::Json => {
            writeln!(
                out,
                "{}",
                serde_json::json!({"event": "progress", "part": part, "done_ratio": ratio})
            )
        }
        ProgressArgument::Text => {
            write!(
                out,
                "\r{} {:.0} %\x1b[K",
                part.replace('_', " "),
                ratio * 100.0
            )
        }
        ProgressArgument::None => Ok(()),
    };
    let _ = out.flush();
}

fn rate(estimate: Option<&Estimate>) -> String {
    estimate.map_or_else(
        || "-".to_owned(),
        |rate| {
            let (median, low, high) = (rate.median / 1e9, rate.low / 1e9, rate.high / 1e9);
            format!("{median:7.2} GB/s  [{low:.2}, {high:.2}]")
        },
    )
}

/// A table for a person.
fn table(result: &HealthResult, out: &mut dyn Write) -> io::Result<()> {
    for point in result.memory_latency.iter().flat_map(|part| &part.points) {
        let one = &point.latency_ns;
        writeln!(
            out,
            "latency   {:>9} KiB {:4} pages  {:7.2} ns  [{:.2}, {:.2}]",
            point.working_set_bytes >> 10,
            point.pages,
            one.median,
            one.low,
            one.high
        )?;
    }
    for row in result.memory_bandwidth.iter().flat_map(|part| &part.rows) {
        let figures = rate(row.rate_bytes_per_s.as_ref());
        let why = row.missing.as_deref().unwrap_or_default();
        let (cpus, memory, kernel) = (row.cpu_node, row.memory_node, &row.kernel);
        writeln!(
            out,
            "bandwidth CPUs of node {cpus}, memory of {memory}  {kernel:17} {figures}{why}"
        )?;
    }
    if let Some(part) = &result.core_to_core {
        for (row, cpu) in part.cpus.iter().enumerate().take(8) {
            for (column, other) in part.cpus.iter().enumerate().take(8).skip(row + 1) {
                if let Some(ns) = part.median_ns[row][column] {
                    writeln!(out, "line from CPU {cpu} to {other}  {ns:.1} ns")?;
                }
            }
        }
    }
    for row in result.disk.iter().flat_map(|part| &part.rows) {
        let figures = rate(row.rate_bytes_per_s.as_ref());
        let operations = row
            .operations_per_s
            .as_ref()
            .map_or_else(String::new, |rate| {
                format!("  {:.0} operations/s", rate.median)
            });
        let why = row.missing.as_deref().unwrap_or_default();
        writeln!(
            out,
            "disk      {:17} depth {:2}  {figures}{operations}{why}",
            row.pattern, row.depth
        )?;
    }
    if let Some(part) = &result.loopback {
        writeln!(out, "loopback  {}", rate(Some(&part.rate_bytes_per_s)))?;
        let (p50, p99) = (part.round_trip_p50_ns.median, part.round_trip_p99_ns.median);
        writeln!(
            out,
            "loopback  round trip p50 {:.1} us  p99 {:.1} us",
            p50 / 1e3,
            p99 / 1e3
        )?;
    }
    for (what, why) in &result.missing {
        writeln!(out, "no {what}: {why}")?;
    }
    Ok(())
}
