//! One load, as the flags say: `steelyard-load` without a subcommand.

use std::io::{self, Write};
use std::sync::atomic::AtomicBool;

use steelyard::output::print;
use steelyard::{Exit, Failure};
use steelyard_load::progress::time;
use steelyard_load::slo::Slo;
use steelyard_load::{Settings, Surroundings};
use steelyard_record::LoadResult;

use crate::arguments::{LoadArguments, ProgressArgument};
use crate::settings::{failure, progress, settings};

/// Runs the load and writes its result.
pub fn run(arguments: &LoadArguments, stop: &AtomicBool) -> Result<Exit, Failure> {
    let settings = settings(arguments)?;
    if arguments.check {
        return crate::settings::check(&settings);
    }
    if !arguments.host.is_empty() {
        return run_on_hosts(arguments, &settings, stop);
    }
    crate::pin(&settings)?;
    let surroundings = Surroundings {
        command: std::env::args().collect(),
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
        command: std::env::args().collect(),
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
    Ok(if result.interrupted {
        Exit::Failed
    } else {
        Exit::Ok
    })
}

/// A short table for a person.
fn write_table(result: &LoadResult, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "throughput  {:.0} requests/s", result.throughput_per_s)?;
    let requests = &result.requests;
    if requests.errors > 0 {
        let kinds = requests.errors_by_kind.iter();
        let kinds: Vec<String> = kinds
            .map(|(kind, count)| format!("{count} {kind}"))
            .collect();
        let (errors, kinds) = (requests.errors, kinds.join(", "));
        writeln!(
            out,
            "errors      {errors} of {} requests ({kinds})",
            requests.intended
        )?;
    }
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
    for host in result.hosts.iter().flatten() {
        writeln!(
            out,
            "{:<10}  {:.0} requests/s  p50 {:>8}  p99 {:>8}  {} connections",
            host.name,
            host.throughput_per_s,
            time(host.response_p50_ns),
            time(host.response_p99_ns),
            host.connections
        )?;
    }
    crate::write_verdict(&result.verdict, out)
}
