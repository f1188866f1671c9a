//! What the tests of several parts start from.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use steelyard_record::HealthCache;

use crate::context::{Mode, Run, Settings};
use crate::topology::Topology;

/// A topology of one CPU with a last-level cache and memory of these sizes.
pub(crate) fn topology_with(cache_bytes: u64, memory_bytes: u64) -> Topology {
    let root = tempfile::tempdir().expect("a folder");
    let mut topology = Topology::read(root.path(), Some(&[0]));
    topology.caches.push(HealthCache {
        level: 3,
        size_bytes: cache_bytes,
        line_bytes: Some(64),
        cpus: None,
    });
    topology.memory_available_bytes = Some(memory_bytes);
    topology
}

/// Gives `body` a quick run that nobody stops.
pub(crate) fn run_with(topology: &Topology, body: impl FnOnce(&Run<'_>)) {
    body(&Run {
        settings: &settings(&[]),
        topology,
        missing: BTreeMap::new(),
        stop: &AtomicBool::new(false),
        progress: &|_, _| {},
    });
}

/// Settings of a quick run of `parts`.
pub(crate) fn settings(parts: &[&str]) -> Settings {
    Settings {
        mode: Mode::Quick,
        parts: parts.iter().map(|part| (*part).to_owned()).collect(),
        directory: std::env::temp_dir(),
        fio: false,
        seed: 1,
    }
}
