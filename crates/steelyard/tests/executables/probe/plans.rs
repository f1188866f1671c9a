//! What the tests of counters share: plans in files, and whether one can be counted here.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;
use steelyard_record::{CounterPlan, Kind, Modes, PlannedEvent, write_atomically};

use super::support::probe;

/// An event of the kernel's own types.
pub fn event(name: &str, pmu: &str, config: u64) -> PlannedEvent {
    PlannedEvent {
        name: name.to_owned(),
        pmu: pmu.to_owned(),
        terms: BTreeMap::from([("config".to_owned(), config)]),
        modifiers: Modes::All,
        fixed: false,
        group: None,
    }
}

/// Software events by the numbers of include/uapi/linux/perf_event.h.
pub fn software() -> Vec<PlannedEvent> {
    let names = [
        "cpu-clock",
        "task-clock",
        "page-faults",
        "context-switches",
        "cpu-migrations",
        "minor-faults",
    ];
    names
        .iter()
        .zip(0..)
        .map(|(name, config)| event(name, "software", config))
        .collect()
}

/// A plan in a file that anybody may read.
pub struct Plan(tempfile::TempDir);

impl Plan {
    pub fn new(events: Vec<PlannedEvent>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let readable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path(), readable).expect("one's own folder");
        let plan = CounterPlan {
            kind: Kind::of::<CounterPlan>(),
            cpu: "software".to_owned(),
            events,
        };
        write_atomically(&plan, &folder.path().join("plan.json")).expect("written");
        Self(folder)
    }

    pub fn path(&self) -> String {
        self.0.path().join("plan.json").display().to_string()
    }
}

/// The exit status and the answer of `counters --check` for the plan.
pub fn check(plan: &Plan, arguments: &[&str]) -> (Option<i32>, Value) {
    let output = probe()
        .args(["counters", "--check", &plan.path(), "--json"])
        .args(arguments)
        .output()
        .expect("it runs");
    let checked = serde_json::from_slice(&output.stdout).expect("JSON");
    (output.status.code(), checked)
}

/// Why the plan cannot be counted here, None when it can.
pub fn refusal(plan: &Plan, arguments: &[&str]) -> Option<String> {
    let (_, checked) = check(plan, &[&["--duration", "10ms"], arguments].concat());
    let nothing = checked["events"].as_array().expect("events").is_empty();
    nothing.then(|| checked["missing_items"].to_string())
}
