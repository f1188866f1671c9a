//! What the controlling thread and the generator threads share: the phases' times, and what threads report.
//!
//! Phases are cut at times that are published at least `NOTICE_NS` ahead, so that every thread cuts at the
//! same moment however late it looks.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::latency::Latencies;
use crate::tally::Tally;

/// How far ahead of its time a phase change is published.
pub const NOTICE_NS: u64 = 50_000_000;

/// A generator thread that notices a due request later than this did not get its CPU in time.
pub const LATE_NS: u64 = 1_000_000;

/// Times of the phases on the monotonic clock, and the wish to stop.
#[derive(Debug)]
pub struct Control {
    measure_begin_ns: AtomicU64,
    measure_end_ns: AtomicU64,
    abort: AtomicBool,
    drain_most_ns: AtomicU64,
    /// Length of an interval.
    pub interval_ns: u64,
}

/// A phase of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Load whose figures are not counted.
    Warmup,
    /// Load whose figures are the result.
    Measure,
    /// No new load; answers are awaited.
    Drain,
}

impl Phase {
    /// As records name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Warmup => "warmup",
            Self::Measure => "measure",
            Self::Drain => "drain",
        }
    }
}

impl Control {
    /// A control without a measure phase yet.
    pub fn new(interval_ns: u64) -> Self {
        Self {
            measure_begin_ns: AtomicU64::new(u64::MAX),
            measure_end_ns: AtomicU64::new(u64::MAX),
            abort: AtomicBool::new(false),
            drain_most_ns: AtomicU64::new(u64::MAX),
            interval_ns,
        }
    }

    /// Publishes the measure phase. The end goes first: a thread that sees the begin sees the end.
    pub fn publish_measure(&self, begin_ns: u64, end_ns: u64) {
        self.measure_end_ns.store(end_ns, Ordering::Release);
        self.measure_begin_ns.store(begin_ns, Ordering::Release);
    }

    /// Begin and end of the measure phase, `u64::MAX` while unknown.
    #[inline]
    pub fn measure(&self) -> (u64, u64) {
        let begin = self.measure_begin_ns.load(Ordering::Acquire);
        (begin, self.measure_end_ns.load(Ordering::Acquire))
    }

    /// Asks threads that have not begun their load to give up.
    pub fn abort(&self) {
        self.abort.store(true, Ordering::Relaxed);
    }

    /// Whether threads that have not begun their load should give up.
    pub fn aborted(&self) -> bool {
        self.abort.load(Ordering::Relaxed)
    }

    /// Shortens the wait for answers after the end: who asks to stop does not wait for a server that has stopped answering.
    pub fn shorten_drain(&self, most_ns: u64) {
        self.drain_most_ns.store(most_ns, Ordering::Relaxed);
    }

    /// Longest wait for answers after the end, ns.
    pub fn drain_most_ns(&self) -> u64 {
        self.drain_most_ns.load(Ordering::Relaxed)
    }

    /// The phase at `time_ns`.
    pub fn phase(&self, time_ns: u64) -> Phase {
        let (begin, end) = self.measure();
        if time_ns >= end {
            Phase::Drain
        } else if time_ns >= begin {
            Phase::Measure
        } else {
            Phase::Warmup
        }
    }

    /// The end of the interval that begins at `begin_ns`: one length later, or at the phase change before that.
    pub fn interval_end(&self, begin_ns: u64) -> u64 {
        let (measure_begin, measure_end) = self.measure();
        let end = begin_ns + self.interval_ns;
        if begin_ns < measure_begin {
            end.min(measure_begin)
        } else if begin_ns < measure_end {
            end.min(measure_end)
        } else {
            end
        }
    }
}

/// Counts of one thread in one interval, by the time of each event.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Requests that became due, by their intended time as far as threads look in time.
    pub due: u64,
    /// Answers without an error.
    pub completed: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Keys found.
    pub hits: u64,
    /// Keys not found.
    pub misses: u64,
    /// Bytes given to the kernel.
    pub sent_bytes: u64,
    /// Bytes taken from the kernel.
    pub received_bytes: u64,
    /// User CPU time of the thread.
    pub cpu_user_ns: u64,
    /// System CPU time of the thread.
    pub cpu_system_ns: u64,
    /// Time spent looking for something to do rather than sleeping before a request that is due soon.
    pub spin_ns: u64,
}

impl Counts {
    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Self) {
        self.due += other.due;
        self.completed += other.completed;
        self.errors += other.errors;
        self.hits += other.hits;
        self.misses += other.misses;
        self.sent_bytes += other.sent_bytes;
        self.received_bytes += other.received_bytes;
        self.cpu_user_ns += other.cpu_user_ns;
        self.cpu_system_ns += other.cpu_system_ns;
        self.spin_ns += other.spin_ns;
    }
}

/// What one thread saw in one interval.
#[derive(Debug, Default, Clone)]
pub struct Interval {
    /// Start.
    pub begin_ns: u64,
    /// End.
    pub end_ns: u64,
    /// Counts.
    pub counts: Counts,
    /// What became, in the interval, of requests of the measure phase.
    pub tally: Tally,
    /// Latencies of answers and sends in the interval, of requests that were due in it too; after `fold`,
    /// of all.
    pub latencies: Latencies,
    /// Of requests that were due in an earlier interval of the measure phase.
    pub late: Latencies,
    /// Of other requests that were due earlier; `fold` leaves them here too.
    pub foreign: Latencies,
    /// Answers that are counted and not recorded: response and service time, ns.
    answers: Repeated,
    /// Sends that are counted and not recorded: lag and time in the queue, ns.
    sends: Repeated,
}

/// Which of an interval's histograms a request belongs to.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// It was due in the interval.
    #[default]
    Now,
    /// It was due in an earlier interval of the measure phase.
    Late,
    /// It was due earlier, outside the measure phase.
    Foreign,
}

/// A pair of values that came several times in a row: requests that share a segment share their times, and are
/// recorded together.
#[derive(Debug, Default, Clone, Copy)]
struct Repeated {
    place: Place,
    values: (u64, u64),
    count: u64,
}

impl Repeated {
    #[inline]
    fn of(place: Place, first: u64, second: u64) -> Self {
        Self {
            place,
            values: (first, second),
            count: 1,
        }
    }

    /// Counts the pair once more if it is the same; false if it is another.
    #[inline]
    fn again(&mut self, place: Place, first: u64, second: u64) -> bool {
        let same = self.place == place && self.values == (first, second) && self.count > 0;
        self.count += u64::from(same);
        same
    }
}

impl Interval {
    /// Adds what another thread saw in the same interval, and calls `between` between pieces of the work.
    pub fn add(&mut self, other: &Self, between: &mut dyn FnMut()) {
        self.counts.add(&other.counts);
        self.tally.add(&other.tally);
        self.latencies.add_in_pieces(&other.latencies, between);
        self.foreign.add_in_pieces(&other.foreign, between);
    }

    /// Counts the answer to a request that was due at `intended_ns`.
    #[inline]
    pub fn answered(
        &mut self,
        intended_ns: u64,
        measured: bool,
        response_ns: u64,
        service_ns: u64,
    ) {
        let place = self.place_of(intended_ns, measured);
        if !self.answers.again(place, response_ns, service_ns) {
            self.settle_answers();
            self.answers = Repeated::of(place, response_ns, service_ns);
        }
    }

    /// Counts the send of a request that was due at `intended_ns`.
    #[inline]
    pub fn sent(&mut self, intended_ns: u64, measured: bool, lag_ns: u64, queued_ns: u64) {
        let place = self.place_of(intended_ns, measured);
        if !self.sends.again(place, lag_ns, queued_ns) {
            self.settle_sends();
            self.sends = Repeated::of(place, lag_ns, queued_ns);
        }
    }

    /// Where a request that was due at `intended_ns` is counted. An interval never spans a phase change, so
    /// that one histogram serves the interval and its phase, and each value is recorded once.
    #[inline]
    fn place_of(&self, intended_ns: u64, measured: bool) -> Place {
        if intended_ns >= self.begin_ns {
            Place::Now
        } else if measured {
            Place::Late
        } else {
            Place::Foreign
        }
    }

    #[inline]
    fn latencies_of(&mut self, place: Place) -> &mut Latencies {
        match place {
            Place::Now => &mut self.latencies,
            Place::Late => &mut self.late,
            Place::Foreign => &mut self.foreign,
        }
    }

    #[inline]
    fn settle_answers(&mut self) {
        let Repeated {
            place,
            values: (response_ns, service_ns),
            count,
        } = std::mem::take(&mut self.answers);
        if count > 0 {
            self.latencies_of(place)
                .answered(response_ns, service_ns, count);
        }
    }

    #[inline]
    fn settle_sends(&mut self) {
        let Repeated {
            place,
            values: (lag_ns, queued_ns),
            count,
        } = std::mem::take(&mut self.sends);
        if count > 0 {
            self.latencies_of(place).sent(lag_ns, queued_ns, count);
        }
    }

    /// Records what was counted and not recorded so far. To be called before the histograms are read.
    pub fn settle(&mut self) {
        self.settle_answers();
        self.settle_sends();
    }

    /// Adds up the latencies of requests that were due earlier with the others.
    pub fn fold(&mut self) {
        self.foreign.complete();
        self.latencies.add(&self.late);
        self.latencies.add(&self.foreign);
        self.late.clear();
        self.latencies.complete();
    }

    /// Empties the interval for use from `begin_ns` on.
    pub fn restart(&mut self, begin_ns: u64) {
        for latencies in [&mut self.latencies, &mut self.late, &mut self.foreign] {
            latencies.clear();
        }
        self.answers = Repeated::default();
        self.sends = Repeated::default();
        self.counts = Counts::default();
        self.tally = Tally::default();
        self.begin_ns = begin_ns;
        self.end_ns = begin_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_values_are_all_recorded_where_they_belong() {
        let mut interval = Interval::default();
        interval.restart(1_000);
        // Due at: in the interval, before it in the measure phase, before it outside.
        for (intended_ns, measured, times) in [
            (1_500, true, 16),
            (900, true, 3),
            (900, false, 2),
            (1_600, true, 1),
        ] {
            for _ in 0..times {
                interval.sent(intended_ns, measured, 7, 0);
                interval.answered(intended_ns, measured, 50, 40);
            }
        }
        interval.answered(1_600, true, 50, 39);
        interval.settle();
        let counted = |latencies: &Latencies| (latencies.response.len(), latencies.lag.len());
        assert_eq!(counted(&interval.latencies), (18, 17));
        assert_eq!(counted(&interval.late), (3, 3));
        assert_eq!(counted(&interval.foreign), (2, 2));
        assert_eq!(interval.latencies.service.count_at(40), 17);
        assert_eq!(interval.latencies.service.count_at(39), 1);
        // Nothing is recorded twice, and what is emptied stays so.
        interval.settle();
        assert_eq!(counted(&interval.latencies), (18, 17));
        interval.answered(1_600, true, 50, 39);
        interval.restart(2_000);
        interval.settle();
        assert_eq!(counted(&interval.latencies), (0, 0));
    }

    #[test]
    fn intervals_are_cut_at_phase_changes() {
        let control = Control::new(100);
        assert_eq!(control.interval_end(1000), 1100);
        control.publish_measure(1250, 1480);
        let mut cuts = vec![1000];
        for _ in 0..7 {
            cuts.push(control.interval_end(*cuts.last().unwrap()));
        }
        assert_eq!(cuts, [1000, 1100, 1200, 1250, 1350, 1450, 1480, 1580]);
        assert_eq!(control.phase(1249), Phase::Warmup);
        assert_eq!(control.phase(1250), Phase::Measure);
        assert_eq!(control.phase(1480), Phase::Drain);
    }
}
