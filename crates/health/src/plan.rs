//! What would be measured on a machine, as a document: for a look before, and for tests over recorded trees.

use serde_json::{Value, json};

use crate::context::Mode;
use crate::topology::{Topology, format_list};
use crate::{bandwidth, core_to_core, latency};

/// The working sets, node pairs and CPUs that a check in `mode` would measure.
pub fn plan(topology: &Topology, mode: Mode) -> Value {
    let (sets, why) = latency::working_sets(topology, mode);
    let pairs: Vec<Value> = bandwidth::pairs(topology)
        .into_iter()
        .map(|(cpus, memory)| {
            let bytes = bandwidth::array_bytes(topology, cpus, memory);
            json!({
                "cpu_node": cpus.id,
                "memory_node": memory.id,
                "threads": cpus.cpus.len(),
                "array_bytes": bytes.as_ref().ok(),
                "missing": bytes.err(),
            })
        })
        .collect();
    let (cpus, sample) = core_to_core::choose_default(&topology.cpus);
    let ids: Vec<usize> = cpus.iter().map(|cpu| *cpu as usize).collect();
    json!({
        "machine": topology.record(),
        "memory_latency": {
            "cpu": topology.cpus.first().map(|cpu| cpu.id),
            "working_set_bytes": sets,
            "missing": why,
        },
        "memory_bandwidth": { "pairs": pairs },
        "core_to_core": {
            "cpus": format_list(&ids),
            "pairs": ids.len() * ids.len().saturating_sub(1) / 2,
            "sample": sample,
        },
    })
}
