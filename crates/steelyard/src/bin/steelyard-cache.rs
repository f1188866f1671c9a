//! `steelyard-cache`: TaoBench's read-through cache, behind the memcached text protocol.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use steelyard::output::print_json;
use steelyard::{Exit, Failure, args};
use steelyard_cache::{
    CacheError, Delay, Io, Objects, Pinning, ReadThrough, Server, Settings, Sizes, StatsFile,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Fill misses from the simulated backend, as TaoBench does.
    ReadThrough,
    /// Answer misses as memcached does.
    LookAside,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum IoModel {
    /// io_uring if the kernel allows it, else epoll.
    Auto,
    /// io_uring.
    Uring,
    /// epoll.
    Epoll,
}

/// Serve a cache with memcached's text protocol.
#[derive(Debug, Parser)]
#[command(name = "steelyard-cache", version, after_help = steelyard::examples!(
    "steelyard-cache --memory 1GiB --fast-threads 4",
    "steelyard-cache --listen 127.0.0.1:0 --mode read-through --backend-delay constant:50us",
))]
struct Arguments {
    /// Address and port to listen on; port 0 picks a free one
    #[arg(long, default_value = "127.0.0.1:11211")]
    listen: String,
    /// Threads that own connections and answer hits
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    fast_threads: u16,
    /// Threads that fill misses in read-through mode [default: 3 for each fast thread]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=4096))]
    slow_threads: Option<u16>,
    /// Limit of stored bytes: keys, values and their metadata
    #[arg(long, default_value = "64MiB", value_parser = args::bytes)]
    memory: u64,
    /// Handling of misses
    #[arg(long, value_enum, default_value_t = Mode::LookAside)]
    mode: Mode,
    /// Maximum open connections; more are refused as by memcached
    #[arg(long, default_value_t = 16_384)]
    max_connections: usize,
    /// Limit of connection buffers (partial values, waiting answers); beyond it the longest idle connections are
    /// closed [default: an eighth of --memory, at least 64MiB]
    #[arg(long, value_parser = args::bytes)]
    connection_memory: Option<u64>,
    /// Close a connection that pauses for this long within a request; 0 for never
    #[arg(long, default_value = "60s", value_parser = args::duration)]
    request_timeout: Duration,
    /// Maximum size of a value
    #[arg(long, default_value = "1MiB", value_parser = args::bytes)]
    max_value_size: u64,
    /// Seed for objects and delays
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Delay of the simulated backend: none, constant:50us, exponential:MEAN or lognormal:MEDIAN:SIGMA
    #[arg(long, default_value = "none")]
    backend_delay: Delay,
    /// File with the distribution of object sizes [default: 326 bytes each]
    #[arg(long)]
    object_sizes: Option<PathBuf>,
    /// Compressed size of an object over its original size, above 0 and at most 1
    #[arg(long, default_value_t = 0.5, value_parser = ratio)]
    compressibility: f64,
    // `Vec` by its path, because clap takes a bare one for an option that is given several times.
    /// CPUs to run on, such as 0-3,8
    #[arg(long, value_parser = args::cpu_list)]
    cpus: Option<std::vec::Vec<usize>>,
    /// Pin thread n of each pool to the n-th CPU, round robin
    #[arg(long)]
    pin_threads: bool,
    /// I/O interface
    #[arg(long, value_enum, default_value_t = IoModel::Auto)]
    io: IoModel,
    /// File for statistics: one line per interval and one at the end
    #[arg(long)]
    stats_out: Option<PathBuf>,
    /// Time between lines of statistics
    #[arg(long, default_value = "1s", value_parser = args::duration)]
    stats_interval: Duration,
    /// Check the arguments and the files they name, and exit
    #[arg(long, hide = true)]
    check: bool,
    /// End when the parent process ends
    #[arg(long, hide = true)]
    die_with_parent: bool,
}

fn ratio(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(value) if value > 0.0 && value <= 1.0 => Ok(value),
        _ => Err(format!("{text:?} is not above 0 and at most 1")),
    }
}

/// Least bound on what connections hold unless it is given.
const CONNECTION_BYTES: u64 = 64 << 20;
/// The mean of TaoBench's objects.
const OBJECT_BYTES: usize = 326;

fn failure(error: CacheError) -> Failure {
    let (exit, hint) = match &error {
        CacheError::Listen { .. } => (
            Exit::Environment,
            "stop what listens there, or pass --listen 127.0.0.1:0 for a free port",
        ),
        CacheError::MemoryTooSmall { .. } => {
            (Exit::Usage, "raise --memory or lower --max-value-size")
        }
        CacheError::CgroupTooSmall(_) => (Exit::Environment, "lower --memory or raise that limit"),
        CacheError::ObjectSizes { .. } => (
            Exit::Usage,
            "pass a file such as data/tao/object-sizes.json",
        ),
        CacheError::System { .. } => (Exit::Environment, "see ulimit -a and the kernel's settings"),
        CacheError::StatsFile { .. } => (Exit::Failed, "see --stats-out"),
    };
    Failure::new(exit, error).hint(hint)
}

/// Where threads stay, on the CPUs that the process may use.
fn pinning(is_pinned: bool) -> Result<Option<Pinning>, Failure> {
    let pin = steelyard_launch::pin_to_cpus;
    Ok(is_pinned
        .then(steelyard_launch::usable_cpus)
        .transpose()?
        .map(|cpus| Pinning { pin, cpus }))
}

fn settings(arguments: Arguments) -> Result<Settings, Failure> {
    let read_through = match arguments.mode {
        Mode::LookAside => None,
        Mode::ReadThrough => {
            let sizes = match &arguments.object_sizes {
                Some(path) => Sizes::read(path).map_err(failure)?,
                None => Sizes::constant(OBJECT_BYTES),
            };
            let objects = Objects::new(sizes, arguments.compressibility, arguments.seed);
            if objects.largest_bytes() as u64 > arguments.max_value_size {
                let error = anyhow::anyhow!(
                    "objects of up to {} bytes do not fit into values of {} bytes",
                    objects.largest_bytes(),
                    arguments.max_value_size
                );
                return Err(Failure::new(Exit::Usage, error).hint("raise --max-value-size"));
            }
            let slow_threads = arguments.slow_threads.unwrap_or(3 * arguments.fast_threads);
            Some(ReadThrough {
                slow_threads: usize::from(slow_threads),
                objects,
                delay: arguments.backend_delay,
                seed: arguments.seed,
            })
        }
    };
    Ok(Settings {
        pinning: pinning(arguments.pin_threads)?,
        listen: arguments.listen,
        fast_threads: usize::from(arguments.fast_threads),
        memory_bytes: arguments.memory,
        max_value_bytes: arguments.max_value_size as usize,
        max_connections: arguments.max_connections,
        connection_memory_bytes: arguments
            .connection_memory
            .unwrap_or((arguments.memory / 8).max(CONNECTION_BYTES)),
        request_timeout: Some(arguments.request_timeout).filter(|timeout| !timeout.is_zero()),
        read_through,
        io: match arguments.io {
            IoModel::Auto => Io::Auto,
            IoModel::Uring => Io::Uring,
            IoModel::Epoll => Io::Epoll,
        },
        stats_file: arguments.stats_out.map(|path| StatsFile {
            path,
            interval: arguments.stats_interval,
        }),
    })
}

fn body(arguments: Arguments) -> Result<Exit, Failure> {
    if arguments.die_with_parent {
        // SAFETY: getppid has no preconditions.
        let parent = unsafe { libc::getppid() };
        steelyard_launch::die_with_parent(libc::SIGKILL, parent)?;
    }
    if let Some(cpus) = &arguments.cpus {
        steelyard_launch::pin_to_cpus(cpus).map_err(|error| {
            Failure::new(
                Exit::Environment,
                anyhow::anyhow!("cannot run on CPUs {cpus:?}: {error}"),
            )
            .hint("see which are online in /sys/devices/system/cpu/online")
        })?;
    }
    if arguments.check {
        settings(arguments)?.check().map_err(failure)?;
        return Ok(Exit::Ok);
    }
    let server = Server::new(settings(arguments)?).map_err(failure)?;
    let ready = serde_json::json!({
        "event": "ready",
        "listen": server.address().map_err(failure)?.to_string(),
        "pid": std::process::id(),
        "monotonic_ns": steelyard_record::monotonic_ns(),
    });
    // The server serves also without a reader.
    let _ = print_json(&ready);
    server.run().map_err(failure)?;
    Ok(Exit::Ok)
}

fn main() -> ExitCode {
    let arguments: Arguments = steelyard::parse();
    steelyard::run("steelyard-cache", || body(arguments))
}
