//! One conversation without sockets or threads, for tests and for the fuzz target.

use std::sync::Arc;

use crate::counters::Counters;
use crate::report::{Reporter, Shown};
use crate::session::{Session, Worker};
use crate::store::Store;
use steelyard_serve::Threads;

/// The longest value of these conversations.
pub const VALUE_BYTES: usize = 4096;

/// A small look-aside server to talk to.
#[derive(Debug)]
pub struct Conversations {
    store: Store,
    counters: Arc<Counters>,
    reporter: Reporter,
}

impl Conversations {
    /// A server with 1 MiB of memory.
    pub fn new() -> std::io::Result<Self> {
        let counters: Arc<Counters> = Arc::default();
        let shown = Shown {
            port: 0,
            max_connections: 1,
            fast_threads: 1,
            slow_threads: 0,
            mode: "look-aside",
            io: "none",
        };
        Ok(Self {
            store: Store::new(1 << 20, VALUE_BYTES, 1)?,
            reporter: Reporter::new(vec![counters.clone()], shown, Threads::default()),
            counters,
        })
    }

    pub(crate) fn worker(&self) -> Worker<'_> {
        Worker {
            store: &self.store,
            counters: &self.counters,
            now_s: 2,
            epoch_s: 1_700_000_000,
            slow: None,
            thread: 0,
            connection: 0,
            reporter: &self.reporter,
        }
    }

    /// Sends `pieces` on one connection, reading the answers after each; the answers, and whether the server
    /// closed the connection.
    pub fn talk<'a>(&self, pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<u8>, bool) {
        let worker = self.worker();
        let mut session = Session::new();
        let mut answers = Vec::new();
        for piece in pieces {
            session.receive(piece, &worker);
            loop {
                answers.append(session.output().ready());
                if !session.paused() {
                    break;
                }
                session.resume(&worker);
            }
        }
        (answers, session.closing())
    }
}
