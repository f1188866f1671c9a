//! What a command does whose line has come whole, retrievals aside.

use super::{Session, Worker};
use crate::counters::Counter;
use crate::protocol::{self, Command, number};
use crate::store::{Attributes, Counted, Key};

impl Session {
    pub(super) fn command(&mut self, command: Command, worker: &Worker) {
        match command {
            Command::Get { .. } => unreachable!("retrievals are handled key by key"),
            Command::Store {
                mode,
                key,
                flags,
                expiry,
                value_bytes,
                quiet,
            } => {
                let attributes = Attributes {
                    flags,
                    expiry_s: worker.expiry_s(expiry),
                };
                self.expect_value(mode, key, attributes, value_bytes, quiet, worker);
            }
            Command::Delete { key, quiet } => self.delete(key, quiet, worker),
            Command::Count {
                key,
                increase,
                delta,
                quiet,
            } => {
                self.add_to(key, increase, delta, quiet, worker);
            }
            Command::Touch { key, expiry, quiet } => self.touch(key, expiry, quiet, worker),
            Command::Flush { delay, quiet } => {
                worker.count(Counter::Flushes);
                worker
                    .store
                    .flush((delay > 0).then(|| worker.expiry_s(delay)));
                self.answer(b"OK\r\n", quiet);
            }
            Command::Stats(what) => {
                let text = worker.reporter.stats(what, worker.store, worker.slow);
                self.answer(&text, false);
            }
            Command::Version => {
                self.answer(protocol::VERSION_LINE, false);
            }
            Command::Verbosity { quiet } => self.answer(b"OK\r\n", quiet),
            Command::Quit => self.closing = true,
            Command::Bad { answer, quiet } => {
                worker.count(Counter::Errors);
                self.answer(answer, quiet);
            }
        }
    }

    fn add_to(&mut self, key: &[u8], increase: bool, delta: u64, quiet: bool, worker: &Worker) {
        let (hit, miss) = if increase {
            (Counter::IncrHits, Counter::IncrMisses)
        } else {
            (Counter::DecrHits, Counter::DecrMisses)
        };
        match worker
            .store
            .count(Key::new(key), increase, delta, worker.now_s)
        {
            Counted::Value(value) => {
                worker.count(hit);
                let mut digits = number::Digits::new();
                self.answer(digits.of(value), quiet);
                self.answer(b"\r\n", quiet);
            }
            Counted::NotFound => {
                worker.count(miss);
                self.answer(b"NOT_FOUND\r\n", quiet);
            }
            Counted::NotANumber => {
                worker.count(Counter::Errors);
                self.answer(protocol::NOT_A_NUMBER, quiet);
            }
            Counted::OutOfMemory => {
                worker.count(Counter::Errors);
                self.answer(protocol::OUT_OF_MEMORY, quiet);
            }
        }
    }

    fn delete(&mut self, key: &[u8], quiet: bool, worker: &Worker) {
        let found = worker.store.delete(Key::new(key), worker.now_s);
        let (counter, answer): (_, &[u8]) = if found {
            (Counter::DeleteHits, b"DELETED\r\n")
        } else {
            (Counter::DeleteMisses, b"NOT_FOUND\r\n")
        };
        worker.count(counter);
        self.answer(answer, quiet);
    }

    fn touch(&mut self, key: &[u8], expiry: i32, quiet: bool, worker: &Worker) {
        let expiry_s = worker.expiry_s(expiry);
        let found = worker.store.touch(Key::new(key), expiry_s, worker.now_s);
        let (counter, answer): (_, &[u8]) = if found {
            (Counter::TouchHits, b"TOUCHED\r\n")
        } else {
            (Counter::TouchMisses, b"NOT_FOUND\r\n")
        };
        worker.count(Counter::Touches);
        worker.count(counter);
        self.answer(answer, quiet);
    }
}
