//! What became of the requests of the measure phase.
//!
//! One rule for every count: a request belongs to the phase in which it was due, in an open loop by its schedule,
//! in a closed one by the answer before it; that is settled once, when it becomes due, and what happens to it later,
//! in whatever phase, is counted there. Invariants, once the load has drained:
//!
//! - due = sent + never sent
//! - sent = completed + failed + unanswered
//! - completed in the phase, whenever due = completed - `completed_after` + `completed_from_before`; errors alike
//!
//! Not here: counts of an interval by the time of each event, as throughput and bytes are
//! ([`crate::control::Counts`]).

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::latency::histogram;
use crate::mix::Operation;

/// Fates of requests that were due in the measure phase.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Became due.
    pub due: u64,
    /// Given to the kernel; once, however often it is sent again.
    pub sent: u64,
    /// Answered without an error.
    pub completed: u64,
    /// Failed.
    pub errors: u64,
    /// Given up when they became due, since too many were outstanding.
    pub dropped: u64,
    /// Open loop: noticed more than `LATE_NS` after they were due.
    pub noticed_late: u64,
    /// Of the completed: answered after the phase.
    pub completed_after: u64,
    /// Not of this phase: answered without an error in it and due before it.
    pub completed_from_before: u64,
    /// Of the failed: after the phase.
    pub errors_after: u64,
    /// Not of this phase: failed in it and due before it.
    pub errors_from_before: u64,
}

impl Tally {
    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Self) {
        self.due += other.due;
        self.sent += other.sent;
        self.completed += other.completed;
        self.errors += other.errors;
        self.dropped += other.dropped;
        self.noticed_late += other.noticed_late;
        self.completed_after += other.completed_after;
        self.completed_from_before += other.completed_from_before;
        self.errors_after += other.errors_after;
        self.errors_from_before += other.errors_from_before;
    }
}

/// Counts of one operation.
#[derive(Debug, Default, Clone, Copy)]
pub struct OperationCounts {
    /// Answered without an error.
    pub completed: u64,
    /// Keys found.
    pub hits: u64,
    /// Keys not found.
    pub misses: u64,
}

/// Counts over the requests that were due in the measure phase.
#[derive(Debug, Default, Clone)]
pub struct Measured {
    /// Their fates.
    pub tally: Tally,
    /// Failures by kind.
    pub errors_by_kind: BTreeMap<&'static str, u64>,
    /// Of those answered without an error, how many in each class of answers that the protocol has.
    pub answers_by_class: BTreeMap<&'static str, u64>,
    /// Sent and neither answered nor failed at the end.
    pub outstanding: u64,
    /// The same of requests that were due before the phase: they occupied their connections all the time.
    pub outstanding_from_before: u64,
    /// Never sent.
    pub unsent: u64,
    /// One for each of the workload's operations.
    pub operations: Vec<OperationCounts>,
    /// Response times of each of them, empty where there is but one to draw from.
    pub responses: Vec<Histogram<u64>>,
    /// Connections that their servers ended in order, over the whole load.
    pub connections_ended: u64,
    /// Connections lost over the whole load.
    pub connections_lost: u64,
    /// Attempts to connect again that failed.
    pub connects_failed: u64,
}

impl Measured {
    /// Nothing counted yet of a workload of these operations.
    pub fn of(operations: &[Operation]) -> Self {
        let weighted = operations.iter().filter(|o| o.weight > 0.0).count();
        let responses = if weighted > 1 { operations.len() } else { 0 };
        Self {
            operations: vec![OperationCounts::default(); operations.len()],
            responses: vec![histogram(); responses],
            ..Self::default()
        }
    }

    /// Whether every request that was due has exactly one fate; to be asked when the load has drained.
    pub fn adds_up(&self) -> bool {
        let Tally {
            due,
            sent,
            completed,
            errors,
            dropped,
            ..
        } = self.tally;
        let kinds: u64 = self.errors_by_kind.values().sum();
        due == sent + self.unsent
            && sent == completed + errors + self.outstanding
            && self.unsent >= dropped
            && kinds == errors
    }

    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Self) {
        self.tally.add(&other.tally);
        for (kind, count) in &other.errors_by_kind {
            *self.errors_by_kind.entry(kind).or_default() += count;
        }
        for (class, count) in &other.answers_by_class {
            *self.answers_by_class.entry(class).or_default() += count;
        }
        self.outstanding += other.outstanding;
        self.outstanding_from_before += other.outstanding_from_before;
        self.unsent += other.unsent;
        if self.operations.len() < other.operations.len() {
            self.operations
                .resize_with(other.operations.len(), OperationCounts::default);
        }
        for (to, from) in self.operations.iter_mut().zip(&other.operations) {
            to.completed += from.completed;
            to.hits += from.hits;
            to.misses += from.misses;
        }
        for (to, from) in self.responses.iter_mut().zip(&other.responses) {
            to.add(from)
                .expect("all latency histograms have the same bounds");
        }
        self.connections_ended += other.connections_ended;
        self.connections_lost += other.connections_lost;
        self.connects_failed += other.connects_failed;
    }
}
