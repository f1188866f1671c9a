//! What the agent may use itself, and whether it does.
//!
//! In: its CPU time and memory after each window. Out: whether to leave out profiles, windows, or write batches out.

use std::collections::VecDeque;

use crate::config::LimitsConfig;
use crate::health::Own;

/// The time over which CPU use is judged, ns.
const OVER_NS: u64 = 600_000_000_000;
/// Less than this says nothing: a start costs more than what follows.
const LEAST_NS: u64 = 120_000_000_000;

/// The agent's use over the last minutes.
#[derive(Debug)]
pub struct Budget {
    cpu_ratio: f64,
    memory_bytes: u64,
    /// Time and CPU time, the oldest first.
    notes: VecDeque<(u64, f64)>,
    resident_bytes: u64,
}

impl Budget {
    /// A budget within `limits`.
    pub fn new(limits: &LimitsConfig) -> Self {
        Self {
            cpu_ratio: limits.cpu_ratio,
            memory_bytes: limits.memory_mib << 20,
            notes: VecDeque::new(),
            resident_bytes: 0,
        }
    }

    /// Notes what was used until now.
    pub fn note(&mut self, now_ns: u64, own: Own) {
        while self.notes.len() > 1 && now_ns.saturating_sub(self.notes[1].0) >= OVER_NS {
            self.notes.pop_front();
        }
        self.notes.push_back((now_ns, own.cpu_s));
        self.resident_bytes = own.resident_bytes.unwrap_or(0);
    }

    /// CPU seconds a second, over ten minutes at most; None before there are two notes.
    pub fn cpu_ratio(&self) -> Option<f64> {
        let (first, last) = (self.notes.front()?, self.notes.back()?);
        let passed_s = last.0.saturating_sub(first.0) as f64 / 1e9;
        (passed_s > 0.0).then(|| (last.1 - first.1) / passed_s)
    }

    fn is_cpu_over(&self, times: f64) -> bool {
        let passed = match (self.notes.front(), self.notes.back()) {
            (Some(first), Some(last)) => last.0.saturating_sub(first.0),
            _ => 0,
        };
        passed >= LEAST_NS
            && self
                .cpu_ratio()
                .is_some_and(|ratio| ratio > self.cpu_ratio * times)
    }

    /// Whether CPU or memory is above its limit.
    pub fn is_over(&self) -> bool {
        self.is_cpu_over(1.0) || self.is_memory_over()
    }

    /// Whether CPU use is above twice its limit.
    pub fn is_cpu_far_over(&self) -> bool {
        self.is_cpu_over(2.0)
    }

    /// Whether memory is above its limit.
    pub fn is_memory_over(&self) -> bool {
        self.resident_bytes > self.memory_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_is_judged_over_ten_minutes() {
        let mut budget = Budget::new(&LimitsConfig {
            cpu_ratio: 0.01,
            memory_mib: 100,
        });
        let own = |cpu_s| Own {
            cpu_s,
            resident_bytes: Some(50 << 20),
        };
        let minute_ns = 60_000_000_000;
        // A dear start is forgiven.
        budget.note(0, own(0.0));
        budget.note(minute_ns, own(5.0));
        assert!(!budget.is_over());
        for minute in 2..=11 {
            budget.note(minute * minute_ns, own(5.0));
        }
        assert_eq!(budget.cpu_ratio(), Some(0.0));
        for minute in 12..=16 {
            budget.note(minute * minute_ns, own(5.0 + (minute - 11) as f64 * 1.5));
        }
        assert!(budget.is_over() && !budget.is_cpu_far_over());
        budget.note(
            17 * minute_ns,
            Own {
                cpu_s: 20.0,
                resident_bytes: Some(101 << 20),
            },
        );
        assert!(budget.is_cpu_far_over() && budget.is_memory_over());
    }
}
