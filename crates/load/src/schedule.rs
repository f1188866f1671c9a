//! When requests are due in an open loop.
//!
//! Invariant: intended times depend on the start, the rate and the seed only, never on answers. Not here:
//! waiting for them.

use crate::random::Random;

/// How requests arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// At equal distances.
    Constant,
    /// As a Poisson process: exponential distances.
    Poisson,
}

/// The intended times of one generator thread.
#[derive(Debug, Clone)]
pub struct Schedule {
    arrival: Arrival,
    start_ns: u64,
    /// Mean distance between this thread's requests.
    period_ns: f64,
    /// Constant: requests so far. Poisson: unused.
    index: u64,
    /// Time of the next request since the start.
    next_ns: f64,
    /// Constant: where in the period this thread's requests fall.
    phase_ns: f64,
    random: Random,
}

impl Schedule {
    /// The share of thread number `thread` of `threads` in a schedule of `rate_per_s` in all from `start_ns`.
    ///
    /// Constant: the threads' requests interleave evenly. Poisson: each thread's is a Poisson process of its
    /// own, whose superposition is one of the whole rate.
    pub fn new(
        arrival: Arrival,
        rate_per_s: f64,
        thread: u32,
        threads: u32,
        start_ns: u64,
        random: Random,
    ) -> Self {
        let period_ns = 1e9 * f64::from(threads) / rate_per_s;
        let phase_ns = period_ns * f64::from(thread) / f64::from(threads);
        let mut schedule = Self {
            arrival,
            start_ns,
            period_ns,
            index: 0,
            next_ns: phase_ns,
            phase_ns,
            random,
        };
        if arrival == Arrival::Poisson {
            schedule.next_ns = schedule.random.exponential() * period_ns;
        }
        schedule
    }

    /// When the next request is due.
    #[inline]
    pub fn peek(&self) -> u64 {
        self.start_ns + self.next_ns as u64
    }

    /// Moves on to the request after.
    #[inline]
    pub fn advance(&mut self) {
        match self.arrival {
            Arrival::Constant => {
                // Multiplied rather than added up, so that rounding does not accumulate into a wrong rate.
                self.index += 1;
                self.next_ns = self.phase_ns + self.index as f64 * self.period_ns;
            }
            Arrival::Poisson => self.next_ns += self.random.exponential() * self.period_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Purpose;

    fn times(arrival: Arrival, rate: f64, thread: u32, threads: u32, until_ns: u64) -> Vec<u64> {
        let random = Random::stream(9, Purpose::Arrivals, u64::from(thread));
        let mut schedule = Schedule::new(arrival, rate, thread, threads, 1_000, random);
        let mut times = Vec::new();
        while schedule.peek() < 1_000 + until_ns {
            times.push(schedule.peek());
            schedule.advance();
        }
        times
    }

    #[test]
    fn constant_threads_interleave_evenly_and_keep_the_rate() {
        let mut all: Vec<u64> = (0..3)
            .flat_map(|t| times(Arrival::Constant, 33_333.0, t, 3, 10_000_000_000))
            .collect();
        all.sort_unstable();
        assert_eq!(all.len(), 333_330);
        let period = 1e9 / 33_333.0;
        for (i, pair) in all.windows(2).enumerate() {
            assert!(
                ((pair[1] - pair[0]) as f64 - period).abs() <= 2.0,
                "gap {i}"
            );
        }
    }

    #[test]
    fn merged_poisson_threads_have_exponential_gaps_and_the_rate() {
        let mut all: Vec<u64> = (0..4)
            .flat_map(|t| times(Arrival::Poisson, 50_000.0, t, 4, 2_000_000_000))
            .collect();
        all.sort_unstable();
        // The count is Poisson with mean 100,000 and standard deviation 316.
        assert!((98_700..=101_300).contains(&all.len()), "{}", all.len());
        let mut gaps: Vec<f64> = all
            .windows(2)
            .map(|w| (w[1] - w[0]) as f64 / 20_000.0)
            .collect();
        gaps.sort_by(f64::total_cmp);
        let n = gaps.len() as f64;
        let distance = gaps
            .iter()
            .enumerate()
            .map(|(i, &x)| (1.0 - (-x).exp() - (i as f64 + 0.5) / n).abs())
            .fold(0.0, f64::max);
        assert!(distance < 1.95 / n.sqrt(), "{distance}");
    }

    #[test]
    fn a_long_schedule_keeps_its_rate() {
        let random = Random::stream(1, Purpose::Arrivals, 0);
        let mut schedule = Schedule::new(Arrival::Poisson, 100_000.0, 0, 1, 0, random);
        for _ in 0..10_000_000 {
            schedule.advance();
        }
        let rate = 10_000_000.0 / (schedule.peek() as f64 / 1e9);
        assert!((rate / 100_000.0 - 1.0).abs() < 0.001, "{rate}");
    }
}
