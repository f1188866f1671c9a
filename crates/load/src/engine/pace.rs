//! Waiting for a request that is due: sleeping while that is precise enough, then looking.
//!
//! A sleep ends late by what the timer and the scheduler take. The pacer learns that from its own sleeps, goes
//! to sleep until that much before the due time, and spins over the rest. At low rates nearly all of the
//! time is slept; at distances shorter than the lateness none is.

use crate::io::Wait;

/// Bounds on the part of a wait that is spun, ns.
const MARGIN_MIN_NS: f64 = 3_000.0;
const MARGIN_MAX_NS: f64 = 150_000.0;

/// Chooses between sleeping and spinning.
#[derive(Debug, Clone)]
pub struct Pacer {
    margin_ns: f64,
}

impl Default for Pacer {
    fn default() -> Self {
        Self {
            margin_ns: 60_000.0,
        }
    }
}

impl Pacer {
    /// How to wait at `now_ns` for something due at `due_ns`.
    #[inline]
    pub fn wait(&self, now_ns: u64, due_ns: u64) -> Wait {
        let margin = self.margin_ns as u64;
        if due_ns <= now_ns + margin {
            Wait::No
        } else if due_ns - now_ns - margin > 2 * crate::io::TICK_NS {
            Wait::Tick
        } else {
            Wait::Until(due_ns - margin)
        }
    }

    /// Learns from a sleep that should have ended at `until_ns` and ended at `now_ns` without an event.
    pub fn slept(&mut self, until_ns: u64, now_ns: u64) {
        let late_ns = now_ns.saturating_sub(until_ns) as f64;
        // Up at once, down slowly: a margin too long costs CPU time, one too short costs precision.
        let wanted = late_ns * 1.25;
        self.margin_ns = if wanted > self.margin_ns {
            wanted
        } else {
            self.margin_ns * 0.99 + wanted * 0.01
        }
        .clamp(MARGIN_MIN_NS, MARGIN_MAX_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_margin_follows_the_lateness() {
        let mut pacer = Pacer::default();
        for _ in 0..2_000 {
            pacer.slept(1_000_000, 1_008_000);
        }
        assert_eq!(pacer.wait(0, 9_000), Wait::No);
        assert!(
            matches!(pacer.wait(0, 100_000), Wait::Until(at) if (85_000..95_000).contains(&at))
        );
        pacer.slept(1_000_000, 1_050_000);
        assert_eq!(pacer.wait(0, 60_000), Wait::No);
        pacer.slept(1_000_000, 9_000_000);
        assert!(matches!(pacer.wait(0, 1_000_000), Wait::Until(850_000)));
        assert_eq!(pacer.wait(0, 10_000_000_000), Wait::Tick);
    }
}
