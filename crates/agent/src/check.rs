//! What of the agent works on this host, what does not, and why.
//!
//! In: settings, and a store if one is named. Out: a list of findings, each with its reason. A short window is sampled for
//! it; nothing is written but a file that is removed again.

use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use steelyard_kernel::Tree;
use steelyard_profile::record::{Addresses, Scope};
use steelyard_record::monotonic_ns;

use crate::config::Config;
use crate::disk::Disk;
use crate::identity::Finder;
use crate::identity::rules::Rules;
use crate::private::Private;
use crate::rows::TaskSample;
use crate::sample::Sampler;
use crate::store::{self, Store};
use steelyard_kernel::cgroup::Hierarchies;

/// Time that is sampled.
const WINDOW: Duration = Duration::from_millis(300);

/// How something stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It works.
    Ok,
    /// It is missing, and so are the columns that need it; the agent runs.
    Missing,
    /// The agent cannot do its work.
    Failed,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub what: &'static str,
    /// How it stands.
    pub state: State,
    /// What was found, or why it is missing.
    pub reason: String,
}

fn finding(what: &'static str, state: State, reason: impl Into<String>) -> Finding {
    Finding {
        what,
        state,
        reason: reason.into(),
    }
}

/// Looks at everything. `spool` and `store` are looked at where they are named.
pub fn check(
    root: &Path,
    config: &Config,
    spool: Option<&Path>,
    store: Option<&mut dyn Store>,
    create: bool,
) -> Vec<Finding> {
    let tree = Tree::new(root);
    let hierarchies = Hierarchies::of(&tree);
    let mut found = vec![match hierarchies.version() {
        Some(version) => finding("control groups", State::Ok, format!("version {version}")),
        None => finding(
            "control groups",
            State::Failed,
            "no hierarchy that accounts CPU time is mounted: mount -t cgroup2 none /sys/fs/cgroup",
        ),
    }];
    found.extend(tasks(&tree, hierarchies, config));
    found.push(profiles(&tree));
    found.push(listen(&config.metrics.listen));
    if let Some(spool) = spool {
        found.push(writable(spool));
    }
    if let Some(store) = store {
        let url = store.url().to_owned();
        found.push(match store::check(store, create) {
            Ok(()) => finding("store", State::Ok, url),
            Err(error) => {
                let hint = error
                    .hint()
                    .map(|hint| format!(": {hint}"))
                    .unwrap_or_default();
                finding("store", State::Failed, format!("{error}{hint}"))
            }
        });
    }
    found
}

/// What a short window has of each kind of figure.
fn tasks(tree: &Tree, hierarchies: Hierarchies, config: &Config) -> Vec<Finding> {
    let rules = match Rules::new(&config.rule, config.shipped_rules) {
        Ok(rules) => rules,
        Err(reason) => return vec![finding("rules", State::Failed, reason)],
    };
    let looked = Finder::new(tree, hierarchies.clone(), rules, config.sampling.max_tasks).look();
    let mut found = vec![match looked.tasks.len() {
        0 => finding(
            "tasks",
            State::Missing,
            format!(
                "none of {} control groups is a task by the rules: see docs/reference/agent.md",
                looked.groups
            ),
        ),
        count => finding(
            "tasks",
            State::Ok,
            format!("{count} of {} control groups", looked.groups),
        ),
    }];
    let mut sampler = Sampler::new(
        tree,
        hierarchies,
        config.sampling.counters,
        config.telemetry.clone(),
        monotonic_ns,
    );
    let window = sampler.begin(&looked.tasks, 0);
    std::thread::sleep(WINDOW);
    let samples = sampler.end(window);
    found.extend(columns(&sampler, &samples.tasks));
    found.push(match &samples.machine {
        Some(machine) => {
            let power = if machine.power_w.is_some() {
                "with power"
            } else {
                "without power (no powercap zones)"
            };
            finding(
                "machine",
                State::Ok,
                format!("{} threads, {power}", machine.threads),
            )
        }
        None => finding("machine", State::Missing, "/proc/stat has no CPU time"),
    });
    found
}

/// Whether a row has a figure.
type Has = fn(&TaskSample) -> bool;

/// Which figures the tasks' rows have, and why not those that none has.
fn columns(sampler: &Sampler, tasks: &[TaskSample]) -> Vec<Finding> {
    let events = sampler.missing().iter();
    let events: Vec<String> = events
        .map(|(event, reason)| format!("{event}: {reason}"))
        .collect();
    let events = if events.is_empty() {
        "no task ran".to_owned()
    } else {
        events.join("; ")
    };
    let nodes = sampler
        .missing_nodes()
        .unwrap_or("no task had both CPU time and memory");
    let memory = "no task has a group of the memory controller at its path";
    let storage = "no task has a group of the blkio or io controller at its path";
    let network = "no task has a network namespace of its own, or it may not be looked at";
    let operations = "no [[telemetry]] is configured, or none answers";
    let kinds: [(&'static str, Has, &str); 9] = [
        ("cpu time", |_| true, "no task has a group that accounts it"),
        (
            "cycles and instructions",
            |row| row.reference_cycles.is_some() && row.instructions.is_some(),
            &events,
        ),
        (
            "context switches",
            |row| row.context_switches.is_some(),
            &events,
        ),
        ("memory", |row| row.memory_bytes.is_some(), memory),
        ("page faults", |row| row.page_faults.is_some(), memory),
        ("storage", |row| row.storage_bytes.is_some(), storage),
        ("network", |row| row.network_bytes.is_some(), network),
        ("numa score", |row| row.numa_score.is_some(), nodes),
        ("operations", |row| row.operations.is_some(), operations),
    ];
    let all = tasks.len();
    let tell = |(what, has, reason): (&'static str, Has, &str)| match tasks
        .iter()
        .filter(|row| has(row))
        .count()
    {
        0 if all == 0 => finding(what, State::Missing, "no task was sampled"),
        0 => finding(what, State::Missing, reason),
        with => finding(what, State::Ok, format!("{with} of {all} tasks")),
    };
    kinds.into_iter().map(tell).collect()
}

fn profiles(tree: &Tree) -> Finding {
    if !tree.is_live() {
        return finding(
            "profiles",
            State::Missing,
            "a recorded tree cannot be sampled",
        );
    }
    match Addresses::open(Scope::All, 1) {
        Ok(addresses) => {
            let reasons = addresses.reasons().join("; ");
            let reasons = if reasons.is_empty() {
                reasons
            } else {
                format!(": {reasons}")
            };
            finding(
                "profiles",
                State::Ok,
                format!("by {}{reasons}", addresses.event()),
            )
        }
        Err(error) => finding("profiles", State::Missing, error.to_string()),
    }
}

fn listen(address: &str) -> Finding {
    if address.is_empty() {
        return finding("metrics", State::Missing, "metrics.listen is empty");
    }
    match TcpListener::bind(address) {
        Ok(_) => finding("metrics", State::Ok, format!("{address} is free")),
        Err(error) => finding("metrics", State::Failed, format!("{address}: {error}")),
    }
}

fn writable(spool: &Path) -> Finding {
    let place = spool.display();
    let tried = Private::make(spool).and_then(|spool| {
        let file = spool.path().join("check.partial");
        spool.append(&file, b"x")?;
        spool.remove(&file)
    });
    match tried {
        Ok(()) => finding("spool", State::Ok, place.to_string()),
        Err(error) => finding("spool", State::Failed, format!("{place}: {error}")),
    }
}
