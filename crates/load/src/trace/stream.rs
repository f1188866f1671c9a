//! A trace dealt out to the generator threads, read in step with the load.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use super::{Reader, Reading, Trace};
use crate::LoadError;
use crate::mix::Mix;
use crate::random::mix;
use crate::workload::{Request, Workload};

/// Requests that are handed to a thread at a time, and how often ahead of it.
const BATCH: usize = 1024;
const BATCHES_AHEAD: usize = 16;

impl Trace {
    /// One stream for each of `threads` generator threads, which take the requests in turn.
    pub fn streams(
        &self,
        threads: u32,
        workload: &Arc<Workload>,
    ) -> Result<Vec<TraceStream>, LoadError> {
        let (mut senders, mut streams) = (Vec::new(), Vec::new());
        for thread in 0..threads {
            let (sender, batches) = sync_channel(BATCHES_AHEAD);
            senders.push(sender);
            streams.push(TraceStream {
                thread,
                start_ns: 0,
                batches,
                batch: Batch::default(),
                next: 0,
                taken: 0,
                failure: None,
            });
        }
        let reader = Reader::open(&self.path, self.speed_ratio)?;
        let mix = Arc::clone(workload.mix());
        thread::Builder::new()
            .name("load-trace".to_owned())
            .spawn(move || deal(reader, &mix, &senders))
            .map_err(|source| LoadError::Environment {
                what: "starting a thread".to_owned(),
                source,
            })?;
        Ok(streams)
    }
}

/// Requests on their way to a thread.
#[derive(Debug, Default)]
struct Batch {
    requests: Vec<Dealt>,
    /// Their keys, one after the other.
    keys: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct Dealt {
    at_ns: u64,
    operation: u32,
    /// End of the key in the batch's keys.
    key_end: u32,
    size: Option<u32>,
}

/// Reads the trace to its end, a request to each thread in turn. Ends early when the threads are gone.
fn deal(mut reader: Reader, mix: &Mix, senders: &[SyncSender<Result<Batch, LoadError>>]) {
    let mut batches: Vec<Batch> = senders.iter().map(|_| Batch::default()).collect();
    let mut read = Reading::default();
    for turn in (0..senders.len()).cycle() {
        match reader.next(mix, mix.protocol, &mut read) {
            Ok(true) => {}
            Ok(false) => break,
            // It was read through before: the file has changed since.
            Err(error) => {
                let _ = senders[turn].send(Err(error));
                return;
            }
        }
        let batch = &mut batches[turn];
        batch.keys.extend_from_slice(&read.key);
        batch.requests.push(Dealt {
            at_ns: read.at_ns,
            operation: read.operation,
            key_end: batch.keys.len() as u32,
            size: read.size,
        });
        if batch.requests.len() == BATCH && senders[turn].send(Ok(std::mem::take(batch))).is_err() {
            return;
        }
    }
    for (batch, sender) in batches.into_iter().zip(senders) {
        let _ = sender.send(Ok(batch));
    }
}

/// One thread's share of a trace.
#[derive(Debug)]
pub struct TraceStream {
    thread: u32,
    start_ns: u64,
    batches: Receiver<Result<Batch, LoadError>>,
    batch: Batch,
    next: usize,
    taken: u64,
    failure: Option<LoadError>,
}

impl TraceStream {
    /// Lets the trace begin at `start_ns`.
    pub fn begin(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
    }

    /// When the next request is due, `u64::MAX` after the last.
    #[inline]
    pub fn peek(&mut self) -> u64 {
        while self.next >= self.batch.requests.len() {
            self.next = 0;
            // Waits where the file cannot be read as fast as it is to be replayed, which shows as lag.
            match self.batches.recv() {
                Ok(Ok(batch)) => self.batch = batch,
                ended => {
                    self.batch = Batch::default();
                    if let Ok(Err(error)) = ended {
                        self.failure = Some(error);
                    }
                    return u64::MAX;
                }
            }
        }
        self.start_ns + self.batch.requests[self.next].at_ns
    }

    /// The request whose time `peek` returned.
    #[inline]
    pub fn take(&mut self, workload: &Workload) -> Request {
        let dealt = self.batch.requests[self.next];
        let begin = match self.next {
            0 => 0,
            next => self.batch.requests[next - 1].key_end as usize,
        };
        self.next += 1;
        let text = &self.batch.keys[begin..dealt.key_end as usize];
        let key = workload.keep_key(self.thread, text, dealt.size);
        self.taken += 1;
        Request {
            draw: mix(u64::from(self.thread) << 48 ^ self.taken),
            ..Request::of(dealt.operation as usize, key)
        }
    }

    /// Why the trace could not be read on, if so.
    pub fn take_failure(&mut self) -> Option<LoadError> {
        self.failure.take()
    }
}
