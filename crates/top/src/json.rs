//! A snapshot as JSON: base units, names with units, and a reason beside every null.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::column::COLUMNS;
use crate::derive::{Row, Subject};
use crate::mix::{self, CLASSES, Counts};
use crate::session::Snapshot;

/// The version of this document: a new optional field is a new minor version.
const VERSION: &str = "1.0";

#[derive(Serialize)]
struct Document<'a> {
    schema_version: &'static str,
    kind: &'static str,
    time_ns: u64,
    interval_s: f64,
    by: &'static str,
    sort: &'static str,
    machine: Machine,
    processes: usize,
    threads: u64,
    own_cpus: Option<f64>,
    mix_event: Option<&'a str>,
    notes: &'a [String],
    rows: Vec<RowDocument<'a>>,
}

#[derive(Serialize)]
struct Machine {
    cpus: usize,
    user_cpus: Option<f64>,
    system_cpus: Option<f64>,
    stolen_cpus: Option<f64>,
    load_1m: Option<f64>,
    memory_bytes: Option<u64>,
    memory_available_bytes: Option<u64>,
}

#[derive(Serialize)]
struct RowDocument<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_ticks: Option<u64>,
    name: &'a str,
    command: Option<&'a str>,
    user: Option<&'a str>,
    uid: Option<u32>,
    cgroup: Option<&'a str>,
    state: Option<char>,
    is_kernel_thread: bool,
    #[serde(flatten)]
    figures: BTreeMap<&'static str, Option<f64>>,
    mix: Option<Mix>,
    /// Why figures are null, by their names.
    missing: BTreeMap<&'static str, &'a str>,
}

/// Shares of decoded samples, each with its 95 % interval.
#[derive(Serialize)]
struct Mix {
    samples: u64,
    decoded_samples: u64,
    kernel_samples: u64,
    unknown_samples: u64,
    shares: BTreeMap<&'static str, Share>,
}

#[derive(Serialize)]
struct Share {
    ratio: f64,
    low_ratio: f64,
    high_ratio: f64,
}

/// The document of `snapshot` with `rows` of it, on one line.
pub fn document(snapshot: &Snapshot, rows: &[&Row], sort: &'static str) -> String {
    let machine = &snapshot.machine;
    let used = |kind: usize| machine.used.map(|used| used[kind]);
    let document = Document {
        schema_version: VERSION,
        kind: "top",
        time_ns: snapshot.time_ns,
        interval_s: snapshot.interval_s,
        by: snapshot.by.name(),
        sort,
        machine: Machine {
            cpus: machine.cpus,
            user_cpus: used(0),
            system_cpus: used(1),
            stolen_cpus: used(2),
            load_1m: machine.load_1m,
            memory_bytes: machine.memory_bytes.map(|memory| memory[0]),
            memory_available_bytes: machine.memory_bytes.map(|memory| memory[1]),
        },
        processes: snapshot.processes,
        threads: snapshot.threads,
        own_cpus: snapshot.own_cpus,
        mix_event: match &snapshot.mix_event {
            Some(Ok(event)) => Some(event),
            _ => None,
        },
        notes: &snapshot.notes,
        rows: rows.iter().map(|row| row_document(row)).collect(),
    };
    serde_json::to_string(&document).expect("a document of numbers and text can be written")
}

fn row_document(row: &Row) -> RowDocument<'_> {
    let id = match &row.subject {
        Subject::Task(id) => Some(*id),
        Subject::Group(_) => None,
    };
    let mut figures = BTreeMap::new();
    let mut missing = BTreeMap::new();
    for about in &COLUMNS {
        let figure = row.figures.get(about.column);
        figures.insert(about.key, figure.as_ref().ok().copied());
        if let Err(reason) = figure {
            missing.insert(about.key, reason.text());
        }
    }
    let mix = match &row.mix {
        Ok(counts) => Some(mix_document(counts)),
        Err(reason) => {
            missing.insert("mix", reason.text());
            None
        }
    };
    RowDocument {
        pid: id.map(|id| id.pid),
        tid: id.and_then(|id| id.tid),
        start_ticks: id.map(|id| id.start_ticks),
        name: &row.who.name,
        command: row.who.command.as_deref(),
        user: row.who.user.as_deref(),
        uid: row.who.uid,
        cgroup: row.who.cgroup.as_deref(),
        state: row.state,
        is_kernel_thread: row.who.is_kernel,
        figures,
        mix,
        missing,
    }
}

/// The shares of a mix with their names: classes first, then what instructions do.
pub fn shares(counts: &Counts) -> Vec<(&'static str, &'static str, u64)> {
    let classes = CLASSES
        .iter()
        .map(|class| (class.1, class.2, counts.classes[class.0 as usize]));
    classes
        .chain([
            ("loads", "loads", counts.loads),
            ("stores", "stores", counts.stores),
            ("branches", "branches", counts.branches),
            ("registers_512", "512-bit registers", counts.wide),
        ])
        .collect()
}

fn mix_document(counts: &Counts) -> Mix {
    let decoded = counts.decoded();
    let shares = shares(counts)
        .into_iter()
        .filter(|_| decoded > 0)
        .map(|(key, _, count)| {
            let (low_ratio, high_ratio) = mix::interval(count, decoded);
            let share = Share {
                ratio: count as f64 / decoded as f64,
                low_ratio,
                high_ratio,
            };
            (key, share)
        })
        .collect();
    Mix {
        samples: counts.samples(),
        decoded_samples: decoded,
        kernel_samples: counts.kernel,
        unknown_samples: counts.unknown,
        shares,
    }
}
