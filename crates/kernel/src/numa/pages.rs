//! Memory of one task by node.

/// Bytes of memory by node, in the order of the machine's nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pages {
    /// All of it.
    pub bytes_per_node: Vec<u64>,
    /// Of these, bytes in mappings of which at least one page is mapped more than once (`mapmax` above 1): the most
    /// that may be shared, since the kernel does not count shared pages. None of a control group, to which each page
    /// is charged once.
    pub shared_bytes_per_node: Option<Vec<u64>>,
    /// Of these, bytes in pages of hugetlbfs; transparent huge pages are not distinguished here.
    pub huge_bytes_per_node: Vec<u64>,
    /// Of the sum, anonymous memory; None where the kernel does not report it.
    pub anon_bytes: Option<u64>,
    /// Of the sum, pages of files; None where the kernel does not report it.
    pub file_bytes: Option<u64>,
    /// Bytes on nodes that are not among the machine's: these have no distance.
    pub elsewhere_bytes: u64,
}

impl Pages {
    /// No memory on any of `nodes` nodes.
    pub fn new(nodes: usize) -> Self {
        Self {
            bytes_per_node: vec![0; nodes],
            shared_bytes_per_node: None,
            huge_bytes_per_node: vec![0; nodes],
            anon_bytes: None,
            file_bytes: None,
            elsewhere_bytes: 0,
        }
    }

    /// All of it, bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes_per_node
            .iter()
            .fold(self.elsewhere_bytes, |sum, bytes| {
                sum.saturating_add(*bytes)
            })
    }

    /// The same in pages of `page_bytes`: a huge page counts as the base pages that it replaces.
    pub fn pages_per_node(&self, page_bytes: u64) -> Vec<u64> {
        self.bytes_per_node
            .iter()
            .map(|bytes| bytes / page_bytes.max(1))
            .collect()
    }
}

/// Adds to the sum of a node.
pub fn add(sums: &mut [u64], position: usize, bytes: u64) {
    if let Some(sum) = sums.get_mut(position) {
        *sum = sum.saturating_add(bytes);
    }
}
