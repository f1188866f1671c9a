//! The keys that a load inserts: who inserts which, and which of them can be asked for.
//!
//! Every insert takes the next number. A key can be asked for once its insert and all before it have been
//! answered, so that no request asks for what the server cannot have. Invariant: an insert that is taken is given back
//! exactly once, answered or not: one that was lost must not hold up all after it.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The growing end of a key space, shared by all generator threads.
#[derive(Debug)]
pub struct Growth {
    /// How many keys can be asked for.
    present: AtomicU64,
    pending: Mutex<Pending>,
}

#[derive(Debug)]
struct Pending {
    /// The number of the next insert.
    next: u64,
    /// From the oldest unanswered insert on, whether each has been answered.
    answered: VecDeque<bool>,
}

impl Growth {
    /// A key space with `count` keys at the start.
    pub fn new(count: u64) -> Self {
        Self {
            present: AtomicU64::new(count),
            pending: Mutex::new(Pending {
                next: count,
                answered: VecDeque::new(),
            }),
        }
    }

    /// How many keys can be asked for.
    #[inline]
    pub fn present(&self) -> u64 {
        self.present.load(Ordering::Relaxed)
    }

    /// A key for an insert.
    pub fn take(&self) -> u64 {
        let mut pending = self.lock();
        let key = pending.next;
        pending.next += 1;
        pending.answered.push_back(false);
        key
    }

    /// The insert of `key` has been answered, or never will be.
    pub fn give_back(&self, key: u64) {
        let mut pending = self.lock();
        let first = pending.next - pending.answered.len() as u64;
        if let Some(answered) = key
            .checked_sub(first)
            .and_then(|index| pending.answered.get_mut(index as usize))
        {
            *answered = true;
        }
        while pending.answered.front() == Some(&true) {
            pending.answered.pop_front();
        }
        let present = pending.next - pending.answered.len() as u64;
        self.present.store(present, Ordering::Relaxed);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Pending> {
        // A thread that panicked while it held the lock left whole values behind: both fields are set at once.
        self.pending
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_there_once_all_before_it_are_answered() {
        let growth = Growth::new(10);
        let taken = [growth.take(), growth.take(), growth.take()];
        assert_eq!(taken, [10, 11, 12]);
        growth.give_back(11);
        assert_eq!(growth.present(), 10);
        growth.give_back(10);
        assert_eq!(growth.present(), 12);
        growth.give_back(10);
        assert_eq!(growth.present(), 12);
        growth.give_back(12);
        assert_eq!((growth.present(), growth.take()), (13, 13));
    }
}
