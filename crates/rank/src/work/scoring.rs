//! First scores of many stories by a leaf: one row of its table each, against the user's features.

use super::{ROW, Row, mix, place, rows};

/// A story with its score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scored {
    /// The story.
    pub id: u64,
    /// How well it suits.
    pub score: i32,
}

/// The stories that a leaf knows.
#[derive(Debug)]
pub struct Items {
    rows: Vec<Row>,
}

impl Items {
    /// A table of `bytes` bytes.
    pub fn new(bytes: u64, seed: u64) -> Self {
        Self {
            rows: rows(bytes, mix(seed ^ 0x1f83_d9ab)),
        }
    }
}

/// Best score first; among equals the smaller id.
pub fn best_first(a: &Scored, b: &Scored) -> std::cmp::Ordering {
    b.score.cmp(&a.score).then(a.id.cmp(&b.id))
}

/// The `results` best of `candidates` stories of a shard for a user, best first, and a hash over the scores of all.
pub fn score_shard(
    items: &Items,
    user: u64,
    shard: u32,
    vector: &[i8; ROW],
    candidates: usize,
    results: usize,
) -> (Vec<Scored>, u64) {
    let base = mix(user ^ mix(u64::from(shard) + 1));
    let mut scored: Vec<Scored> = (0..candidates)
        .map(|candidate| {
            let id = mix(base.wrapping_add((candidate as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
            let row = &items.rows[place(id, items.rows.len())];
            let products = row
                .0
                .iter()
                .zip(vector)
                .map(|(&a, &b)| i32::from(a) * i32::from(b));
            Scored {
                id,
                score: products.sum(),
            }
        })
        .collect();
    let all_scores = scored.iter().fold(base, |hash, story| {
        (hash ^ story.score as u64)
            .wrapping_mul(0x9fb2_1c65_1e98_df25)
            .rotate_left(23)
    });
    if results < scored.len() {
        scored.select_nth_unstable_by(results, best_first);
        scored.truncate(results);
    }
    scored.sort_unstable_by(best_first);
    (scored, all_scores)
}
