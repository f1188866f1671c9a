//! One load, as the flags say: `steelyard-load` without a subcommand.

use std::io::{self, Write};
use std::sync::atomic::AtomicBool;

use steelyard::output::print;
use steelyard::{Exit, Failure};
use steelyard_load::progress::time;
use steelyard_load::slo::Slo;
use steelyard_load::{Settings, Surroundings};
use steelyard_record::{LoadRequests, LoadResult};

use crate::arguments::{LoadArguments, ProgressArgument};
use crate::settings::{failure, progress, settings};

/// Runs the load and writes its result.
pub fn run(arguments: &LoadArguments, stop: &AtomicBool) -> Result<Exit, Failure> {
    let settings = settings(arguments, false)?;
    if arguments.check {
        return crate::settings::check(&settings);
    }
    if !arguments.host.is_empty() {
        return run_on_hosts(arguments, &settings, stop);
    }
    crate::pin(&settings)?;
    let surroundings = Surroundings {
        command: crate::command(),
        hlog: arguments.hlog.clone(),
        progress: progress(arguments),
        stop,
        input: crate::orders(arguments),
        watch: None,
    };
    let result = steelyard_load::run(&settings, surroundings);
    progress(arguments).end();
    let result = result.map_err(failure)?;
    tell(arguments, &result)
}

/// The same load, made by several processes.
fn run_on_hosts(
    arguments: &LoadArguments,
    settings: &Settings,
    stop: &AtomicBool,
) -> Result<Exit, Failure> {
    let shown = progress(arguments);
    let mut offer = crate::hosts::offerer(arguments, settings, shown, stop)?;
    let nothing = Slo::nothing();
    let offered = offer.offer(settings, &nothing);
    shown.end();
    let offered = offered.map_err(failure)?;
    let result = LoadResult {
        command: crate::command(),
        ..offered.result
    };
    let exit = tell(arguments, &result)?;
    offered
        .lost
        .map_or(Ok(exit), |host| Err(crate::hosts::lost(host)))
}

fn tell(arguments: &LoadArguments, result: &LoadResult) -> Result<Exit, Failure> {
    crate::write(arguments, result)?;
    if !arguments.json && !matches!(arguments.progress, ProgressArgument::Json) {
        print(|out| write_table(result, out))?;
    }
    Ok(crate::exit(result.interrupted, &result.verdict))
}

/// A short table for a person: what happened in the phase, what became of the requests that were due in it, the checks.
fn write_table(result: &LoadResult, out: &mut dyn Write) -> io::Result<()> {
    let seconds = (result.end_ns - result.begin_ns) as f64 / 1e9;
    write_phase(result, seconds, out)?;
    write_requests(&result.requests, seconds, out)?;
    write_answers(result, out)?;
    write_errors(&result.requests, seconds, out)?;
    write_latencies(result, out)?;
    crate::write_verdict(&result.verdict, out)
}

/// What happened in the phase, whenever it was due.
fn write_phase(result: &LoadResult, seconds: f64, out: &mut dyn Write) -> io::Result<()> {
    let before = match result.requests.completed_from_before {
        None | Some(0) => String::new(),
        Some(count) => format!(", {count} of them due before"),
    };
    writeln!(
        out,
        "throughput  {} requests/s ({:.0} completed in the {seconds:.1} s{before})",
        rate(result.throughput_per_s),
        result.throughput_per_s * seconds,
    )?;
    writeln!(
        out,
        "bytes       {} sent, {} received in the {seconds:.1} s, for every request",
        bytes(result.sent_bytes),
        bytes(result.received_bytes)
    )
}

/// What became of the requests that were due in the phase.
fn write_requests(requests: &LoadRequests, seconds: f64, out: &mut dyn Write) -> io::Result<()> {
    let after = match requests.completed_after {
        None | Some(0) => String::new(),
        Some(count) => format!(" ({count} of them after the {seconds:.1} s)"),
    };
    writeln!(
        out,
        "requests    {} due in the {seconds:.1} s: {} sent, {} never sent",
        requests.intended, requests.sent, requests.unsent
    )?;
    writeln!(
        out,
        "sent        {}: {} completed{after}, {} failed, {} unanswered",
        requests.sent, requests.completed, requests.errors, requests.outstanding_at_end
    )
}

/// Errors by kind, and how many more came in the phase.
fn write_errors(requests: &LoadRequests, seconds: f64, out: &mut dyn Write) -> io::Result<()> {
    let (errors, before) = (requests.errors, requests.errors_from_before.unwrap_or(0));
    if errors + before == 0 {
        return Ok(());
    }
    let kinds = requests.errors_by_kind.iter();
    let kinds: Vec<String> = kinds
        .map(|(kind, count)| match kind.as_str() {
            "garbage" => format!("{count} garbage: no answers of this protocol"),
            kind => format!("{count} {kind}"),
        })
        .collect();
    let mut more = String::new();
    if !kinds.is_empty() {
        more = format!(" ({})", kinds.join(", "));
    }
    if before > 0 {
        more += &format!("; {before} more came in the {seconds:.1} s, of requests due before");
    }
    let finished = requests.completed + errors;
    writeln!(
        out,
        "errors      {errors} of {finished} finished requests{more}"
    )
}

fn write_latencies(result: &LoadResult, out: &mut dyn Write) -> io::Result<()> {
    let latency = &result.latency;
    for (name, latency) in [
        ("response", Some(&latency.response)),
        ("service", Some(&latency.service)),
        ("queued", latency.queued.as_ref()),
        ("lag", Some(&latency.lag)),
    ] {
        let Some(latency) = latency else { continue };
        writeln!(
            out,
            "{name:<10}  p50 {:>8}  p99 {:>8}  p99.9 {:>8}  max {:>8}",
            time(latency.p50_ns),
            time(latency.p99_ns),
            time(latency.p999_ns),
            time(latency.max_ns)
        )?;
    }
    let requests = &result.requests;
    let lacking = requests.errors + requests.outstanding_at_end;
    if lacking > 0 && requests.completed > 0 {
        writeln!(
            out,
            "            of completed requests; {lacking} failed or have no answer, however long they took"
        )?;
    }
    for host in result.hosts.iter().flatten() {
        writeln!(
            out,
            "{:<10}  {} requests/s  p50 {:>8}  p99 {:>8}  {} connections",
            host.name,
            rate(host.throughput_per_s),
            time(host.response_p50_ns),
            time(host.response_p99_ns),
            host.connections
        )?;
    }
    Ok(())
}

/// Answers by their class (HTTP), and what was looked up and found.
fn write_answers(result: &LoadResult, out: &mut dyn Write) -> io::Result<()> {
    if let Some(classes) = &result.requests.answers_by_class {
        let count = |class: &str| classes.get(class).copied().unwrap_or(0);
        let redirects = match count("3xx") {
            0 => "",
            _ => " (redirects are not followed)",
        };
        writeln!(
            out,
            "answers     {} 2xx, {} 3xx, {} 4xx, {} 5xx{}{redirects}",
            count("2xx"),
            count("3xx"),
            count("4xx"),
            count("5xx"),
            match count("other") {
                0 => String::new(),
                other => format!(", {other} of another class"),
            }
        )?;
    }
    let operations = result.operations.values();
    let found = operations.filter_map(|operation| operation.hits.zip(operation.misses));
    let (hits, misses) = found.fold((0, 0), |sum, (hits, misses)| (sum.0 + hits, sum.1 + misses));
    let lookups = hits + misses;
    if lookups > 0 {
        let ratio = 100.0 * hits as f64 / lookups as f64;
        writeln!(
            out,
            "hits        {hits} of {lookups} lookups ({ratio:.1} %)"
        )?;
    }
    Ok(())
}

/// A rate with three digits at least, as far as they say something.
fn rate(per_s: f64) -> String {
    let decimals = match per_s {
        per_s if per_s < 10.0 => 2,
        per_s if per_s < 100.0 => 1,
        _ => 0,
    };
    format!("{per_s:.decimals$}")
}

/// Bytes in the unit that fits.
fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1e3;
    let mut unit = 0;
    // Three digits, also of what would be rounded to a thousand.
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1e3;
        unit += 1;
    }
    let digits = match value {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_three_digits() {
        for (value, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.00 kB"),
            (99_960, "100 kB"),
            (999_600, "1.00 MB"),
            (12_340_000, "12.3 MB"),
        ] {
            assert_eq!(bytes(value), text);
        }
    }
}
