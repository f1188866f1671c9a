use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::version::{Kind, Record};
use crate::{Clock, Level, Verdict};

/// What a load generator offered and what came back: `load.json`. Everything but `series` covers the measure phase only.
///
/// A request belongs to the phase in which it was due: `requests`, `operations`, `latency` and `offered_per_s`
/// are of the requests that were due in it, whenever they ended. `throughput_per_s`, bytes, `threads` and `cpu` are of
/// what happened in it, whenever due.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadResult {
    /// Schema version and kind.
    #[serde(flatten)]
    pub kind: Kind,
    /// The program that wrote it.
    pub tool: Tool,
    /// Its command line.
    pub command: Vec<String>,
    /// Both clocks at the start.
    pub clock: Clock,
    /// What was asked for.
    pub settings: LoadSettings,
    /// Start of the measure phase.
    pub begin_ns: u64,
    /// End of the measure phase.
    pub end_ns: u64,
    /// Whether the load was stopped before its time.
    pub interrupted: bool,
    /// Counts over the measure phase.
    pub requests: LoadRequests,
    /// Counts by operation, `get` and `set` for a cache.
    pub operations: BTreeMap<String, LoadOperations>,
    /// Requests per second that were completed in the phase, whenever they were due; errors excluded.
    pub throughput_per_s: f64,
    /// Requests per second that the schedule asked for, null in a closed loop.
    pub offered_per_s: Option<f64>,
    /// Completed in the phase over due in it, `throughput_per_s` over `offered_per_s`; null in a closed loop.
    pub achieved_ratio: Option<f64>,
    /// Bytes written to the server in the phase, for every request.
    pub sent_bytes: u64,
    /// Bytes read from the server in the phase, for every request.
    pub received_bytes: u64,
    /// Distributions.
    pub latency: LoadLatency,
    /// One row a second, warm-up and drain included.
    pub series: Vec<IntervalRow>,
    /// One row a thread.
    pub threads: Vec<LoadThread>,
    /// CPU used by the generator.
    pub cpu: LoadCpu,
    /// Whether the generator vouches for the result.
    pub verdict: Verdict,
    /// One row a host, null when one process made the load; counts and latencies above are of all of them.
    /// Absent before 1.3.
    #[serde(default)]
    pub hosts: Option<Vec<LoadHost>>,
}

/// One process of a load that several made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadHost {
    /// As `--host` named it.
    pub name: String,
    /// How long after the first process it began to measure, by the clock of the one that commanded, ns.
    pub began_after_ns: u64,
    /// Its connections.
    pub connections: u32,
    /// Requests per second that its schedule asked for, null in a closed loop.
    pub offered_per_s: Option<f64>,
    /// Requests per second that were completed in the phase, whenever due.
    pub throughput_per_s: f64,
    /// Answered without an error.
    pub completed: u64,
    /// Failed.
    pub errors: u64,
    /// Median response time, null without answers.
    pub response_p50_ns: Option<u64>,
    /// 99th percentile of response time, null without answers.
    pub response_p99_ns: Option<u64>,
    /// The busiest generator thread's share of its CPU.
    pub busy_ratio: f64,
    /// Its verdict about its own part.
    pub verdict: Level,
    /// Why it was lost before the end, null where it was not. When one is lost, the record holds what every host
    /// had reported until then: without operations, threads and kinds of errors, and `busy_ratio` is a host's mean over its
    /// threads. Absent before 1.4.
    #[serde(default)]
    pub lost: Option<String>,
}

/// A program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// What was asked of the generator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadSettings {
    /// Codec, such as `memcached`.
    pub protocol: String,
    /// Address and port.
    pub target: String,
    /// Whether the protocol is wrapped in TLS. Absent before 1.2.
    #[serde(default)]
    pub tls: bool,
    /// How bytes are moved: `uring` or `epoll`; `unknown` when a host was lost before it reported.
    pub io: String,
    /// Generator threads.
    pub threads: u32,
    /// Connections over all threads.
    pub connections: u32,
    /// Requests in flight per connection at most.
    pub depth: u32,
    /// `closed` or `open`.
    pub r#loop: String,
    /// `constant`, `poisson`, `ramp:FROM-TO`, `step:R1,R2,...` or `recorded:FILE`, null in a closed loop.
    pub arrival: Option<String>,
    /// Offered rate, its mean where the arrival brings its own, null in a closed loop.
    pub rate_per_s: Option<f64>,
    /// Length of the warm-up, s; with `hold` its minimum.
    pub warmup_s: f64,
    /// Length of the measure phase, s.
    pub duration_s: f64,
    /// Seed of every random choice.
    pub seed: u64,
    /// Number of keys.
    pub keys: u64,
    /// The mix file, or the shipped mix, that says what is sent; null where the flags do. Absent before 1.2.
    #[serde(default)]
    pub mix: Option<String>,
    /// The trace that says what is sent when; null without one. Absent before 1.2.
    #[serde(default)]
    pub trace: Option<String>,
    /// The law, such as `uniform` or `zipf:EXPONENT`.
    pub key_distribution: String,
    /// Where key sizes come from: a number of bytes or a file's name.
    pub key_sizes: String,
    /// Where value sizes come from: a number of bytes or a file's name.
    pub value_sizes: String,
    /// Share of requests that store.
    pub set_ratio: f64,
}

/// Requests of the measure phase. `intended` is `sent` plus `unsent`; `sent` is `completed` plus `errors` plus
/// `outstanding_at_end`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadRequests {
    /// Whose intended time fell in the phase.
    pub intended: u64,
    /// Put on the wire; once, however often sent again.
    pub sent: u64,
    /// Answered without an error.
    pub completed: u64,
    /// Answered with an error, or lost with their connection.
    pub errors: u64,
    /// Errors by what they were.
    pub errors_by_kind: BTreeMap<String, u64>,
    /// Answers, those with an error among them, by the class that the protocol puts them in, such as `2xx` for HTTP; null for
    /// protocols without classes. Absent before 1.2.
    #[serde(default)]
    pub answers_by_class: Option<BTreeMap<String, u64>>,
    /// Sent and not yet answered when the phase and its drain had ended.
    pub outstanding_at_end: u64,
    /// Intended but never sent, because too many were outstanding or no connection had room.
    pub unsent: u64,
    /// Of `completed`, those that were answered after the phase. Absent before 1.5.
    #[serde(default)]
    pub completed_after: Option<u64>,
    /// Not among the above: answered without an error in the phase, due before it. `throughput_per_s` times the length of
    /// the phase is `completed` - `completed_after` + `completed_from_before`. Absent before 1.5.
    #[serde(default)]
    pub completed_from_before: Option<u64>,
    /// Of `errors`, those that came after the phase. Absent before 1.5.
    #[serde(default)]
    pub errors_after: Option<u64>,
    /// Not among the above: failed in the phase, due before it. Absent before 1.5.
    #[serde(default)]
    pub errors_from_before: Option<u64>,
}

/// Counts of one operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadOperations {
    /// Answered without an error.
    pub completed: u64,
    /// Keys found, null for operations that find nothing.
    pub hits: Option<u64>,
    /// Keys not found, null for operations that find nothing.
    pub misses: Option<u64>,
    /// Response time of the answers without an error, from the intended time. Absent before 1.1.
    #[serde(default)]
    pub response: Option<LatencySummary>,
}

/// Distributions of the measure phase, ns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadLatency {
    /// From the intended time to the answer.
    pub response: LatencySummary,
    /// From the send to the answer.
    pub service: LatencySummary,
    /// From the intended time to the send, without `queued`: what the generator itself took to notice that the
    /// request was due, and to send it once a connection had room.
    pub lag: LatencySummary,
    /// How long requests that had been noticed to be due waited for a connection with room; 0 for those
    /// that did not have to. From the intended time to the send is `lag` plus `queued`. Absent before 1.1.
    #[serde(default)]
    pub queued: Option<LatencySummary>,
}

/// A distribution in figures; all null when it is empty.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// Values counted.
    pub count: u64,
    /// Smallest, ns.
    pub min_ns: Option<u64>,
    /// Largest, ns.
    pub max_ns: Option<u64>,
    /// Arithmetic mean, ns.
    pub mean_ns: Option<f64>,
    /// Standard deviation, ns.
    pub stdev_ns: Option<f64>,
    /// Median, ns.
    pub p50_ns: Option<u64>,
    /// 90th percentile, ns.
    pub p90_ns: Option<u64>,
    /// 95th percentile, ns.
    pub p95_ns: Option<u64>,
    /// 99th percentile, ns.
    pub p99_ns: Option<u64>,
    /// 99.9th percentile, ns.
    pub p999_ns: Option<u64>,
    /// 99.99th percentile, ns.
    pub p9999_ns: Option<u64>,
    /// The whole curve, for drawing.
    pub curve: Vec<QuantileValue>,
}

/// A point of a percentile curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct QuantileValue {
    /// Quantile, 0 to 1.
    pub quantile: f64,
    /// Value at it, ns.
    pub value_ns: u64,
}

/// One second of load, by the time of each event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IntervalRow {
    /// Start of the interval.
    pub begin_ns: u64,
    /// End of the interval.
    pub end_ns: u64,
    /// `warmup`, `measure` or `drain`.
    pub phase: String,
    /// Answers without an error.
    pub completed: u64,
    /// Errors.
    pub errors: u64,
    /// Keys found.
    pub hits: u64,
    /// Keys not found.
    pub misses: u64,
    /// Bytes written to the server.
    pub sent_bytes: u64,
    /// Bytes read from the server.
    pub received_bytes: u64,
    /// Median response time, null without answers.
    pub response_p50_ns: Option<u64>,
    /// 99th percentile of response time, null without answers.
    pub response_p99_ns: Option<u64>,
    /// 99.9th percentile of response time, null without answers.
    pub response_p999_ns: Option<u64>,
    /// Median service time, null without answers.
    pub service_p50_ns: Option<u64>,
    /// 99th percentile of service time, null without answers.
    pub service_p99_ns: Option<u64>,
    /// 99th percentile of schedule lag, null without sends.
    pub lag_p99_ns: Option<u64>,
    /// 99.9th percentile of schedule lag, null without sends. Absent before 1.1.
    #[serde(default)]
    pub lag_p999_ns: Option<u64>,
}

/// What one generator thread did in the measure phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadThread {
    /// Number, from 0.
    pub index: u32,
    /// Requests it completed in the phase, whenever due.
    pub completed: u64,
    /// User CPU time, s.
    pub cpu_user_s: f64,
    /// System CPU time, s.
    pub cpu_system_s: f64,
    /// CPU time over wall time, 0 to 1.
    pub busy_ratio: f64,
}

/// CPU used by the generator in the measure phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadCpu {
    /// User CPU time, s.
    pub user_s: f64,
    /// System CPU time, s.
    pub system_s: f64,
    /// Completed requests per second of the generator's CPU time, null without CPU time.
    pub requests_per_cpu_s: Option<f64>,
}

impl Record for LoadResult {
    const KIND: &'static str = "load_result";
    const VERSION: &'static str = "1.5";
}
