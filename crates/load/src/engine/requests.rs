//! What goes out: requests become due, find a connection, and are encoded.
//!
//! A request keeps the intended time that it got when it became due, however long it waits for a connection.

use super::connection::{Due, Pending};
use super::{Loop, State};
use crate::codec::Codec;
use crate::control::LATE_NS;
use crate::workload::Request;

impl<C: Codec> State<C> {
    /// Makes the first requests of a closed loop due.
    pub(super) fn start_closed(&mut self, now_ns: u64) {
        for slot in 0..self.connections.len() {
            for _ in 0..self.depth {
                self.due_on(slot, now_ns);
            }
        }
    }

    /// Closed loop: one more request of `slot` is due.
    #[inline]
    pub(super) fn due_on(&mut self, slot: usize, intended_ns: u64) {
        if intended_ns >= self.measure.1 {
            return;
        }
        let is_measured = self.is_measured(intended_ns);
        self.interval.counts.due += 1;
        self.interval.tally.due += u64::from(is_measured);
        let connection = &mut self.connections[slot];
        if !connection.waits() {
            self.due.push(slot);
        }
        connection.due.push_back((intended_ns, is_measured));
    }

    /// Open loop: takes what the schedule has made due; returns when the next request is.
    pub(super) fn make_due(&mut self, now_ns: u64) -> Option<u64> {
        let (begin_ns, end_ns) = self.measure;
        let Loop::Open(open) = &mut self.kind else {
            return None;
        };
        loop {
            let intended_ns = open.source.peek();
            if intended_ns >= end_ns {
                return None;
            }
            if intended_ns > now_ns {
                return Some(intended_ns);
            }
            self.interval.counts.due += 1;
            // Drawn even if it cannot be sent: the stream must not depend on how the server does.
            let request = open.source.take(&self.task.workload);
            let is_measured = intended_ns >= begin_ns;
            let tally = &mut self.interval.tally;
            tally.due += u64::from(is_measured);
            let late = is_measured && now_ns - intended_ns > LATE_NS;
            tally.noticed_late += u64::from(late);
            if self.outstanding + open.queue.len() >= self.task.max_outstanding {
                tally.dropped += u64::from(is_measured);
                self.task.workload.forget(&request);
            } else {
                open.queue.push_back(Due {
                    intended_ns,
                    is_measured,
                    noticed_ns: now_ns,
                    first_sent_ns: 0,
                    request,
                });
            }
        }
    }

    /// Encodes due requests for the connections that can take them.
    pub(super) fn issue(&mut self) {
        if let Loop::Open(open) = &mut self.kind {
            let mut queue = std::mem::take(&mut open.queue);
            while !queue.is_empty() {
                let Some(slot) = self.free.pop_front() else {
                    break;
                };
                self.connections[slot].free = false;
                if !self.connections[slot].has_room(self.depth) {
                    continue;
                }
                if let Some(due) = queue.pop_front() {
                    self.encode(slot, due);
                }
                self.offer(slot);
            }
            if let Loop::Open(open) = &mut self.kind {
                open.queue = queue;
            }
            return;
        }
        let mut due = std::mem::take(&mut self.due);
        due.retain(|&slot| {
            while self.connections[slot].has_room(self.depth) {
                if let Some(due) = self.connections[slot].again.pop_front() {
                    self.encode(slot, due);
                    continue;
                }
                let next = self.connections[slot].due.pop_front();
                let Some((intended_ns, is_measured)) = next else {
                    return false;
                };
                let Some(request) = self.next_closed(slot) else {
                    continue;
                };
                let due = Due {
                    intended_ns,
                    is_measured,
                    noticed_ns: intended_ns,
                    first_sent_ns: 0,
                    request,
                };
                self.encode(slot, due);
            }
            self.connections[slot].waits()
        });
        self.due = due;
    }

    /// The next request of a closed loop, None when a prefill has run through.
    pub(super) fn next_closed(&mut self, slot: usize) -> Option<Request> {
        match &mut self.kind {
            Loop::Prefill {
                operation,
                next,
                step,
            } => {
                let key = *next;
                if key >= self.task.workload.keys.count() {
                    return None;
                }
                *next += *step;
                Some(Request::of(*operation, key))
            }
            _ => Some(self.task.workload.next(&mut self.connections[slot].random)),
        }
    }

    #[inline]
    pub(super) fn encode(&mut self, slot: usize, mut due: Due) {
        let connection = &mut self.connections[slot];
        due.request.ticket = connection.next_ticket;
        connection.next_ticket = connection.next_ticket.wrapping_add(1);
        connection
            .codec
            .encode(&due.request, &self.task.workload, &mut connection.out);
        connection.pending.push_back(Pending {
            due,
            sent_ns: 0,
            queued_ns: connection.room_since_ns.saturating_sub(due.noticed_ns),
        });
        connection.unstamped += 1;
        self.outstanding += 1;
        self.list_dirty(slot);
    }

    #[inline]
    pub(super) fn list_dirty(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        if !connection.listed {
            connection.listed = true;
            self.dirty.push(slot);
        }
    }

    /// Open loop: puts a connection with room on the list.
    #[inline]
    pub(super) fn offer(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        if !connection.free && connection.has_room(self.depth) {
            connection.free = true;
            self.free.push_back(slot);
        }
    }

    pub(super) fn refresh_free(&mut self) {
        for slot in 0..self.connections.len() {
            self.offer(slot);
        }
    }
}
