//! Which CPUs a machine has.

use crate::{Tree, cpu_list};

/// The CPUs that are online, in order; CPU 0 where the kernel does not say.
pub fn online_cpus(tree: &Tree) -> Vec<u32> {
    let text = tree.text("sys/devices/system/cpu/online").ok();
    text.and_then(|text| cpu_list::parse(&text))
        .filter(|cpus| !cpus.is_empty())
        .unwrap_or_else(|| vec![0])
}
