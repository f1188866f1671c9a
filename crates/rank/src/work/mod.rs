//! The work of a request, stage by stage: pure functions of their arguments and of tables that a seed fills.
//!
//! Invariants: results are the same bit for bit on every ISA and at every optimisation level, because all of it is
//! integer arithmetic that wraps or cannot overflow; ties are broken by the story's id.
//!
//! Not here: messages, threads, time.

mod embedding;
mod graph;
mod network;
mod scoring;
mod story;

pub use steelyard_statistics::mix;

pub use embedding::Embeddings;
pub use graph::Graph;
pub use network::{Activations, Network};
pub use scoring::{Items, Scored, best_first, score_shard};
pub use story::{Story, compose, write_stories};

/// Numbers in a row of a table: one cache line of bytes.
pub const ROW: usize = 64;

/// `hash` mapped to 0..`count`, equally likely.
#[inline]
fn place(hash: u64, count: usize) -> usize {
    ((u128::from(hash) * count as u128) >> 64) as usize
}

/// A row of small signed numbers on a cache line of its own.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Row([i8; ROW]);

/// `bytes / 64` rows, at least one, filled from `seed`.
fn rows(bytes: u64, seed: u64) -> Vec<Row> {
    let count = (bytes as usize / ROW).max(1);
    (0..count)
        .map(|row| {
            let mut row_bytes = [0; ROW];
            for (word, chunk) in row_bytes.chunks_exact_mut(8).enumerate() {
                let bits = mix(seed ^ (row * 8 + word) as u64);
                for (byte, value) in chunk.iter_mut().zip(bits.to_le_bytes()) {
                    *byte = value as i8;
                }
            }
            Row(row_bytes)
        })
        .collect()
}

#[cfg(test)]
mod tests;
