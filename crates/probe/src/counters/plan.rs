//! A plan's events as this machine's PMUs take them.
//!
//! In: the record `counter_plan` and a tree. Out: one event for each PMU that has it, and for every other
//! event the reason why it is missing.
//!
//! Invariants: an event of the plan is among the events, or among the missing, or in both with a reason that
//! says where it is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;

use steelyard_record::{CounterPlan, Modes, PlannedEvent};

use super::format::Words;
use super::pmu::{self, Pmu};
use crate::ProbeError;
use steelyard_kernel::Tree;

/// One event on one PMU.
#[derive(Debug, Clone)]
pub struct Event {
    /// Name in the table.
    pub name: String,
    /// Which PMU counts it.
    pub pmu: Rc<Pmu>,
    /// Which of its events.
    pub words: Words,
    /// In which modes.
    pub modes: Modes,
    /// Whether it has a counter of its own.
    pub fixed: bool,
    /// With which others it wants to be counted.
    pub group: Option<String>,
}

/// What cannot be counted: by name, where not and why.
#[derive(Debug, Clone, Default)]
pub struct Missing(BTreeMap<String, Vec<(String, String)>>);

/// Places that are named where one reason holds for many.
const NAMED_PLACES: usize = 3;

impl Missing {
    /// Notes that `name` is not counted `place`, which is empty for nowhere at all.
    pub fn add(&mut self, name: &str, place: &str, reason: impl Into<String>) {
        let entry = (place.to_owned(), reason.into());
        let entries = self.0.entry(name.to_owned()).or_default();
        if !entries.contains(&entry) {
            entries.push(entry);
        }
    }

    /// One sentence for each name.
    pub fn items(&self) -> BTreeMap<String, String> {
        let sentence = |entries: &Vec<(String, String)>| {
            let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
            for (place, reason) in entries {
                by_reason.entry(reason).or_default().push(place);
            }
            let parts = by_reason.into_iter().map(|(reason, places)| {
                if places.contains(&"") {
                    return reason.to_owned();
                }
                let named = places[..places.len().min(NAMED_PLACES)].join(", ");
                match places.len().saturating_sub(NAMED_PLACES) {
                    0 => format!("{named}: {reason}"),
                    more => format!("{named} and {more} more: {reason}"),
                }
            });
            parts.collect::<Vec<_>>().join("; ")
        };
        self.0
            .iter()
            .map(|(name, entries)| (name.clone(), sentence(entries)))
            .collect()
    }

    /// Every reason once.
    pub fn reasons(&self) -> String {
        let reasons: BTreeSet<&str> = self
            .0
            .values()
            .flatten()
            .map(|(_, reason)| reason.as_str())
            .collect();
        reasons.into_iter().collect::<Vec<_>>().join("; ")
    }
}

/// Reads the plan in `path`. An error in one line for a file that is no plan, or that contradicts itself.
pub fn read(path: &Path) -> Result<CounterPlan, ProbeError> {
    let refuse = |reason: String| ProbeError::Plan {
        path: path.to_owned(),
        reason,
    };
    let plan: CounterPlan =
        steelyard_record::read(path).map_err(|error| refuse(error.to_string()))?;
    check(&plan).map_err(refuse)?;
    Ok(plan)
}

/// Whether every row of the table would belong to one event of the plan.
pub fn check(plan: &CounterPlan) -> Result<(), String> {
    if plan.events.is_empty() {
        return Err("it has no events".to_owned());
    }
    let mut seen = BTreeSet::new();
    for event in &plan.events {
        let named = |text: &str| !text.is_empty() && !text.contains(char::is_control);
        if !named(&event.name) || !named(&event.pmu) || event.pmu.contains('/') {
            return Err(format!(
                "event {:?} of PMU {:?}: no name for an event or a PMU",
                event.name, event.pmu
            ));
        }
        if !seen.insert((&event.name, &event.pmu)) {
            return Err(format!(
                "event {} of PMU {} is listed twice",
                event.name, event.pmu
            ));
        }
    }
    Ok(())
}

/// Finds every event of `plan` on this machine.
pub fn resolve(plan: &CounterPlan, tree: &Tree, missing: &mut Missing) -> Vec<Event> {
    let mut found: BTreeMap<&str, Result<Vec<Rc<Pmu>>, String>> = BTreeMap::new();
    let mut events: Vec<Event> = Vec::new();
    for planned in &plan.events {
        let pmus = found.entry(&planned.pmu).or_insert_with(|| {
            pmu::find(tree, &planned.pmu).map(|pmus| pmus.into_iter().map(Rc::new).collect())
        });
        let pmus = match pmus {
            Ok(pmus) => pmus,
            Err(reason) => {
                missing.add(&planned.name, "", reason.clone());
                continue;
            }
        };
        for pmu in pmus.iter() {
            let place = if pmus.len() == 1 { "" } else { &pmu.name };
            match event(planned, pmu, tree) {
                // Two names of one PMU, such as `cpu` and `cpu_core`, may meet here.
                Ok(event) if events.iter().any(|known| is_same_row(known, &event)) => {}
                Ok(event) => events.push(event),
                Err(reason) => missing.add(&planned.name, place, reason),
            }
        }
    }
    events
}

fn is_same_row(one: &Event, other: &Event) -> bool {
    one.name == other.name && one.pmu.name == other.pmu.name
}

fn event(planned: &PlannedEvent, pmu: &Rc<Pmu>, tree: &Tree) -> Result<Event, String> {
    Ok(Event {
        name: planned.name.clone(),
        pmu: Rc::clone(pmu),
        words: pmu.words(tree, &planned.name, &planned.terms)?,
        modes: planned.modifiers,
        fixed: planned.fixed,
        group: planned.group.clone(),
    })
}
