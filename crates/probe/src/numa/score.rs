//! The score itself: a pure function of shares and distances.

use steelyard_kernel::numa::{Distances, Missing, Pages};

/// Where a task's CPU time and memory were, by node, in the order of the machine's nodes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Placement {
    /// CPU time, seconds.
    pub cpu_seconds_per_node: Vec<f64>,
    /// Memory.
    pub pages: Pages,
}

impl Placement {
    /// The task's score; an error where it has no CPU time or no memory, or memory on a node that `distances` do not
    /// know.
    pub fn score(&self, distances: &Distances) -> Result<f64, Missing> {
        if self.pages.elsewhere_bytes > 0 {
            return Err(Missing::new(format!(
                "{} bytes are on nodes without distances in /sys",
                self.pages.elsewhere_bytes
            )));
        }
        let memory: Vec<f64> = self
            .pages
            .bytes_per_node
            .iter()
            .map(|bytes| *bytes as f64)
            .collect();
        score(&self.cpu_seconds_per_node, &memory, distances)
    }
}

/// `sum over i, j of C[i] * M[j] * D(i,i) / D(i,j)`, where C and M are `cpu` and `memory` divided by their sums.
///
/// `cpu` and `memory` are amounts by node (of any unit) in the order of `distances`; missing ends count as 0. The
/// score is in (0, 1]. An error where either sum is 0, or where an amount is negative or not a number.
pub fn score(cpu: &[f64], memory: &[f64], distances: &Distances) -> Result<f64, Missing> {
    let cpu_sum = sum(cpu, distances, Missing::NO_CPU_TIME)?;
    let memory_sum = sum(memory, distances, Missing::NO_MEMORY)?;
    let mut score = 0.0;
    for (i, time) in cpu.iter().enumerate().filter(|(_, time)| **time > 0.0) {
        let near: f64 = memory
            .iter()
            .enumerate()
            .map(|(j, amount)| amount / memory_sum * distances.ratio(i, j))
            .sum();
        score += time / cpu_sum * near;
    }
    // Shares sum to 1 but for rounding.
    Ok(score.min(1.0))
}

/// The sum of amounts that make shares; `empty` where there is nothing to share.
fn sum(amounts: &[f64], distances: &Distances, empty: Missing) -> Result<f64, Missing> {
    if amounts.len() > distances.len() {
        return Err(Missing::new(format!(
            "amounts of {} nodes, but distances of {}",
            amounts.len(),
            distances.len()
        )));
    }
    if amounts
        .iter()
        .any(|amount| !amount.is_finite() || *amount < 0.0)
    {
        return Err(Missing::fixed("an amount is negative or not a number"));
    }
    let sum: f64 = amounts.iter().sum();
    if !sum.is_finite() {
        return Err(Missing::fixed("the amounts are too large to be summed"));
    }
    if sum > 0.0 { Ok(sum) } else { Err(empty) }
}
