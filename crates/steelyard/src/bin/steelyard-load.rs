//! `steelyard-load`: puts load on a server and tells what came back.

use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Parser, ValueEnum};
use steelyard::{Exit, Failure, args};
use steelyard_launch::{die_with_parent, pin_to_cpus};
use steelyard_load::progress::Progress;
use steelyard_load::schedule::Arrival;
use steelyard_load::workload::{GET, SET};
use steelyard_load::{IoChoice, LoadError, Protocol, Settings, Sizes, Surroundings};

/// Puts load on a server, on schedule, and tells throughput and latency.
#[derive(Debug, Parser)]
#[command(name = "steelyard-load", version)]
struct Arguments {
    /// Protocol to speak
    #[arg(long, value_enum, default_value = "memcached")]
    protocol: ProtocolArgument,
    /// Server, as ADDRESS:PORT
    #[arg(long, value_name = "ADDR:PORT")]
    target: String,
    /// Generator threads
    #[arg(long, default_value_t = 1)]
    threads: u32,
    /// Connections over all threads
    #[arg(long, default_value_t = 16)]
    connections: u32,
    /// Requests in flight per connection at most
    #[arg(long, default_value_t = 1)]
    depth: u32,
    /// Requests per second over all threads; without it, each answer makes the next request (closed loop)
    #[arg(long, value_name = "PER_SECOND")]
    rate: Option<f64>,
    /// How requests arrive at a given rate
    #[arg(long, value_enum, default_value = "poisson")]
    arrival: ArrivalArgument,
    /// Length of the measure phase
    #[arg(long, value_parser = args::duration, default_value = "10s")]
    duration: Duration,
    /// Load before it that is not counted; with --hold at least this much
    #[arg(long, value_parser = args::duration, default_value = "2s")]
    warmup: Duration,
    /// How long to wait for answers at the end
    #[arg(long, value_parser = args::duration, default_value = "2s")]
    drain: Duration,
    /// Length of an interval of the series
    #[arg(long, value_parser = args::duration, default_value = "1s", hide = true)]
    interval: Duration,
    /// Seed: the same seed gives the same requests
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of keys
    #[arg(long, default_value_t = 100_000)]
    keys: u64,
    /// Which keys are asked for: uniform or zipf:EXPONENT
    #[arg(long, value_name = "LAW", default_value = "uniform")]
    key_distribution: String,
    /// Key sizes: bytes, or a distribution file
    #[arg(long, value_name = "N|FILE.json", default_value = "32")]
    key_sizes: String,
    /// Value sizes: bytes, or a distribution file
    #[arg(long, value_name = "N|FILE.json", default_value = "200")]
    value_sizes: String,
    /// Share of requests that store, 0 to 1
    #[arg(long, value_name = "RATIO", default_value_t = 0.0)]
    set_ratio: f64,
    /// Before the load, store every key once (set), or ask for every key once (get)
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "set")]
    prefill: Option<PrefillArgument>,
    /// CPUs to run on, such as 0-3,8; thread i gets the i-th
    #[arg(long, value_name = "LIST")]
    cpus: Option<String>,
    /// How bytes are moved
    #[arg(long, value_enum, default_value = "auto")]
    io: IoArgument,
    /// Write an HdrHistogram interval log (V2) with the tags response, service, lag
    #[arg(long, value_name = "FILE")]
    hlog: Option<PathBuf>,
    /// Write the result (JSON) to a file
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the result (JSON) to standard output
    #[arg(long)]
    json: bool,
    /// Progress lines on standard error
    #[arg(long, value_enum, default_value = "text")]
    progress: ProgressArgument,
    /// Stay in warm-up until the line `measure` comes on standard input
    #[arg(long)]
    hold: bool,
    /// Most requests waiting or in flight in an open loop; more are counted as unsent
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    max_outstanding: u64,
    /// End with the process that started this one
    #[arg(long, hide = true)]
    die_with_parent: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ProtocolArgument {
    Memcached,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ArrivalArgument {
    Constant,
    Poisson,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum PrefillArgument {
    Set,
    Get,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum IoArgument {
    Auto,
    Uring,
    Epoll,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ProgressArgument {
    Json,
    Text,
    None,
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

fn settings(arguments: &Arguments) -> Result<Settings, Failure> {
    let usage = |error: LoadError| Failure::new(Exit::Usage, error);
    let cpus = arguments
        .cpus
        .as_deref()
        .map(args::cpu_list)
        .transpose()
        .map_err(|why| {
            usage(LoadError::Setting {
                name: "--cpus",
                why,
            })
        })?;
    let ns = |duration: Duration| {
        u64::try_from(duration.as_nanos())
            .unwrap_or(u64::MAX / 4)
            .min(u64::MAX / 4)
    };
    let settings = Settings {
        protocol: match arguments.protocol {
            ProtocolArgument::Memcached => Protocol::Memcached,
        },
        target: resolve(&arguments.target).map_err(usage)?,
        threads: arguments.threads,
        connections: arguments.connections,
        depth: arguments.depth,
        rate_per_s: arguments.rate,
        arrival: match arguments.arrival {
            ArrivalArgument::Constant => Arrival::Constant,
            ArrivalArgument::Poisson => Arrival::Poisson,
        },
        warmup_ns: ns(arguments.warmup),
        duration_ns: ns(arguments.duration),
        drain_ns: ns(arguments.drain),
        interval_ns: ns(arguments.interval),
        seed: arguments.seed,
        keys: arguments.keys,
        key_distribution: arguments.key_distribution.clone(),
        key_sizes: Sizes::parse(&arguments.key_sizes).map_err(usage)?,
        value_sizes: Sizes::parse(&arguments.value_sizes).map_err(usage)?,
        set_ratio: arguments.set_ratio,
        prefill: arguments.prefill.map(|prefill| match prefill {
            PrefillArgument::Set => SET,
            PrefillArgument::Get => GET,
        }),
        cpus: cpus.unwrap_or_default(),
        pin: pin_to_cpus,
        io: match arguments.io {
            IoArgument::Auto => IoChoice::Auto,
            IoArgument::Uring => IoChoice::Uring,
            IoArgument::Epoll => IoChoice::Epoll,
        },
        hold: arguments.hold,
        max_outstanding: arguments.max_outstanding,
    };
    settings.check().map_err(usage)?;
    Ok(settings)
}

fn resolve(target: &str) -> Result<SocketAddr, LoadError> {
    let wrong = |why: String| LoadError::Setting {
        name: "--target",
        why,
    };
    let mut addresses = target
        .to_socket_addrs()
        .map_err(|error| wrong(format!("{target:?} is not ADDRESS:PORT: {error}")))?;
    addresses
        .next()
        .ok_or_else(|| wrong(format!("{target:?} has no address")))
}

/// The exit code and the advice that go with an error.
fn failure(error: LoadError) -> Failure {
    let (exit, hint) = match &error {
        LoadError::Setting { .. } | LoadError::Distribution { .. } => (Exit::Usage, None),
        LoadError::Connect { .. } => (Exit::Environment, Some("is the server running?")),
        LoadError::Environment { .. } => (
            Exit::Environment,
            Some("try --io epoll or fewer threads and connections"),
        ),
        LoadError::Prefill { .. } => (
            Exit::Failed,
            Some("is the server large enough for the keys?"),
        ),
        LoadError::File { .. } | LoadError::Io { .. } | LoadError::Thread { .. } => {
            (Exit::Failed, None)
        }
    };
    let failure = Failure::new(exit, error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

fn body() -> Result<Exit, Failure> {
    // Read before anything else: a parent that ends later is noticed by the change.
    // SAFETY: getppid has no preconditions.
    let parent = unsafe { libc::getppid() };
    let arguments = Arguments::parse();
    if arguments.die_with_parent {
        die_with_parent(libc::SIGKILL, parent)?;
    }
    catch_signals();
    let settings = settings(&arguments)?;
    if !settings.cpus.is_empty() {
        pin_to_cpus(&settings.cpus).map_err(|source| {
            failure(LoadError::Environment {
                what: "--cpus".to_owned(),
                source,
            })
        })?;
    }
    let surroundings = Surroundings {
        command: std::env::args().collect(),
        hlog: arguments.hlog.clone(),
        progress: match arguments.progress {
            ProgressArgument::Json => Progress::Json,
            ProgressArgument::Text => Progress::Text,
            ProgressArgument::None => Progress::None,
        },
        stop: &STOP,
        input: arguments
            .hold
            .then(|| Box::new(std::io::BufReader::new(std::io::stdin())) as _),
    };
    let result = steelyard_load::run(&settings, surroundings).map_err(failure)?;
    if let Some(path) = &arguments.output {
        steelyard_record::write_atomically(&result, path)?;
    }
    if arguments.json {
        let mut out = std::io::stdout().lock();
        serde_json::to_writer(&mut out, &result)?;
        writeln!(out)?;
    } else if !matches!(arguments.progress, ProgressArgument::Json) {
        report(&result);
    }
    Ok(if result.interrupted {
        Exit::Failed
    } else {
        Exit::Ok
    })
}

/// A short table for a person.
fn report(result: &steelyard_record::LoadResult) {
    let us =
        |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.1}", ns as f64 / 1e3));
    println!("throughput  {:.0} requests/s", result.throughput_per_s);
    for (name, latency) in [
        ("response", &result.latency.response),
        ("service", &result.latency.service),
        ("lag", &result.latency.lag),
    ] {
        println!(
            "{name:<10}  p50 {} us  p99 {} us  p99.9 {} us  max {} us",
            us(latency.p50_ns),
            us(latency.p99_ns),
            us(latency.p999_ns),
            us(latency.max_ns)
        );
    }
    println!(
        "verdict     {}",
        serde_json::json!(result.verdict.level)
            .as_str()
            .unwrap_or_default()
    );
    for check in result
        .verdict
        .checks
        .iter()
        .filter(|check| check.level != steelyard_record::Level::Valid)
    {
        println!("            {}: {}", check.id, check.claim);
    }
}

fn main() -> ExitCode {
    steelyard::run("steelyard-load", body)
}
