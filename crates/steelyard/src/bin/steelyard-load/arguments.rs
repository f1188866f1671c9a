//! Flags that every mode of `steelyard-load` takes. New flags of the load go here, and into `settings.rs`.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use steelyard::args;

/// What shapes a load, shared by every mode.
#[derive(Debug, Clone, clap::Args)]
pub struct LoadArguments {
    /// Server, in place of --target, --protocol, --tls and --path: http://HOST[:PORT][/PATH], https://..., redis://...,
    /// rediss://..., memcache://..., cql://... or thrift://...
    #[arg(value_name = "URL", value_parser = crate::url::checked, conflicts_with_all = ["target", "protocol", "tls", "path"])]
    pub url: Option<String>,
    /// Protocol to speak
    #[arg(long, value_enum, default_value = "memcached")]
    pub protocol: ProtocolArgument,
    /// Server, as ADDRESS:PORT
    // Required, yet optional to the parser: a subcommand has its own.
    #[arg(long, value_name = "ADDR:PORT", required_unless_present = "url")]
    pub target: Option<String>,
    /// Wrap the protocol in TLS 1.3
    #[arg(long)]
    pub tls: bool,
    /// Trust the certificates in this file (PEM) instead of the system's
    #[arg(long, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
    /// Name that the server must prove, and is asked for; without it the host of --target
    #[arg(long, value_name = "NAME")]
    pub tls_name: Option<String>,
    /// Name to give a server that asks for one (CQL)
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// The password that goes with it, in the first line of a file
    #[arg(long, value_name = "FILE", requires = "user")]
    pub password_file: Option<PathBuf>,
    /// Generator threads
    #[arg(long, default_value_t = 1)]
    pub threads: u32,
    /// Connections over all threads
    #[arg(long, default_value_t = 16)]
    pub connections: u32,
    /// Requests in flight per connection at most
    #[arg(long, default_value_t = 1)]
    pub depth: u32,
    /// Requests per second over all threads; without it, each answer makes the next request (closed loop)
    #[arg(long, value_name = "PER_SECOND")]
    pub rate: Option<f64>,
    /// How requests arrive in an open loop: constant or poisson at --rate; ramp:FROM-TO, step:R1,R2,... (requests
    /// per second, over the measure phase) or recorded:FILE at their own rates
    #[arg(long, value_name = "LAW", default_value = "poisson")]
    pub arrival: String,
    /// Length of the measure phase [default: 10s, or the rest of the trace]
    #[arg(long, value_parser = args::duration)]
    pub duration: Option<Duration>,
    /// Load before it that is not counted; with --hold at least this much
    #[arg(long, value_parser = args::duration, default_value = "2s")]
    pub warmup: Duration,
    /// How long to wait for answers at the end
    #[arg(long, value_parser = args::duration, default_value = "2s")]
    pub drain: Duration,
    /// Length of an interval of the series
    #[arg(long, value_parser = args::duration, default_value = "1s", hide = true)]
    pub interval: Duration,
    /// Seed: the same seed gives the same requests
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// What is sent: a mix file, or a shipped mix such as ycsb-a
    #[arg(long, value_name = "FILE|NAME")]
    pub mix: Option<String>,
    /// Requests with their own times to replay: CSV with the columns time_s (or _ms, _us, _ns), operation, key and size,
    /// plain, gzip or zstd; its beginning is the warm-up
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rate", "hold"])]
    pub trace: Option<PathBuf>,
    /// How many times as fast as recorded a trace is replayed
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, requires = "trace")]
    pub speed: f64,
    /// Number of keys [default: the mix's, else 100000]
    #[arg(long)]
    pub keys: Option<u64>,
    /// Which keys are asked for: uniform, zipf:EXPONENT, latest:EXPONENT or hotspot:KEYS:REQUESTS [default: the mix's, else
    /// uniform]
    #[arg(long, value_name = "LAW")]
    pub key_distribution: Option<String>,
    /// Key sizes: bytes, or a distribution file [default: the mix's, else 32]
    #[arg(long, value_name = "N|FILE.json")]
    pub key_sizes: Option<String>,
    /// Value sizes: bytes, or a distribution file [default: the mix's, else 200]
    #[arg(long, value_name = "N|FILE.json")]
    pub value_sizes: Option<String>,
    /// Without a mix, share of requests that store, 0 to 1
    #[arg(
        long,
        value_name = "RATIO",
        default_value_t = 0.0,
        conflicts_with = "mix"
    )]
    pub set_ratio: f64,
    /// Without a mix, what HTTP requests ask for; may hold placeholders such as {key}
    #[arg(long, value_name = "PATH", default_value = "/", conflicts_with = "mix")]
    pub path: String,
    /// Before the load, store every key once (set), or ask for every key once (get); with a mix, do what it says
    /// for every key
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "set")]
    pub prefill: Option<PrefillArgument>,
    /// CPUs to run on, such as 0-3,8; thread i gets the i-th
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// How bytes are moved
    #[arg(long, value_enum, default_value = "auto")]
    pub io: IoArgument,
    /// Write an HdrHistogram interval log (V2) with the tags response, service, lag, queued
    #[arg(long, value_name = "FILE")]
    pub hlog: Option<PathBuf>,
    /// Write the result (JSON) to a file
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write the result (JSON) to standard output
    #[arg(long)]
    pub json: bool,
    /// Progress lines on standard error
    #[arg(long, value_enum, default_value = "text")]
    pub progress: ProgressArgument,
    /// Stay in warm-up until the line `measure` comes on standard input
    #[arg(long)]
    pub hold: bool,
    /// Most requests waiting or in flight in an open loop; more are counted as unsent
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub max_outstanding: u64,
    /// Run a part of the load on this host (repeatable): user@host over ssh, or localhost for one more process
    /// here; rate, arrivals and connections are split, threads are per host, files are read there
    #[arg(long, value_name = "HOST")]
    pub host: Vec<String>,
    /// ssh and its options
    #[arg(long, value_name = "COMMAND", default_value = "ssh")]
    pub ssh: String,
    /// steelyard-load on the other hosts
    #[arg(long, value_name = "PATH", default_value = "steelyard-load")]
    pub remote_command: String,
    /// Read the arguments and the files that they name, say what is wrong with them, and do nothing
    #[arg(long, hide = true)]
    pub check: bool,
    /// End with the process that started this one
    #[arg(long, hide = true)]
    pub die_with_parent: bool,
}

impl LoadArguments {
    /// The same arguments with what the URL says in their places; the error names the argument and says why.
    pub fn resolved(&self) -> Result<Self, (&'static str, String)> {
        let mut found = self.clone();
        if let Some(text) = &self.url {
            let url = crate::url::parse(text).map_err(|why| ("URL", why))?;
            if let Some(path) = url.path.filter(|path| path != "/") {
                if self.mix.is_some() {
                    return Err((
                        "URL",
                        format!("{text:?}: with --mix, the mix has the paths"),
                    ));
                }
                found.path = path;
            }
            found.protocol = url.protocol;
            found.tls = url.tls;
            found.target = Some(url.target);
        }
        for (name, given) in [
            ("--tls-ca", found.tls_ca.is_some()),
            ("--tls-name", found.tls_name.is_some()),
        ] {
            if given && !found.tls {
                return Err((name, "needs --tls, or a URL of https or rediss".to_owned()));
            }
        }
        Ok(found)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProtocolArgument {
    Memcached,
    Redis,
    Http,
    Thrift,
    Cql,
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
