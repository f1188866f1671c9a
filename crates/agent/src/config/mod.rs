//! The configuration: TOML, every key judged when it is read.
//!
//! In: the text of a file, and what the command line says. Out: settings that fit together, or one line that says what
//! does not.
//!
//! Invariants: an unknown key is an error; every key has an entry in [`keys::KEYS`], from which the reference is checked.

pub mod keys;

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::identity::rules::RuleText;
use crate::rows::Labels;

/// What a file may say.
#[derive(Debug, Clone, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The cluster that this machine belongs to.
    pub cluster: Option<String>,
    /// The machine's name.
    pub machine: Option<String>,
    /// Its kind of CPU.
    pub platform: Option<String>,
    /// Labels of the machine.
    pub labels: Labels,
    /// Where rows go.
    pub store: StoreConfig,
    /// Where they wait.
    pub spool: SpoolConfig,
    /// How tasks are sampled.
    pub sampling: SamplingConfig,
    /// How they are profiled.
    pub profiles: ProfilesConfig,
    /// Figures for Prometheus.
    pub metrics: MetricsConfig,
    /// What the agent itself may use.
    pub limits: LimitsConfig,
    /// The machine's capacities, which it cannot report itself.
    pub machine_limits: MachineLimits,
    /// Whether the agent's own rules are asked after those of the file.
    pub shipped_rules: bool,
    /// Rules that make control groups tasks.
    pub rule: Vec<RuleText>,
    /// Telemetry of jobs.
    pub telemetry: Vec<TelemetryConfig>,
    /// The guard's own settings.
    pub guard: toml::Table,
}

/// Where rows go.
#[derive(Debug, Clone, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct StoreConfig {
    /// A folder or `s3://BUCKET/PREFIX`.
    pub url: Option<String>,
    /// Make it a store where it is none.
    pub create: bool,
}

/// Where rows wait.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SpoolConfig {
    /// The folder.
    pub folder: Option<PathBuf>,
    /// Windows of so many minutes share a file.
    pub batch_minutes: u32,
    /// Bytes of waiting files, in MiB.
    pub bound_mib: u64,
}

/// How tasks are sampled.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SamplingConfig {
    /// Time from one window to the next, s.
    pub period_s: u32,
    /// Length of a window, s.
    pub window_s: f64,
    /// Tasks that are sampled at most.
    pub max_tasks: usize,
    /// Whether performance events are counted.
    pub counters: bool,
}

/// How tasks are profiled.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProfilesConfig {
    /// Share of minutes that are profiled.
    pub minutes_ratio: f64,
    /// Samples a second of each busy CPU.
    pub hz: u32,
    /// Machines of one seed choose independently; another seed is another choice.
    pub seed: u64,
    /// Maximum stacks stored for a minute, the most frequent first.
    pub max_stacks: usize,
}

/// Figures for Prometheus.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MetricsConfig {
    /// Address and port; empty for none.
    pub listen: String,
}

/// What the agent itself may use.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// CPU seconds a second, over ten minutes: above it profiles are left out, and then windows.
    pub cpu_ratio: f64,
    /// Resident memory, MiB: above it batches are written out and profiles left out.
    pub memory_mib: u64,
}

/// What a machine cannot report about itself.
#[derive(Debug, Clone, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct MachineLimits {
    /// Most memory bandwidth.
    pub memory_bandwidth_bytes_per_s: Option<f64>,
    /// Most disk throughput.
    pub disk_bytes_per_s: Option<f64>,
    /// Most network throughput.
    pub network_bytes_per_s: Option<f64>,
}

/// Where a job's telemetry is, and what of it counts.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TelemetryConfig {
    /// The job.
    pub job: String,
    /// Task of the job; all of its tasks when absent.
    pub task: Option<String>,
    /// A file of Prometheus text; `${task}` stands for the task's name.
    pub file: Option<String>,
    /// A page of Prometheus text, `http://127.0.0.1:PORT/metrics`.
    pub url: Option<String>,
    /// The counter of operations, with labels that must match: `requests_total{code="200"}`.
    pub operations: String,
    /// The histogram or summary of latency.
    pub latency: Option<String>,
    /// What one unit of it is, s.
    #[serde(default = "default_latency_unit_s")]
    pub latency_unit_s: f64,
}

fn default_latency_unit_s() -> f64 {
    1.0
}

impl Default for SpoolConfig {
    fn default() -> Self {
        Self {
            folder: None,
            batch_minutes: 10,
            bound_mib: 1024,
        }
    }
}

impl Default for SamplingConfig {
    fn default() -> Self {
        Self {
            period_s: 60,
            window_s: 10.0,
            max_tasks: 1000,
            counters: true,
        }
    }
}

impl Default for ProfilesConfig {
    fn default() -> Self {
        Self {
            minutes_ratio: 0.01,
            hz: 49,
            seed: 0,
            max_stacks: 20_000,
        }
    }
}

impl Default for MetricsConfig {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:9273".to_owned(),
        }
    }
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            cpu_ratio: 0.02,
            memory_mib: 128,
        }
    }
}

/// Longest name of a machine or cluster, percent-encoded, so that names of files have room for it.
const LONGEST_NAME: usize = 80;
/// Longest configuration, bytes.
const CONFIG_BYTES_MAX: u64 = 1 << 20;

impl Config {
    /// The settings in the text of a file.
    pub fn parse(text: &str) -> Result<Self, String> {
        // An absent key of the outermost table would be false by `default`.
        let mut table: toml::Table = toml::from_str(text).map_err(|error| place(text, &error))?;
        table
            .entry("shipped_rules")
            .or_insert(toml::Value::Boolean(true));
        // Judged from the text where it can be, so that an error names its line.
        let config: Self = match toml::from_str::<Self>(text) {
            Err(error) => return Err(place(text, &error)),
            Ok(_) => table
                .try_into()
                .map_err(|error: toml::de::Error| place(text, &error))?,
        };
        config.judge()?;
        Ok(config)
    }

    /// The settings of an absent file.
    pub fn empty() -> Self {
        Self::parse("").expect("what is absent fits")
    }

    /// The settings in a file.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = steelyard_record::read_text_file(path, CONFIG_BYTES_MAX)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Self::parse(&text).map_err(|reason| format!("{}: {reason}", path.display()))
    }

    /// Whether every value fits, and fits the others.
    fn judge(&self) -> Result<(), String> {
        let sampling = &self.sampling;
        between(
            "sampling.period_s",
            f64::from(sampling.period_s),
            1.0,
            3600.0,
        )?;
        between("sampling.window_s", sampling.window_s, 0.01, 3600.0)?;
        if sampling.window_s > f64::from(sampling.period_s) * 0.95 {
            return Err(format!(
                "sampling.window_s is {}, which leaves too little of the {} s of sampling.period_s",
                sampling.window_s, sampling.period_s
            ));
        }
        between(
            "sampling.max_tasks",
            sampling.max_tasks as f64,
            1.0,
            100_000.0,
        )?;
        let batch = self.spool.batch_minutes;
        if batch == 0 || 1440 % batch != 0 {
            return Err(format!(
                "spool.batch_minutes is {batch}, which does not divide a day into equal parts"
            ));
        }
        between("spool.bound_mib", self.spool.bound_mib as f64, 1.0, 1e9)?;
        between(
            "profiles.minutes_ratio",
            self.profiles.minutes_ratio,
            0.0,
            1.0,
        )?;
        between("profiles.hz", f64::from(self.profiles.hz), 1.0, 1000.0)?;
        between(
            "profiles.max_stacks",
            self.profiles.max_stacks as f64,
            1.0,
            1e6,
        )?;
        between("limits.cpu_ratio", self.limits.cpu_ratio, 0.0001, 64.0)?;
        between(
            "limits.memory_mib",
            self.limits.memory_mib as f64,
            16.0,
            1e6,
        )?;
        self.judge_places()?;
        crate::identity::rules::Rules::new(&self.rule, self.shipped_rules)?;
        self.telemetry.iter().try_for_each(judge_telemetry)
    }

    /// Whether names and addresses fit.
    fn judge_places(&self) -> Result<(), String> {
        for (key, name) in [
            ("cluster", &self.cluster),
            ("machine", &self.machine),
            ("platform", &self.platform),
        ] {
            if let Some(name) = name {
                judge_name(key, name)?;
            }
        }
        let listen = &self.metrics.listen;
        if !listen.is_empty() {
            let address: std::net::SocketAddr = listen.parse().map_err(|_| {
                format!("metrics.listen is {listen:?}, not an address such as 127.0.0.1:9273")
            })?;
            if !address.ip().is_loopback() {
                return Err(format!(
                    "metrics.listen is {listen}, which is not on loopback: the page has no protection"
                ));
            }
        }
        Ok(())
    }
}

fn between(key: &str, value: f64, low: f64, high: f64) -> Result<(), String> {
    match (low..=high).contains(&value) {
        true => Ok(()),
        false => Err(format!(
            "{key} is {value}, which is not from {low} to {high}"
        )),
    }
}

/// Whether a name fits into paths.
pub fn judge_name(key: &str, name: &str) -> Result<(), String> {
    let encoded = crate::table::percent_encode(name);
    if name.is_empty() || name.chars().any(char::is_control) || encoded.len() > LONGEST_NAME {
        return Err(format!(
            "{key} is {name:?}, which is empty, not printable, or longer than {LONGEST_NAME} bytes"
        ));
    }
    Ok(())
}

fn judge_telemetry(telemetry: &TelemetryConfig) -> Result<(), String> {
    let job = &telemetry.job;
    let refuse = |reason: String| Err(format!("telemetry of job {job:?}: {reason}"));
    match (&telemetry.file, &telemetry.url) {
        (Some(_), None) => {}
        (None, Some(url)) => {
            let parsed = crate::store::http::parse_url(url);
            if parsed.is_none_or(|url| url.scheme_str() != Some("http")) {
                return refuse(format!(
                    "url is {url:?}, not a URL such as http://127.0.0.1:8080/metrics"
                ));
            }
        }
        _ => return refuse("set either file or url".to_owned()),
    }
    if let Err(reason) = crate::sample::prometheus::Selector::parse(&telemetry.operations) {
        return refuse(format!("operations: {reason}"));
    }
    if let Some(latency) = &telemetry.latency
        && let Err(reason) = crate::sample::prometheus::Selector::parse(latency)
    {
        return refuse(format!("latency: {reason}"));
    }
    if !(telemetry.latency_unit_s > 0.0 && telemetry.latency_unit_s <= 1.0) {
        return refuse("latency_unit_s is not above 0 and at most 1".to_owned());
    }
    Ok(())
}

/// What TOML says, in one line with its line.
fn place(text: &str, error: &toml::de::Error) -> String {
    let message = crate::identity::rules::one_line(error);
    match error.span() {
        Some(span) => {
            let line = text.get(..span.start).unwrap_or(text).matches('\n').count() + 1;
            format!("line {line}: {message}")
        }
        None => message,
    }
}

#[cfg(test)]
mod tests;
