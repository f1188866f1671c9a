//! `steelyard-load sweep`: latency over throughput.

use std::io::{self, Write};
use std::sync::atomic::AtomicBool;

use clap::ValueEnum;
use steelyard::output::print;
use steelyard::{Exit, Failure};
use steelyard_load::progress::Progress;
use steelyard_load::sweep::Sweep;
use steelyard_record::{Check, Level, SweepResult, Verdict};

use crate::arguments::LoadArguments;
use crate::capacity::{base, inner};
use crate::settings::{failure, progress};

/// Measure latency at several rates, up to and beyond the server's capacity.
#[derive(Debug, clap::Args)]
#[command(after_help = steelyard::examples!(
    "steelyard-load sweep http://127.0.0.1:8080/",
    "steelyard-load sweep redis://127.0.0.1:6379 --rates 10000,20000,40000",
))]
pub struct SweepArguments {
    /// Rates to offer, such as 1000,2000,4000
    #[arg(
        long,
        value_name = "R1,R2,...",
        value_delimiter = ',',
        conflicts_with = "points"
    )]
    pub rates: Vec<f64>,
    /// Number of rates, from 10 % of the throughput of a closed loop to slightly above it (without --rates)
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub points: usize,
    /// Order of the rates: shuffled, so that drift of the machine does not bias the curve, or ascending, for
    /// servers that do not recover from overload
    #[arg(long, value_enum, default_value = "shuffled")]
    pub order: Order,
    /// Time to wait for an overloaded server after a rate
    #[arg(long, value_parser = steelyard::args::duration, default_value = "10s")]
    pub settle: std::time::Duration,
    #[command(flatten)]
    pub load: LoadArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Order {
    Shuffled,
    Ascending,
}

/// Runs the sweep and writes its result.
pub fn run(arguments: &SweepArguments, stop: &AtomicBool) -> Result<Exit, Failure> {
    let load = &arguments.load;
    let sweep = Sweep {
        settings: base(load, arguments.settle)?,
        rates_per_s: arguments.rates.clone(),
        points: arguments.points,
        ascending: arguments.order == Order::Ascending,
    };
    sweep.check().map_err(failure)?;
    if load.check {
        return crate::settings::check(&sweep.settings);
    }
    let progress = progress(load);
    let mut offer = crate::hosts::offerer(load, &sweep.settings, inner(progress), stop)?;
    let command = crate::command();
    let swept = sweep
        .run(offer.as_mut(), stop, progress, command)
        .map_err(failure);
    progress.end();
    let swept = swept?;
    crate::write(load, &swept.result)?;
    if !load.json && progress != Progress::Json {
        print(|out| write_table(&swept.result, out))?;
    }
    if let Some(host) = swept.host {
        return Err(crate::hosts::lost(host));
    }
    Ok(crate::exit(
        swept.lost || swept.result.interrupted,
        &swept.result.verdict,
    ))
}

/// The level of a point, and the checks that it failed.
fn in_short(verdict: &Verdict) -> String {
    let failed = |check: &&Check| check.level != Level::Valid;
    let failed = verdict.checks.iter().filter(failed);
    let names: Vec<&str> = failed.map(|check| check.id.as_str()).collect();
    let level = crate::level(verdict.level);
    if names.is_empty() {
        level
    } else {
        format!("{level}: {}", names.join(", "))
    }
}

/// A table for a person: asked is the rate of the sweep, due what the schedule made of it.
fn write_table(result: &SweepResult, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "{:>12} {:>12} {:>12} {:>9} {:>10} {:>10} {:>10} {:>10}  generator  verdict",
        "asked/s", "due/s", "done/s", "errors", "p50 ms", "p95 ms", "p99 ms", "p99.9 ms"
    )?;
    let ms =
        |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.3}", ns as f64 / 1e6));
    for point in &result.points {
        let response = &point.latency.response;
        writeln!(
            out,
            "{:>12.1} {:>12.1} {:>12.1} {:>9} {:>10} {:>10} {:>10} {:>10}  {:>8.0}%  {}",
            point.rate_per_s,
            point.offered_per_s,
            point.throughput_per_s,
            point.requests.errors,
            ms(response.p50_ns),
            ms(response.p95_ns),
            ms(response.p99_ns),
            ms(response.p999_ns),
            point.busy_ratio * 100.0,
            in_short(&point.verdict)
        )?;
    }
    crate::write_verdict(&result.verdict, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_rate_that_was_asked_and_the_level_of_each_point() {
        let golden = include_str!("../../../../../schemas/golden/sweep_result.json");
        let mut result: SweepResult = serde_json::from_str(golden).unwrap();
        result.points.truncate(1);
        let point = &mut result.points[0];
        (
            point.rate_per_s,
            point.offered_per_s,
            point.throughput_per_s,
        ) = (20.0, 17.0, 16.5);
        let mut check = point.verdict.checks[0].clone();
        (check.id, check.level) = ("samples".to_owned(), Level::Suspect);
        point.verdict = Verdict::of(vec![check]);
        let mut out = Vec::new();
        write_table(&result, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let rows: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(rows[0][..3], ["asked/s", "due/s", "done/s"]);
        assert_eq!(rows[1][..3], ["20.0", "17.0", "16.5"]);
        assert_eq!(rows[1][rows[1].len() - 2..], ["suspect:", "samples"]);
    }
}
