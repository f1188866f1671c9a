//! From flags to the engine's settings, and from the engine's errors to exit codes.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use steelyard::{Exit, Failure, args};
use steelyard_launch::pin_to_cpus;
use steelyard_load::mix::{Mix, MixFile};
use steelyard_load::progress::Progress;
use steelyard_load::schedule::Arrival;
use steelyard_load::settings::{Credentials, Tls, Turn};
use steelyard_load::trace::Trace;
use steelyard_load::workload::{GET, SET, Workload};
use steelyard_load::{IoChoice, LoadError, Protocol, Settings, Sizes};

use crate::arguments::{
    IoArgument, LoadArguments, PrefillArgument, ProgressArgument, ProtocolArgument,
};

/// What the flags ask of the engine, checked.
#[expect(clippy::too_many_lines, reason = "a table: one line for each flag")]
pub fn settings(arguments: &LoadArguments) -> Result<Settings, Failure> {
    let usage = |error: LoadError| Failure::new(Exit::Usage, error);
    let arguments = &arguments
        .resolved()
        .map_err(|(name, why)| usage(LoadError::setting(name, why)))?;
    let cpus = arguments
        .cpus
        .as_deref()
        .map(args::cpu_list)
        .transpose()
        .map_err(|why| usage(LoadError::setting("--cpus", why)))?;
    let ns = |duration: Duration| {
        u64::try_from(duration.as_nanos())
            .unwrap_or(u64::MAX / 4)
            .min(u64::MAX / 4)
    };
    let protocol = match arguments.protocol {
        ProtocolArgument::Memcached => Protocol::Memcached,
        ProtocolArgument::Redis => Protocol::Redis,
        ProtocolArgument::Http => Protocol::Http,
        ProtocolArgument::Thrift => Protocol::Thrift,
        ProtocolArgument::Cql => Protocol::Cql,
    };
    let mix = mix(arguments, protocol).map_err(usage)?;
    let asked = mix.keys.clone();
    let sizes = |name, given: &Option<String>, of_mix: Option<Sizes>, default| match given {
        Some(text) => Sizes::parse(text, name).map_err(usage),
        None => Ok(of_mix.unwrap_or(Sizes::fixed(default))),
    };
    let trace = trace(arguments, protocol, &mix).map_err(usage)?;
    let settings = Settings {
        protocol,
        target: resolve(arguments).map_err(usage)?,
        tls: tls(arguments),
        credentials: credentials(arguments).map_err(usage)?,
        threads: arguments.threads,
        connections: arguments.connections,
        depth: arguments.depth,
        rate_per_s: arguments.rate,
        arrival: Arrival::parse(&arguments.arrival).map_err(usage)?,
        warmup_ns: ns(arguments.warmup),
        duration_ns: duration_ns(
            arguments.duration.map(ns),
            ns(arguments.warmup),
            trace.as_ref(),
        )
        .map_err(usage)?,
        drain_ns: ns(arguments.drain),
        interval_ns: ns(arguments.interval),
        seed: arguments.seed,
        keys: arguments.keys.or(asked.count).unwrap_or(100_000),
        key_distribution: arguments
            .key_distribution
            .clone()
            .or(asked.distribution)
            .unwrap_or_else(|| "uniform".to_owned()),
        key_sizes: sizes("--key-sizes", &arguments.key_sizes, asked.key_sizes, 32)?,
        value_sizes: sizes(
            "--value-sizes",
            &arguments.value_sizes,
            asked.value_sizes,
            200,
        )?,
        set_ratio: arguments.set_ratio,
        prefill: prefill(arguments, &mix).map_err(usage)?,
        mix: Some(Arc::new(mix)),
        named_mix: arguments.mix.clone(),
        trace: trace.map(Arc::new),
        cpus: cpus.unwrap_or_default(),
        pin: pin_to_cpus,
        io: match arguments.io {
            IoArgument::Auto => IoChoice::Auto,
            IoArgument::Uring => IoChoice::Uring,
            IoArgument::Epoll => IoChoice::Epoll,
        },
        hold: arguments.hold,
        max_outstanding: arguments.max_outstanding,
        turn: Turn::ALONE,
    };
    settings.check().map_err(usage)?;
    Ok(settings)
}

/// For `--check`: builds what else a load reads from its settings, and stops there.
pub fn check(settings: &Settings) -> Result<Exit, Failure> {
    Workload::of(settings).map_err(failure)?;
    Ok(Exit::Ok)
}

/// TLS as the flags ask for it: without --tls-name, the server must prove the name that --target has.
fn tls(arguments: &LoadArguments) -> Option<Tls> {
    let target = arguments.target.as_deref().unwrap_or_default();
    let host = target.rsplit_once(':').map_or(target, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    arguments.tls.then(|| Tls {
        ca: arguments.tls_ca.clone(),
        name: arguments
            .tls_name
            .clone()
            .unwrap_or_else(|| host.to_owned()),
    })
}

/// Who asks, with the password from the first line of a file.
fn credentials(arguments: &LoadArguments) -> Result<Option<Credentials>, LoadError> {
    let Some(user) = arguments.user.clone() else {
        return Ok(None);
    };
    let password = match &arguments.password_file {
        None => String::new(),
        Some(path) => {
            steelyard_record::read_text_file(path, 1 << 16).map_err(|source| LoadError::File {
                path: path.clone(),
                source,
            })?
        }
    };
    let password = password.lines().next().unwrap_or_default().to_owned();
    Ok(Some(Credentials { user, password }))
}

/// The mix that the flags name or describe.
fn mix(arguments: &LoadArguments, protocol: Protocol) -> Result<Mix, LoadError> {
    match &arguments.mix {
        Some(name) => MixFile::find(name)?.for_protocol(protocol),
        // A trace's keys are the paths, unless the flag says where they stand.
        None if protocol == Protocol::Http && arguments.trace.is_some() => {
            Mix::of_path(match arguments.path.as_str() {
                "/" => "/{key}",
                path => path,
            })
        }
        None if protocol == Protocol::Http => Mix::of_path(&arguments.path),
        None => Mix::of_gets_and_sets(protocol, arguments.set_ratio),
    }
}

/// The trace that the flags name, read through.
fn trace(
    arguments: &LoadArguments,
    protocol: Protocol,
    mix: &Mix,
) -> Result<Option<Trace>, LoadError> {
    let Some(path) = &arguments.trace else {
        return Ok(None);
    };
    if arguments.prefill.is_some() {
        return Err(LoadError::setting(
            "--prefill",
            "a trace names its own keys: load them by a trace of stores before",
        ));
    }
    Trace::check(path, arguments.speed, protocol, mix).map(Some)
}

/// Length of the measure phase: as asked, but a trace ends it.
fn duration_ns(
    asked_ns: Option<u64>,
    warmup_ns: u64,
    trace: Option<&Trace>,
) -> Result<u64, LoadError> {
    let Some(trace) = trace else {
        return Ok(asked_ns.unwrap_or(10_000_000_000));
    };
    // The last request is due at the trace's length, and belongs to the phase.
    let rest_ns = (trace.length_ns + 1)
        .checked_sub(warmup_ns)
        .filter(|rest_ns| *rest_ns > 0)
        .ok_or_else(|| {
            LoadError::setting(
                "--trace",
                format!(
                    "{} takes {:.3} s, no longer than the warm-up: use --warmup 0s",
                    trace.path.display(),
                    trace.length_ns as f64 / 1e9
                ),
            )
        })?;
    Ok(asked_ns.map_or(rest_ns, |asked_ns| asked_ns.min(rest_ns)))
}

/// Index of the operation that every key is asked for with before the load.
fn prefill(arguments: &LoadArguments, mix: &Mix) -> Result<Option<usize>, LoadError> {
    let wrong = |why: String| LoadError::setting("--prefill", why);
    match arguments.prefill {
        None => Ok(None),
        Some(PrefillArgument::Get) if arguments.mix.is_none() && mix.prefill == Some(SET) => {
            Ok(Some(GET))
        }
        Some(PrefillArgument::Get) => Err(wrong(format!("{} has no get operation", mix.name))),
        Some(PrefillArgument::Set) => match mix.prefill {
            Some(operation) => Ok(Some(operation)),
            None => Err(wrong(format!("{} declares no prefill operation", mix.name))),
        },
    }
}

fn resolve(arguments: &LoadArguments) -> Result<SocketAddr, LoadError> {
    let target = arguments.target.as_deref().unwrap_or_default();
    let name = arguments.url.as_ref().map_or("--target", |_| "URL");
    let wrong = |why: String| LoadError::setting(name, why);
    let mut addresses = target
        .to_socket_addrs()
        .map_err(|error| wrong(format!("{target:?} is not ADDRESS:PORT: {error}")))?;
    addresses
        .next()
        .ok_or_else(|| wrong(format!("{target:?} has no address")))
}

/// What kind of progress lines the flags ask for.
pub fn progress(arguments: &LoadArguments) -> Progress {
    match arguments.progress {
        ProgressArgument::Json => Progress::Json,
        ProgressArgument::Text if Progress::has_terminal() => Progress::Live,
        ProgressArgument::Text => Progress::Text,
        ProgressArgument::None => Progress::None,
    }
}

/// The exit code and the advice that go with an error.
pub fn failure(error: LoadError) -> Failure {
    let (exit, hint) = match &error {
        LoadError::Setting { .. } | LoadError::Distribution { .. } => (Exit::Usage, None),
        LoadError::Host { .. } => (
            Exit::Environment,
            Some(
                "is it reachable by ssh without a password, and is steelyard-load in its PATH (or --remote-command)?",
            ),
        ),
        LoadError::Connect { .. } => (Exit::Environment, Some("is the server running?")),
        // Where the protocol could say what is wrong, a guess would only distract.
        LoadError::Handshake { .. } if !error.is_unreachable() => (Exit::Environment, None),
        LoadError::Handshake { .. } => (
            Exit::Environment,
            Some("do the flags describe this server?"),
        ),
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
