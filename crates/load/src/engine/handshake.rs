//! Connections between their opening and their first request: what a protocol settles before it takes one (TLS, CQL's
//! sessions and statements), and how a connection fails whose server does not answer as it should.
//!
//! At the start a refusal ends the load with its reason; later it is one more way for a connection to be down. A server
//! that says nothing for [`SILENCE_NS`] has refused.

use steelyard_record::monotonic_ns;

use super::connection::Link;
use super::{Engine, State};
use crate::LoadError;
use crate::codec::Codec;
use crate::io::{Transport, Wait};

/// How long a server may be silent during a handshake.
const SILENCE_NS: u64 = 5_000_000_000;
/// How often that is looked at.
const CHECK_EVERY_NS: u64 = 100_000_000;

/// What is known about connections that did not come up.
#[derive(Debug, Default)]
pub(super) struct Handshakes {
    /// Why the first of them did not.
    refusal: Option<String>,
    /// Whether all have once been up.
    settled: bool,
    /// Connections that came up and were lost before all had.
    lost: usize,
    next_check_ns: u64,
}

impl<C: Codec, T: Transport> Engine<C, T> {
    /// Waits until every connection takes requests; an error if one is refused.
    pub fn shake_hands(&mut self) -> Result<(), LoadError> {
        let begin_ns = monotonic_ns();
        for connection in &mut self.state.connections {
            connection.last_answer_ns = begin_ns;
        }
        loop {
            let state = &mut self.state;
            if let Some(why) = state.handshakes.refusal.take() {
                return Err(LoadError::Handshake {
                    target: state.task.target.to_string(),
                    why,
                });
            }
            let up = |link| matches!(link, Link::Up);
            if state.connections.iter().all(|c| up(c.link)) || state.task.control.aborted() {
                state.handshakes.settled = true;
                return Ok(());
            }
            self.turn(monotonic_ns(), Wait::Tick)?;
        }
    }
}

impl<C: Codec> State<C> {
    /// A connection that was being opened did not come up.
    pub(super) fn refused(&mut self, slot: usize, kind: &'static str) {
        let handshakes = &mut self.handshakes;
        if handshakes.refusal.is_some() {
            return;
        }
        let complaint = self.connections[slot].codec.complaint();
        if handshakes.settled && complaint.is_some() {
            tracing::warn!(
                kind,
                "a connection could not be reopened: {}",
                complaint.unwrap_or(kind)
            );
        }
        handshakes.refusal = Some(complaint.unwrap_or(kind).to_owned());
    }

    /// A connection that had come up has ended. Before all have once been up, that is a refusal where its protocol says why
    /// (a server of TLS 1.3 looks at the client's certificate after the handshake), or where none stays.
    pub(super) fn lost_early(&mut self, slot: usize, kind: &'static str) {
        if self.handshakes.settled {
            return;
        }
        self.handshakes.lost += 1;
        let has_complaint = self.connections[slot].codec.complaint().is_some();
        if has_complaint || self.handshakes.lost > 2 * self.connections.len() {
            self.refused(slot, kind);
        }
    }

    /// Breaks connections whose server has been silent in the handshake for too long.
    #[inline]
    pub(super) fn break_silent(&mut self, now_ns: u64) {
        if now_ns < self.handshakes.next_check_ns {
            return;
        }
        self.handshakes.next_check_ns = now_ns + CHECK_EVERY_NS;
        for slot in 0..self.connections.len() {
            let connection = &self.connections[slot];
            if connection.link == Link::Opening && now_ns > connection.last_answer_ns + SILENCE_NS {
                self.break_link(slot, "handshake-timeout");
            }
        }
    }
}
