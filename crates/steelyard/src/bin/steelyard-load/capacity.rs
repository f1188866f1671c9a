//! `steelyard-load capacity`: the highest rate that meets an objective.

use std::io::{self, Write};
use std::sync::atomic::AtomicBool;

use steelyard::output::print;
use steelyard::{Exit, Failure};
use steelyard_load::capacity::{Capacity, End, Trail};
use steelyard_load::progress::Progress;
use steelyard_load::slo::Slo;
use steelyard_load::{LoadError, Settings};
use steelyard_record::{CapacityResult, Clock, monotonic_ns};

use crate::arguments::LoadArguments;
use crate::settings::{failure, progress, settings};

/// Find the highest rate at which the server meets an objective, as an interval.
///
/// The capacity is the rate at which the objective holds in the long run. Each probe is an open loop at one rate, of
/// at least --warmup and --duration; probes near the capacity are longer, since queues grow slowly there.
/// Exit codes: 0 an interval or a lower bound was found, 1 no rate meets the objective or the result is invalid, 4 the
/// server failed or the search was stopped.
#[derive(Debug, clap::Args)]
#[command(after_help = steelyard::examples!(
    "steelyard-load capacity http://127.0.0.1:8080/ --slo 'p99<=5ms'",
    "steelyard-load capacity redis://127.0.0.1:6379 --slo 'p99.9<=2ms' --time 5m --json",
))]
pub struct CapacityArguments {
    /// Objective, such as p99<=5ms: p50 to p99.99 of response time, errors, achieved
    #[arg(long, value_name = "TEXT")]
    pub slo: String,
    /// Maximum number of loads, including the first closed loop
    #[arg(long, value_name = "N", default_value_t = 12)]
    pub probes: usize,
    /// Time for all loads and warm-ups [default: --probes times --warmup and --duration]
    #[arg(long, value_parser = steelyard::args::duration)]
    pub time: Option<std::time::Duration>,
    /// Confidence of the interval
    #[arg(long, value_name = "RATIO", default_value_t = 0.95)]
    pub confidence: f64,
    /// Width of the interval, relative to the rate, at which the search ends early
    #[arg(long, value_name = "RATIO", default_value_t = 0.05)]
    pub width: f64,
    /// First rate [default: from a short closed loop]
    #[arg(long, value_name = "PER_SECOND")]
    pub start: Option<f64>,
    /// Time to wait for an overloaded server after a probe
    #[arg(long, value_parser = steelyard::args::duration, default_value = "10s")]
    pub settle: std::time::Duration,
    #[command(flatten)]
    pub load: LoadArguments,
}

/// An objective's text, read here rather than by clap so that an error is one line.
fn slo(text: &str) -> Result<Slo, Failure> {
    text.parse()
        .map_err(|error: steelyard_load::slo::SloError| {
            let why = error.to_string();
            let name = "--slo";
            Failure::new(Exit::Usage, LoadError::setting(name, why))
        })
}

/// Refuses flags of a single load, and returns the settings of the others.
pub fn base(load: &LoadArguments, settle: std::time::Duration) -> Result<Settings, Failure> {
    let wrong = |name, why: &str| {
        let why = why.to_owned();
        Err(Failure::new(Exit::Usage, LoadError::setting(name, why)))
    };
    if load.rate.is_some() {
        return wrong(
            "--rate",
            "is for a single load; the search chooses its own rates",
        );
    }
    if load.hold {
        return wrong("--hold", "is for a single load");
    }
    if load.hlog.is_some() {
        return wrong("--hlog", "is for a single load");
    }
    let settings = settings(load, true)?;
    let settle_ns = u64::try_from(settle.as_nanos()).unwrap_or(u64::MAX / 4);
    Ok(Settings {
        drain_ns: settings.drain_ns.max(settle_ns),
        ..settings
    })
}

/// Progress of the loads that a search consists of: for a person its own lines say enough.
pub fn inner(progress: Progress) -> Progress {
    match progress {
        Progress::Json | Progress::Live => progress,
        Progress::Text | Progress::None => Progress::None,
    }
}

/// Runs the search and writes its result.
pub fn run(arguments: &CapacityArguments, stop: &AtomicBool) -> Result<Exit, Failure> {
    let load = &arguments.load;
    let capacity = Capacity {
        settings: base(load, arguments.settle)?,
        slo: slo(&arguments.slo)?,
        probes: arguments.probes,
        time_ns: arguments
            .time
            .map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 4)),
        confidence: arguments.confidence,
        width_ratio: arguments.width,
        start_per_s: arguments.start,
    };
    capacity.check().map_err(failure)?;
    if load.check {
        return crate::settings::check(&capacity.settings);
    }
    let progress = progress(load);
    let mut offer = crate::hosts::offerer(load, &capacity.settings, inner(progress), stop)?;
    let begin = Clock::now();
    let trail = capacity.run(offer.as_mut(), stop, progress);
    progress.end();
    let trail: Trail = trail.map_err(failure)?;
    let (end, host) = (trail.end, trail.host.clone());
    let command = crate::command();
    let result = trail.record(&capacity, command, begin, monotonic_ns());
    crate::write(load, &result)?;
    if !load.json && progress != Progress::Json {
        print(|out| write_table(&result, out))?;
    }
    if let Some(host) = host {
        return Err(crate::hosts::lost(host));
    }
    Ok(match (end, result.answer.as_str()) {
        (End::Interrupted | End::Lost | End::HostLost, _) => Exit::Failed,
        (_, "never") => Exit::No,
        _ => crate::exit(false, &result.verdict),
    })
}

/// Which rates met the objective, and which did not.
fn tried_words(met_per_s: Option<f64>, unmet_per_s: Option<f64>, probes: usize) -> String {
    let place = |end: &str| match probes {
        1 => "the only probe".to_owned(),
        _ => format!("the {end} of {probes} probes"),
    };
    match (met_per_s, unmet_per_s) {
        (Some(met), Some(unmet)) => format!(
            "met at {met:.1}/s, not met at {unmet:.1}/s (highest and lowest of {probes} probes)"
        ),
        (Some(met), None) => format!("met at {met:.1}/s, {}; no probe failed", place("highest")),
        (None, Some(unmet)) => {
            format!(
                "not met at {unmet:.1}/s, {}; no probe met it",
                place("lowest")
            )
        }
        (None, None) => "no rate".to_owned(),
    }
}

/// A short table for a person: what was tried and, apart from it, what follows for the capacity.
fn write_table(result: &CapacityResult, out: &mut dyn Write) -> io::Result<()> {
    let rate = |rate: Option<f64>| {
        rate.map_or_else(|| "no rate".to_owned(), |rate| format!("{rate:.1}/s"))
    };
    writeln!(out, "objective   {}", result.slo)?;
    if let Some(tried) = &result.tried {
        let words = tried_words(tried.met_per_s, tried.unmet_per_s, result.probes.len());
        writeln!(out, "tried       {words}")?;
    }
    match (&result.interval, result.answer.as_str()) {
        (_, "never") => writeln!(
            out,
            "capacity    none: the server met the objective at no offered rate"
        ),
        (Some(interval), "interval") => writeln!(
            out,
            "capacity    {} to {} with {:.1} % confidence, {} {}",
            rate(interval.low_per_s),
            rate(interval.high_per_s),
            interval.confidence * 100.0,
            if result.collapse.is_some() {
                "held up to"
            } else {
                "best estimate"
            },
            rate(result.estimate_per_s)
        ),
        (Some(interval), _) => writeln!(out, "capacity    at least {}", rate(interval.low_per_s)),
        (None, _) => writeln!(out, "capacity    unknown"),
    }?;
    if let Some(collapse) = &result.collapse {
        writeln!(
            out,
            "collapse    {:.1}/s served under overload, back at {}",
            collapse.served_per_s,
            rate(collapse.back_per_s)
        )?;
    }
    if let Some(changing) = &result.changing {
        writeln!(
            out,
            "speed       {:.1}/s and {:.1}/s in turn, about {:.0} s each",
            changing.slow_per_s, changing.fast_per_s, changing.lasts_s
        )?;
    }
    writeln!(out, "ended       {}", result.ended)?;
    crate::write_verdict(&result.verdict, out)
}

#[cfg(test)]
mod tests {
    use super::tried_words;

    #[test]
    fn what_was_tried_names_only_rates_that_were() {
        let both = tried_words(Some(80.0), Some(90.0), 12);
        assert_eq!(
            both,
            "met at 80.0/s, not met at 90.0/s (highest and lowest of 12 probes)"
        );
        let one = tried_words(Some(57.5), None, 1);
        assert_eq!(one, "met at 57.5/s, the only probe; no probe failed");
        let none = tried_words(None, Some(5.0), 3);
        assert_eq!(
            none,
            "not met at 5.0/s, the lowest of 3 probes; no probe met it"
        );
    }
}
