//! One connection's conversation, without its socket: bytes in, answers out.
//!
//! In: whatever the client sent, in pieces of any size. Out: answers in `Output`. Invariants: the answers do
//! not depend on how the bytes were cut; what is kept for one connection is bounded by the limits on lines,
//! values and answers, and a session that is over its bound stops consuming (`paused`) until `resume`.
//!
//! Not here: sockets, threads, and where items live; what single commands do (`commands`), and values that
//! follow their command (`storage`).

mod commands;
mod storage;

use crate::counters::{Counter, Counters};
use crate::output::Output;
use crate::protocol::{self, Command, next_word};
use crate::report::Reporter;
use crate::slow::{Job, SlowQueue};
use crate::store::{Attributes, Key, Store, StoreMode};

/// Answers kept for one connection before its next command waits.
const ANSWER_BYTES: usize = 256 * 1024;
/// Misses of one connection that slow threads may owe.
const OWED: usize = 256;
/// Buffers that grew beyond this are given back once empty.
const KEPT_CAPACITY: usize = 64 * 1024;
/// Expiry times up to this are relative, as memcached has it.
const RELATIVE_EXPIRY_S: i64 = 60 * 60 * 24 * 30;

/// What a session may use of the thread that runs it.
#[derive(Debug)]
pub struct Worker<'a> {
    /// The items.
    pub store: &'a Store,
    /// This thread's counters.
    pub counters: &'a Counters,
    /// Second of the store's clock.
    pub now_s: u32,
    /// `CLOCK_REALTIME` at second 0 of the store's clock.
    pub epoch_s: i64,
    /// Where misses go in read-through mode.
    pub slow: Option<&'a SlowQueue>,
    /// Number of this thread.
    pub thread: usize,
    /// This connection's number in the thread.
    pub connection: u64,
    /// What the stats command says.
    pub reporter: &'a Reporter,
}

impl Worker<'_> {
    /// The store's second at which an expiry that a client wrote falls; 0: never, 1: it is past.
    fn expiry_s(&self, expiry: i32) -> u32 {
        let expiry = i64::from(expiry);
        let second = match expiry {
            0 => return 0,
            _ if expiry < 0 => 1,
            _ if expiry <= RELATIVE_EXPIRY_S => i64::from(self.now_s) + expiry,
            _ => expiry - self.epoch_s,
        };
        // Second 0 would mean never, and the store's clock starts at 2.
        second.clamp(1, i64::from(u32::MAX)) as u32
    }

    fn count(&self, counter: Counter) {
        self.counters.add(counter, 1);
    }
}

// A box would be an allocation for every value stored; a connection has one state.
#[expect(clippy::large_enum_variant)]
#[derive(Debug)]
enum State {
    Line,
    /// In a retrieval; what is unread starts at its next key.
    Keys {
        with_cas: bool,
        touch: Option<u32>,
    },
    Value(Coming),
    Swallow {
        left: usize,
        quiet: bool,
    },
}

/// A storage command whose value has not come whole.
#[derive(Debug)]
struct Coming {
    mode: StoreMode,
    key: [u8; protocol::KEY_BYTES],
    key_bytes: u8,
    attributes: Attributes,
    value_bytes: usize,
    quiet: bool,
}

/// One connection.
#[derive(Debug)]
pub struct Session {
    unread: Vec<u8>,
    /// How many of the unread bytes are known to hold no line end, so that a line that comes byte by byte is
    /// not searched again from its start.
    searched: usize,
    output: Output,
    state: State,
    closing: bool,
    paused: bool,
    stalled: bool,
}

impl Default for Session {
    fn default() -> Self {
        Self::new()
    }
}

enum Step {
    Consumed(usize),
    Wait,
}

impl Session {
    /// A fresh conversation.
    pub fn new() -> Self {
        Self {
            unread: Vec::new(),
            searched: 0,
            output: Output::default(),
            state: State::Line,
            closing: false,
            paused: false,
            stalled: false,
        }
    }

    /// Takes bytes from the client.
    pub fn receive(&mut self, bytes: &[u8], worker: &Worker) {
        worker.counters.add(Counter::BytesRead, bytes.len() as u64);
        if self.closing {
            return;
        }
        if self.unread.is_empty() {
            let consumed = self.run(bytes, worker);
            self.unread.extend_from_slice(&bytes[consumed..]);
        } else {
            self.unread.extend_from_slice(bytes);
            self.resume(worker);
        }
    }

    /// Goes on with bytes that were received earlier.
    pub fn resume(&mut self, worker: &Worker) {
        let mut unread = std::mem::take(&mut self.unread);
        let consumed = self.run(&unread, worker);
        unread.drain(..consumed);
        if unread.is_empty() && unread.capacity() > KEPT_CAPACITY {
            unread = Vec::new();
        }
        self.unread = unread;
    }

    /// Answers.
    pub fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    /// Bytes of its buffers.
    #[inline]
    pub fn held_bytes(&self) -> usize {
        self.unread.capacity() + self.output.held_capacity()
    }

    /// Gives back buffers that hold nothing.
    pub fn give_back_idle(&mut self) {
        if self.unread.is_empty() {
            self.unread = Vec::new();
        }
        self.output.give_back_idle();
    }

    /// Whether a request has come by half, so that the client is to go on.
    #[inline]
    pub fn is_half_sent(&self) -> bool {
        !self.paused && (!self.unread.is_empty() || !matches!(self.state, State::Line))
    }

    /// Whether the next command waits for answers to leave: nothing should be read meanwhile.
    pub fn paused(&self) -> bool {
        self.paused
    }

    /// Whether the pause is for want of room in the slow queue, which nothing on this connection will end.
    pub fn stalled(&self) -> bool {
        self.stalled
    }

    /// Whether the connection should be closed once its answers are sent.
    pub fn closing(&self) -> bool {
        self.closing && self.output.owed() == 0
    }

    /// Consumes what it can and returns how much that was.
    fn run(&mut self, bytes: &[u8], worker: &Worker) -> usize {
        let mut at = 0;
        self.stalled = false;
        loop {
            self.paused = self.output.kept_bytes() >= ANSWER_BYTES || self.output.owed() >= OWED;
            if self.closing {
                return bytes.len();
            }
            if self.paused {
                return at;
            }
            let rest = &bytes[at..];
            let step = match self.state {
                State::Line => self.line(rest, worker),
                State::Keys { with_cas, touch } => self.keys(rest, with_cas, touch, worker),
                State::Value(_) => self.value(rest, worker),
                State::Swallow { left, quiet } => self.swallow(rest, left, quiet),
            };
            match step {
                Step::Consumed(count) => at += count,
                Step::Wait => return at,
            }
        }
    }

    fn line(&mut self, bytes: &[u8], worker: &Worker) -> Step {
        let searched = std::mem::take(&mut self.searched);
        let end = memchr::memchr(b'\n', &bytes[searched..]).map(|end| searched + end);
        let length = end.unwrap_or(bytes.len());
        if length > protocol::LINE_BYTES && !long_line_is_allowed(&bytes[..length]) {
            // memcached closes without a word; it takes a client that sends this for lost.
            worker.count(Counter::Errors);
            self.closing = true;
            return Step::Consumed(bytes.len());
        }
        let Some(end) = end else {
            self.searched = length;
            return Step::Wait;
        };
        let line = &bytes[..end];
        let line = match line {
            [before @ .., b'\r'] if !before.is_empty() => before,
            _ => line,
        };
        worker.count(Counter::Requests);
        let command = protocol::parse(line);
        if let Command::Get {
            keys,
            with_cas,
            expiry,
        } = command
        {
            let touch = expiry.map(|expiry| worker.expiry_s(expiry));
            self.state = State::Keys { with_cas, touch };
            // The keys are consumed one by one, so that a long list can wait in the middle.
            return Step::Consumed(keys.as_ptr() as usize - bytes.as_ptr() as usize);
        }
        self.command(command, worker);
        Step::Consumed(end + 1)
    }

    fn keys(&mut self, bytes: &[u8], with_cas: bool, touch: Option<u32>, worker: &Worker) -> Step {
        let end = memchr::memchr(b'\n', bytes).expect("the line was seen whole");
        let line = &bytes[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let mut rest = &line[..memchr::memchr(0, line).unwrap_or(line.len())];
        while let Some((key, after)) = next_word(rest) {
            if self.output.kept_bytes() >= ANSWER_BYTES
                || self.output.owed() >= OWED
                || !self.retrieve(Key::new(key), with_cas, touch, worker)
            {
                self.paused = true;
                let consumed = key.as_ptr() as usize - bytes.as_ptr() as usize;
                // Nothing consumed would look like a step that can be repeated at once.
                return if consumed == 0 {
                    Step::Wait
                } else {
                    Step::Consumed(consumed)
                };
            }
            rest = after;
        }
        self.output.tail().extend_from_slice(b"END\r\n");
        self.state = State::Line;
        Step::Consumed(end + 1)
    }

    /// Answers one key. False: the slow queue has no room now.
    fn retrieve(&mut self, key: Key, with_cas: bool, touch: Option<u32>, worker: &Worker) -> bool {
        let hit = worker
            .store
            .get(key, worker.now_s, with_cas, touch, self.output.tail());
        if !hit
            && touch.is_none()
            && let Some(slow) = worker.slow
        {
            let ticket = self.output.owe();
            let job = Job::new(key, with_cas, worker.thread, worker.connection, ticket);
            if !slow.submit(job) {
                self.output.take_back();
                self.stalled = true;
                return false;
            }
            worker.count(Counter::SlowRequests);
        }
        worker.count(Counter::Gets);
        if touch.is_some() {
            worker.count(Counter::Touches);
            worker.count(if hit {
                Counter::TouchHits
            } else {
                Counter::TouchMisses
            });
        }
        if hit {
            worker.count(Counter::GetHits);
            worker.count(Counter::FastRequests);
        } else {
            worker.count(Counter::GetMisses);
        }
        true
    }

    fn answer(&mut self, text: &[u8], quiet: bool) {
        if !quiet {
            self.output.tail().extend_from_slice(text);
        }
    }
}

/// Lists of keys may be long; memcached recognizes one by its first hundred bytes.
fn long_line_is_allowed(line: &[u8]) -> bool {
    let start = line
        .iter()
        .position(|&byte| byte != b' ')
        .unwrap_or(line.len());
    let rest = &line[start..];
    start <= 100
        && line.len() <= protocol::KEYS_LINE_BYTES
        && (rest.starts_with(b"get ") || rest.starts_with(b"gets "))
}

#[cfg(test)]
mod tests;
