//! Performance events of tasks during one window.
//!
//! In: tasks' groups. Out: for each, its cycles, instructions, cache misses and context switches in the window, or why
//! there are none.
//!
//! Events are opened when the window begins and closed when it ends, since open events of control groups cost at each
//! switch between groups. Where the processor's events are refused (a virtual machine, mostly), they are asked for again
//! only each hour.

use std::collections::{BTreeMap, HashMap};

use steelyard_kernel::Tree;
use steelyard_probe::counters::{CounterSettings, Counters, Scope};
use steelyard_record::{CounterPlan, Kind, Modes, PlannedEvent};

/// Below this share of the time, a count that stands for all of it is not believed.
const COVERAGE_RATIO: f64 = 0.2;
/// Windows after which refused events are asked for again.
const RETRY_WINDOWS: u64 = 60;

const REFERENCE_CYCLES: &str = "ref-cycles";
const CORE_CYCLES: &str = "cycles";
const INSTRUCTIONS: &str = "instructions";
const LLC_MISSES: &str = "cache-misses";
const CONTEXT_SWITCHES: &str = "context-switches";

/// One task's events in one window.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counted {
    /// Reference cycles.
    pub reference_cycles: Option<i64>,
    /// Instructions.
    pub instructions: Option<i64>,
    /// Misses of the last-level cache.
    pub llc_misses: Option<i64>,
    /// Context switches.
    pub context_switches: Option<i64>,
    /// Cycles of the core's own clock.
    pub core_cycles: Option<i64>,
}

/// Counts events of tasks, window by window.
pub struct Counting {
    tree: Tree,
    wanted: bool,
    window: u64,
    open: Option<Counters>,
    refused_until: BTreeMap<&'static str, u64>,
    /// Why events are not counted, by event.
    pub missing: BTreeMap<String, String>,
}

/// The events: those of the processor in one group, so that their ratio is of the same time. Numbers of the kernel's own
/// types: perf_event.h, `perf_hw_id` and `perf_sw_ids`.
fn events() -> Vec<PlannedEvent> {
    let event = |name: &str, pmu: &str, config, group: Option<&str>| PlannedEvent {
        name: name.to_owned(),
        pmu: pmu.to_owned(),
        terms: BTreeMap::from([("config".to_owned(), config)]),
        modifiers: Modes::All,
        fixed: false,
        group: group.map(str::to_owned),
    };
    vec![
        event(REFERENCE_CYCLES, "hardware", 9, Some("cpi")),
        event(CORE_CYCLES, "hardware", 0, Some("cpi")),
        event(INSTRUCTIONS, "hardware", 1, Some("cpi")),
        event(LLC_MISSES, "hardware", 3, Some("cpi")),
        event(CONTEXT_SWITCHES, "software", 3, None),
    ]
}

impl Counting {
    /// Counts in `tree`, if it is wanted at all.
    pub fn new(tree: &Tree, wanted: bool) -> Self {
        Self {
            tree: tree.clone(),
            wanted,
            window: 0,
            open: None,
            refused_until: BTreeMap::new(),
            missing: BTreeMap::new(),
        }
    }

    /// Begins to count the machine and the groups at `paths`.
    pub fn begin(&mut self, paths: &[&str]) {
        self.window += 1;
        self.open = None;
        if !self.wanted {
            self.missing =
                BTreeMap::from([("all".to_owned(), "sampling.counters is off".to_owned())]);
            return;
        }
        let window = self.window;
        let refused = |event: &PlannedEvent| {
            self.refused_until
                .get(kind(event))
                .is_some_and(|until| window < *until)
        };
        let events: Vec<PlannedEvent> = events()
            .into_iter()
            .filter(|event| !refused(event))
            .collect();
        if events.is_empty() {
            return;
        }
        let kinds: Vec<&'static str> = events.iter().map(kind).collect();
        let settings = CounterSettings {
            plan: CounterPlan {
                kind: Kind::of::<CounterPlan>(),
                cpu: "generic".to_owned(),
                events,
            },
            scopes: vec![Scope::System, Scope::Cgroup],
            targets: paths.iter().map(|path| (*path).to_owned()).collect(),
            command: false,
        };
        let missing = match Counters::open(&settings, &self.tree) {
            Ok(counters) => {
                let missing = steelyard_probe::Source::missing_items(&counters);
                self.open = Some(counters);
                missing
            }
            Err(refused) => {
                for kind in &kinds {
                    self.refused_until.insert(kind, window + RETRY_WINDOWS);
                }
                BTreeMap::from([(kinds.join(" and "), refused.reason)])
            }
        };
        if missing.contains_key(CORE_CYCLES) && missing.contains_key(INSTRUCTIONS) {
            self.refused_until
                .insert("hardware", window + RETRY_WINDOWS);
        }
        for (what, reason) in missing {
            // Groups that came and went are no lasting reason.
            if !what.starts_with("control group ") {
                self.missing.insert(what, reason);
            }
        }
    }

    /// What was counted since, by path, the machine's by the empty one; a missing path was not counted.
    pub fn end(&mut self) -> HashMap<String, Counted> {
        let mut found: HashMap<String, Counted> = HashMap::new();
        let Some(mut open) = self.open.take() else {
            return found;
        };
        open.counts(|count| {
            let whole = scaled(count.count, count.enabled_ns, count.running_ns);
            let counted = found.entry(count.entity.to_owned()).or_default();
            match count.event {
                REFERENCE_CYCLES => counted.reference_cycles = whole,
                CORE_CYCLES => counted.core_cycles = whole,
                INSTRUCTIONS => counted.instructions = whole,
                LLC_MISSES => counted.llc_misses = whole,
                CONTEXT_SWITCHES => counted.context_switches = whole,
                _ => {}
            }
        });
        found
    }
}

fn kind(event: &PlannedEvent) -> &'static str {
    if event.pmu == "software" {
        "software"
    } else {
        "hardware"
    }
}

/// A count as it would have been over all of the time enabled; None where it was counted too little of it.
fn scaled(count: u64, enabled_ns: u64, running_ns: u64) -> Option<i64> {
    if enabled_ns == 0 {
        // The group did not run at all, and nothing happened in it.
        return i64::try_from(count).ok();
    }
    let coverage = running_ns as f64 / enabled_ns as f64;
    if coverage < COVERAGE_RATIO {
        return None;
    }
    if running_ns >= enabled_ns {
        return i64::try_from(count).ok();
    }
    Some((count as f64 / coverage).round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_stand_for_all_of_the_time_or_for_nothing() {
        assert_eq!(scaled(100, 10, 10), Some(100));
        assert_eq!(scaled(100, 10, 5), Some(200));
        assert_eq!(scaled(100, 10, 1), None);
        assert_eq!(scaled(0, 0, 0), Some(0));
        assert_eq!(scaled(u64::MAX, 1, 1), None);
    }

    #[test]
    fn a_recorded_tree_is_not_counted_and_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let mut counting = Counting::new(&Tree::new(folder.path()), true);
        counting.begin(&["/a"]);
        assert!(counting.end().is_empty());
        let reasons: Vec<&String> = counting.missing.values().collect();
        assert_eq!(
            reasons,
            ["events are counted by the running kernel; a recorded tree has none"]
        );
    }
}
