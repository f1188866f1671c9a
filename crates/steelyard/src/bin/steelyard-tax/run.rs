//! The commands `run` and `list`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use steelyard::output::{print, print_json};
use steelyard::{Exit, Failure, args};
use steelyard_launch::{GRACE, Stop, die_with_parent, pin_to_cpus};
use steelyard_tax::{Cores, Microbenchmark, Progress, Settings, Surroundings};

use crate::{failure, table};

/// What to measure, where and for how long.
#[derive(Debug, Args)]
pub struct RunArguments {
    /// Total time, including inputs and calibration
    #[arg(long, value_parser = args::duration, default_value = "20s")]
    time: Duration,
    /// Only benchmarks with this word in their name, or of this category; repeatable
    #[arg(long, value_name = "PATTERN")]
    only: Vec<String>,
    /// Run on one core, on all cores at the same time, or both
    #[arg(long, value_enum, default_value = "both")]
    cores: CoresArgument,
    // `Vec` by its path, because clap takes a bare one for an option that is given several times.
    /// CPUs to use, such as 0-3,8, each once [default: all that this process may use]
    #[arg(long, value_name = "LIST", value_parser = args::cpu_list)]
    cpus: Option<std::vec::Vec<usize>>,
    /// Seed for inputs and order
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Length of a batch [default: 2ms, or less if --time is short]
    #[arg(long, value_parser = args::duration)]
    batch: Option<Duration>,
    /// File for every batch (CSV)
    #[arg(long, value_name = "FILE")]
    batches: Option<PathBuf>,
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

/// Which benchmarks to list.
#[derive(Debug, Args)]
pub struct ListArguments {
    /// Only benchmarks with this word in their name, or of this category; repeatable
    #[arg(long, value_name = "PATTERN")]
    only: Vec<String>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum CoresArgument {
    One,
    All,
    Both,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ProgressArgument {
    Json,
    Text,
    None,
}

/// Measures, prints and stores the result.
pub fn run(arguments: &RunArguments, parent: libc::pid_t) -> Result<Exit, Failure> {
    if arguments.die_with_parent {
        die_with_parent(libc::SIGKILL, parent)?;
    }
    let stop = Stop::watch()?;
    let settings = Settings {
        time: arguments.time,
        batch: arguments.batch,
        seed: arguments.seed,
        only: arguments.only.clone(),
        cores: match arguments.cores {
            CoresArgument::One => Cores::One,
            CoresArgument::All => Cores::All,
            CoresArgument::Both => Cores::Both,
        },
        cpus: match &arguments.cpus {
            Some(cpus) => cpus.clone(),
            None => steelyard_launch::usable_cpus()?,
        },
    };
    let surroundings = Surroundings {
        command: std::env::args().collect(),
        progress: match arguments.progress {
            ProgressArgument::Json => Progress::Json,
            ProgressArgument::Text => Progress::Text,
            ProgressArgument::None => Progress::None,
        },
        stop: stop.flag(),
        pin: pin_to_cpus,
        batches: arguments.batches.clone(),
    };
    let result = steelyard_tax::run(&settings, &surroundings);
    stop.allow(GRACE);
    let result = result.map_err(failure)?;
    if let Some(path) = &arguments.output {
        steelyard_record::write_atomically(&result, path)?;
    }
    if arguments.json {
        print_json(&result)?;
    } else if !matches!(arguments.progress, ProgressArgument::Json) {
        print(|out| table::write(&result, out))?;
    }
    Ok(if result.interrupted {
        Exit::Failed
    } else {
        Exit::Ok
    })
}

/// Lists the benchmarks.
pub fn list(arguments: &ListArguments) -> Result<Exit, Failure> {
    let mut found = steelyard_tax::select(&arguments.only).map_err(failure)?;
    found.sort_by(|a, b| (a.category(), a.name()).cmp(&(b.category(), b.name())));
    print(|out| {
        for benchmark in &found {
            let benchmark: &dyn Microbenchmark = benchmark.as_ref();
            let (name, category) = (benchmark.name(), benchmark.category().name());
            let operation = benchmark.operation();
            if arguments.json {
                let line = serde_json::json!({
                    "name": name, "category": category, "operation": operation, "waits": benchmark.waits(),
                });
                writeln!(out, "{line}")?;
            } else {
                writeln!(out, "{category:<14} {name:<36} {operation}")?;
            }
        }
        Ok(())
    })?;
    Ok(Exit::Ok)
}
