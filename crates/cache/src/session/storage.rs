//! Values that follow their storage command: kept, refused, or passed over.

use super::{Coming, Session, State, Step, Worker};
use crate::counters::Counter;
use crate::protocol;
use crate::store::{Attributes, Key, StoreAnswer, StoreMode};

impl Session {
    pub(super) fn expect_value(
        &mut self,
        mode: StoreMode,
        key: &[u8],
        attributes: Attributes,
        value_bytes: usize,
        quiet: bool,
        worker: &Worker,
    ) {
        if value_bytes > worker.store.max_value_bytes() {
            worker.count(Counter::TooLarge);
            worker.count(Counter::Errors);
            if mode == StoreMode::Set {
                // The client meant to replace the old value: serving it on would be wrong.
                worker.store.delete(Key::new(key), worker.now_s);
            }
            self.state = State::Swallow {
                left: value_bytes + 2,
                quiet,
            };
            return;
        }
        let mut coming = Coming {
            mode,
            key: [0; protocol::KEY_BYTES],
            key_bytes: key.len() as u8,
            attributes,
            value_bytes,
            quiet,
        };
        coming.key[..key.len()].copy_from_slice(key);
        self.state = State::Value(coming);
    }

    pub(super) fn value(&mut self, bytes: &[u8], worker: &Worker) -> Step {
        let State::Value(coming) = &self.state else {
            unreachable!("called in this state only")
        };
        let total = coming.value_bytes + 2;
        if bytes.len() < total {
            return Step::Wait;
        }
        let quiet = coming.quiet;
        worker.count(Counter::Sets);
        let answer: &[u8] = if &bytes[total - 2..total] == b"\r\n" {
            let key = Key::new(&coming.key[..usize::from(coming.key_bytes)]);
            let value = &bytes[..coming.value_bytes];
            let stored =
                worker
                    .store
                    .store(coming.mode, key, coming.attributes, value, worker.now_s);
            count_stored(coming.mode, stored, worker);
            stored_answer(stored)
        } else {
            worker.count(Counter::Errors);
            protocol::BAD_CHUNK
        };
        self.state = State::Line;
        self.answer(answer, quiet);
        Step::Consumed(total)
    }

    pub(super) fn swallow(&mut self, bytes: &[u8], left: usize, quiet: bool) -> Step {
        if bytes.is_empty() {
            return Step::Wait;
        }
        let taken = left.min(bytes.len());
        if taken == left {
            self.state = State::Line;
            self.answer(protocol::TOO_LARGE, quiet);
        } else {
            self.state = State::Swallow {
                left: left - taken,
                quiet,
            };
        }
        Step::Consumed(taken)
    }
}

fn stored_answer(stored: StoreAnswer) -> &'static [u8] {
    match stored {
        StoreAnswer::Stored => b"STORED\r\n",
        StoreAnswer::NotStored => b"NOT_STORED\r\n",
        StoreAnswer::Exists => b"EXISTS\r\n",
        StoreAnswer::NotFound => b"NOT_FOUND\r\n",
        StoreAnswer::TooLarge => protocol::TOO_LARGE,
        StoreAnswer::OutOfMemory => protocol::OUT_OF_MEMORY,
    }
}

fn count_stored(mode: StoreMode, stored: StoreAnswer, worker: &Worker) {
    match stored {
        StoreAnswer::TooLarge | StoreAnswer::OutOfMemory => worker.count(Counter::Errors),
        _ => {}
    }
    if matches!(mode, StoreMode::Cas(_)) {
        match stored {
            StoreAnswer::Stored => worker.count(Counter::CasHits),
            StoreAnswer::NotFound => worker.count(Counter::CasMisses),
            StoreAnswer::Exists => worker.count(Counter::CasBadValues),
            _ => {}
        }
    }
}
