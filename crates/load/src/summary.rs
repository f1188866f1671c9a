//! The load result, put together from what the threads counted.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use steelyard_record::{
    CONSTANTS, Clock, IntervalRow, Kind, LatencySummary, LoadCpu, LoadLatency, LoadOperations,
    LoadRequests, LoadResult, LoadSettings, LoadThread, Tool, Verdict,
};

use crate::control::{Counts, Interval, Phase};
use crate::latency::{Latencies, quantile, summary};
use crate::mix::Effect;
use crate::protocol::Protocol;
use crate::settings::Settings;
use crate::tally::Measured;
use crate::verdict::{Evidence, Rate, judge};
use crate::workload::Workload;

/// What a finished load leaves behind.
#[derive(Debug)]
pub struct Outcome {
    /// Both clocks at the start.
    pub clock: Clock,
    /// The transport that was used.
    pub io: &'static str,
    /// Measure phase.
    pub begin_ns: u64,
    /// Its end.
    pub end_ns: u64,
    /// Whether it was stopped before its time.
    pub interrupted: bool,
    /// Counts by intended time.
    pub measured: Measured,
    /// Latencies by intended time.
    pub latencies: Latencies,
    /// Counts of each thread over the measure phase, by the time of the event.
    pub threads: Vec<Counts>,
    /// CPU time of the controlling thread over the measure phase, user and system.
    pub controller_cpu_ns: (u64, u64),
    /// One row an interval.
    pub series: Vec<IntervalRow>,
}

/// The row of one interval.
pub fn row(interval: &Interval, phase: Phase) -> IntervalRow {
    let (counts, latencies) = (&interval.counts, &interval.latencies);
    IntervalRow {
        begin_ns: interval.begin_ns,
        end_ns: interval.end_ns,
        phase: phase.name().to_owned(),
        completed: counts.completed,
        errors: counts.errors,
        hits: counts.hits,
        misses: counts.misses,
        sent_bytes: counts.sent_bytes,
        received_bytes: counts.received_bytes,
        response_p50_ns: quantile(&latencies.response, 0.5),
        response_p99_ns: quantile(&latencies.response, 0.99),
        response_p999_ns: quantile(&latencies.response, 0.999),
        service_p50_ns: quantile(&latencies.service, 0.5),
        service_p99_ns: quantile(&latencies.service, 0.99),
        lag_p99_ns: quantile(&latencies.lag, 0.99),
        lag_p999_ns: quantile(&latencies.lag, 0.999),
    }
}

/// The whole result.
pub fn result(
    settings: &Settings,
    workload: &Workload,
    command: Vec<String>,
    mut outcome: Outcome,
) -> LoadResult {
    outcome.latencies.complete();
    let seconds = (outcome.end_ns - outcome.begin_ns) as f64 / 1e9;
    let mut total = Counts::default();
    for thread in &outcome.threads {
        total.add(thread);
    }
    let measured = &outcome.measured;
    let throughput_per_s = over(total.completed as f64, seconds);
    let offered_per_s = settings
        .offers_per_s()
        .map(|_| over(measured.tally.due as f64, seconds));
    let requests = requests(settings.protocol, measured);
    let rate = offered_per_s.map(|_| Rate {
        requests: requests.clone(),
        response_mean_ns: outcome.latencies.response.mean(),
        length_ns: outcome.end_ns - outcome.begin_ns,
        warmup_ns: settings.known_warmup_ns(),
    });
    let threads = thread_rows(&outcome.threads, seconds);
    let achieved_ratio = rate.as_ref().map(Rate::achieved_ratio);
    let verdict = verdict(&outcome, &requests, rate, &threads);
    LoadResult {
        kind: Kind::of::<LoadResult>(),
        tool: Tool {
            name: "steelyard-load".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        command,
        clock: outcome.clock,
        settings: settings_record(settings, outcome.io),
        begin_ns: outcome.begin_ns,
        end_ns: outcome.end_ns,
        interrupted: outcome.interrupted,
        requests,
        operations: operations(workload, measured, &outcome.latencies),
        throughput_per_s,
        offered_per_s,
        achieved_ratio,
        sent_bytes: total.sent_bytes,
        received_bytes: total.received_bytes,
        latency: latency(&outcome.latencies),
        cpu: cpu(&total, outcome.controller_cpu_ns),
        series: outcome.series,
        threads,
        verdict,
        hosts: None,
    }
}

/// A part over a whole that may be 0, of which nothing is a part.
fn over(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

fn verdict(
    outcome: &Outcome,
    requests: &LoadRequests,
    rate: Option<Rate>,
    threads: &[LoadThread],
) -> Verdict {
    let latencies = &outcome.latencies;
    judge(&Evidence {
        requests,
        measured: &outcome.measured,
        rate,
        busy_ratio: threads
            .iter()
            .map(|thread| thread.busy_ratio)
            .fold(0.0, f64::max),
        interrupted: outcome.interrupted,
        lag_and_response_ns: quantile(&latencies.lag, 0.99).zip(quantile(&latencies.response, 0.5)),
        lag_ratio: lag_ratio(latencies),
    })
}

/// The share of the response time that passed in the generator. Means add up, percentiles do not.
pub fn lag_ratio(latencies: &Latencies) -> Option<f64> {
    let response = latencies.response.mean();
    (response > 0.0).then(|| (latencies.lag.mean() / response).min(1.0))
}

/// The counts of requests as records have them.
pub fn requests(protocol: Protocol, measured: &Measured) -> LoadRequests {
    LoadRequests {
        intended: measured.tally.due,
        sent: measured.tally.sent,
        completed: measured.tally.completed,
        errors: measured.tally.errors,
        errors_by_kind: measured
            .errors_by_kind
            .iter()
            .map(|(kind, n)| ((*kind).to_owned(), *n))
            .collect(),
        answers_by_class: answers_by_class(protocol, measured),
        outstanding_at_end: measured.outstanding,
        unsent: measured.unsent,
        completed_after: Some(measured.tally.completed_after),
        completed_from_before: Some(measured.tally.completed_from_before),
        errors_after: Some(measured.tally.errors_after),
        errors_from_before: Some(measured.tally.errors_from_before),
    }
}

fn latency(latencies: &Latencies) -> LoadLatency {
    LoadLatency {
        response: quotable(summary(&latencies.response)),
        service: quotable(summary(&latencies.service)),
        lag: quotable(summary(&latencies.lag)),
        queued: Some(quotable(summary(&latencies.queued))),
    }
}

/// CPU time of the load's threads and of the one that controls them.
fn cpu(total: &Counts, controller_cpu_ns: (u64, u64)) -> LoadCpu {
    let user_s = (total.cpu_user_ns + controller_cpu_ns.0) as f64 / 1e9;
    let system_s = (total.cpu_system_ns + controller_cpu_ns.1) as f64 / 1e9;
    let cpu_s = user_s + system_s;
    LoadCpu {
        user_s,
        system_s,
        requests_per_cpu_s: (cpu_s > 0.0).then(|| total.completed as f64 / cpu_s),
    }
}

/// Answers by class, refusals among them.
fn answers_by_class(protocol: Protocol, measured: &Measured) -> Option<BTreeMap<String, u64>> {
    if protocol != Protocol::Http {
        return None;
    }
    let refused = measured.errors_by_kind.iter().filter_map(|(kind, count)| {
        let class = kind.strip_prefix("status-")?;
        Some((class.to_owned(), *count))
    });
    let completed = measured.answers_by_class.iter();
    Some(
        completed
            .map(|(class, count)| ((*class).to_owned(), *count))
            .chain(refused)
            .collect(),
    )
}

/// Takes out the percentiles that too few samples lie beyond.
pub fn quotable(mut summary: LatencySummary) -> LatencySummary {
    if summary.count < CONSTANTS.samples_beyond_percentile * 1_000 {
        summary.p999_ns = None;
    }
    if summary.count < CONSTANTS.samples_beyond_percentile * 10_000 {
        summary.p9999_ns = None;
    }
    summary
}

fn operations(
    workload: &Workload,
    measured: &Measured,
    latencies: &Latencies,
) -> BTreeMap<String, LoadOperations> {
    let responses = responses(workload, measured, latencies);
    let rows = workload.operations().iter().zip(&measured.operations);
    rows.map(|(operation, counts)| {
        let finds = operation.effect == Effect::Read;
        let response = responses.get(operation.name.as_str());
        let row = LoadOperations {
            completed: counts.completed,
            hits: finds.then_some(counts.hits),
            misses: finds.then_some(counts.misses),
            response: response.map(|r| quotable(summary(r))),
        };
        (operation.name.clone(), row)
    })
    .collect()
}

/// The response times of each operation that is drawn.
pub fn responses<'a>(
    workload: &'a Workload,
    measured: &'a Measured,
    latencies: &'a Latencies,
) -> BTreeMap<&'a str, &'a Histogram<u64>> {
    let operations = workload.operations().iter().enumerate();
    operations
        .filter_map(|(index, operation)| {
            // Where there is but one to draw from, all response times are its.
            let response = match measured.responses.get(index) {
                Some(responses) => Some(responses),
                None => (operation.weight > 0.0).then_some(&latencies.response),
            };
            Some((operation.name.as_str(), response?))
        })
        .collect()
}

fn thread_rows(threads: &[Counts], seconds: f64) -> Vec<LoadThread> {
    let row = |(index, counts): (usize, &Counts)| {
        let cpu_ns = counts.cpu_user_ns + counts.cpu_system_ns;
        let worked_s = cpu_ns.saturating_sub(counts.spin_ns) as f64 / 1e9;
        LoadThread {
            index: index as u32,
            completed: counts.completed,
            cpu_user_s: counts.cpu_user_ns as f64 / 1e9,
            cpu_system_s: counts.cpu_system_ns as f64 / 1e9,
            busy_ratio: if seconds > 0.0 {
                (worked_s / seconds).min(1.0)
            } else {
                0.0
            },
        }
    };
    threads.iter().enumerate().map(row).collect()
}

/// The settings as records hold them.
pub fn settings_record(settings: &Settings, io: &str) -> LoadSettings {
    let rate_per_s = settings.offers_per_s();
    let open = rate_per_s.is_some();
    LoadSettings {
        protocol: settings.protocol.name().to_owned(),
        target: settings.target.first().to_string(),
        tls: settings.tls.is_some(),
        io: io.to_owned(),
        threads: settings.threads,
        connections: settings.connections,
        depth: settings.depth,
        r#loop: if open { "open" } else { "closed" }.to_owned(),
        arrival: open.then(|| match &settings.trace {
            Some(_) => "trace".to_owned(),
            None => settings.arrival.name(),
        }),
        rate_per_s,
        warmup_s: settings.warmup_ns as f64 / 1e9,
        duration_s: settings.duration_ns as f64 / 1e9,
        seed: settings.seed,
        keys: settings.keys,
        mix: settings.named_mix.clone(),
        trace: settings
            .trace
            .as_ref()
            .map(|trace| trace.path.display().to_string()),
        key_distribution: settings.key_distribution.clone(),
        key_sizes: settings.key_sizes.name().to_owned(),
        value_sizes: settings.value_sizes.name().to_owned(),
        set_ratio: settings.set_ratio,
    }
}
