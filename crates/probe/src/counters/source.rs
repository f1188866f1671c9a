//! The source `counters`: open groups as rows.

use std::collections::BTreeMap;
use std::io;

use steelyard_record::{CounterPlan, Kind, Modes, PlannedEvent};

use super::kernel::{Kernel, Live};
use super::scope::Scope;
use super::set::{CounterSet, CounterSettings, Sums};
use crate::source::{Definition, Source, Tick, Unavailable};
use crate::table::{Column, Table};
use steelyard_kernel::Tree;

/// Counts of performance events.
pub const DEFINITION: Definition = Definition {
    name: "counters",
    about: "performance events, where --counters names a plan of them; without one it is not recorded",
    columns: &COLUMNS,
    open: survey,
};

const COLUMNS: [Column; 9] = [
    Column::TIME,
    Column::label("scope", "whose work: system, cpu, process or cgroup"),
    Column::label(
        "entity",
        "which one: empty for the system, cpu3, a process id or `command`, a control group's path",
    ),
    Column::label(
        "pmu",
        "the PMU that counts, by its folder in /sys/bus/event_source/devices",
    ),
    Column::label(
        "event",
        "the plan's name of the event; with :u where only user mode may be counted",
    ),
    Column::index("group", "events of one group were counted at the same time"),
    Column::counter(
        "count",
        "1",
        "count since the event was opened, unscaled, summed over CPUs and threads; null where it never had a \
         counter",
    ),
    Column::counter(
        "enabled_ns",
        "ns",
        "time that the event was enabled, summed likewise",
    ),
    Column::counter(
        "running_ns",
        "ns",
        "time that it was counted; less than enabled_ns where groups take turns",
    ),
];

/// Events being counted.
pub struct Counters {
    set: CounterSet,
    words: Vec<u64>,
    sums: Sums,
}

/// What one event has counted for one entity since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count<'a> {
    /// The entity's name: a control group's path, a process id, empty for the system.
    pub entity: &'a str,
    /// The plan's name of the event.
    pub event: &'a str,
    /// The count, unscaled.
    pub count: u64,
    /// Time enabled, ns, summed over CPUs.
    pub enabled_ns: u64,
    /// Time counted, ns, summed likewise.
    pub running_ns: u64,
}

impl Counters {
    /// Hands over the counts now, of whatever can be read and had a counter.
    pub fn counts(&mut self, mut give: impl FnMut(Count<'_>)) {
        for open in &self.set.groups {
            if open.read(&mut self.words, &mut self.sums).is_err() {
                continue;
            }
            let never = self.sums.running_ns == 0 && self.sums.enabled_ns > 0;
            for (event, count) in open.group.events.iter().zip(&self.sums.counts) {
                if !never {
                    give(Count {
                        entity: &open.entity,
                        event: &event.name,
                        count: *count,
                        enabled_ns: self.sums.enabled_ns,
                        running_ns: self.sums.running_ns,
                    });
                }
            }
        }
    }

    /// Opens what `settings` asks for on this machine.
    pub fn open(settings: &CounterSettings, tree: &Tree) -> Result<Self, Unavailable> {
        if !tree.is_live() {
            return Err(Unavailable::new(
                "events are counted by the running kernel; a recorded tree has none",
            ));
        }
        Self::open_with(settings, tree, &Live)
    }

    pub(super) fn open_with(
        settings: &CounterSettings,
        tree: &Tree,
        kernel: &dyn Kernel,
    ) -> Result<Self, Unavailable> {
        let set = CounterSet::open(settings, tree, kernel);
        if set.groups.is_empty() {
            return Err(Unavailable::new(format!(
                "no event can be counted: {}",
                set.reason()
            )));
        }
        Ok(Self {
            set,
            words: Vec::new(),
            sums: Sums::default(),
        })
    }
}

impl Source for Counters {
    fn columns(&self) -> Vec<Column> {
        COLUMNS.to_vec()
    }

    fn missing_items(&self) -> BTreeMap<String, String> {
        self.set.missing.items()
    }

    fn notes(&self) -> Vec<String> {
        self.set.notes.clone()
    }

    fn read(&mut self, tick: &Tick<'_>, table: &mut Table) -> io::Result<()> {
        let mut failed = Ok(());
        for open in &self.set.groups {
            let time_ns = tick.now_ns();
            let read = open.read(&mut self.words, &mut self.sums);
            let sums = read.is_ok().then_some(&self.sums);
            for (place, event) in open.group.events.iter().enumerate() {
                let never = sums.is_none_or(|sums| sums.running_ns == 0 && sums.enabled_ns > 0);
                let count = sums.map(|sums| sums.counts[place]).filter(|_| !never);
                table
                    .row(time_ns)
                    .text(open.scope.name().as_bytes())
                    .text(open.entity.as_bytes())
                    .text(open.group.pmu.name.as_bytes())
                    .text(event.name.as_bytes())
                    .index(Some(open.group.number as i32))
                    .value(count)
                    .value(sums.map(|sums| sums.enabled_ns))
                    .value(sums.map(|sums| sums.running_ns));
            }
            if let Err(error) = read {
                failed = Err(error);
            }
        }
        failed
    }
}

/// Whether events can be counted here: one of the kernel's own, and cycles and instructions, for the whole system
/// or, where that is not allowed, for the user's own processes.
fn survey(tree: &Tree) -> Result<Box<dyn Source>, Unavailable> {
    let event = |name: &str, pmu: &str, config| PlannedEvent {
        name: name.to_owned(),
        pmu: pmu.to_owned(),
        terms: BTreeMap::from([("config".to_owned(), config)]),
        modifiers: Modes::All,
        fixed: false,
        group: None,
    };
    let mut settings = CounterSettings {
        plan: CounterPlan {
            kind: Kind::of::<CounterPlan>(),
            cpu: "generic".to_owned(),
            events: vec![
                event("cycles", "hardware", 0),
                event("instructions", "hardware", 1),
                event("page-faults", "software", 2),
            ],
        },
        scopes: vec![Scope::System],
        targets: Vec::new(),
        command: false,
    };
    let refused = match Counters::open(&settings, tree) {
        Ok(counters) => return Ok(Box::new(counters)),
        Err(refused) => refused,
    };
    settings.scopes = vec![Scope::Process];
    let Ok(mut own) = Counters::open(&settings, tree) else {
        return Err(refused);
    };
    own.set.notes.push(format!(
        "only the user's own processes can be counted: {}",
        refused.reason
    ));
    Ok(Box::new(own))
}
