//! What a thread's connections hold in buffers, and who has to go when that is too much.
//!
//! In: after each step of a connection, the bytes that it holds and whether its request has come by half. Out: the connections to
//! close: those that have not gone on with a half-sent request for the time that it may take, and, while all hold more than the
//! thread's share of `--connection-memory`, those that have been silent longest.
//!
//! Buffers keep their size for the next request; under want of room the empty ones are given back first, and only what is in use
//! closes a connection.
//!
//! Invariant: a connection that holds nothing is never closed here.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// A connection that holds less is let be: closing it would free nothing worth it.
const LEAST_BYTES: usize = 4096;

/// What one connection holds.
#[derive(Debug, Clone, Copy)]
pub struct Holding {
    bytes: usize,
    is_half_sent: bool,
    /// When bytes last came from the client, second of the store's clock.
    received_s: u32,
}

impl Holding {
    /// Of a connection that has just come.
    pub fn new(now_s: u32) -> Self {
        Self {
            bytes: 0,
            is_half_sent: false,
            received_s: now_s,
        }
    }

    /// Bytes came from the client.
    #[inline]
    pub fn note_received(&mut self, now_s: u32) {
        self.received_s = now_s;
    }
}

/// Connections that were closed for what they held, of all threads.
#[derive(Debug, Default)]
pub struct Kicks {
    /// A request that was sent by half and not gone on with.
    pub idle: AtomicU64,
    /// Too much held in all.
    pub memory: AtomicU64,
}

/// What the connections of one thread hold.
#[derive(Debug)]
pub struct Holdings {
    share_bytes: usize,
    /// Longest silence in the middle of a request, s; 0 for any.
    timeout_s: u32,
    bytes: usize,
    half_sent: usize,
    looked_s: u32,
}

impl Holdings {
    /// For a thread that may hold `share_bytes`.
    pub fn new(share_bytes: usize, timeout_s: u32) -> Self {
        Self {
            share_bytes,
            timeout_s,
            bytes: 0,
            half_sent: 0,
            looked_s: 0,
        }
    }

    /// Notes what a connection holds now.
    #[inline]
    pub fn note(&mut self, holding: &mut Holding, bytes: usize, is_half_sent: bool) {
        if holding.bytes != bytes {
            self.bytes = self.bytes - holding.bytes + bytes;
            holding.bytes = bytes;
        }
        if holding.is_half_sent != is_half_sent {
            holding.is_half_sent = is_half_sent;
            self.half_sent = if is_half_sent {
                self.half_sent + 1
            } else {
                self.half_sent - 1
            };
        }
    }

    /// Whether time may bring something to do, so that a wait must end within a second.
    #[inline]
    pub fn waits_for_time(&self) -> bool {
        self.half_sent > 0 && self.timeout_s > 0
    }

    /// Whether all hold more than the thread's share.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.bytes > self.share_bytes
    }

    /// Whether [`Holdings::leave`] has something to do.
    #[inline]
    pub fn is_due(&self, now_s: u32) -> bool {
        self.is_over() || self.waits_for_time() && now_s != self.looked_s
    }

    /// The numbers of the connections that have to go, of `all`.
    pub fn leave<'c>(
        &mut self,
        all: impl Iterator<Item = (u64, &'c Holding)>,
        now_s: u32,
        kicks: &Kicks,
    ) -> Vec<u64> {
        self.looked_s = now_s;
        let is_silent = |holding: &Holding| {
            self.timeout_s > 0
                && holding.is_half_sent
                && now_s.saturating_sub(holding.received_s) > self.timeout_s
        };
        let mut others: Vec<(u32, usize, u64)> = Vec::new();
        let mut leave = Vec::new();
        let mut left_bytes = self.bytes;
        let is_over = self.is_over();
        for (number, holding) in all {
            if is_silent(holding) {
                leave.push(number);
                left_bytes -= holding.bytes;
                kicks.idle.fetch_add(1, Relaxed);
            } else if is_over && holding.bytes >= LEAST_BYTES {
                others.push((holding.received_s, usize::MAX - holding.bytes, number));
            }
        }
        // The longest silent first, of those the largest; an eighth more than needed, so that this is not done at each step.
        others.sort_unstable();
        let goal_bytes = self.share_bytes / 8 * 7;
        for (_, complement, number) in others {
            if left_bytes <= goal_bytes {
                break;
            }
            leave.push(number);
            left_bytes = left_bytes.saturating_sub(usize::MAX - complement);
            kicks.memory.fetch_add(1, Relaxed);
        }
        leave
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIBIBYTE: usize = 1024;

    fn left(holdings: &mut Holdings, all: &[Holding], now_s: u32) -> (Vec<u64>, u64, u64) {
        let kicks = Kicks::default();
        let numbered = all.iter().enumerate().map(|(at, one)| (at as u64, one));
        let leave = holdings.leave(numbered, now_s, &kicks);
        (leave, kicks.idle.load(Relaxed), kicks.memory.load(Relaxed))
    }

    #[test]
    fn the_longest_silent_go_until_there_is_room() {
        let mut holdings = Holdings::new(64 * KIBIBYTE, 0);
        let mut all = [Holding::new(5); 8];
        for (at, holding) in all.iter_mut().enumerate() {
            holdings.note(holding, 8 * KIBIBYTE, true);
            holding.note_received(10 - at as u32);
        }
        assert!(!holdings.is_due(20));
        let mut little = Holding::new(0);
        holdings.note(&mut little, 100, true);
        assert!(holdings.is_due(20));
        let all = [&all[..], &[little]].concat();
        // 56 KiB is an eighth below the share; the one that holds little frees nothing.
        assert_eq!(left(&mut holdings, &all, 20), (vec![7, 6], 0, 2));
    }

    #[test]
    fn a_request_is_not_waited_for_without_end() {
        let mut holdings = Holdings::new(64 * KIBIBYTE, 30);
        let (mut silent, mut idle) = (Holding::new(5), Holding::new(5));
        holdings.note(&mut silent, 10, true);
        holdings.note(&mut idle, 10, false);
        assert!(holdings.waits_for_time());
        let all = [silent, idle];
        assert_eq!(left(&mut holdings, &all, 35), (vec![], 0, 0));
        assert!(!holdings.is_due(35) && holdings.is_due(36));
        assert_eq!(left(&mut holdings, &all, 36), (vec![0], 1, 0));
        holdings.note(&mut silent, 0, false);
        assert!(!holdings.waits_for_time() && !holdings.is_due(99));
        assert_eq!(holdings.bytes, 10);
    }
}
