//! Distances between the nodes of a machine.
//!
//! From the firmware's table (SLIT), from the latencies that the firmware reports for some pairs (HMAT), or from any
//! measured table. Only the ratios `D(i,i) / D(i,j)` matter, so that units do not.

use super::Missing;
use super::nodes::parse_numbers;
use crate::Tree;
use crate::{cpu_list, scan};

/// Where distances came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DistanceSource {
    /// ACPI SLIT, as /sys/devices/system/node/node*/distance reports it.
    Slit,
    /// ACPI HMAT read latencies where the firmware reports them, SLIT in proportion elsewhere.
    Hmat,
    /// A table that was given.
    Given,
}

impl DistanceSource {
    /// Its name in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Slit => "slit",
            Self::Hmat => "hmat",
            Self::Given => "given",
        }
    }
}

/// Which distances to use.
#[derive(Debug, Clone, PartialEq)]
pub enum DistanceChoice {
    /// SLIT.
    Slit,
    /// HMAT, see [`DistanceSource::Hmat`].
    Hmat,
    /// These.
    Given(Distances),
}

/// A square table of distances.
#[derive(Debug, Clone, PartialEq)]
pub struct Distances {
    /// Row by row.
    table: Vec<f64>,
    nodes: usize,
    source: DistanceSource,
}

impl Distances {
    /// Distances row by row, of which there must be a square number of positive ones.
    pub fn new(table: Vec<f64>, source: DistanceSource) -> Result<Self, Missing> {
        let nodes = table.len().isqrt();
        if nodes == 0 || nodes * nodes != table.len() {
            return Err(Missing::new(format!(
                "{} distances are not a square table",
                table.len()
            )));
        }
        if let Some(wrong) = table
            .iter()
            .find(|value| !(**value > 0.0 && value.is_finite()))
        {
            return Err(Missing::new(format!("{wrong} is not a distance")));
        }
        Ok(Self {
            table,
            nodes,
            source,
        })
    }

    /// The table in a text with one row a line and blanks, tabs or commas between numbers; `#` begins a comment. So
    /// latency tables of other tools can be used as they are.
    pub fn parse(text: &[u8]) -> Result<Self, Missing> {
        let mut table = Vec::new();
        let mut columns = None;
        let mut rows = 0usize;
        for line in scan::lines(text) {
            let line = line.split(|byte| *byte == b'#').next().unwrap_or_default();
            let before = table.len();
            for word in line.split(|byte| byte.is_ascii_whitespace() || *byte == b',') {
                if !word.is_empty() {
                    table.push(scan::decimal(word).ok_or_else(|| {
                        Missing::new(format!(
                            "{:?} is not a distance",
                            String::from_utf8_lossy(word)
                        ))
                    })?);
                }
            }
            let found = table.len() - before;
            if found > 0 {
                rows += 1;
                if *columns.get_or_insert(found) != found {
                    return Err(Missing::new(format!(
                        "row {rows} has {found} distances, those before it have {}",
                        columns.unwrap_or_default()
                    )));
                }
            }
        }
        if columns.is_some_and(|columns| columns != rows) {
            return Err(Missing::new(format!(
                "{rows} rows of {} distances",
                columns.unwrap_or_default()
            )));
        }
        Self::new(table, DistanceSource::Given)
    }

    /// The distances of one node as named by the kernel.
    pub fn row(tree: &Tree, id: u32) -> Vec<u64> {
        let text = tree.text(format!("sys/devices/system/node/node{id}/distance"));
        parse_numbers(&text.unwrap_or_default())
    }

    /// SLIT's distances of the nodes `ids` (in order) of `tree`.
    ///
    /// A row holds a distance to each node that is online, in order; a recording may lack folders of some. Where it is empty and the machine has
    /// one node, the distance to itself is 10, as the firmware would say.
    pub fn slit(tree: &Tree, ids: &[u32]) -> Result<Self, Missing> {
        const NODE: &str = "sys/devices/system/node";
        let [online, possible] = ["online", "possible"].map(|name| {
            let text = tree.text(format!("{NODE}/{name}")).unwrap_or_default();
            cpu_list::parse(&text).unwrap_or_default()
        });
        let mut table = Vec::with_capacity(ids.len() * ids.len());
        for id in ids {
            let row = Self::row(tree, *id);
            let columns = [online.as_slice(), ids, possible.as_slice()]
                .into_iter()
                .find(|columns| !row.is_empty() && columns.len() == row.len());
            match columns {
                Some(columns) => {
                    for other in ids {
                        let place = columns.iter().position(|column| column == other);
                        table.push(place.map_or(0.0, |place| row[place] as f64));
                    }
                }
                None if row.is_empty() && ids.len() == 1 => table.push(10.0),
                None => {
                    return Err(Missing::new(format!(
                        "node{id}/distance has {} distances for {} nodes",
                        row.len(),
                        ids.len()
                    )));
                }
            }
        }
        Self::new(table, DistanceSource::Slit)
    }

    /// HMAT's read latencies of the pairs that the firmware reports, else SLIT in proportion to the node's own latency.
    ///
    /// The kernel reports the latency from the initiators nearest to a node's memory only (`access1` of CPUs, else
    /// `access0` of anything; Documentation/admin-guide/mm/numaperf.rst), which is what is wanted of memory without
    /// CPUs: SLIT does not know how much slower such memory is.
    pub(crate) fn hmat(tree: &Tree, ids: &[u32]) -> Result<Self, Missing> {
        let slit = Self::slit(tree, ids)?;
        let count = ids.len();
        let mut known = vec![None; count * count];
        for (target, id) in ids.iter().enumerate() {
            let Some((latency, initiators)) = access_latency(tree, *id) else {
                continue;
            };
            for (source, initiator) in ids.iter().enumerate() {
                if initiators.contains(initiator) {
                    known[source * count + target] = Some(latency as f64);
                }
            }
        }
        if known.iter().all(Option::is_none) {
            return Err(Missing::fixed(
                "the firmware has no latencies (no HMAT): use the distances of SLIT",
            ));
        }
        let mut table = Vec::with_capacity(count * count);
        for i in 0..count {
            // Whatever latency of the row is known makes latencies of the row's distances.
            let scale = (0..count)
                .map(|step| (i + step) % count)
                .find_map(|j| Some(known[i * count + j]? / slit.between(i, j)));
            for j in 0..count {
                let distance = slit.between(i, j);
                table.push(known[i * count + j].unwrap_or(distance * scale.unwrap_or(1.0)));
            }
        }
        Self::new(table, DistanceSource::Hmat)
    }

    /// Nodes.
    pub fn len(&self) -> usize {
        self.nodes
    }

    /// Whether there are no nodes, which is never so.
    pub fn is_empty(&self) -> bool {
        self.nodes == 0
    }

    /// Where they came from.
    pub fn source(&self) -> DistanceSource {
        self.source
    }

    /// The distance from the CPUs at position `i` to the memory at position `j`.
    pub fn between(&self, i: usize, j: usize) -> f64 {
        self.table[i * self.nodes + j]
    }

    /// `D(i,i) / D(i,j)`, at most 1: memory that is nearer than a node's own (as HMAT may report for memory on the
    /// package) counts as local.
    pub fn ratio(&self, i: usize, j: usize) -> f64 {
        (self.between(i, i) / self.between(i, j)).min(1.0)
    }

    /// All of them, row by row.
    pub fn rows(&self) -> &[f64] {
        &self.table
    }
}

/// The read latency of a node's memory from its nearest initiators, ns, and these.
fn access_latency(tree: &Tree, id: u32) -> Option<(u64, Vec<u32>)> {
    ["access1", "access0"].into_iter().find_map(|access| {
        let folder = format!("sys/devices/system/node/node{id}/{access}/initiators");
        let latency = scan::number(&tree.text(format!("{folder}/read_latency")).ok()?)?;
        let initiators: Vec<u32> = tree
            .names(&folder)
            .iter()
            .filter_map(|name| name.strip_prefix("node")?.parse().ok())
            .collect();
        // The kernel writes 0 for what the firmware did not tell.
        (latency > 0 && !initiators.is_empty()).then_some((latency, initiators))
    })
}
