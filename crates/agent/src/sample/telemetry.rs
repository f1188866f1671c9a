//! Telemetry of jobs: operations and latency, as Prometheus text.
//!
//! In: where it is, by job. Out: how many operations there were between two looks, and how long they took.
//!
//! Invariants: a page that does not answer within a second, or a counter that went backwards, is missing and counted; a
//! job's page never holds up a window for longer than that.

use std::io::Read;
use std::time::Duration;

use bytes::Bytes;
use http::Request;

use super::prometheus::{Latency, Selector};
use crate::config::TelemetryConfig;
use crate::rows::Task;
use crate::store::http::send;

/// Time for a page.
const TIMEOUT: Duration = Duration::from_millis(500);
/// Longest page, bytes.
const MOST_BYTES: usize = 16 << 20;

/// A job's telemetry.
struct Place {
    config: TelemetryConfig,
    operations: Selector,
    latency: Option<Selector>,
}

/// All jobs'.
pub struct Telemetry {
    places: Vec<Place>,
    /// Pages and files that could not be read.
    pub failures: u64,
}

/// Counters of operations at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Operations {
    time_ns: u64,
    count: Option<f64>,
    latency: Option<Latency>,
    unit_s: f64,
}

/// What happened between two looks.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Happened {
    /// Operations, as many as the window is long.
    pub operations: Option<f64>,
    /// Mean latency, s.
    pub latency_mean_s: Option<f64>,
    /// 99th percentile of latency, s.
    pub latency_p99_s: Option<f64>,
}

impl Telemetry {
    /// The telemetry that was configured, which has been judged.
    pub fn new(configs: Vec<TelemetryConfig>) -> Self {
        let places = configs.into_iter().filter_map(|config| {
            Some(Place {
                operations: Selector::parse(&config.operations).ok()?,
                latency: config
                    .latency
                    .as_deref()
                    .and_then(|text| Selector::parse(text).ok()),
                config,
            })
        });
        Self {
            places: places.collect(),
            failures: 0,
        }
    }

    /// The current values of a task.
    pub fn read(&mut self, task: &Task, clock: &dyn Fn() -> u64) -> Operations {
        let fits = |place: &&Place| {
            place.config.job == task.job
                && place
                    .config
                    .task
                    .as_ref()
                    .is_none_or(|name| *name == task.task)
        };
        let Some(place) = self.places.iter().find(fits) else {
            return Operations::default();
        };
        let time_ns = clock();
        let Some(text) = place.text(task) else {
            self.failures += 1;
            return Operations::default();
        };
        Operations {
            time_ns,
            count: place.operations.sum(&text),
            latency: place
                .latency
                .as_ref()
                .map(|selector| selector.latency(&text)),
            unit_s: place.config.latency_unit_s,
        }
    }
}

impl Place {
    fn text(&self, task: &Task) -> Option<String> {
        let bytes = match (&self.config.file, &self.config.url) {
            (Some(file), _) => {
                // A task's name comes from outside, and must not lead out of the folder.
                let name = task.task.replace(['/', '\0'], "_");
                let path = file.replace("${task}", &name);
                let mut bytes = Vec::new();
                let opened = steelyard_record::open_file(std::path::Path::new(&path)).ok()?;
                opened
                    .take(MOST_BYTES as u64)
                    .read_to_end(&mut bytes)
                    .ok()?;
                bytes
            }
            (None, Some(url)) => {
                let request = Request::get(url).header("accept", "text/plain");
                let request = request.body(Bytes::new()).ok()?;
                let answer = send(&request, TIMEOUT, MOST_BYTES).ok()?;
                (answer.status == 200).then_some(answer.body)?
            }
            (None, None) => return None,
        };
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Operations {
    /// What happened since `earlier`, as much of it as falls into a window of `window_s`.
    pub fn since(&self, earlier: &Self, window_s: f64) -> Happened {
        let passed_s = self.time_ns.saturating_sub(earlier.time_ns) as f64 / 1e9;
        if passed_s <= 0.0 {
            return Happened::default();
        }
        let count = self.count.zip(earlier.count).map(|(now, then)| now - then);
        let operations = count
            .filter(|count| *count >= 0.0)
            .map(|count| count * window_s / passed_s);
        let between = self
            .latency
            .as_ref()
            .zip(earlier.latency.as_ref())
            .map(|(now, then)| now.since(then))
            .unwrap_or_default();
        Happened {
            operations,
            latency_mean_s: between.mean.map(|mean| mean * self.unit_s),
            latency_p99_s: between.p99.map(|p99| p99 * self.unit_s),
        }
    }
}
