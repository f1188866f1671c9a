//! Performance counters: events of the CPU, of the machine and of the kernel, through perf_event_open.
//!
//! In: a plan (record `counter_plan`), whose work to count, and the tree that describes the machine's PMUs.
//! Out: rows of the table `counters`: raw counts since the events were opened, with the time that they were
//! enabled and the time that they were counted, which is less where more groups than fit take turns.
//!
//! Invariants: counts are the kernel's, unscaled; an event that cannot be counted has no rows but a reason; one
//! that never got a counter has null, not 0.
//!
//! Not here: which events a CPU has (`data/events`), scaling, metrics, sampling.

mod arrange;
mod check;
#[cfg(test)]
mod fake;
mod format;
mod kernel;
mod plan;
mod pmu;
mod reasons;
mod scope;
mod set;
mod source;
#[cfg(test)]
mod tests;

pub use check::{Checked, check};
pub use plan::read as read_plan;
pub use scope::{Scope, is_pid};
pub use set::CounterSettings;
pub use source::{Count, Counters, DEFINITION};

/// Reads `bytes` as a plan, as a PMU's files and as mounts: whatever they say, nothing may panic. For the fuzz target.
pub fn parse_anything(bytes: &[u8]) {
    if let Ok(plan) = serde_json::from_slice::<steelyard_record::CounterPlan>(bytes) {
        let _ = plan::check(&plan);
    }
    let text = String::from_utf8_lossy(bytes);
    let format = format::Format::parse(&text);
    let mut formats = std::collections::BTreeMap::new();
    let Ok(terms) = format::parse_event(&text) else {
        return;
    };
    for (name, value) in &terms {
        if let Some(format) = &format {
            format.apply(*value, &mut format::Words::default());
            formats.insert(name.clone(), format.clone());
        }
    }
    let _ = format::words(
        terms.iter().map(|(name, value)| (&**name, *value)),
        &formats,
    );
}
