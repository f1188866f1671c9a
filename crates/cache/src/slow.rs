//! The slow half of a read-through cache: misses wait in one bounded queue for threads that ask the simulated
//! backend, make the object, store it and answer.
//!
//! Invariants: the queue never holds more than its capacity; every job that was accepted is answered, also
//! while stopping; the answer to a miss is byte for byte the answer to the next hit.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use steelyard_record::monotonic_ns;
use steelyard_serve::Delay;
use steelyard_statistics::Random;

use crate::mailbox::{Filled, Mailbox};
use crate::object::{Objects, Room};
use crate::store::{Attributes, Key, Store, StoreMode, write_value};

/// A miss.
#[derive(Debug)]
pub struct Job {
    key: Box<[u8]>,
    with_cas: bool,
    thread: usize,
    connection: u64,
    ticket: u64,
    queued_ns: u64,
}

impl Job {
    /// The miss of `key` on a connection of a fast thread.
    pub fn new(key: Key, with_cas: bool, thread: usize, connection: u64, ticket: u64) -> Self {
        Self {
            key: key.bytes.into(),
            with_cas,
            thread,
            connection,
            ticket,
            queued_ns: monotonic_ns(),
        }
    }
}

#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<Job>,
    stopping: bool,
}

/// What the queue and its threads counted.
#[derive(Debug, Clone, Copy, Default)]
pub struct SlowCounts {
    /// Jobs waiting now.
    pub depth: u64,
    /// The most that ever waited.
    pub depth_max: u64,
    /// Time spent waiting, summed.
    pub wait_ns_total: u64,
    /// The longest wait.
    pub wait_ns_max: u64,
    /// Time spent on jobs, summed.
    pub service_ns_total: u64,
}

/// The queue between fast and slow threads.
#[derive(Debug)]
pub struct SlowQueue {
    queue: Mutex<Queue>,
    ready: Condvar,
    capacity: usize,
    mailboxes: Vec<Arc<Mailbox>>,
    depth_max: AtomicU64,
    wait_ns_total: AtomicU64,
    wait_ns_max: AtomicU64,
    service_ns_total: AtomicU64,
    served: Vec<AtomicU64>,
}

impl SlowQueue {
    /// A queue of `capacity` jobs for `threads` slow threads that answer to `mailboxes`.
    pub fn new(capacity: usize, threads: usize, mailboxes: Vec<Arc<Mailbox>>) -> Self {
        Self {
            queue: Mutex::default(),
            ready: Condvar::new(),
            capacity,
            mailboxes,
            depth_max: AtomicU64::new(0),
            wait_ns_total: AtomicU64::new(0),
            wait_ns_max: AtomicU64::new(0),
            service_ns_total: AtomicU64::new(0),
            served: (0..threads).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Puts a job into the queue. False: it is full.
    pub fn submit(&self, job: Job) -> bool {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.jobs.len() >= self.capacity {
            return false;
        }
        queue.jobs.push_back(job);
        let depth = queue.jobs.len() as u64;
        drop(queue);
        self.depth_max.fetch_max(depth, Relaxed);
        self.ready.notify_one();
        true
    }

    /// Lets the slow threads end once the queue is empty.
    pub fn stop(&self) {
        self.queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .stopping = true;
        self.ready.notify_all();
    }

    /// What was counted so far.
    pub fn counts(&self) -> SlowCounts {
        SlowCounts {
            depth: self
                .queue
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .jobs
                .len() as u64,
            depth_max: self.depth_max.load(Relaxed),
            wait_ns_total: self.wait_ns_total.load(Relaxed),
            wait_ns_max: self.wait_ns_max.load(Relaxed),
            service_ns_total: self.service_ns_total.load(Relaxed),
        }
    }

    /// Jobs that slow thread `thread` did.
    pub fn served(&self, thread: usize) -> u64 {
        self.served[thread].load(Relaxed)
    }

    fn next(&self) -> Option<Job> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            if queue.stopping {
                return None;
            }
            queue = self
                .ready
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// What a slow thread needs.
#[derive(Debug)]
pub struct SlowThread {
    /// Where misses come from.
    pub queue: Arc<SlowQueue>,
    /// Where objects go.
    pub store: Arc<Store>,
    /// What the backend holds.
    pub objects: Objects,
    /// How long the backend takes.
    pub delay: Delay,
    /// The server's seed.
    pub seed: u64,
    /// Number of this thread.
    pub number: usize,
    /// Tells the second of the store's clock.
    pub now_s: fn() -> u32,
}

impl SlowThread {
    /// Serves misses until the queue is stopped and empty.
    pub fn run(self) {
        // The kernel may otherwise lengthen sleeps by 50 us, as much as a fast backend takes.
        // SAFETY: PR_SET_TIMERSLACK takes a number and touches no memory of ours.
        unsafe {
            libc::prctl(libc::PR_SET_TIMERSLACK, 1);
        }
        let mut random =
            Random::new(self.seed ^ (self.number as u64 + 1).wrapping_mul(0xa076_1d64_78bd_642f));
        let mut room = Room::default();
        while let Some(job) = self.queue.next() {
            let begin_ns = monotonic_ns();
            let wait_ns = begin_ns.saturating_sub(job.queued_ns);
            self.queue.wait_ns_total.fetch_add(wait_ns, Relaxed);
            self.queue.wait_ns_max.fetch_max(wait_ns, Relaxed);
            let delay_ns = self.delay.draw_ns(&mut random);
            if delay_ns > 0 {
                std::thread::sleep(Duration::from_nanos(delay_ns));
            }
            let bytes = self.fill(&job, &mut room);
            self.queue
                .service_ns_total
                .fetch_add(monotonic_ns() - begin_ns, Relaxed);
            self.queue.served[self.number].fetch_add(1, Relaxed);
            let filled = Filled {
                connection: job.connection,
                ticket: job.ticket,
                bytes,
            };
            self.queue.mailboxes[job.thread].post(|post| post.filled.push(filled));
        }
    }

    fn fill(&self, job: &Job, room: &mut Room) -> Vec<u8> {
        let flags = self.objects.make(&job.key, room);
        let key = Key::new(&job.key);
        let now_s = (self.now_s)();
        let attributes = Attributes { flags, expiry_s: 0 };
        // Another miss of this key, or a client, may have stored first: theirs stays.
        self.store
            .store(StoreMode::Add, key, attributes, &room.value, now_s);
        let mut bytes = Vec::with_capacity(room.value.len() + job.key.len() + 64);
        if !job.with_cas || !self.store.get(key, now_s, true, None, &mut bytes) {
            let cas = job.with_cas.then_some(0);
            write_value(&mut bytes, &job.key, flags, cas, &room.value);
        }
        bytes
    }
}
