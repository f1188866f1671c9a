//! Where the time goes: intervals are cut, phases looked at, and at the end it is counted what never came to one.

use steelyard_kernel::usage::Usage;

use super::{Loop, Report, State};
use crate::codec::Codec;

impl<C: Codec> State<C> {
    #[inline]
    pub(super) fn is_measured(&self, intended_ns: u64) -> bool {
        intended_ns >= self.measure.0 && intended_ns < self.measure.1
    }

    /// Reads the phases' times. An interval ends with its phase also where that is set while it lasts.
    #[inline]
    pub(super) fn look_at_phases(&mut self) {
        let control = &self.task.control;
        let measure = control.measure();
        if measure != self.measure {
            self.measure = measure;
            let end_ns = control.interval_end(self.interval.begin_ns);
            self.interval_end_ns = self.interval_end_ns.min(end_ns);
        }
    }

    /// Ends the intervals that are over at `now_ns`.
    #[inline]
    pub(super) fn catch_up(&mut self, now_ns: u64) {
        while now_ns >= self.interval_end_ns {
            self.cut_interval(self.interval_end_ns);
        }
    }

    /// Whether the interval at hand is of the measure phase.
    #[inline]
    pub(super) fn is_measuring(&self) -> bool {
        let begin_ns = self.interval.begin_ns;
        begin_ns >= self.measure.0 && begin_ns < self.measure.1
    }

    /// Ends the interval at `end_ns`, reports it and begins the next.
    pub(super) fn cut_interval(&mut self, end_ns: u64) {
        let cpu_ns = Usage::of_thread().times_ns();
        self.interval.settle();
        self.interval.end_ns = end_ns;
        self.interval.counts.cpu_user_ns = cpu_ns.0 - self.cpu_ns.0;
        self.interval.counts.cpu_system_ns = cpu_ns.1 - self.cpu_ns.1;
        self.cpu_ns = cpu_ns;
        let mut next = self.task.spare.try_recv().unwrap_or_default();
        next.restart(end_ns);
        self.measured.tally.add(&self.interval.tally);
        let ended = std::mem::replace(&mut self.interval, next);
        let _ = self
            .task
            .reports
            .send(Report::Interval(self.task.index, ended));
        self.interval_end_ns = self.task.control.interval_end(end_ns);
    }

    /// Counts what never came to an end.
    pub(super) fn finish(&mut self, now_ns: u64) {
        if now_ns > self.interval.begin_ns {
            self.cut_interval(now_ns);
        } else {
            self.measured.tally.add(&self.interval.tally);
        }
        let queue = match &self.kind {
            Loop::Open(open) => Some(open.queue.iter()),
            _ => None,
        };
        let connections = self.connections.iter();
        let begun = connections.flat_map(|c| c.pending.iter().map(|p| &p.due).chain(&c.again));
        let left = begun.chain(queue.into_iter().flatten());
        for due in left {
            match (due.is_measured, due.first_sent_ns > 0) {
                (true, true) => self.measured.outstanding += 1,
                (true, false) => self.measured.unsent += 1,
                (false, true) => self.measured.outstanding_from_before += 1,
                (false, false) => {}
            }
        }
        let due = self.connections.iter().flat_map(|c| &c.due);
        self.measured.unsent += due.filter(|(_, is_measured)| *is_measured).count() as u64;
        self.measured.unsent += self.measured.tally.dropped;
        debug_assert!(self.measured.adds_up(), "{:?}", self.measured.tally);
    }
}
