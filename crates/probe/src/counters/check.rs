//! Tries a plan and says of each event whether it is counted, for what share of the time, or why not.
//!
//! In: settings, and how long to try. Out: one row for each event of each scope, and the same as text or JSON.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use super::kernel::{Kernel, Live};
use super::scope::Scope;
use super::set::{CounterSet, CounterSettings, OpenGroup, Sums};
use crate::source::Unavailable;
use steelyard_kernel::Tree;

/// `schema_version` of the JSON.
const VERSION: &str = "1.0";

/// Result of trying a plan.
#[derive(Debug, Clone)]
pub struct Checked {
    cpu: String,
    rows: Vec<Row>,
    missing: BTreeMap<String, String>,
    notes: Vec<String>,
}

/// One event on one PMU in one scope, whatever the number of entities.
#[derive(Debug, Clone, Serialize, PartialEq)]
struct Row {
    event: String,
    pmu: String,
    scope: &'static str,
    group: u32,
    entities: u64,
    /// What was counted while trying; null where no counter was free all the time.
    count: Option<u64>,
    /// Share of the enabled time that it was counted; null where nothing ran.
    coverage_ratio: Option<f64>,
    #[serde(skip)]
    enabled_ns: u64,
    #[serde(skip)]
    running_ns: u64,
}

impl Row {
    fn new(open: &OpenGroup, event: &str) -> Self {
        Self {
            event: event.to_owned(),
            pmu: open.group.pmu.name.clone(),
            scope: open.scope.name(),
            group: open.group.number,
            entities: 0,
            count: Some(0),
            coverage_ratio: None,
            enabled_ns: 0,
            running_ns: 0,
        }
    }

    fn add(&mut self, count: u64, sums: &Sums) {
        self.entities += 1;
        self.count = self.count.map(|sum| sum.wrapping_add(count));
        self.enabled_ns += sums.enabled_ns;
        self.running_ns += sums.running_ns;
    }

    fn conclude(&mut self) {
        if self.enabled_ns > 0 {
            self.coverage_ratio = Some(self.running_ns as f64 / self.enabled_ns as f64);
            self.count = self.count.filter(|_| self.running_ns > 0);
        }
    }
}

/// Opens `settings` for `time` and reads once.
pub fn check(
    settings: &CounterSettings,
    tree: &Tree,
    time: Duration,
) -> Result<Checked, Unavailable> {
    if !tree.is_live() {
        return Err(Unavailable::new(
            "events are counted by the running kernel; a recorded tree has none",
        ));
    }
    Ok(check_with(settings, tree, time, &Live))
}

pub(super) fn check_with(
    settings: &CounterSettings,
    tree: &Tree,
    time: Duration,
    kernel: &dyn Kernel,
) -> Checked {
    let mut set = CounterSet::open(settings, tree, kernel);
    kernel.run_for(time.as_nanos() as u64, None);
    let (mut words, mut sums) = (Vec::new(), Sums::default());
    let mut rows: Vec<Row> = Vec::new();
    let mut places: BTreeMap<(Scope, String, String), usize> = BTreeMap::new();
    for open in &set.groups {
        if let Err(error) = open.read(&mut words, &mut sums) {
            for event in &open.group.events {
                let reason = format!("it cannot be read: {error}");
                set.missing.add(&event.name, &open.entity, reason);
            }
            continue;
        }
        for (event, count) in open.group.events.iter().zip(&sums.counts) {
            let pmu = &open.group.pmu.name;
            let place = *places
                .entry((open.scope, pmu.clone(), event.name.clone()))
                .or_insert(rows.len());
            if place == rows.len() {
                rows.push(Row::new(open, &event.name));
            }
            rows[place].add(*count, &sums);
        }
    }
    for row in &mut rows {
        row.conclude();
    }
    Checked {
        cpu: settings.plan.cpu.clone(),
        rows,
        missing: set.missing.items(),
        notes: set.notes,
    }
}

impl Checked {
    /// Whether every event is counted, everywhere.
    pub fn is_whole(&self) -> bool {
        self.missing.is_empty() && self.rows.iter().all(|row| row.count.is_some())
    }

    /// Whether any event is counted.
    pub fn counts_anything(&self) -> bool {
        !self.rows.is_empty()
    }

    /// As JSON.
    pub fn json(&self) -> String {
        let document = json!({
            "schema_version": VERSION,
            "kind": "counter_check",
            "cpu": self.cpu,
            "events": self.rows,
            "missing_items": self.missing,
            "notes": self.notes,
        });
        format!("{document:#}")
    }

    /// As lines.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let width = |name: fn(&Row) -> &str, least: usize| {
            self.rows
                .iter()
                .map(|row| name(row).len())
                .max()
                .unwrap_or(0)
                .max(least)
        };
        let (events, pmus) = (width(|row| &row.event, 5), width(|row| &row.pmu, 3));
        // Writing to a String cannot fail.
        if !self.rows.is_empty() {
            let _ = writeln!(
                text,
                "{:<events$}  {:<pmus$}  {:<7}  {:>5}  counted of the time",
                "event", "pmu", "scope", "group"
            );
        }
        for row in &self.rows {
            let share = match (row.count, row.coverage_ratio) {
                (None, _) => "never: no counter was free".to_owned(),
                (_, None) => "did not run".to_owned(),
                (_, Some(ratio)) => format!("{:.0} %", ratio * 100.0),
            };
            let _ = writeln!(
                text,
                "{:<events$}  {:<pmus$}  {:<7}  {:>5}  {share}",
                row.event, row.pmu, row.scope, row.group
            );
        }
        for (name, reason) in &self.missing {
            let _ = writeln!(text, "{name}: not counted: {reason}");
        }
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        text
    }
}
