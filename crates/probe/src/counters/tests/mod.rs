//! Counting on machines that are not here: a fake kernel and trees of PMUs.

use std::collections::BTreeMap;

use steelyard_record::{CounterPlan, Kind, Modes, PlannedEvent};

use super::fake::{Fake, FakePmu};
use super::scope::Scope;
use super::set::CounterSettings;
use super::source::Counters;
use crate::source::{Source, Tick, Unavailable};
use crate::table::Table;
use crate::testing::table_rows;
use steelyard_kernel::Tree;

mod groups;
mod plans;
mod pmus;
mod scopes;

const CPU: u32 = 4;
const DEVICES: &str = "sys/bus/event_source/devices";

/// A machine: files of its tree below a temporary folder, and its kernel.
struct Machine {
    folder: tempfile::TempDir,
    kernel: Fake,
}

impl Machine {
    fn new(kernel: Fake, files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let machine = Self { folder, kernel };
        machine.write("sys/devices/system/cpu/online", "0-1\n");
        for (name, text) in files {
            machine.write(name, text);
        }
        machine
    }

    /// Four general counters, three fixed ones (configs 1 to 3), two CPUs.
    fn x86() -> Self {
        Self::with(Fake::default())
    }

    fn with(kernel: Fake) -> Self {
        let pmu = FakePmu {
            general: 4,
            fixed: [1, 2, 3].into(),
            held: 0,
        };
        Self::of(kernel.pmu(CPU, pmu))
    }

    fn of(kernel: Fake) -> Self {
        let machine = Self::new(kernel, &[]);
        machine.pmu(
            "cpu",
            &[
                ("type", "4"),
                ("format/event", "config:0-7"),
                ("format/umask", "config:8-15"),
            ],
        );
        machine
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }

    fn pmu(&self, name: &str, files: &[(&str, &str)]) {
        for (file, text) in files {
            self.write(&format!("{DEVICES}/{name}/{file}"), &format!("{text}\n"));
        }
    }

    fn tree(&self) -> Tree {
        Tree::new(self.folder.path())
    }

    fn open(&self, settings: &CounterSettings) -> Result<Counting, Unavailable> {
        let source = Counters::open_with(settings, &self.tree(), &self.kernel)?;
        let table = Table::new(&source.columns());
        Ok(Counting { source, table })
    }

    fn count(&self, events: &[PlannedEvent]) -> Counting {
        self.open(&system(events)).expect("something is counted")
    }
}

struct Counting {
    source: Counters,
    table: Table,
}

impl Counting {
    /// The rows of one read without the time: scope entity pmu event group count enabled running.
    fn rows(&mut self) -> Vec<String> {
        let tick = Tick {
            number: 0,
            last: false,
            clock: &|| 7,
        };
        self.source.read(&tick, &mut self.table).expect("readable");
        table_rows(&mut self.table)
            .iter()
            .map(|row| row.split_once(' ').expect("a time").1.to_owned())
            .collect()
    }

    /// The group of each event.
    fn groups(&mut self) -> BTreeMap<String, String> {
        self.rows()
            .iter()
            .map(|row| {
                let cells: Vec<&str> = row.split(' ').collect();
                (cells[3].to_owned(), cells[4].to_owned())
            })
            .collect()
    }

    fn missing(&self) -> BTreeMap<String, String> {
        self.source.missing_items()
    }
}

fn event(name: &str, config: u64) -> PlannedEvent {
    PlannedEvent {
        name: name.to_owned(),
        pmu: "cpu".to_owned(),
        terms: BTreeMap::from([("event".to_owned(), config)]),
        modifiers: Modes::All,
        fixed: (1..=3).contains(&config),
        group: None,
    }
}

fn of_pmu(pmu: &str, event: PlannedEvent) -> PlannedEvent {
    PlannedEvent {
        pmu: pmu.to_owned(),
        ..event
    }
}

fn in_group(group: &str, event: PlannedEvent) -> PlannedEvent {
    PlannedEvent {
        group: Some(group.to_owned()),
        ..event
    }
}

fn software(name: &str, config: u64) -> PlannedEvent {
    PlannedEvent {
        terms: BTreeMap::from([("config".to_owned(), config)]),
        fixed: false,
        ..of_pmu("software", event(name, 0))
    }
}

fn settings(scope: Scope, targets: &[&str], events: &[PlannedEvent]) -> CounterSettings {
    CounterSettings {
        plan: CounterPlan {
            kind: Kind::of::<CounterPlan>(),
            cpu: "fake".to_owned(),
            events: events.to_vec(),
        },
        scopes: vec![scope],
        targets: targets.iter().map(|target| (*target).to_owned()).collect(),
        command: true,
    }
}

fn system(events: &[PlannedEvent]) -> CounterSettings {
    settings(Scope::System, &[], events)
}

/// General events, by letter.
fn general(count: u64) -> Vec<PlannedEvent> {
    (0..count)
        .map(|n| event(&format!("e{n}"), 10 + n))
        .collect()
}
