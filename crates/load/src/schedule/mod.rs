//! When requests are due in an open loop.
//!
//! Invariant: intended times depend on the start, the begin of the measure phase, the law, the rate and the seed
//! only, never on answers. Not here: waiting for them.

mod arrival;

pub use arrival::{Arrival, Recording};

use crate::random::Random;

/// One thread's share of a schedule.
#[derive(Debug, Clone, Copy)]
pub struct Share {
    /// Number of the thread.
    pub thread: u32,
    /// Threads in all.
    pub threads: u32,
}

/// The intended times of one generator thread.
#[derive(Debug, Clone)]
pub struct Schedule {
    law: Law,
    share: Share,
    /// What the times are counted from: the start of the load, or the begin of the measure phase once a law
    /// that is laid over it has come there.
    origin_ns: u64,
    /// This thread's requests since the origin.
    index: u64,
    /// Time of the next request since the origin.
    next_ns: f64,
}

#[derive(Debug, Clone)]
enum Law {
    /// At a distance of `period_ns` over all threads.
    Even { period_ns: f64 },
    /// This thread's gaps are exponential with the mean `period_ns`.
    Poisson { period_ns: f64, random: Box<Random> },
    /// Laid over the measure phase.
    Phase(Box<Phase>),
}

/// A law that is laid over the measure phase.
#[derive(Debug, Clone)]
struct Phase {
    arrival: Arrival,
    /// Length of the measure phase.
    duration_ns: f64,
    /// Its begin, `u64::MAX` while unknown.
    begin_ns: u64,
    /// Whether the schedule has come there.
    begun: bool,
}

impl Phase {
    /// When arrival number `index` of all threads is in the measure phase, since its begin, ns; infinite when
    /// there is none.
    fn measured_at(&self, index: u64) -> f64 {
        match &self.arrival {
            Arrival::Ramp {
                from_per_s,
                to_per_s,
            } => {
                // The count up to t is from t + slope t^2 / 2; this solution of it loses no digits, whatever the
                // slope's sign. Past the end of a ramp down to 0 nothing comes.
                let (from, slope) = (
                    from_per_s / 1e9,
                    (to_per_s - from_per_s) / 1e9 / self.duration_ns,
                );
                let n = index as f64;
                if n == 0.0 {
                    // The limit at a rate of 0, where the formula is 0 / 0.
                    return 0.0;
                }
                let square = from * from + 2.0 * slope * n;
                if square < 0.0 {
                    return f64::INFINITY;
                }
                2.0 * n / (from + square.sqrt())
            }
            Arrival::Step(rates) => {
                let part_ns = self.duration_ns / rates.len() as f64;
                let mut left = index as f64;
                for (place, rate) in rates.iter().enumerate() {
                    let in_part = rate / 1e9 * part_ns;
                    if left < in_part {
                        return place as f64 * part_ns + left / (rate / 1e9);
                    }
                    left -= in_part;
                }
                f64::INFINITY
            }
            Arrival::Recorded(recording) => recording.at_ns(index) as f64,
            Arrival::Constant | Arrival::Poisson => unreachable!("they hold over the whole load"),
        }
    }

    /// When arrival number `index` of all threads is before the measure phase, since the start.
    fn warm_up_at(&self, index: u64) -> f64 {
        let first_per_s = match &self.arrival {
            Arrival::Ramp { from_per_s, .. } => *from_per_s,
            Arrival::Step(rates) => rates[0],
            _ => return self.measured_at(index),
        };
        if first_per_s > 0.0 {
            index as f64 * 1e9 / first_per_s
        } else {
            f64::INFINITY
        }
    }
}

impl Schedule {
    /// A share of a schedule from `start_ns`. `rate_per_s` over all threads is that of a constant or Poisson
    /// arrival; other laws are laid over a measure phase of `duration_ns`.
    ///
    /// Poisson: each thread's is a Poisson process of its own, whose superposition is one of the whole rate.
    /// Otherwise the threads take the arrivals in turn.
    pub fn new(
        arrival: &Arrival,
        rate_per_s: f64,
        duration_ns: u64,
        share: Share,
        start_ns: u64,
        random: Random,
    ) -> Self {
        let law = match arrival {
            Arrival::Constant => Law::Even {
                period_ns: 1e9 / rate_per_s,
            },
            Arrival::Poisson => Law::Poisson {
                period_ns: 1e9 * f64::from(share.threads) / rate_per_s,
                random: Box::new(random),
            },
            Arrival::Ramp { .. } | Arrival::Step(_) | Arrival::Recorded(_) => {
                Law::Phase(Box::new(Phase {
                    arrival: arrival.clone(),
                    duration_ns: duration_ns as f64,
                    begin_ns: u64::MAX,
                    begun: false,
                }))
            }
        };
        let mut schedule = Self {
            law,
            share,
            origin_ns: start_ns,
            index: 0,
            next_ns: 0.0,
        };
        schedule.place();
        schedule
    }

    /// When the next request is due.
    #[inline]
    pub fn peek(&self) -> u64 {
        // Rounded, so that an arrival that theory puts at the phase's end does not slip before it.
        self.origin_ns.saturating_add((self.next_ns + 0.5) as u64)
    }

    /// Moves on to the request after.
    #[inline]
    pub fn advance(&mut self) {
        self.index += 1;
        self.place();
    }

    /// Says when the measure phase begins.
    pub fn measure(&mut self, begin_ns: u64) {
        let Law::Phase(phase) = &mut self.law else {
            return;
        };
        if !phase.begun && phase.begin_ns != begin_ns {
            phase.begin_ns = begin_ns;
            self.place();
        }
    }

    /// Finds the time of request number `index`. Even times are multiplied rather than added up, so that
    /// rounding does not accumulate into a wrong rate.
    #[inline]
    fn place(&mut self) {
        match &mut self.law {
            Law::Even { period_ns } => {
                self.next_ns = number(self.share, self.index) as f64 * *period_ns;
            }
            Law::Poisson { period_ns, random } => self.next_ns += random.exponential() * *period_ns,
            Law::Phase(phase) => {
                if !phase.begun {
                    self.next_ns = phase.warm_up_at(number(self.share, self.index));
                    let at_ns = self.origin_ns.saturating_add((self.next_ns + 0.5) as u64);
                    if at_ns < phase.begin_ns || phase.begin_ns == u64::MAX {
                        return;
                    }
                    phase.begun = true;
                    self.origin_ns = phase.begin_ns;
                    self.index = 0;
                }
                self.next_ns = phase.measured_at(number(self.share, self.index));
            }
        }
    }
}

/// The number among the arrivals of all threads of this thread's number `index`.
#[inline]
fn number(share: Share, index: u64) -> u64 {
    index * u64::from(share.threads) + u64::from(share.thread)
}

#[cfg(test)]
mod tests;
