//! `steelyard-rank`: FeedSim's ranking service, a root and its leaves, over Thrift and TLS.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use steelyard::output::print_json;
use steelyard::{Exit, Failure, args};
use steelyard_rank::{
    Compression, Delay, FanoutSettings, Identity, LeafWork, Listener, Pinning, RankError, RootWork,
    Settings, StatsFile,
};

/// Serve feed ranking: a root calls leaves and answers any Thrift client (idl/rank.thrift).
#[derive(Debug, Parser)]
#[command(name = "steelyard-rank", version, args_override_self = true)]
struct Arguments {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Serve rank(): all stages of a request, including calls to leaves.
    #[command(after_help = steelyard::examples!(
        "steelyard-rank root --leaf 127.0.0.1:9001 --tls-dir certificates",
        "steelyard-rank root --leaf 127.0.0.1:9001 --leaf 127.0.0.1:9002 --no-tls --workers 32",
    ))]
    Root(Box<RootArguments>),
    /// Serve score(): first scores for the stories of one shard, after a simulated backend delay.
    #[command(after_help = steelyard::examples!(
        "steelyard-rank leaf --listen 127.0.0.1:9001 --tls-dir certificates",
        "steelyard-rank leaf --no-tls --delay exponential:20ms",
    ))]
    Leaf(Box<LeafArguments>),
}

/// What root and leaf have in common.
#[derive(Debug, Args)]
struct Common {
    /// Address and port to listen on; port 0 picks a free one
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: String,
    /// Threads that own connections [default: one for each 4 CPUs]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    io_threads: Option<u16>,
    /// Threads that work on requests [default: root 16, leaf 2 for each CPU]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=8192))]
    workers: Option<u16>,
    /// Maximum requests waiting for a worker; more are refused [default: root 4, leaf 64 for each worker]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    queue: Option<u32>,
    /// Maximum open connections
    #[arg(long, default_value_t = 16_384)]
    max_connections: usize,
    /// Maximum size of a client's frame
    #[arg(long, default_value = "1MiB", value_parser = args::bytes)]
    max_frame: u64,
    /// Maximum pause of a client within a frame or a handshake
    #[arg(long, default_value = "10s", value_parser = args::duration)]
    stall_timeout: Duration,
    /// Folder for generated certificates: ca.pem for clients, server.pem and server.key; existing ones are kept
    #[arg(long, required_unless_present_any = ["no_tls", "tls_cert"], conflicts_with_all = ["no_tls", "tls_cert"])]
    tls_dir: Option<PathBuf>,
    /// Certificate chain, PEM, instead of a generated one
    #[arg(long, requires = "tls_key", conflicts_with = "no_tls")]
    tls_cert: Option<PathBuf>,
    /// Private key of --tls-cert, PEM
    #[arg(long, requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Serve without TLS
    #[arg(long)]
    no_tls: bool,
    // `Vec` by its path, because clap takes a bare one for an option that is given several times.
    /// CPUs to run on, such as 0-3,8 [default: this instance's share of those it may use]
    #[arg(long, value_parser = args::cpu_list)]
    cpus: Option<std::vec::Vec<usize>>,
    /// Pin thread n of each pool to the n-th CPU, round robin
    #[arg(long)]
    pin_threads: bool,
    /// Index and number of processes of this role, such as 0/2 for the first of two
    #[arg(long, default_value = "0/1", value_parser = instance)]
    instance: (u32, u32),
    /// Seed for tables and delays
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// File for statistics: one line per interval and one at the end
    #[arg(long)]
    stats_out: Option<PathBuf>,
    /// Time between lines of statistics
    #[arg(long, default_value = "1s", value_parser = args::duration)]
    stats_interval: Duration,
    /// Check the arguments against this machine, and exit
    #[arg(long, hide = true)]
    check: bool,
    /// End when the parent process ends
    #[arg(long, hide = true)]
    die_with_parent: bool,
}

#[derive(Debug, Args)]
struct RootArguments {
    #[command(flatten)]
    common: Common,
    /// Address of a leaf; repeatable
    #[arg(long = "leaf", required = true)]
    leaves: Vec<String>,
    /// Certificate authority of the leaves, PEM [default: ca.pem of --tls-dir]
    #[arg(long)]
    leaf_ca: Option<PathBuf>,
    /// Name in the leaves' certificates
    #[arg(long, default_value = "localhost")]
    leaf_name: String,
    /// Connections to each leaf
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1024))]
    leaf_connections: u16,
    /// Timeout of a leaf's answer
    #[arg(long, default_value = "5s", value_parser = args::duration)]
    leaf_timeout: Duration,
    /// Timeout of connecting to the leaves at the start
    #[arg(long, default_value = "10s", value_parser = args::duration)]
    connect_timeout: Duration,
    /// Compression of blobs to and from leaves: none, snappy or zstd
    #[arg(long, default_value = "snappy")]
    leaf_compression: Compression,
    /// Threads that own the connections to leaves [default: one for each 4 CPUs]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    fan_out_threads: Option<u16>,
    /// Feature extractors in use, which set the instruction footprint [default: all in this build]
    #[arg(long)]
    feature_functions: Option<usize>,
    /// Calls of feature extractors per request
    #[arg(long, default_value_t = 32_768)]
    feature_calls: usize,
    /// Calls of leaves per request
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=4096))]
    fan_out: u16,
    /// Stories to score per call of a leaf
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    leaf_candidates: u32,
    /// Stories that each call returns for ranking
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    leaf_results: u32,
    /// Size of the table of embeddings
    #[arg(long, default_value = "256MiB", value_parser = args::bytes)]
    embedding_bytes: u64,
    /// Rows of the table to read per ranked story
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(0..=256))]
    embedding_lookups: u16,
    /// Width of the network's first hidden layer; the second has half
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=2048))]
    network_width: u16,
    /// Size of the graph of objects
    #[arg(long, default_value = "128MiB", value_parser = args::bytes)]
    graph_bytes: u64,
    /// Objects of the graph that a request visits in sequence
    #[arg(long, default_value_t = 5120)]
    chase_steps: usize,
    /// Stories in an answer, unless the request sets the number
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    stories: u16,
    /// Words per story
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u16).range(0..=10_000))]
    story_words: u16,
}

#[derive(Debug, Args)]
struct LeafArguments {
    #[command(flatten)]
    common: Common,
    /// Delay of the simulated backend: none, constant:50ms, exponential:MEAN or lognormal:MEDIAN:SIGMA
    #[arg(long, default_value = "none")]
    delay: Delay,
    /// Size of the table of stories
    #[arg(long, default_value = "64MiB", value_parser = args::bytes)]
    item_bytes: u64,
}

fn instance(text: &str) -> Result<(u32, u32), String> {
    let parts = text.split_once('/');
    match parts.map(|(index, count)| (index.parse::<u32>(), count.parse::<u32>())) {
        Some((Ok(index), Ok(count))) if index < count => Ok((index, count)),
        _ => Err(format!("{text:?} is not such as 0/2, the first of two")),
    }
}

fn failure(error: RankError) -> Failure {
    let (exit, hint) = match &error {
        RankError::Listen { .. } => (
            Exit::Environment,
            "stop what listens there, or pass --listen 127.0.0.1:0 for a free port",
        ),
        RankError::Leaf { .. } => (
            Exit::Environment,
            "start `steelyard-rank leaf` first and pass the address that it prints",
        ),
        RankError::CgroupTooSmall(_) => (
            Exit::Environment,
            "lower --embedding-bytes, --graph-bytes or --item-bytes, or raise that limit",
        ),
        RankError::TooLittleMemory(_) => (
            Exit::Environment,
            "lower --embedding-bytes, --graph-bytes or --item-bytes",
        ),
        RankError::FeatureFunctions { .. } => (
            Exit::Usage,
            "lower --feature-functions, or build with STEELYARD_FEATURE_FUNCTIONS set to more",
        ),
        RankError::Tls { .. } => (
            Exit::Environment,
            "see --tls-dir, --tls-cert, --tls-key and --leaf-ca",
        ),
        RankError::System { .. } => (Exit::Environment, "see ulimit -a and the kernel's settings"),
        RankError::StatsFile { .. } => (Exit::Failed, "see --stats-out"),
    };
    Failure::new(exit, error).hint(hint)
}

/// Binds the process to its parent and its CPUs; how many CPUs it has.
fn settle(common: &Common) -> Result<usize, Failure> {
    if common.die_with_parent {
        // SAFETY: getppid has no preconditions.
        let parent = unsafe { libc::getppid() };
        steelyard_launch::die_with_parent(libc::SIGKILL, parent)?;
    }
    let usable = steelyard_launch::usable_cpus()?;
    let cpus = match (&common.cpus, common.instance) {
        (Some(cpus), _) => cpus.clone(),
        // More instances than CPUs share them.
        (None, (index, count)) if (count as usize) <= usable.len() && count > 1 => {
            let bound = |part: u32| part as usize * usable.len() / count as usize;
            usable[bound(index)..bound(index + 1)].to_vec()
        }
        (None, _) => return Ok(usable.len()),
    };
    steelyard_launch::pin_to_cpus(&cpus).map_err(|error| {
        Failure::new(
            Exit::Environment,
            anyhow::anyhow!("cannot run on CPUs {cpus:?}: {error}"),
        )
        .hint("see which are online in /sys/devices/system/cpu/online")
    })?;
    Ok(cpus.len())
}

fn identity(common: &Common) -> Result<Option<Identity>, Failure> {
    if common.no_tls {
        return Ok(None);
    }
    if let (Some(certificate), Some(key)) = (&common.tls_cert, &common.tls_key) {
        return Ok(Some(Identity {
            certificate: certificate.clone(),
            key: key.clone(),
            authority: None,
        }));
    }
    let folder = common.tls_dir.as_ref().expect("clap asks for one of them");
    steelyard_rank::generated(folder).map(Some).map_err(failure)
}

fn settings(
    common: &Common,
    identity: Option<&Identity>,
    cpus: usize,
    workers_per_cpu: usize,
    queue_per_worker: usize,
) -> Result<Settings, Failure> {
    let workers = common.workers.map_or(workers_per_cpu * cpus, usize::from);
    let pin = steelyard_launch::pin_to_cpus;
    let pinning = common
        .pin_threads
        .then(steelyard_launch::usable_cpus)
        .transpose()?
        .map(|cpus| Pinning { pin, cpus });
    Ok(Settings {
        pinning,
        listen: common.listen.clone(),
        io_threads: common.io_threads.map_or(cpus.div_ceil(4), usize::from),
        workers,
        queue: common
            .queue
            .map_or(queue_per_worker * workers, |queue| queue as usize),
        max_connections: common.max_connections,
        frame_bytes_max: u32::try_from(common.max_frame).unwrap_or(u32::MAX),
        stall: common.stall_timeout,
        tls: identity
            .map(steelyard_rank::tls_server)
            .transpose()
            .map_err(failure)?,
        stats_file: common.stats_out.as_ref().map(|path| StatsFile {
            path: path.clone(),
            interval: common.stats_interval,
        }),
    })
}

/// Prints the line that says that the server is ready, and where.
fn say_ready(
    role: &str,
    address: &str,
    identity: Option<&Identity>,
    instance: (u32, u32),
    feature_code_bytes: Option<u64>,
    work: &BTreeMap<String, String>,
) {
    let ready = serde_json::json!({
        "event": "ready",
        "role": role,
        "listen": address,
        "pid": std::process::id(),
        "monotonic_ns": steelyard_record::monotonic_ns(),
        "instance": instance.0,
        "instances": instance.1,
        "tls_ca": identity.and_then(|identity| identity.authority.as_ref()),
        "feature_code_bytes": feature_code_bytes,
        "work": work,
    });
    // The server serves also without a reader.
    let _ = print_json(&ready);
}

fn run_leaf(arguments: &LeafArguments) -> Result<Exit, Failure> {
    let common = &arguments.common;
    let cpus = settle(common)?;
    let work = LeafWork {
        item_bytes: arguments.item_bytes,
        seed: common.seed,
        delay: arguments.delay,
    };
    if common.check {
        work.check().map_err(failure)?;
        return Ok(Exit::Ok);
    }
    let identity = identity(common)?;
    let settings = settings(common, identity.as_ref(), cpus, 2, 64)?;
    let listener = Listener::new(settings).map_err(failure)?;
    let address = listener.address().map_err(failure)?.to_string();
    steelyard_rank::leaf(listener, work, common.instance, |work| {
        say_ready(
            "leaf",
            &address,
            identity.as_ref(),
            common.instance,
            None,
            work,
        );
    })
    .map_err(failure)?;
    Ok(Exit::Ok)
}

fn run_root(arguments: &RootArguments) -> Result<Exit, Failure> {
    let common = &arguments.common;
    let cpus = settle(common)?;
    let work = root_work(arguments);
    if common.check {
        work.check().map_err(failure)?;
        return Ok(Exit::Ok);
    }
    let identity = identity(common)?;
    let authority = arguments.leaf_ca.clone().or_else(|| {
        identity
            .as_ref()
            .and_then(|identity| identity.authority.clone())
    });
    let leaf_tls = match (common.no_tls, authority) {
        (true, _) => None,
        (false, Some(authority)) => Some((authority, arguments.leaf_name.clone())),
        (false, None) => {
            let error = anyhow::anyhow!(
                "no certificate authority for the leaves: pass --leaf-ca or --tls-dir"
            );
            return Err(Failure::new(Exit::Usage, error).hint("pass --leaf-ca"));
        }
    };
    let fanout = FanoutSettings {
        leaves: arguments.leaves.clone(),
        connections: usize::from(arguments.leaf_connections),
        threads: arguments
            .fan_out_threads
            .map_or(cpus.div_ceil(4), usize::from),
        compression: arguments.leaf_compression,
        timeout: arguments.leaf_timeout,
        connect_timeout: arguments.connect_timeout,
        tls: leaf_tls,
    };
    let settings = settings(common, identity.as_ref(), cpus, 16, 4)?;
    let listener = Listener::new(settings).map_err(failure)?;
    let address = listener.address().map_err(failure)?.to_string();
    steelyard_rank::root(listener, work, &fanout, common.instance, |code, work| {
        let code = Some(code);
        say_ready(
            "root",
            &address,
            identity.as_ref(),
            common.instance,
            code,
            work,
        );
    })
    .map_err(failure)?;
    Ok(Exit::Ok)
}

fn root_work(arguments: &RootArguments) -> RootWork {
    RootWork {
        feature_functions: arguments
            .feature_functions
            .unwrap_or_else(steelyard_rank::feature_functions_available),
        feature_calls: arguments.feature_calls,
        fan_out: usize::from(arguments.fan_out),
        leaf_candidates: arguments.leaf_candidates as usize,
        leaf_results: arguments.leaf_results as usize,
        embedding_bytes: arguments.embedding_bytes,
        embedding_lookups: usize::from(arguments.embedding_lookups),
        network_width: usize::from(arguments.network_width),
        graph_bytes: arguments.graph_bytes,
        chase_steps: arguments.chase_steps,
        stories: usize::from(arguments.stories),
        story_words: usize::from(arguments.story_words),
        seed: arguments.common.seed,
    }
}

fn main() -> ExitCode {
    let arguments: Arguments = steelyard::parse();
    steelyard::run("steelyard-rank", || match &arguments.role {
        Role::Root(arguments) => run_root(arguments),
        Role::Leaf(arguments) => run_leaf(arguments),
    })
}
