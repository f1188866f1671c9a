//! NUMA nodes with their CPUs, memory and distances, and the memory of a process by node.
//!
//! In: /sys/devices/system/node and /proc/PID/numa_maps. Out: [`Nodes`], and [`Pages`] in the order of [`Nodes::ids`] (node
//! numbers may have gaps, so that a position is no number).
//!
//! Invariants: what cannot be had is a [`Missing`] with its reason, never 0; memory is counted in bytes, so that a huge page
//! counts by its size.

mod distances;
mod maps;
mod missing;
mod nodes;
mod pages;
#[cfg(test)]
mod tests;

pub use distances::{DistanceChoice, DistanceSource, Distances};
pub use maps::{read_pages_into, read_pages_of_process};
pub use missing::Missing;
pub use nodes::{Node, Nodes, parse_numbers};
pub use pages::{Pages, add};

/// Runs the parsers over any text: none may panic, whatever a kernel prints. For the fuzz target.
#[doc(hidden)]
pub fn parse_anything(text: &[u8]) {
    let nodes = Nodes::made(&[0, 1, 33]);
    let mut pages = Pages::new(nodes.len());
    let mut lines = maps::LineReader::new(&nodes, 4096, Some(2 << 20));
    // Cut in two wherever, as reads of a long file are.
    let (first, rest) = text.split_at(text.len() / 2);
    lines.take(first, &mut pages);
    lines.take(rest, &mut pages);
    lines.end(&mut pages);
    parse_numbers(text);
    let _ = Distances::parse(text);
}
