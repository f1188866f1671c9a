//! `steelyard-profile`: samples stacks, turns profiles of other programs into folded stacks and pprof, and lists
//! the functions of programs.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::Serialize;
use steelyard::{Exit, Failure, args, output, run};
use steelyard_profile::names::printable;
use steelyard_profile::record::{CallGraph, Recorded, SampledEvent, Scope, Settings, record};
use steelyard_profile::unwind::Processor;
use steelyard_profile::{
    Format, Profile, ProfileError, Wanted, Weight, folded, input, list_functions, pprof,
};

/// Record profiles, and convert perf.data, perf script text and pprof to folded stacks or pprof.
#[derive(Parser)]
#[command(name = "steelyard-profile", version)]
struct Cli {
    #[command(subcommand)]
    command: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Record a profile of a command, processes, a control group or the whole machine.
    #[command(after_help = steelyard::examples!(
        "steelyard-profile record --output profile.pb.gz -- ./program",
        "steelyard-profile record --all --duration 10s --folded profile.folded",
    ))]
    Record(Record),
    /// Write a profile as folded stacks: `command;root;...;leaf COUNT`.
    #[command(after_help = steelyard::examples!(
        "steelyard-profile fold perf.data",
        "steelyard-profile fold --from script - --output profile.folded",
    ))]
    Fold(Fold),
    /// Write a profile as pprof.
    #[command(after_help = steelyard::examples!(
        "steelyard-profile pprof perf.data --output profile.pb.gz",
        "steelyard-profile pprof perf.data --event cycles --output profile.pb.gz",
    ))]
    Pprof(Convert),
    /// List a program's functions by file offset, as one line of JSON for `steelyard fleet symbols add`.
    #[command(after_help = steelyard::examples!(
        "steelyard-profile symbols /usr/bin/program",
        "steelyard-profile symbols ./libwork.so",
    ))]
    Symbols {
        /// Program or library with a build id, not stripped or with its debug file installed.
        binary: PathBuf,
    },
}

#[derive(Args)]
struct Record {
    /// Sample this process with its threads and children; repeatable.
    #[arg(long, value_delimiter = ',', conflicts_with_all = ["cgroup", "all"])]
    pid: Vec<u32>,
    /// Sample a control group: its directory below /sys/fs/cgroup.
    #[arg(long, conflicts_with = "all")]
    cgroup: Option<PathBuf>,
    /// Sample all CPUs.
    #[arg(long)]
    all: bool,
    /// Keep only samples of processes that descend from this one; commands are written as CHILD/COMMAND, where CHILD is
    /// the child of PID that the process descends from.
    #[arg(long, value_name = "PID")]
    descendants_of: Option<u32>,
    /// With --descendants-of: write commands as they are.
    #[arg(long, requires = "descendants_of")]
    plain_commands: bool,
    /// Event to sample instead of CPU time, as cache-misses, page-faults, LLC-load-misses or r1a2b; folded stacks then
    /// count its occurrences.
    #[arg(long)]
    event: Option<String>,
    /// Samples per second on each busy CPU. The default avoids lockstep with work on millisecond timers.
    #[arg(long, default_value_t = 99, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    hz: u32,
    /// Time to sample.
    #[arg(long, value_parser = args::duration)]
    duration: Option<Duration>,
    /// How to unwind stacks.
    #[arg(long, value_enum, default_value = "fp")]
    call_graph: Chains,
    /// Bytes to copy of each stack for --call-graph dwarf.
    #[arg(long, default_value_t = 16_384, value_parser = clap::value_parser!(u16).range(1024..=65_000))]
    stack_bytes: u16,
    /// Keep samples of idle CPUs.
    #[arg(long)]
    with_idle: bool,
    /// Do not read the stacks of Python functions (CPython 3.9 to 3.13) from programs' memory.
    #[arg(long)]
    native: bool,
    /// Name functions with the line of the source, as `main (main.c:12)`, where debug information has it.
    #[arg(long)]
    lines: bool,
    /// Write pprof to this file.
    #[arg(long, short)]
    output: Option<PathBuf>,
    /// Write folded stacks to this file [default: standard output, without --output].
    #[arg(long)]
    folded: Option<PathBuf>,
    /// Write when each sample was taken to this file, with the number of its folded stack.
    #[arg(long)]
    times: Option<PathBuf>,
    /// Print a summary of the recording as one line of JSON.
    #[arg(long)]
    json: bool,
    /// Command to run, and to sample unless a target is given; the recording ends with it.
    #[arg(last = true)]
    command: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Chains {
    /// Follow frame pointers.
    Fp,
    /// Copy the stacks and unwind them with DWARF information.
    Dwarf,
    /// Record only the instruction pointer.
    None,
}

#[derive(Args)]
struct Convert {
    /// Profile to read; `-` for standard input.
    input: PathBuf,
    /// Format of the profile.
    #[arg(long, value_enum, default_value = "auto")]
    from: From,
    /// Event whose samples are used [default: the first that was recorded], or type of pprof's values [default: the
    /// one that pprof shows].
    #[arg(long)]
    event: Option<String>,
    /// Folder that stands for the root of the machine that was recorded: names come from the files below it.
    #[arg(long, value_name = "DIR")]
    symfs: Option<PathBuf>,
    /// Name functions with the line of the source, as `main (main.c:12)`, where it is known.
    #[arg(long)]
    lines: bool,
    /// File to write [default: standard output].
    #[arg(long, short)]
    output: Option<PathBuf>,
}

#[derive(Args)]
struct Fold {
    #[command(flatten)]
    convert: Convert,
    /// Meaning of COUNT; pprof has both.
    #[arg(long, value_enum, default_value = "auto")]
    weight: Weights,
}

#[derive(Clone, Copy, ValueEnum)]
enum Weights {
    /// Sum of periods if they differ, as with a sampling frequency, else samples.
    Auto,
    /// Samples.
    Samples,
    /// Sum of the samples' periods: occurrences of the event, ns for clocks.
    Period,
}

impl std::convert::From<Weights> for Weight {
    fn from(weights: Weights) -> Self {
        match weights {
            Weights::Auto => Self::Auto,
            Weights::Samples => Self::Samples,
            Weights::Period => Self::Period,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum From {
    /// Detect the format.
    Auto,
    /// Text of `perf script`.
    Script,
    /// File of `perf record`.
    PerfData,
    /// pprof.
    Pprof,
}

impl std::convert::From<From> for Format {
    fn from(from: From) -> Self {
        match from {
            From::Auto => Self::Auto,
            From::Script => Self::Script,
            From::PerfData => Self::PerfData,
            From::Pprof => Self::Pprof,
        }
    }
}

/// What `record --json` prints.
#[derive(Serialize)]
struct Outcome<'a> {
    event: Option<&'a str>,
    hz: Option<f64>,
    scope: Option<&'a str>,
    duration_s: Option<f64>,
    cpus: Option<u64>,
    samples: u64,
    stacks: usize,
    idle_samples: Option<u64>,
    lost_samples: Option<u64>,
    user_stacks: Option<u64>,
    cut_stacks: Option<u64>,
    recorder_cpu_s: Option<f64>,
    naming_cpu_s: Option<f64>,
    end_reason: &'a str,
    command_exit: Option<i32>,
    pprof: Option<&'a Path>,
    folded: Option<&'a Path>,
    reasons: &'a [String],
}

fn main() -> ExitCode {
    let cli: Cli = steelyard::parse();
    run("steelyard-profile", || match cli.command {
        Verb::Record(arguments) => run_record(arguments),
        Verb::Fold(arguments) => fold(&arguments),
        Verb::Pprof(arguments) => {
            let profile = read(&arguments)?;
            write_pprof(&profile, 0, arguments.output.as_deref())?;
            note_nothing(&profile)
        }
        Verb::Symbols { binary } => print_symbols(&binary),
    })
}

/// What `symbols` prints.
#[derive(Serialize)]
struct Symbols<'a> {
    build_id: &'a str,
    module: &'a str,
    /// Offset in the file, bytes, name.
    symbols: Vec<(u64, u64, &'a str)>,
}

fn print_symbols(binary: &Path) -> Result<Exit, Failure> {
    let listed = list_functions(binary).map_err(failure)?;
    let symbols = listed.functions.iter();
    let document = Symbols {
        build_id: &listed.build_id,
        module: &listed.module,
        symbols: symbols
            .map(|one| (one.offset, one.bytes, one.name.as_str()))
            .collect(),
    };
    output::print_json(&document)?;
    Ok(Exit::Ok)
}

fn fold(arguments: &Fold) -> Result<Exit, Failure> {
    let convert = &arguments.convert;
    let profile = read(convert)?;
    let by_period = profile
        .is_by_period(arguments.weight.into())
        .map_err(|reason| {
            let name = convert.input.display();
            let error = anyhow::anyhow!("{name}: {reason}");
            Failure::new(Exit::No, error).hint("--weight samples")
        })?;
    write(convert.output.as_deref(), |out| {
        folded::write_weighted(&profile, by_period, out)
    })?;
    note_nothing(&profile)
}

fn read(arguments: &Convert) -> Result<Profile, Failure> {
    let wanted = Wanted {
        event: arguments.event.as_deref(),
        symfs: arguments.symfs.as_deref(),
        lines: arguments.lines,
    };
    input::read(&arguments.input, arguments.from.into(), &wanted).map_err(failure)
}

/// An input without samples is an answer, and not the one that was hoped for.
fn note_nothing(profile: &Profile) -> Result<Exit, Failure> {
    if profile.stacks.is_empty() {
        let reasons = profile.head.reasons.join("; ");
        let reasons = if reasons.is_empty() {
            "it holds none".to_owned()
        } else {
            reasons
        };
        return Err(Failure::new(
            Exit::No,
            anyhow::anyhow!("no samples: {reasons}"),
        ));
    }
    Ok(Exit::Ok)
}

fn scope(arguments: &Record) -> Result<Scope, Failure> {
    if arguments.all {
        return Ok(Scope::All);
    }
    if let Some(path) = &arguments.cgroup {
        return Ok(Scope::Cgroup(path.clone()));
    }
    if !arguments.pid.is_empty() {
        return Ok(Scope::Processes(arguments.pid.clone()));
    }
    if arguments.command.is_empty() {
        let error = anyhow::anyhow!("nothing to sample");
        return Err(
            Failure::new(Exit::Usage, error).hint("--all, --pid, --cgroup, or a command after --")
        );
    }
    Ok(Scope::Command)
}

fn run_record(arguments: Record) -> Result<Exit, Failure> {
    let call_graph = match arguments.call_graph {
        Chains::Fp => CallGraph::FramePointers,
        Chains::None => CallGraph::None,
        Chains::Dwarf if Processor::native().is_none() => {
            let error = anyhow::anyhow!("stacks of this kind of processor are not unwound");
            return Err(Failure::new(Exit::Environment, error).hint("--call-graph fp"));
        }
        // The kernel takes whole words.
        Chains::Dwarf => CallGraph::Dwarf {
            stack_bytes: arguments.stack_bytes & !7,
        },
    };
    let event = arguments.event.as_deref().map(SampledEvent::named);
    let event = event
        .transpose()
        .map_err(|reason| Failure::new(Exit::Usage, anyhow::anyhow!(reason)).hint("perf list"))?;
    let settings = Settings {
        scope: scope(&arguments)?,
        event,
        descendants_of: arguments.descendants_of,
        plain_commands: arguments.plain_commands,
        hz: arguments.hz,
        duration: arguments.duration,
        call_graph,
        with_idle: arguments.with_idle,
        interpreted: !arguments.native,
        lines: arguments.lines,
        keeps_times: arguments.times.is_some(),
        command: arguments.command.clone(),
    };
    let recorded = record(&settings).map_err(failure)?;
    let (output, text) = (arguments.output.as_deref(), arguments.folded.as_deref());
    if let Some(path) = output {
        write_pprof(&recorded.profile, recorded.begin_realtime_ns, Some(path))?;
    }
    if text.is_some() || (output.is_none() && !arguments.json) {
        let weight = if settings.event.is_some() {
            Weight::Auto
        } else {
            Weight::Samples
        };
        write_folded(&recorded.profile, weight, text)?;
    }
    if let (Some(path), Some(times)) = (&arguments.times, &recorded.profile.times) {
        write(Some(path), |out| times.write(out))?;
    }
    if arguments.json {
        output::print_json(&outcome(&recorded, output, text))?;
    } else {
        eprintln!("{}", summary(&recorded.profile));
    }
    match recorded.command_exit {
        Some(code) if code != 0 && recorded.end_reason == "command" => {
            let error = anyhow::anyhow!("the command ended with {code}; the profile is complete");
            Err(Failure::new(Exit::Failed, error))
        }
        _ => Ok(Exit::Ok),
    }
}

fn outcome<'a>(
    recorded: &'a Recorded,
    pprof: Option<&'a Path>,
    folded: Option<&'a Path>,
) -> Outcome<'a> {
    let profile = &recorded.profile;
    let head = &profile.head;
    Outcome {
        event: head.event.as_deref(),
        hz: head.hz,
        scope: head.scope.as_deref(),
        duration_s: head.duration_s,
        cpus: head.cpus,
        samples: profile.stacks.samples(),
        stacks: profile.stacks.len(),
        idle_samples: head.idle,
        lost_samples: head.lost,
        user_stacks: head.user_stacks,
        cut_stacks: head.cut_stacks,
        recorder_cpu_s: head.recorder_cpu_s,
        naming_cpu_s: head.naming_cpu_s,
        end_reason: recorded.end_reason,
        command_exit: recorded.command_exit,
        pprof,
        folded,
        reasons: &head.reasons,
    }
}

/// One line for a person, on standard error.
fn summary(profile: &Profile) -> String {
    let head = &profile.head;
    let samples = profile.stacks.samples();
    let (event, seconds) = (
        head.event.as_deref().unwrap_or("?"),
        head.duration_s.unwrap_or(0.0),
    );
    let lost = head
        .lost
        .filter(|&lost| lost > 0)
        .map(|lost| format!(", {lost} lost"))
        .unwrap_or_default();
    let reasons: String = head
        .reasons
        .iter()
        .map(|reason| format!("; {reason}"))
        .collect();
    let line = format!("{samples} samples of {event} in {seconds:.1} s{lost}{reasons}");
    printable(&line).into_owned()
}

/// Counts samples of CPU time, and occurrences of an event that was asked for.
fn write_folded(profile: &Profile, weight: Weight, path: Option<&Path>) -> Result<(), Failure> {
    let by_period = profile.is_by_period(weight).unwrap_or(false);
    write(path, |out| folded::write_weighted(profile, by_period, out))
}

fn write_pprof(profile: &Profile, realtime_ns: u64, path: Option<&Path>) -> Result<(), Failure> {
    write(path, |out| pprof::write(profile, realtime_ns, out))
}

/// Writes to standard output, or to a file that appears under its name only when it is complete.
fn write(
    path: Option<&Path>,
    content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Failure> {
    let Some(path) = path.filter(|path| path.as_os_str() != "-") else {
        return output::print(content);
    };
    steelyard_record::write_whole(path, content).map_err(|source| {
        let path = path.to_owned();
        failure(ProfileError::Write { path, source })
    })
}

/// The exit code and the advice that belong to `error`.
fn failure(error: ProfileError) -> Failure {
    let (exit, hint) = match &error {
        ProfileError::Read { .. }
        | ProfileError::Malformed { .. }
        | ProfileError::Target { .. } => (Exit::Usage, None),
        ProfileError::Refused { hint, .. } => (Exit::Environment, Some(hint.clone())),
        ProfileError::Write { .. } | ProfileError::Command { .. } | ProfileError::System { .. } => {
            (Exit::Environment, None)
        }
    };
    let failure = Failure::new(exit, error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
