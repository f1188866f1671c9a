//! The agent's own figures and those of its tasks, for Prometheus.
//!
//! In: figures. Out: Prometheus' text format, on a page of loopback. Every metric has an entry in [`METRICS`], from which
//! the reference is checked.
//!
//! Source: Prometheus, "Exposition formats". Invariant: names from outside are escaped.

mod own;
mod page;

use std::collections::BTreeMap;
use std::fmt::Write;

pub use self::own::{Own, own};
pub use self::page::{answer, serve};
use crate::rows::TaskSample;
use crate::spool::Lost;
use crate::spool::upload::UploadFigures;
use crate::table::Table;

/// What is known of the agent now.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Health {
    /// When it started.
    pub start_unix_s: i64,
    /// Windows that were sampled.
    pub windows: u64,
    /// Windows that were left out, because the agent used more than it may.
    pub windows_skipped: u64,
    /// Rows that were written down, by table.
    pub rows: BTreeMap<Table, u64>,
    /// Tasks of the last window.
    pub tasks: Vec<TaskSample>,
    /// Groups that would be tasks, but are more than allowed.
    pub tasks_over_limit: usize,
    /// Groups that were looked at.
    pub groups: usize,
    /// Why events are not counted, by event.
    pub missing: BTreeMap<String, String>,
    /// Telemetry that could not be read.
    pub telemetry_failures: u64,
    /// Minutes that were profiled.
    pub profiles: u64,
    /// Minutes whose profile failed.
    pub profile_failures: u64,
    /// Minutes that were chosen and left out, because the agent used more than it may.
    pub profiles_skipped: u64,
    /// Windows in journals.
    pub waiting_windows: usize,
    /// Bytes in journals.
    pub journal_bytes: u64,
    /// Files that wait for the store.
    pub waiting_files: usize,
    /// Times that the spool could not be written.
    pub spool_failures: u64,
    /// What had to be given up.
    pub lost: Lost,
    /// Uploads.
    pub upload: UploadFigures,
    /// What the agent itself used.
    pub own: Own,
    /// CPU seconds a second that it used over the last minutes; None before there are any.
    pub own_cpu_ratio: Option<f64>,
    /// Figures of the guard: name without prefix, help, value.
    pub guard: Vec<(&'static str, &'static str, f64)>,
}

/// A metric: its name, its type, what it means, and its unit is in its name.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Name.
    pub name: &'static str,
    /// `counter` or `gauge`.
    pub type_: &'static str,
    /// What it means.
    pub help: &'static str,
}

const fn metric(name: &'static str, type_: &'static str, help: &'static str) -> Metric {
    Metric { name, type_, help }
}

/// All of them, in the order of the page.
pub const METRICS: &[Metric] = &[
    metric(
        "steelyard_agent_build_info",
        "gauge",
        "Version of the agent, as a label; always 1.",
    ),
    metric(
        "steelyard_agent_start_time_seconds",
        "gauge",
        "Start time of the agent since the Unix epoch, in seconds.",
    ),
    metric(
        "steelyard_agent_windows_total",
        "counter",
        "Sampling windows completed.",
    ),
    metric(
        "steelyard_agent_windows_skipped_total",
        "counter",
        "Sampling windows skipped because the agent exceeded its CPU limit.",
    ),
    metric(
        "steelyard_agent_rows_total",
        "counter",
        "Rows written to the spool, by table.",
    ),
    metric(
        "steelyard_agent_tasks",
        "gauge",
        "Tasks in the last sampling window.",
    ),
    metric(
        "steelyard_agent_tasks_over_limit",
        "gauge",
        "Control groups not sampled because of sampling.max_tasks.",
    ),
    metric(
        "steelyard_agent_groups",
        "gauge",
        "Control groups examined.",
    ),
    metric(
        "steelyard_agent_missing",
        "gauge",
        "Events that are not counted, with the reason; always 1.",
    ),
    metric(
        "steelyard_agent_telemetry_failures_total",
        "counter",
        "Failed reads of task telemetry pages and files.",
    ),
    metric(
        "steelyard_agent_profiles_total",
        "counter",
        "Minutes profiled.",
    ),
    metric(
        "steelyard_agent_profile_failures_total",
        "counter",
        "Minutes whose profile failed.",
    ),
    metric(
        "steelyard_agent_profiles_skipped_total",
        "counter",
        "Chosen minutes not profiled because the agent exceeded its CPU limit.",
    ),
    metric(
        "steelyard_agent_journal_windows",
        "gauge",
        "Sampling windows in unfinished batches.",
    ),
    metric(
        "steelyard_agent_journal_bytes",
        "gauge",
        "Size of the unfinished batches on disk, in bytes.",
    ),
    metric(
        "steelyard_agent_spool_files",
        "gauge",
        "Files waiting for upload.",
    ),
    metric(
        "steelyard_agent_spool_failures_total",
        "counter",
        "Failed writes to the spool.",
    ),
    metric(
        "steelyard_agent_lost_files_total",
        "counter",
        "Files dropped to stay within the spool's size limit, since the spool was created.",
    ),
    metric(
        "steelyard_agent_lost_bytes_total",
        "counter",
        "Size of the dropped files, in bytes, since the spool was created.",
    ),
    metric(
        "steelyard_agent_lost_windows_total",
        "counter",
        "Sampling windows that could not be written to the spool, since the spool was created.",
    ),
    metric(
        "steelyard_agent_uploaded_files_total",
        "counter",
        "Files uploaded to the store.",
    ),
    metric(
        "steelyard_agent_uploaded_bytes_total",
        "counter",
        "Bytes uploaded to the store.",
    ),
    metric(
        "steelyard_agent_upload_failures_total",
        "counter",
        "Failed requests to the store.",
    ),
    metric(
        "steelyard_agent_store_reached_time_seconds",
        "gauge",
        "Time of the last successful request to the store since the Unix epoch, in seconds.",
    ),
    metric(
        "steelyard_agent_cpu_seconds_total",
        "counter",
        "CPU time used by the agent and its profiler, in seconds.",
    ),
    metric(
        "steelyard_agent_cpu_ratio",
        "gauge",
        "CPU usage of the agent in CPUs, averaged over up to ten minutes.",
    ),
    metric(
        "steelyard_agent_resident_memory_bytes",
        "gauge",
        "Resident memory of the agent, in bytes.",
    ),
    metric(
        "steelyard_task_window_seconds",
        "gauge",
        "Length of the task's last sampling window, in seconds.",
    ),
    metric(
        "steelyard_task_cpu_ratio",
        "gauge",
        "CPU usage of the task in CPUs, in the last window.",
    ),
    metric(
        "steelyard_task_cpi",
        "gauge",
        "Cycles per instruction of the task, or its substitute, by source.",
    ),
    metric(
        "steelyard_task_memory_bytes",
        "gauge",
        "Resident memory of the task, in bytes.",
    ),
    metric(
        "steelyard_task_storage_bytes",
        "gauge",
        "Bytes read from and written to block devices by the task in the last window.",
    ),
    metric(
        "steelyard_task_network_bytes",
        "gauge",
        "Bytes sent and received in the task's own network namespace in the last window.",
    ),
    metric(
        "steelyard_task_page_faults",
        "gauge",
        "Page faults of the task in the last window.",
    ),
    metric(
        "steelyard_task_context_switches",
        "gauge",
        "Context switches of the task in the last window.",
    ),
    metric(
        "steelyard_task_numa_score",
        "gauge",
        "NUMA locality score of the task, 0 to 1.",
    ),
    metric(
        "steelyard_task_operations",
        "gauge",
        "Operations reported by the task's own telemetry in the last window.",
    ),
];

/// A label's value as the format wants it.
pub fn escape(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// Values by labels.
type Values = Vec<(String, f64)>;

fn alone(value: f64) -> Values {
    vec![(String::new(), value)]
}

impl Health {
    /// The page.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for metric in METRICS {
            let values = self.values(metric.name);
            write_metric(&mut text, metric.name, metric.type_, metric.help, &values);
        }
        for (name, help, value) in &self.guard {
            let type_ = if name.ends_with("_total") {
                "counter"
            } else {
                "gauge"
            };
            let name = format!("steelyard_guard_{name}");
            write_metric(&mut text, &name, type_, help, &alone(*value));
        }
        text
    }

    fn values(&self, name: &str) -> Values {
        if let Some(name) = name.strip_prefix("steelyard_task_") {
            return self.task_values(name);
        }
        let lost = &self.lost;
        let upload = &self.upload;
        match name.strip_prefix("steelyard_agent_").unwrap_or(name) {
            "build_info" => vec![(format!("version=\"{}\"", env!("CARGO_PKG_VERSION")), 1.0)],
            "start_time_seconds" => alone(self.start_unix_s as f64),
            "windows_total" => alone(self.windows as f64),
            "windows_skipped_total" => alone(self.windows_skipped as f64),
            "rows_total" => {
                let rows = self.rows.iter();
                rows.map(|(table, rows)| (format!("table=\"{table}\""), *rows as f64))
                    .collect()
            }
            "tasks" => alone(self.tasks.len() as f64),
            "tasks_over_limit" => alone(self.tasks_over_limit as f64),
            "groups" => alone(self.groups as f64),
            "missing" => {
                let missing = self.missing.iter();
                let label = |(event, reason): (&String, &String)| {
                    (
                        format!("event=\"{}\",reason=\"{}\"", escape(event), escape(reason)),
                        1.0,
                    )
                };
                missing.map(label).collect()
            }
            "telemetry_failures_total" => alone(self.telemetry_failures as f64),
            "profiles_total" => alone(self.profiles as f64),
            "profile_failures_total" => alone(self.profile_failures as f64),
            "profiles_skipped_total" => alone(self.profiles_skipped as f64),
            "journal_windows" => alone(self.waiting_windows as f64),
            "journal_bytes" => alone(self.journal_bytes as f64),
            "spool_files" => alone(self.waiting_files as f64),
            "spool_failures_total" => alone(self.spool_failures as f64),
            "lost_files_total" => alone(lost.files as f64),
            "lost_bytes_total" => alone(lost.bytes as f64),
            "lost_windows_total" => alone(lost.windows as f64),
            "uploaded_files_total" => alone(upload.files as f64),
            "uploaded_bytes_total" => alone(upload.bytes as f64),
            "upload_failures_total" => alone(upload.failures as f64),
            "store_reached_time_seconds" => upload
                .last_success_unix_s
                .map_or_else(Vec::new, |time| alone(time as f64)),
            "cpu_seconds_total" => alone(self.own.cpu_s),
            "cpu_ratio" => self.own_cpu_ratio.map_or_else(Vec::new, alone),
            "resident_memory_bytes" => self
                .own
                .resident_bytes
                .map_or_else(Vec::new, |bytes| alone(bytes as f64)),
            _ => Vec::new(),
        }
    }

    /// A value for each task that has one: what is missing has no line.
    fn task_values(&self, name: &str) -> Values {
        let value = |row: &TaskSample| match name {
            "window_seconds" => Some(row.window_s),
            "cpu_ratio" => Some(row.cpu_usage()),
            "cpi" => row.cpi,
            "memory_bytes" => row.memory_bytes,
            "storage_bytes" => row.storage_bytes,
            "network_bytes" => row.network_bytes,
            "page_faults" => row.page_faults.map(|count| count as f64),
            "context_switches" => row.context_switches.map(|count| count as f64),
            "numa_score" => row.numa_score,
            "operations" => row.operations,
            _ => None,
        };
        let labels = |row: &TaskSample| {
            let task = &row.task;
            let mut labels = format!(
                "job=\"{}\",task=\"{}\",job_class=\"{}\"",
                escape(&task.job),
                escape(&task.task),
                task.job_class.name()
            );
            if let (true, Some(source)) = (name == "cpi", &row.cpi_source) {
                let _ = write!(labels, ",source=\"{}\"", escape(source));
            }
            labels
        };
        let rows = self.tasks.iter();
        rows.filter_map(|row| Some((labels(row), value(row)?)))
            .collect()
    }
}

fn write_metric(text: &mut String, name: &str, type_: &str, help: &str, values: &Values) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {type_}");
    for (labels, value) in values {
        let _ = match labels.is_empty() {
            true => writeln!(text, "{name} {value}"),
            false => writeln!(text, "{name}{{{labels}}} {value}"),
        };
    }
}

#[cfg(test)]
mod tests;
