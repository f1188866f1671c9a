use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::version::{Kind, Record};

/// Which performance events to count on a machine: `counter-plan.json`, chosen from the definitions of its
/// CPU, read by the probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterPlan {
    /// Schema version and kind.
    #[serde(flatten)]
    pub kind: Kind,
    /// Id of the CPU's definition, such as `intel-icelake-server`, or `generic` or `software`.
    pub cpu: String,
    /// The events, each name once for a PMU and its modifiers.
    pub events: Vec<PlannedEvent>,
}

/// One event to be counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedEvent {
    /// Name in the table that counts go to.
    pub name: String,
    /// A folder of `/sys/bus/event_source/devices`; the beginning of the names of several alike, such as
    /// `uncore_imc`; or one of the kernel's own types: `hardware`, `hw-cache`, `software`, `tracepoint`.
    pub pmu: String,
    /// Values by term. The folder's `format` says which bits each goes to; `config`, `config1` and `config2`
    /// are whole words, and the kernel's own types know only `config`. Without any, the event is the one
    /// that the folder's `events` has under `name`.
    pub terms: BTreeMap<String, u64>,
    /// In which modes it is counted.
    pub modifiers: Modes,
    /// Whether it has a counter of its own, so that it takes no general one.
    pub fixed: bool,
    /// Events of one group are counted at the same time, as far as they fit the counters that are free; null
    /// leaves it to the probe.
    pub group: Option<String>,
}

/// In which modes of the CPU an event is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Modes {
    /// In all.
    #[serde(rename = "")]
    All,
    /// In user mode only.
    #[serde(rename = "u")]
    User,
    /// In kernel mode only.
    #[serde(rename = "k")]
    Kernel,
}

impl Record for CounterPlan {
    const KIND: &'static str = "counter_plan";
}
