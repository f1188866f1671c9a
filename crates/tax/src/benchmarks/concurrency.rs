//! Locks, atomics, queues and switches between threads.
//!
//! The contended ones share one lock or one word among all workers, and are measured where two or more cores run
//! at once; on one core alone there is no contention. Hand-offs have a partner thread on the worker's own
//! CPU, so that each way is a switch of the CPU from one thread to the other.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use crate::TaxError;
use crate::benchmark::{Category, Microbenchmark, Prepared, Setup, Worker};

type Make = fn(&Shared) -> Box<dyn Worker>;

/// What the workers of a contended benchmark share; each of the others takes a fresh one.
#[derive(Debug, Clone, Default)]
struct Shared {
    lock: Arc<Apart<Mutex<u64>>>,
    word: Arc<Apart<AtomicU64>>,
}

/// A value on cache lines of its own, even where lines are fetched in pairs.
#[derive(Debug, Default)]
#[repr(align(256))]
struct Apart<T>(T);

struct Concurrency {
    name: &'static str,
    operation: &'static str,
    contended: bool,
    waits: bool,
    make: Make,
}

/// All benchmarks of this category.
pub fn benchmarks() -> Vec<Box<dyn Microbenchmark>> {
    let entry = |name, operation, contended, waits, make: Make| {
        Box::new(Concurrency {
            name,
            operation,
            contended,
            waits,
            make,
        }) as Box<dyn Microbenchmark>
    };
    let lock: Make = |shared| Box::new(Lock(shared.clone()));
    let add: Make = |shared| Box::new(Add(shared.clone()));
    vec![
        entry(
            "mutex-uncontended",
            "locks and unlocks its own lock",
            false,
            false,
            lock,
        ),
        entry(
            "mutex-contended",
            "locks and unlocks a lock that all cores share",
            true,
            true,
            lock,
        ),
        entry(
            "atomic-uncontended",
            "adds to its own word",
            false,
            false,
            add,
        ),
        entry(
            "atomic-contended",
            "adds to a word that all cores add to",
            true,
            false,
            add,
        ),
        entry(
            "channel-hand-off",
            "passes a value to another thread and gets it back",
            false,
            true,
            |_| Box::new(Channel(None)),
        ),
        entry(
            "context-switch",
            "wakes a thread of the same CPU by futex and sleeps until woken",
            false,
            true,
            |_| Box::new(Switch::default()),
        ),
        entry(
            "futex-wake",
            "wakes a futex without waiters",
            false,
            false,
            |_| Box::new(Wake(AtomicU32::new(0))),
        ),
        entry(
            "thread-spawn",
            "starts a thread and waits for its end",
            false,
            true,
            |_| Box::new(Spawn),
        ),
    ]
}

impl Microbenchmark for Concurrency {
    fn name(&self) -> &str {
        self.name
    }

    fn category(&self) -> Category {
        Category::Concurrency
    }

    fn operation(&self) -> &str {
        self.operation
    }

    fn waits(&self) -> bool {
        self.waits
    }

    fn missing(&self, workers: usize) -> Option<String> {
        (self.contended && workers < 2).then(|| "one core has no contention".to_owned())
    }

    fn prepare(&self, setup: &Setup) -> Result<Prepared, TaxError> {
        let shared = Shared::default();
        let own = || {
            if self.contended {
                shared.clone()
            } else {
                Shared::default()
            }
        };
        Ok(Prepared::new(
            (0..setup.workers).map(|_| (self.make)(&own())).collect(),
        ))
    }
}

/// Whether two threads that do `work` 10,000 times each add up to 20,000.
fn adds_up(work: impl Fn() + Sync, sum: impl Fn() -> u64) -> Result<(), String> {
    const TIMES: u64 = 10_000;
    let before = sum();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..TIMES).for_each(|_| work()));
        }
    });
    let found = sum().wrapping_sub(before);
    // Other workers may be at work on the same word by now; none of them subtracts.
    if found >= 2 * TIMES {
        Ok(())
    } else {
        Err(format!("two threads added {found} and not {}", 2 * TIMES))
    }
}

struct Lock(Shared);

impl Worker for Lock {
    fn verify(&mut self) -> Result<(), String> {
        let lock = &self.0.lock.0;
        adds_up(
            || *lock.lock().expect("no thread panics") += 1,
            || *lock.lock().expect("no thread panics"),
        )
    }

    fn run(&mut self, operations: u64) -> u64 {
        let lock = &self.0.lock.0;
        for _ in 0..operations {
            let mut value = lock.lock().expect("no thread panics");
            *value = std::hint::black_box(*value + 1);
        }
        operations
    }
}

struct Add(Shared);

impl Worker for Add {
    fn verify(&mut self) -> Result<(), String> {
        let word = &self.0.word.0;
        let add = || {
            word.fetch_add(1, Ordering::Relaxed);
        };
        adds_up(add, || word.load(Ordering::SeqCst))
    }

    fn run(&mut self, operations: u64) -> u64 {
        for _ in 0..operations {
            std::hint::black_box(self.0.word.0.fetch_add(1, Ordering::Relaxed));
        }
        operations
    }
}

/// Both channels to the partner, which answers each value with its successor.
struct Partner {
    send: Option<SyncSender<u64>>,
    receive: Receiver<u64>,
    thread: Option<JoinHandle<()>>,
}

struct Channel(Option<Partner>);

impl Channel {
    fn pass(&self, value: u64) -> Option<u64> {
        let partner = self.0.as_ref()?;
        partner.send.as_ref()?.send(value).ok()?;
        partner.receive.recv().ok()
    }
}

impl Worker for Channel {
    fn begin(&mut self) -> Result<(), String> {
        let (send, take) = sync_channel::<u64>(1);
        let (give, receive) = sync_channel::<u64>(1);
        let answer = move || {
            for value in take {
                if give.send(value + 1).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new()
            .spawn(answer)
            .map_err(|error| error.to_string())?;
        self.0 = Some(Partner {
            send: Some(send),
            receive,
            thread: Some(thread),
        });
        Ok(())
    }

    fn verify(&mut self) -> Result<(), String> {
        match self.pass(41) {
            Some(42) => Ok(()),
            other => Err(format!("the partner answered {other:?} and not 42")),
        }
    }

    fn run(&mut self, operations: u64) -> u64 {
        (0..operations)
            .filter(|index| self.pass(*index) == Some(index + 1))
            .count() as u64
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        if let Some(partner) = &mut self.0 {
            // A closed channel ends the partner.
            partner.send = None;
            if let Some(thread) = partner.thread.take() {
                let _ = thread.join();
            }
        }
    }
}

/// Waits while `word` holds `value`; a spurious return is the caller's to notice.
fn futex_wait(word: &AtomicU32, value: u32) {
    // SAFETY: the word outlives the call, and no timeout is given.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            value,
            std::ptr::null::<libc::timespec>(),
        )
    };
}

/// Wakes one waiter; returns how many were woken.
fn futex_wake(word: &AtomicU32) -> i64 {
    // SAFETY: the word outlives the call.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            1,
        )
    }
}

/// A word that two threads hand back and forth: even turns are the worker's, odd ones the partner's.
#[derive(Default)]
struct Turns {
    turn: AtomicU32,
    over: AtomicBool,
}

impl Turns {
    fn give(&self, turn: u32) {
        self.turn.store(turn, Ordering::Release);
        futex_wake(&self.turn);
    }

    /// Waits for a turn of the given parity; none when it is over.
    fn take(&self, parity: u32) -> Option<u32> {
        loop {
            let turn = self.turn.load(Ordering::Acquire);
            if self.over.load(Ordering::Acquire) {
                return None;
            }
            if turn % 2 == parity {
                return Some(turn);
            }
            futex_wait(&self.turn, turn);
        }
    }
}

#[derive(Default)]
struct Switch {
    turns: Arc<Turns>,
    thread: Option<JoinHandle<()>>,
}

impl Switch {
    fn there_and_back(&self) -> bool {
        let before = self.turns.turn.load(Ordering::Acquire);
        self.turns.give(before.wrapping_add(1));
        self.turns.take(0) == Some(before.wrapping_add(2))
    }
}

impl Worker for Switch {
    fn begin(&mut self) -> Result<(), String> {
        let turns = self.turns.clone();
        let answer = move || {
            while let Some(turn) = turns.take(1) {
                turns.give(turn.wrapping_add(1));
            }
        };
        self.thread = Some(
            std::thread::Builder::new()
                .spawn(answer)
                .map_err(|error| error.to_string())?,
        );
        Ok(())
    }

    fn verify(&mut self) -> Result<(), String> {
        if self.there_and_back() {
            Ok(())
        } else {
            Err("the other thread did not respond".to_owned())
        }
    }

    fn run(&mut self, operations: u64) -> u64 {
        (0..operations).filter(|_| self.there_and_back()).count() as u64
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.turns.over.store(true, Ordering::Release);
        // A change of the word besides the wake: the partner may be about to wait for it.
        self.turns.turn.fetch_add(1, Ordering::AcqRel);
        futex_wake(&self.turns.turn);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Wake(AtomicU32);

impl Worker for Wake {
    fn verify(&mut self) -> Result<(), String> {
        match futex_wake(&self.0) {
            0 => Ok(()),
            other => Err(format!("waking without waiters returned {other}")),
        }
    }

    fn run(&mut self, operations: u64) -> u64 {
        (0..operations).filter(|_| futex_wake(&self.0) == 0).count() as u64
    }
}

struct Spawn;

impl Spawn {
    fn once(index: u64) -> Option<u64> {
        std::thread::Builder::new()
            .spawn(move || index + 1)
            .ok()?
            .join()
            .ok()
    }
}

impl Worker for Spawn {
    fn verify(&mut self) -> Result<(), String> {
        match Self::once(41) {
            Some(42) => Ok(()),
            other => Err(format!("a thread answered {other:?} and not 42")),
        }
    }

    fn run(&mut self, operations: u64) -> u64 {
        (0..operations)
            .filter(|index| Self::once(*index) == Some(index + 1))
            .count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_worker_is_right_and_repeats_its_checksum() {
        for benchmark in benchmarks() {
            let mut prepared = benchmark
                .prepare(&Setup {
                    seed: 1,
                    workers: 2,
                })
                .expect("prepared");
            for worker in &mut prepared.workers {
                worker.begin().expect("begun");
                worker.verify().expect("right");
                assert_eq!(worker.run(50), 50, "{}", benchmark.name());
                assert_eq!(worker.run(50), 50, "{}", benchmark.name());
            }
        }
    }

    #[test]
    fn one_core_alone_contends_with_nobody() {
        for benchmark in benchmarks() {
            let contended = benchmark.name().ends_with("-contended");
            assert_eq!(
                benchmark.missing(1).is_some(),
                contended,
                "{}",
                benchmark.name()
            );
            assert_eq!(benchmark.missing(2), None, "{}", benchmark.name());
        }
    }

    #[test]
    fn contended_workers_share_and_others_do_not() {
        let prepare = |name: &str| {
            let benchmark = benchmarks()
                .into_iter()
                .find(|one| one.name() == name)
                .expect("a name");
            benchmark
                .prepare(&Setup {
                    seed: 1,
                    workers: 2,
                })
                .expect("prepared")
        };
        // Both verify on the same word at once: sums that only grow are still right.
        let mut prepared = prepare("atomic-contended");
        std::thread::scope(|scope| {
            for worker in &mut prepared.workers {
                scope.spawn(|| worker.verify().expect("right"));
            }
        });
    }

    #[test]
    fn a_lost_addition_is_seen() {
        let word = AtomicU64::new(0);
        let racy = || word.store(1, Ordering::Relaxed);
        assert!(adds_up(racy, || word.load(Ordering::Relaxed)).is_err());
    }
}
