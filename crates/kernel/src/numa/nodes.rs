//! The nodes of a machine: their CPUs, memory and distances.

use super::distances::{DistanceChoice, DistanceSource, Distances};
use super::missing::Missing;
use crate::topology::members;
use crate::{Tree, meminfo, scan};

/// A node's number from here on is a mistake: Linux supports 1024.
const NODES_MAX: u32 = 65_536;

/// One node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its number; numbers may have gaps.
    pub id: u32,
    /// Its CPUs, in order; none where there is memory only.
    pub cpus: Vec<u32>,
    /// Its memory, None where the kernel does not report it; 0 where there are CPUs only.
    pub memory_bytes: Option<u64>,
    /// Of this, what nothing uses; None where the kernel does not report it.
    pub free_bytes: Option<u64>,
}

impl Node {
    /// The nodes of `tree`, in the order of their numbers; none where /sys lists none.
    pub fn all(tree: &Tree) -> Vec<Self> {
        tree.numbered("sys/devices/system/node", "node")
            .into_iter()
            .filter(|(id, _)| *id < NODES_MAX)
            .map(|(id, folder)| {
                let base = format!("{}/cpu", folder.display());
                let memory = tree.text(folder.join("meminfo")).unwrap_or_default();
                Self {
                    id,
                    cpus: members(tree, &base, "list", "map").unwrap_or_default(),
                    memory_bytes: meminfo::value(&memory, "MemTotal"),
                    free_bytes: meminfo::value(&memory, "MemFree"),
                }
            })
            .collect()
    }
}

/// The nodes of a machine, in the order of their numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Nodes {
    nodes: Vec<Node>,
    distances: Distances,
    /// Position of each CPU's node.
    position_of_cpu: Vec<Option<u16>>,
    /// Position of each node's number.
    position_of_id: Vec<Option<u16>>,
    huge_page_bytes: Option<u64>,
}

impl Nodes {
    /// The nodes of `tree` with distances as chosen; an error where /sys lists no nodes or no distances.
    pub fn read(tree: &Tree, choice: &DistanceChoice) -> Result<Self, Missing> {
        let nodes = Node::all(tree);
        if nodes.is_empty() {
            return Err(Missing::fixed(
                "/sys/devices/system/node has no nodes: a kernel without CONFIG_NUMA",
            ));
        }
        let ids: Vec<u32> = nodes.iter().map(|node| node.id).collect();
        let distances = match choice {
            DistanceChoice::Slit => Distances::slit(tree, &ids)?,
            DistanceChoice::Hmat => Distances::hmat(tree, &ids)?,
            DistanceChoice::Given(given) if given.len() == ids.len() => given.clone(),
            DistanceChoice::Given(given) => {
                return Err(Missing::new(format!(
                    "distances of {} nodes were given, but the machine has {}",
                    given.len(),
                    ids.len()
                )));
            }
        };
        let mut found = Self::new(nodes, distances);
        found.huge_page_bytes = meminfo::value(
            &tree.text("proc/meminfo").unwrap_or_default(),
            "Hugepagesize",
        );
        Ok(found)
    }

    fn new(nodes: Vec<Node>, distances: Distances) -> Self {
        let mut position_of_cpu = Vec::new();
        let mut position_of_id = Vec::new();
        for (position, node) in nodes.iter().enumerate() {
            for cpu in &node.cpus {
                put(&mut position_of_cpu, *cpu, position);
            }
            put(&mut position_of_id, node.id, position);
        }
        Self {
            nodes,
            distances,
            position_of_cpu,
            position_of_id,
            huge_page_bytes: None,
        }
    }

    /// Nodes of these numbers without CPUs, 10 to themselves and 20 to each other. For tests and fuzz targets.
    #[doc(hidden)]
    pub fn made(ids: &[u32]) -> Self {
        let count = ids.len();
        let table = (0..count * count)
            .map(|place| {
                if place / count == place % count {
                    10.0
                } else {
                    20.0
                }
            })
            .collect();
        let nodes = ids
            .iter()
            .map(|id| Node {
                id: *id,
                cpus: Vec::new(),
                memory_bytes: None,
                free_bytes: None,
            })
            .collect();
        let distances = Distances::new(table, DistanceSource::Given).expect("a square table");
        Self::new(nodes, distances)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are none, which is never so.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Their numbers.
    pub fn ids(&self) -> Vec<u32> {
        self.nodes.iter().map(|node| node.id).collect()
    }

    /// Distances between them.
    pub fn distances(&self) -> &Distances {
        &self.distances
    }

    /// Size of a huge page where a kernel does not report it for each mapping.
    pub(crate) fn huge_page_bytes(&self) -> Option<u64> {
        self.huge_page_bytes
    }

    /// The position of a CPU's node.
    pub fn position_of_cpu(&self, cpu: u64) -> Option<usize> {
        position(&self.position_of_cpu, cpu)
    }

    /// The position of the node with a number.
    pub fn position_of_id(&self, id: u64) -> Option<usize> {
        position(&self.position_of_id, id)
    }
}

fn put(positions: &mut Vec<Option<u16>>, number: u32, position: usize) {
    let number = number as usize;
    if positions.len() <= number {
        positions.resize(number + 1, None);
    }
    positions[number] = u16::try_from(position).ok();
}

fn position(positions: &[Option<u16>], number: u64) -> Option<usize> {
    let number = usize::try_from(number).ok()?;
    (*positions.get(number)?).map(usize::from)
}

/// The numbers of a line; what is no number ends it.
pub fn parse_numbers(text: &[u8]) -> Vec<u64> {
    let mut words = scan::words(scan::trim(text));
    std::iter::from_fn(|| words.number()).collect()
}
