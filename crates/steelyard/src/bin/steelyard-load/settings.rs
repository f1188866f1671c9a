//! From flags to the engine's settings, and from the engine's errors to exit codes.

use std::sync::Arc;
use std::time::Duration;

use steelyard::{Exit, Failure, args};
use steelyard_launch::pin_to_cpus;
use steelyard_load::mix::{Mix, MixFile, Text};
use steelyard_load::progress::Progress;
use steelyard_load::schedule::Arrival;
use steelyard_load::settings::{Credentials, Secret, Tls, Turn};
use steelyard_load::trace::Trace;
use steelyard_load::workload::{GET, SET, Workload};
use steelyard_load::{Address, Addresses, IoChoice, LoadError, Protocol, Settings, Sizes};

use crate::arguments::{IoArgument, LoadArguments, PrefillArgument, ProgressArgument};
use crate::resolved::{Resolved, first_line, resolved};

/// What the flags ask of the engine, checked; `searches` is whether the rate is a search's.
#[expect(clippy::too_many_lines, reason = "a table: one line for each flag")]
pub fn settings(given: &LoadArguments, searches: bool) -> Result<Settings, Failure> {
    let usage = |error: LoadError| Failure::new(Exit::Usage, error);
    let resolved =
        resolved(given, searches).map_err(|(name, why)| usage(LoadError::setting(name, why)))?;
    let arguments = &resolved.flags;
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
    let protocol = Protocol::from(arguments.protocol);
    let mix = mix(arguments, protocol).map_err(usage)?;
    needed(arguments, &mix).map_err(usage)?;
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
        credentials: credentials(&resolved).map_err(usage)?,
        token: token(arguments).map_err(usage)?,
        database: resolved.database,
        threads: arguments.threads,
        connections: arguments.connections,
        depth: arguments.depth,
        rate_per_s: arguments.rate,
        arrival: Arrival::parse(arguments.arrival.as_deref().unwrap_or("poisson"))
            .map_err(usage)?,
        warmup_ns: ns(arguments.warmup),
        duration_ns: duration_ns(
            arguments.duration.map(ns),
            ns(arguments.warmup),
            trace.as_ref(),
        )
        .map_err(usage)?,
        drain_ns: ns(arguments.drain),
        timeout_ns: arguments.timeout.map(ns),
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
        set_ratio: arguments.set_ratio.unwrap_or(0.0),
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
        max_outstanding: arguments.max_outstanding.unwrap_or(100_000),
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
    let host = match target.starts_with("unix:") {
        true => "localhost",
        false => host,
    };
    arguments.tls.then(|| Tls {
        ca: arguments.tls_ca.clone(),
        name: arguments
            .tls_name
            .clone()
            .unwrap_or_else(|| host.to_owned()),
        insecure: arguments.insecure,
        client: arguments.tls_cert.clone().zip(arguments.tls_key.clone()),
    })
}

/// Who asks: as the URL says, or with the password from the first line of a file.
fn credentials(resolved: &Resolved) -> Result<Option<Credentials>, LoadError> {
    let flags = &resolved.flags;
    if let Some((user, password)) = resolved.login.clone() {
        return Ok(Some(Credentials { user, password }));
    }
    if flags.user.is_none() && flags.password_file.is_none() {
        return Ok(None);
    }
    let password = flags.password_file.as_deref().map(first_line).transpose()?;
    Ok(Some(Credentials {
        user: flags.user.clone().unwrap_or_default(),
        password: password.unwrap_or_default(),
    }))
}

/// A bearer token, which must fit into a header.
fn token(flags: &LoadArguments) -> Result<Option<Secret>, LoadError> {
    let Some(path) = &flags.token_file else {
        return Ok(None);
    };
    let token = first_line(path)?;
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        let why = format!("{}: its first line is no token", path.display());
        return Err(LoadError::setting("--token-file", why));
    }
    Ok(Some(Secret::new(token)))
}

/// The mix that the flags name or describe.
fn mix(arguments: &LoadArguments, protocol: Protocol) -> Result<Mix, LoadError> {
    match &arguments.mix {
        Some(name) => MixFile::find(name)?.for_protocol(protocol),
        // A trace's keys are the paths, unless the flag says where they stand.
        None if protocol == Protocol::Http && arguments.trace.is_some() => {
            Mix::of_path(match arguments.path.as_deref() {
                None | Some("/") => "/{key}",
                Some(path) => path,
            })
        }
        None if protocol == Protocol::Http => {
            Mix::of_path(arguments.path.as_deref().unwrap_or("/"))
        }
        None => Mix::of_gets_and_sets(protocol, arguments.set_ratio.unwrap_or(0.0)),
    }
}

/// Refuses flags about keys and values where no request has any: they would change nothing.
fn needed(arguments: &LoadArguments, mix: &Mix) -> Result<(), LoadError> {
    if arguments.trace.is_some() {
        return Ok(());
    }
    let any = |test: fn(&Text) -> bool| mix.templates().any(|t| t.texts().into_iter().any(test));
    let flags = [
        ("--keys", arguments.keys.is_some()),
        ("--key-distribution", arguments.key_distribution.is_some()),
        ("--key-sizes", arguments.key_sizes.is_some()),
    ];
    for (name, given) in flags {
        if given && !any(Text::has_key) {
            let why = "no request of this load has a key: put {key} into --path or the mix";
            return Err(LoadError::setting(name, why));
        }
    }
    if arguments.value_sizes.is_some() && !any(Text::has_value_size) {
        let why = "no request of this load has a value: put {value} or {text} into the mix";
        return Err(LoadError::setting("--value-sizes", why));
    }
    Ok(())
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

/// The addresses of the server. With --unix-socket, what the URL or --target names is the host that is asked for.
fn resolve(arguments: &LoadArguments) -> Result<Addresses, LoadError> {
    let target = arguments.target.as_deref();
    if let Some(path) = &arguments.unix_socket {
        let address =
            Address::unix(path).map_err(|why| LoadError::setting("--unix-socket", why))?;
        let addresses = Addresses::from(address);
        return Ok(match target {
            Some(name) => addresses.named(name),
            None => addresses,
        });
    }
    let name = arguments.url.as_ref().map_or("--target", |_| "URL");
    Addresses::resolve(target.unwrap_or_default()).map_err(|why| LoadError::setting(name, why))
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
