//! What comes back on the connections: answers, openings, ends; and how an ended connection is opened again.
//!
//! Every answer is counted once, for the phase in which its request was due; what was in flight on a connection that
//! ended is lost and counted as an error there too.

use std::collections::VecDeque;

use steelyard_record::monotonic_ns;

use super::connection::{Due, Link, Pending};
use super::{Loop, State};
use crate::codec::{Answer, Codec, Outcome};
use crate::io::{Event, GATHER_NS, Transport, connect_start};

/// Least and most time between two looks for answers that take too long.
const LATE_CHECK_NS: (u64, u64) = (1_000_000, 20_000_000);
/// Share of the time for which receives may be held that they should need on average.
const GATHER_SHARE: f64 = 0.7;

impl<C: Codec> State<C> {
    /// How many receives are worth waiting for together at `now_ns`.
    ///
    /// Closed loop only, and only where they come so fast that a few are there within the time that the
    /// transport may hold them: then fewer wake-ups serve as many answers. At most half of the connections are
    /// left waiting for each other, so that the server keeps work.
    pub(super) fn gather(&mut self, now_ns: u64) -> u32 {
        if self.receives > 0 {
            let gap_ns = now_ns.saturating_sub(self.gap_since_ns) as f64 / f64::from(self.receives);
            self.gap_ns += (gap_ns - self.gap_ns) * 0.1;
            self.gap_since_ns = now_ns;
            self.receives = 0;
        }
        if matches!(self.kind, Loop::Open(_)) {
            return 1;
        }
        let half = self.outstanding.min(self.connections.len()) / 2;
        let within = GATHER_SHARE * GATHER_NS as f64 / self.gap_ns.max(1.0);
        (half as u32).min(within as u32).max(1)
    }

    pub(super) fn handle(&mut self, slot: usize, event: Event<'_>) {
        self.look_at_phases();
        match event {
            Event::Received { bytes, at_ns } => self.received(slot, bytes, at_ns),
            Event::Sent => {
                if !self.connections[slot].out.is_empty() {
                    self.list_dirty(slot);
                }
            }
            Event::Opened => {
                let connection = &mut self.connections[slot];
                if connection.link == Link::Opening {
                    connection.codec.open(&mut connection.out);
                    self.list_dirty(slot);
                    self.come_up(slot);
                }
            }
            Event::Closed(kind) => self.closed(slot, kind),
        }
    }

    /// Puts a connection to use once its protocol allows it.
    pub(super) fn come_up(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        if connection.link == Link::Opening && connection.codec.ready() {
            connection.link = Link::Up;
            connection.room_since_ns = monotonic_ns();
            if matches!(self.kind, Loop::Open(_)) {
                self.offer(slot);
            }
        }
    }

    pub(super) fn break_link(&mut self, slot: usize, kind: &'static str) {
        match self.connections[slot].link {
            Link::Opening => {
                self.measured.connects_failed += 1;
                self.refused(slot, kind);
            }
            Link::Up => {
                self.measured.connections_lost += 1;
                self.lost_early(slot, kind);
            }
            _ => {}
        }
        let connection = &mut self.connections[slot];
        if matches!(connection.link, Link::Opening | Link::Up) {
            connection.link = Link::Broken(kind);
            self.broken.push(slot);
        }
    }

    /// The server has closed the connection: in order where its protocol lets it and nothing was lost by it.
    fn closed(&mut self, slot: usize, kind: &'static str) {
        if kind == "connection-closed" && self.connections[slot].link == Link::Up {
            let mut answers = std::mem::take(&mut self.answers);
            self.connections[slot].codec.end(&mut answers);
            let completed = !answers.is_empty();
            let at_ns = monotonic_ns();
            self.catch_up(at_ns);
            let mut in_order = true;
            for answer in answers.drain(..) {
                in_order &= self.answered(slot, answer, at_ns).is_ok();
            }
            self.answers = answers;
            let connection = &mut self.connections[slot];
            let nothing_lost = completed || connection.pending.is_empty();
            if in_order && nothing_lost && connection.codec.finished() {
                self.leave_link(slot);
                return;
            }
        }
        self.break_link(slot, kind);
    }

    /// Breaks connections whose oldest request has been without an answer for too long: a late answer could not be
    /// distinguished from the answer to another request.
    #[inline]
    pub(super) fn break_late(&mut self, now_ns: u64) {
        let most_ns = self.task.timeout_ns;
        if most_ns == u64::MAX || now_ns < self.next_late_check_ns {
            return;
        }
        self.next_late_check_ns = now_ns + (most_ns / 20).clamp(LATE_CHECK_NS.0, LATE_CHECK_NS.1);
        for slot in 0..self.connections.len() {
            let connection = &self.connections[slot];
            let oldest = connection.pending.iter().map(|p| p.sent_ns);
            let is_late = oldest
                .filter(|sent_ns| *sent_ns > 0)
                .min()
                .is_some_and(|sent_ns| now_ns > sent_ns.saturating_add(most_ns));
            if is_late && connection.link == Link::Up {
                // The server is there, and slow: no reason to wait before the next attempt.
                self.connections[slot].works();
                self.break_link(slot, "timeout");
            }
        }
    }

    fn leave_link(&mut self, slot: usize) {
        self.connections[slot].link = Link::Leaving;
        self.broken.push(slot);
    }

    pub(super) fn received(&mut self, slot: usize, bytes: &[u8], at_ns: u64) {
        if !matches!(self.connections[slot].link, Link::Up | Link::Opening) {
            return;
        }
        self.catch_up(at_ns);
        let connection = &mut self.connections[slot];
        self.interval.counts.received_bytes += bytes.len() as u64;
        let mut answers = std::mem::take(&mut self.answers);
        let decoded = connection
            .codec
            .decode(bytes, &mut connection.out, &mut answers);
        let mut broken = decoded.err().map(|error| error.kind);
        for answer in answers.drain(..) {
            if let Err(kind) = self.answered(slot, answer, at_ns) {
                broken = Some(kind);
                break;
            }
        }
        answers.clear();
        self.answers = answers;
        match broken {
            Some(kind) => self.break_link(slot, kind),
            None if self.connections[slot].link == Link::Opening => {
                self.connections[slot].last_answer_ns = at_ns;
                self.come_up(slot);
            }
            None if self.connections[slot].codec.finished() => self.leave_link(slot),
            None => {}
        }
        if !self.connections[slot].out.is_empty() {
            self.list_dirty(slot);
        }
    }

    #[inline]
    pub(super) fn answered(
        &mut self,
        slot: usize,
        answer: Answer,
        at_ns: u64,
    ) -> Result<(), &'static str> {
        let connection = &mut self.connections[slot];
        let place = match answer.ticket {
            None => Some(0),
            // What multiplexes answers nearly in order: the oldest are looked at first.
            Some(ticket) => connection
                .pending
                .iter()
                .position(|p| p.due.request.ticket == ticket),
        };
        let Some((place, pending)) =
            place.and_then(|place| Some((place, *connection.pending.get(place)?)))
        else {
            return Err("unsolicited-answer");
        };
        if pending.sent_ns == 0 {
            return Err("unsolicited-answer");
        }
        let outcome = answer.outcome;
        let effect = self.task.workload.operations()[pending.due.request.operation].effect;
        if !outcome.answers(effect) {
            return Err("mismatched-answer");
        }
        if connection.pending.len() == self.depth {
            connection.room_since_ns = at_ns;
        }
        if place == 0 {
            connection.pending.pop_front();
        } else {
            connection.pending.remove(place);
        }
        connection.works();
        self.task.workload.forget(&pending.due.request);
        self.outstanding -= 1;
        self.last_answer_ns = at_ns;
        if let Outcome::Refused(kind) = outcome {
            self.failed(kind, &pending.due);
        } else {
            self.succeeded(outcome, &pending.due, at_ns);
        }
        if matches!(self.kind, Loop::Open(_)) {
            self.offer(slot)
        } else {
            self.due_on(slot, at_ns)
        }
        Ok(())
    }

    /// Counts an answer without an error.
    #[inline]
    fn succeeded(&mut self, outcome: Outcome, due: &Due, at_ns: u64) {
        let is_measuring = self.is_measuring();
        let (hit, miss) = (
            u64::from(outcome == Outcome::Hit),
            u64::from(outcome == Outcome::Miss),
        );
        let counts = &mut self.interval.counts;
        counts.completed += 1;
        counts.hits += hit;
        counts.misses += miss;
        let response_ns = at_ns.saturating_sub(due.intended_ns);
        let service_ns = at_ns.saturating_sub(due.first_sent_ns);
        self.interval
            .answered(due.intended_ns, due.is_measured, response_ns, service_ns);
        let tally = &mut self.interval.tally;
        if due.is_measured {
            tally.completed += 1;
            tally.completed_after += u64::from(!is_measuring);
            if let Outcome::Class(class) = outcome {
                *self.measured.answers_by_class.entry(class).or_default() += 1;
            }
            let operation = &mut self.measured.operations[due.request.operation];
            operation.completed += 1;
            operation.hits += hit;
            operation.misses += miss;
            if let Some(responses) = self.measured.responses.get_mut(due.request.operation) {
                responses.saturating_record(response_ns);
            }
        } else {
            tally.completed_from_before += u64::from(is_measuring);
        }
    }

    /// Counts a failure.
    pub(super) fn failed(&mut self, kind: &'static str, due: &Due) {
        self.interval.counts.errors += 1;
        let is_measuring = self.is_measuring();
        let tally = &mut self.interval.tally;
        if due.is_measured {
            tally.errors += 1;
            tally.errors_after += u64::from(!is_measuring);
        } else {
            tally.errors_from_before += u64::from(is_measuring);
        }
        if due.is_measured || matches!(self.kind, Loop::Prefill { .. }) {
            *self.measured.errors_by_kind.entry(kind).or_default() += 1;
        }
    }

    /// Closes broken connections; what was in flight on them is lost and counted, what was not sent is due still.
    pub(super) fn clear_broken(&mut self, transport: &mut impl Transport) {
        let now_ns = monotonic_ns();
        self.catch_up(now_ns);
        for slot in std::mem::take(&mut self.broken) {
            let kind = match self.connections[slot].link {
                Link::Broken(kind) => kind,
                Link::Leaving => {
                    self.clear_leaving(slot, transport);
                    continue;
                }
                _ => continue,
            };
            transport.close(slot);
            self.down += 1;
            let mut lost = std::mem::take(&mut self.connections[slot].pending);
            let unsent = lost.split_off(lost.partition_point(|pending| pending.sent_ns > 0));
            self.connections[slot].go_down((self.make)(), now_ns);
            for Pending { due, .. } in lost {
                self.outstanding -= 1;
                self.task.workload.forget(&due.request);
                self.failed(kind, &due);
                if !matches!(self.kind, Loop::Open(_)) {
                    self.due_on(slot, now_ns);
                }
            }
            self.put_back(slot, unsent);
        }
    }

    /// Closes a connection that its server has ended in order. What it took in and did not answer is sent again, at its
    /// intended time still: the server has said that it would not be looked at.
    fn clear_leaving(&mut self, slot: usize, transport: &mut impl Transport) {
        transport.close(slot);
        self.measured.connections_ended += 1;
        self.down += 1;
        let left = std::mem::take(&mut self.connections[slot].pending);
        self.connections[slot].leave((self.make)());
        self.put_back(slot, left);
    }

    /// Makes requests that a connection took with it due again, before all others, at their intended time still.
    fn put_back(&mut self, slot: usize, left: VecDeque<Pending>) {
        let is_open = matches!(self.kind, Loop::Open(_));
        if !is_open && !left.is_empty() && !self.connections[slot].waits() {
            self.due.push(slot);
        }
        for Pending { due, .. } in left.into_iter().rev() {
            self.outstanding -= 1;
            if let Loop::Open(open) = &mut self.kind {
                open.queue.push_front(due);
            } else {
                self.connections[slot].again.push_front(due);
            }
        }
    }

    pub(super) fn next_retry(&self) -> Option<u64> {
        if self.down == 0 {
            return None;
        }
        self.connections
            .iter()
            .filter_map(|c| {
                if let Link::Down(at_ns) = c.link {
                    Some(at_ns)
                } else {
                    None
                }
            })
            .min()
    }

    pub(super) fn reconnect(&mut self, now_ns: u64, transport: &mut impl Transport) {
        for slot in 0..self.connections.len() {
            if !matches!(self.connections[slot].link, Link::Down(at_ns) if at_ns <= now_ns) {
                continue;
            }
            let opened =
                connect_start(&self.task.target).and_then(|socket| transport.open(slot, socket));
            match opened {
                Ok(()) => {
                    self.connections[slot].link = Link::Opening;
                    self.connections[slot].last_answer_ns = now_ns;
                    self.down -= 1;
                }
                Err(error) => {
                    tracing::debug!(%error, slot, "connecting again failed");
                    self.measured.connects_failed += 1;
                    transport.close(slot);
                    self.connections[slot].go_down((self.make)(), now_ns);
                }
            }
        }
    }
}
