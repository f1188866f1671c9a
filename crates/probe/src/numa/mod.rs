//! CPU-memory locality of what runs on a machine with several NUMA nodes.
//!
//! The score of a task is `sum over i, j of C[i] * M[j] * D(i,i) / D(i,j)`: C is the share of its CPU time on node
//! i, M the share of its memory on node j, D the distance of the two nodes. It is 1 when all memory is where the
//! task runs. Source: Tang et al., "Optimizing Google's Warehouse Scale Computers: The NUMA Experience" (HPCA
//! 2013), equation 1.
//!
//! In: a root with `proc` and `sys`, processes or control groups, a stretch of time.
//! Out: [`Pages`](steelyard_kernel::numa::Pages), CPU seconds and scores, in the order of [`Nodes::ids`].
//!
//! ```no_run
//! # use steelyard_kernel::{Tree, numa::{DistanceChoice, Missing, Nodes}};
//! # use steelyard_probe::numa;
//! # fn main() -> Result<(), Missing> {
//! let tree = Tree::new("/");
//! let nodes = Nodes::read(&tree, &DistanceChoice::Slit)?;
//! let mut cpu = numa::CpuWatch::of_cgroup(&tree, &nodes, "/system.slice/db.service")?;
//! // ... later, a few times in the window where `cpu.wants_looks()`:
//! cpu.look();
//! let placement = numa::Placement {
//!     cpu_seconds_per_node: cpu.cpu_seconds_per_node(),
//!     pages: numa::read_pages_of_cgroup(&tree, &nodes, "/system.slice/db.service")?,
//! };
//! let score = placement.score(nodes.distances())?;
//! # Ok(())
//! # }
//! ```
//!
//! Invariants: a score is in (0, 1], and exactly 1 on one node; what cannot be had is a [`Missing`](steelyard_kernel::numa::Missing) with its reason,
//! never 0; memory is counted in bytes, so that a huge page counts by its size; no text of the kernel makes it panic.
//!
//! Not here: what scores mean for performance (the control plane's fleet queries), and memory *accesses*: pages stand
//! in for them, as in the paper.

mod cpu;
mod groups;
mod process;
mod score;
mod subjects;
mod survey;
#[cfg(test)]
mod tests;

use steelyard_kernel::numa::{Distances, Nodes};

pub use cpu::{CpuWatch, cpu_seconds_per_node};
pub use groups::{GroupFolders, read_pages_of_cgroup};
pub use score::{Placement, score};
pub use survey::{Request, Subjects, Survey};

/// Runs the parsers over any text: none may panic, whatever a kernel prints. For the fuzz target.
#[doc(hidden)]
pub fn parse_anything(text: &[u8]) {
    let nodes = Nodes::made(&[0, 1, 33]);
    groups::parse_version_1(text, &nodes, 4096);
    groups::parse_version_2(text, &nodes);
    groups::parse_huge(text, &nodes);
    groups::parse_usage_percpu(text);
    if let Ok(distances) = Distances::parse(text) {
        let even = vec![1.0; distances.len()];
        let found = score(&even, &even, &distances).expect("time and memory are there");
        assert!(found > 0.0 && found <= 1.0, "{found}");
    }
}
