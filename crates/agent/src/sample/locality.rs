//! Where a task's CPU time and memory were, by NUMA node, and how near to each other.
//!
//! In: a task's group at both ends of a window. Out: CPU seconds and base pages by node, and the score of `probe::numa`.
//! A machine with one node has nothing to follow: all is there.

use steelyard_kernel::Tree;
use steelyard_kernel::numa::{DistanceChoice, Nodes};
use steelyard_probe::numa::{CpuWatch, Placement, read_pages_of_cgroup};

/// The machine's nodes.
pub struct Locality {
    tree: Tree,
    nodes: Result<Nodes, String>,
}

/// One task's locality in one window.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Local {
    /// CPU seconds by node.
    pub cpu_s_per_node: Option<Vec<f64>>,
    /// Base pages by node.
    pub pages_per_node: Option<Vec<i64>>,
    /// The score.
    pub score: Option<f64>,
}

impl Locality {
    /// The nodes of `tree`.
    pub fn new(tree: &Tree) -> Self {
        Self {
            tree: tree.clone(),
            nodes: Nodes::read(tree, &DistanceChoice::Slit).map_err(|missing| missing.to_string()),
        }
    }

    /// Why there are no figures by node.
    pub fn missing(&self) -> Option<&str> {
        self.nodes.as_ref().err().map(String::as_str)
    }

    /// Follows the group at `path` through a window, where there is more than one node.
    pub fn begin(&self, path: &str) -> Option<CpuWatch> {
        let nodes = self.nodes.as_ref().ok().filter(|nodes| nodes.len() > 1)?;
        let mut watch = CpuWatch::of_cgroup(&self.tree, nodes, path).ok()?;
        watch.begin();
        Some(watch)
    }

    /// The group's locality since, given its CPU time.
    pub fn end(&self, watch: Option<&mut CpuWatch>, path: &str, cpu_s: f64) -> Local {
        let Ok(nodes) = &self.nodes else {
            return Local::default();
        };
        let cpu = match watch {
            Some(watch) => {
                watch.look();
                Some(watch.cpu_seconds_per_node())
            }
            None => (nodes.len() == 1).then(|| vec![cpu_s]),
        };
        let pages = read_pages_of_cgroup(&self.tree, nodes, path).ok();
        let per_node = pages
            .as_ref()
            .map(|pages| pages.pages_per_node(steelyard_kernel::page_bytes()));
        let score = cpu.as_ref().zip(pages).and_then(|(cpu, pages)| {
            let placement = Placement {
                cpu_seconds_per_node: cpu.clone(),
                pages,
            };
            placement.score(nodes.distances()).ok()
        });
        Local {
            cpu_s_per_node: cpu,
            pages_per_node: per_node.map(|pages| {
                pages
                    .into_iter()
                    .map(|count| i64::try_from(count).unwrap_or(i64::MAX))
                    .collect()
            }),
            score,
        }
    }
}
