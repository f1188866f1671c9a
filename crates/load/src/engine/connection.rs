//! One connection as the event loop sees it: its protocol state, what it waits for, and when to try again.

use std::collections::VecDeque;

use crate::random::Random;
use crate::workload::Request;

const BACKOFF_FIRST_NS: u64 = 1_000_000;
const BACKOFF_MAX_NS: u64 = 1_000_000_000;

/// A request that is due.
#[derive(Debug, Clone, Copy)]
pub struct Due {
    /// When it was due.
    pub intended_ns: u64,
    /// Whether that was in the measure phase: settled once, for every count.
    pub is_measured: bool,
    /// When the generator found it to be due.
    pub noticed_ns: u64,
    /// When it was first given to the kernel, 0 before that: a connection that ended in order may have taken it in vain.
    pub first_sent_ns: u64,
    /// What it asks.
    pub request: Request,
}

/// A request between its encoding and its answer.
#[derive(Debug, Clone, Copy)]
pub struct Pending {
    /// The request.
    pub due: Due,
    /// When it was given to the kernel of this connection, 0 before that.
    pub sent_ns: u64,
    /// How long it waited for a connection with room, after it was noticed to be due.
    pub queued_ns: u64,
}

/// Whether a connection can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// Its socket is connecting or its protocol shakes hands.
    Opening,
    /// Requests may be sent.
    Up,
    /// Found to be of no further use; cleared away after the events at hand.
    Broken(&'static str),
    /// Ended by its server in order, after an answer; cleared away after the events at hand.
    Leaving,
    /// Without a socket until this time.
    Down(u64),
}

/// One connection.
#[derive(Debug)]
pub struct Connection<C> {
    /// Its protocol state.
    pub codec: C,
    /// Whether it can be used.
    pub link: Link,
    /// While it is being opened: when that began, or when the server last answered.
    pub last_answer_ns: u64,
    /// Requests without an answer, oldest first.
    pub pending: VecDeque<Pending>,
    /// How many of the newest of them are not with the kernel.
    pub unstamped: usize,
    /// The ticket of the next request.
    pub next_ticket: u32,
    /// Bytes that are not with the kernel.
    pub out: Vec<u8>,
    /// Whether it is on the list of connections with bytes to send.
    pub listed: bool,
    /// Whether it is on the list of connections that can take a request.
    pub free: bool,
    /// Since when it can take a request.
    pub room_since_ns: u64,
    /// Closed loop: intended times of requests that are due, and whether they are of the measure phase.
    pub due: VecDeque<(u64, bool)>,
    /// Closed loop: requests that a connection took with it when it ended before they were sent, or in order.
    pub again: VecDeque<Due>,
    /// Closed loop: its stream of requests.
    pub random: Random,
    backoff_ns: u64,
}

impl<C> Connection<C> {
    /// A connection that is being opened.
    pub fn new(codec: C, depth: usize, random: Random) -> Self {
        Self {
            codec,
            link: Link::Opening,
            last_answer_ns: 0,
            pending: VecDeque::with_capacity(depth),
            unstamped: 0,
            next_ticket: 0,
            out: Vec::with_capacity(4096),
            listed: false,
            free: false,
            room_since_ns: 0,
            due: VecDeque::with_capacity(depth),
            again: VecDeque::new(),
            random,
            backoff_ns: BACKOFF_FIRST_NS,
        }
    }

    /// Whether it can take one more request.
    pub fn has_room(&self, depth: usize) -> bool {
        self.link == Link::Up && self.pending.len() < depth
    }

    /// Closed loop: whether requests are due that have not been sent.
    pub fn waits(&self) -> bool {
        !(self.due.is_empty() && self.again.is_empty())
    }

    /// Marks the requests that were waiting as given to the kernel at `sent_ns`, and calls `on_sent` for each that had
    /// never been.
    #[inline]
    pub fn stamp(&mut self, sent_ns: u64, mut on_sent: impl FnMut(&Pending)) {
        let first = self.pending.len() - self.unstamped;
        for pending in self.pending.range_mut(first..) {
            pending.sent_ns = sent_ns;
            if pending.due.first_sent_ns == 0 {
                pending.due.first_sent_ns = sent_ns;
                on_sent(pending);
            }
        }
        self.unstamped = 0;
    }

    /// An answer came: the server is there again.
    #[inline]
    pub fn works(&mut self) {
        self.backoff_ns = BACKOFF_FIRST_NS;
    }

    /// Ends in order, to be opened again at once.
    pub fn leave(&mut self, codec: C) {
        self.codec = codec;
        self.out.clear();
        self.unstamped = 0;
        self.link = Link::Down(0);
    }

    /// Goes down at `now_ns`, for twice as long as the time before if nothing was answered in between.
    pub fn go_down(&mut self, codec: C, now_ns: u64) {
        self.codec = codec;
        self.out.clear();
        self.unstamped = 0;
        self.link = Link::Down(now_ns + self.backoff_ns);
        self.backoff_ns = (self.backoff_ns * 2).min(BACKOFF_MAX_NS);
    }
}
