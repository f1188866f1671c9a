//! Bounded queues that threads take work from, and the wait of a simulated backend in front of one.
//!
//! Invariants: a queue never holds more than its capacity: what does not fit comes back at once; what was accepted is
//! handed out, or handed back when the queue stops, except by a backend, which drops what is not due.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use steelyard_record::monotonic_ns;

/// What a queue says of itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Waiting now.
    pub depth: u64,
    /// The most that ever waited.
    pub depth_max: u64,
}

#[derive(Debug)]
struct Waiting<J> {
    jobs: VecDeque<J>,
    depth_max: u64,
    stopped: bool,
}

/// A bounded queue of jobs.
#[derive(Debug)]
pub struct Queue<J> {
    waiting: Mutex<Waiting<J>>,
    ready: Condvar,
    capacity: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<J> Queue<J> {
    /// An empty queue for at most `capacity` jobs.
    pub fn new(capacity: usize) -> Self {
        Self {
            waiting: Mutex::new(Waiting {
                jobs: VecDeque::new(),
                depth_max: 0,
                stopped: false,
            }),
            ready: Condvar::new(),
            capacity,
        }
    }

    /// Adds a job; it comes back when there is no room.
    pub fn push(&self, job: J) -> Result<(), J> {
        let mut waiting = lock(&self.waiting);
        if waiting.stopped || waiting.jobs.len() >= self.capacity {
            return Err(job);
        }
        waiting.jobs.push_back(job);
        waiting.depth_max = waiting.depth_max.max(waiting.jobs.len() as u64);
        drop(waiting);
        self.ready.notify_one();
        Ok(())
    }

    /// Waits for the next job; None when the queue has stopped.
    pub fn take(&self) -> Option<J> {
        let mut waiting = lock(&self.waiting);
        loop {
            if let Some(job) = waiting.jobs.pop_front() {
                return Some(job);
            }
            if waiting.stopped {
                return None;
            }
            waiting = self
                .ready
                .wait(waiting)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes nothing more in, lets the threads end that wait, and returns the jobs that were not taken.
    pub fn stop(&self) -> VecDeque<J> {
        let mut waiting = lock(&self.waiting);
        waiting.stopped = true;
        self.ready.notify_all();
        std::mem::take(&mut waiting.jobs)
    }

    /// What it says of itself.
    pub fn counts(&self) -> QueueCounts {
        let waiting = lock(&self.waiting);
        QueueCounts {
            depth: waiting.jobs.len() as u64,
            depth_max: waiting.depth_max,
        }
    }
}

#[derive(Debug)]
struct Due<J> {
    at_ns: u64,
    /// In order of arrival where two are due at once.
    turn: u64,
    job: J,
}

impl<J> PartialEq for Due<J> {
    fn eq(&self, other: &Self) -> bool {
        (self.at_ns, self.turn) == (other.at_ns, other.turn)
    }
}

impl<J> Eq for Due<J> {}

impl<J> PartialOrd for Due<J> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<J> Ord for Due<J> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at_ns, self.turn).cmp(&(other.at_ns, other.turn))
    }
}

#[derive(Debug)]
struct Delayed<J> {
    heap: BinaryHeap<Reverse<Due<J>>>,
    turn: u64,
    stopped: bool,
}

/// A backend that takes its time and no thread: jobs come out of it when they are due.
#[derive(Debug)]
pub struct Backend<J> {
    delayed: Mutex<Delayed<J>>,
    earlier: Condvar,
    capacity: usize,
}

impl<J> Backend<J> {
    /// A backend in which at most `capacity` jobs wait.
    pub fn new(capacity: usize) -> Self {
        Self {
            delayed: Mutex::new(Delayed {
                heap: BinaryHeap::new(),
                turn: 0,
                stopped: false,
            }),
            earlier: Condvar::new(),
            capacity,
        }
    }

    /// Adds a job that is due at `at_ns`; it comes back when there is no room.
    pub fn push(&self, at_ns: u64, job: J) -> Result<(), J> {
        let mut delayed = lock(&self.delayed);
        if delayed.stopped || delayed.heap.len() >= self.capacity {
            return Err(job);
        }
        let turn = delayed.turn;
        delayed.turn += 1;
        let is_next = delayed
            .heap
            .peek()
            .is_none_or(|Reverse(next)| at_ns < next.at_ns);
        delayed.heap.push(Reverse(Due { at_ns, turn, job }));
        drop(delayed);
        if is_next {
            self.earlier.notify_one();
        }
        Ok(())
    }

    /// Waits for the next job that is due; None when the backend has stopped.
    pub fn take(&self) -> Option<J> {
        let mut delayed = lock(&self.delayed);
        loop {
            if delayed.stopped {
                return None;
            }
            let now_ns = monotonic_ns();
            match delayed.heap.peek().map(|Reverse(next)| next.at_ns) {
                Some(at_ns) if at_ns <= now_ns => {
                    return delayed.heap.pop().map(|Reverse(due)| due.job);
                }
                Some(at_ns) => {
                    let wait = Duration::from_nanos(at_ns - now_ns);
                    delayed = self
                        .earlier
                        .wait_timeout(delayed, wait)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0;
                }
                None => {
                    delayed = self
                        .earlier
                        .wait(delayed)
                        .unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Takes nothing more in, and lets the thread end that waits.
    pub fn stop(&self) {
        lock(&self.delayed).stopped = true;
        self.earlier.notify_all();
    }

    /// How many jobs wait.
    pub fn depth(&self) -> u64 {
        lock(&self.delayed).heap.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_and_a_stopped_one_give_jobs_back() {
        let queue = Queue::new(2);
        assert_eq!(queue.push(1), Ok(()));
        assert_eq!(queue.push(2), Ok(()));
        assert_eq!(queue.push(3), Err(3));
        assert_eq!(
            queue.counts(),
            QueueCounts {
                depth: 2,
                depth_max: 2
            }
        );
        assert_eq!(queue.take(), Some(1));
        assert_eq!(queue.stop(), [2]);
        assert_eq!(queue.push(4), Err(4));
        assert_eq!(queue.take(), None);
    }

    #[test]
    fn a_backend_hands_out_in_order_of_due_time_and_never_early() {
        let backend = Backend::new(3);
        let now_ns = monotonic_ns();
        for (after_ns, job) in [(2_000_000, 'c'), (0, 'a'), (1_000_000, 'b')] {
            assert_eq!(backend.push(now_ns + after_ns, job), Ok(()));
        }
        assert_eq!(backend.push(now_ns, 'd'), Err('d'));
        assert_eq!(backend.take(), Some('a'));
        assert_eq!(backend.take(), Some('b'));
        assert!(monotonic_ns() >= now_ns + 1_000_000);
        assert_eq!(backend.take(), Some('c'));
        assert!(monotonic_ns() >= now_ns + 2_000_000);
        backend.stop();
        assert_eq!(backend.take(), None);
    }
}
