//! Flags that every mode of `steelyard-load` takes. New flags of the load go here, and into `settings.rs`.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use steelyard::args;

/// What shapes a load, shared by every mode.
#[derive(Debug, Clone, clap::Args)]
pub struct LoadArguments {
    /// URL of the server, instead of --target, --protocol, --tls and --path: http://HOST[:PORT][/PATH], https://...,
    /// redis://[USER:PASSWORD@]..., rediss://..., memcache://..., cql://... or thrift://...; SCHEME+unix:///PATH is a
    /// Unix socket
    #[arg(value_name = "URL", value_parser = crate::url::checked, conflicts_with_all = ["target", "protocol", "tls", "path"])]
    pub url: Option<String>,
    /// Protocol of the server
    #[arg(long, value_enum, default_value = "memcached")]
    pub protocol: ProtocolArgument,
    /// Address and port of the server; unix:PATH or unix:@NAME for a Unix socket. All addresses of a name are tried
    // Required, yet optional to the parser: a subcommand has its own.
    #[arg(long, value_name = "ADDR:PORT", required_unless_present_any = ["url", "unix_socket"])]
    pub target: Option<String>,
    /// Unix socket to connect to, in place of the address of the URL or of --target; @NAME is an abstract one
    #[arg(long, value_name = "PATH")]
    pub unix_socket: Option<String>,
    /// Use TLS 1.3
    #[arg(long)]
    pub tls: bool,
    /// Trusted certificates (PEM) of authorities, or of the server itself, instead of the system's
    #[arg(long, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
    /// Name that the server's certificate must have [default: the host of --target]
    #[arg(long, value_name = "NAME")]
    pub tls_name: Option<String>,
    /// Take any certificate of the server
    #[arg(long, conflicts_with_all = ["tls_ca", "tls_name"])]
    pub insecure: bool,
    /// Certificates of this side (PEM), for servers that ask for one
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of --tls-cert (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// User name for servers with authentication (redis, http, cql)
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// File with the user's password in its first line; without --user that of Redis' default user (redis, http, cql)
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// File with a bearer token in its first line (http)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["user", "password_file"])]
    pub token_file: Option<PathBuf>,
    /// Generator threads
    #[arg(long, default_value_t = 1)]
    pub threads: u32,
    /// Connections over all threads
    #[arg(long, default_value_t = 16)]
    pub connections: u32,
    /// Maximum requests in flight per connection
    #[arg(long, default_value_t = 1)]
    pub depth: u32,
    /// Requests per second over all threads (open loop) [default: closed loop: each answer triggers the next request]
    #[arg(long, value_name = "PER_SECOND")]
    pub rate: Option<f64>,
    /// Arrivals of an open loop: constant or poisson at --rate; ramp:FROM-TO or step:R1,R2,... (requests per
    /// second, over the measure phase); recorded:FILE with its own rates [default: poisson]
    #[arg(long, value_name = "LAW")]
    pub arrival: Option<String>,
    /// Length of the measure phase [default: 10s, or the rest of the trace]
    #[arg(long, value_parser = args::duration)]
    pub duration: Option<Duration>,
    /// Length of the warm-up, which is not measured; a minimum with --hold
    #[arg(long, value_parser = args::duration, default_value = "2s")]
    pub warmup: Duration,
    /// Time to wait for answers at the end
    #[arg(long, value_parser = args::duration, default_value = "2s")]
    pub drain: Duration,
    /// Time within which an answer must come, from the send of its request: a later one is an error, and its connection
    /// is made anew [default: none]
    #[arg(long, value_parser = args::duration)]
    pub timeout: Option<Duration>,
    /// Interval of the time series
    #[arg(long, value_parser = args::duration, default_value = "1s", hide = true)]
    pub interval: Duration,
    /// Seed of the random requests
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Mix of requests: a file, or a shipped mix such as ycsb-a
    #[arg(long, value_name = "FILE|NAME")]
    pub mix: Option<String>,
    /// Trace of requests to replay: CSV with the columns time_s (or _ms, _us, _ns), operation, key and size,
    /// plain, gzip or zstd; the warm-up comes from its beginning
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rate", "hold"])]
    pub trace: Option<PathBuf>,
    /// Speed of the replay as a multiple of the recorded speed
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, requires = "trace")]
    pub speed: f64,
    /// Number of keys [default: the mix's, else 100000]
    #[arg(long)]
    pub keys: Option<u64>,
    /// Distribution of keys: uniform, zipf:EXPONENT, latest:EXPONENT or hotspot:KEYS:REQUESTS [default: the mix's, else
    /// uniform]
    #[arg(long, value_name = "LAW")]
    pub key_distribution: Option<String>,
    /// Key sizes: bytes, or a distribution file [default: the mix's, else 32]
    #[arg(long, value_name = "N|FILE.json")]
    pub key_sizes: Option<String>,
    /// Value sizes: bytes, or a distribution file [default: the mix's, else 200]
    #[arg(long, value_name = "N|FILE.json")]
    pub value_sizes: Option<String>,
    /// Share of requests that store, 0 to 1 (memcached, redis; without --mix) [default: 0]
    #[arg(long, value_name = "RATIO", conflicts_with = "mix")]
    pub set_ratio: Option<f64>,
    /// Path of requests, with placeholders such as {key} (http; without --mix) [default: /]
    #[arg(long, value_name = "PATH", conflicts_with = "mix")]
    pub path: Option<String>,
    /// Before the load, set or get every key once; with a mix, use the operation that it names
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "set")]
    pub prefill: Option<PrefillArgument>,
    /// CPUs to run on, such as 0-3,8; thread i runs on the i-th
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// I/O interface
    #[arg(long, value_enum, default_value = "auto")]
    pub io: IoArgument,
    /// File for an HdrHistogram interval log (V2) with the tags response, service, lag, queued
    #[arg(long, value_name = "FILE")]
    pub hlog: Option<PathBuf>,
    /// File for the result (JSON)
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
    /// Format of progress lines on standard error
    #[arg(long, value_enum, default_value = "text")]
    pub progress: ProgressArgument,
    /// Stay in the warm-up until the line `measure` on standard input
    #[arg(long)]
    pub hold: bool,
    /// Maximum requests waiting or in flight in an open loop; more count as unsent [default: 100000]
    #[arg(long, value_name = "N")]
    pub max_outstanding: Option<u64>,
    /// Generate a part of the load on this host: user@host over ssh, or localhost for another process here;
    /// repeatable. Rate, arrivals and connections are split, threads are per host, files are read there
    #[arg(long, value_name = "HOST")]
    pub host: Vec<String>,
    /// Command for ssh, with options
    #[arg(long, value_name = "COMMAND", default_value = "ssh", requires = "host")]
    pub ssh: String,
    /// Path of steelyard-load on the other hosts
    #[arg(
        long,
        value_name = "PATH",
        default_value = "steelyard-load",
        requires = "host"
    )]
    pub remote_command: String,
    /// Check the arguments and the files they name, and exit
    #[arg(long, hide = true)]
    pub check: bool,
    /// End when the parent process ends
    #[arg(long, hide = true)]
    pub die_with_parent: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProtocolArgument {
    Memcached,
    Redis,
    Http,
    Thrift,
    Cql,
}

impl ProtocolArgument {
    /// As the flag takes it.
    pub fn name(self) -> &'static str {
        steelyard_load::Protocol::from(self).name()
    }
}

impl From<ProtocolArgument> for steelyard_load::Protocol {
    fn from(protocol: ProtocolArgument) -> Self {
        match protocol {
            ProtocolArgument::Memcached => Self::Memcached,
            ProtocolArgument::Redis => Self::Redis,
            ProtocolArgument::Http => Self::Http,
            ProtocolArgument::Thrift => Self::Thrift,
            ProtocolArgument::Cql => Self::Cql,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum PrefillArgument {
    Set,
    Get,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum IoArgument {
    Auto,
    Uring,
    Epoll,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ProgressArgument {
    Json,
    Text,
    None,
}
