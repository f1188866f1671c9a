//! The measuring threads: one pinned to every CPU, each holding its workers of all benchmarks.
//!
//! The coordinator names a benchmark and the threads that are to run it. They do a tenth of the batch
//! untimed, meet at a line where they spin rather than sleep, and run the batch at the same time. All other
//! threads sleep, the coordinator too.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use crate::TaxError;
use crate::batch::{Batch, measure};
use crate::benchmark::Worker;

/// Share of a batch that runs untimed before it, so that caches and branch predictors hold this benchmark's
/// state and not the one's before.
const WARM_DIVISOR: u64 = 10;

/// Where threads wait for one another without sleeping.
struct StartLine {
    missing: AtomicUsize,
}

impl StartLine {
    fn wait(&self) {
        self.missing.fetch_sub(1, Ordering::AcqRel);
        let mut spins = 0u32;
        while self.missing.load(Ordering::Acquire) > 0 {
            spins += 1;
            // A thread that is not on a CPU (a quota, a busy neighbour) would otherwise be waited for by spinning on its CPU.
            if spins.is_multiple_of(1 << 14) {
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
    }
}

enum Command {
    Take(Box<dyn Worker>),
    Run {
        benchmark: usize,
        operations: u64,
        line: Arc<StartLine>,
    },
}

type Reply = (usize, Result<Option<Batch>, String>);

/// The threads. Dropping it ends them.
pub struct Workers {
    commands: Vec<Sender<Command>>,
    replies: Receiver<Reply>,
    threads: Vec<JoinHandle<()>>,
}

/// How a thread is bound to a CPU; given by the caller, who knows the system.
pub type Pin = fn(&[usize]) -> io::Result<()>;

fn reason(panic: Box<dyn Any + Send>) -> String {
    panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()))
        .unwrap_or_else(|| "it panicked".to_owned())
}

fn serve(index: usize, commands: &Receiver<Command>, replies: &Sender<Reply>) {
    let mut workers: Vec<Box<dyn Worker>> = Vec::new();
    while let Ok(command) = commands.recv() {
        // A benchmark that panics must not leave the others waiting at the line.
        let reply = match command {
            Command::Take(mut worker) => catch_unwind(AssertUnwindSafe(|| {
                worker.begin()?;
                worker.verify()?;
                workers.push(worker);
                Ok(None)
            }))
            .unwrap_or_else(|panic| Err(reason(panic))),
            Command::Run {
                benchmark,
                operations,
                line,
            } => {
                let worker = workers[benchmark].as_mut();
                let warmed = catch_unwind(AssertUnwindSafe(|| {
                    std::hint::black_box(worker.run(operations.div_ceil(WARM_DIVISOR)))
                }));
                line.wait();
                warmed
                    .and_then(|_| {
                        catch_unwind(AssertUnwindSafe(|| Some(measure(worker, operations))))
                    })
                    .map_err(reason)
            }
        };
        if replies.send((index, reply)).is_err() {
            return;
        }
    }
}

impl Workers {
    /// Starts a thread on each of `cpus`.
    pub fn start(cpus: &[usize], pin: Pin) -> Result<Self, TaxError> {
        let (reply, replies) = channel();
        let (mut commands, mut threads) = (Vec::new(), Vec::new());
        for (index, &cpu) in cpus.iter().enumerate() {
            let (send, receive) = channel();
            let reply = reply.clone();
            let thread = std::thread::Builder::new()
                .name(format!("tax-{cpu}"))
                .spawn(move || match pin(&[cpu]) {
                    Ok(()) => {
                        let _ = reply.send((index, Ok(None)));
                        serve(index, &receive, &reply);
                    }
                    Err(error) => {
                        let _ = reply.send((index, Err(format!("CPU {cpu}: {error}"))));
                    }
                })
                .map_err(|source| TaxError::Environment {
                    what: "cannot start a measuring thread".to_owned(),
                    source,
                })?;
            commands.push(send);
            threads.push(thread);
        }
        let started = Self {
            commands,
            replies,
            threads,
        };
        for _ in cpus {
            if let (_, Err(why)) = started.reply()? {
                return Err(TaxError::Environment {
                    what: "cannot pin a measuring thread".to_owned(),
                    source: io::Error::other(why),
                });
            }
        }
        Ok(started)
    }

    fn reply(&self) -> Result<Reply, TaxError> {
        self.replies.recv().map_err(|_| TaxError::Thread {
            why: "all are gone".to_owned(),
        })
    }

    fn send(&self, thread: usize, command: Command) -> Result<(), TaxError> {
        self.commands[thread]
            .send(command)
            .map_err(|_| TaxError::Thread {
                why: format!("thread {thread} has ended"),
            })
    }

    /// Hands a worker to thread `thread`, which begins and verifies it.
    pub fn give(
        &self,
        thread: usize,
        worker: Box<dyn Worker>,
        benchmark: &str,
    ) -> Result<(), TaxError> {
        self.send(thread, Command::Take(worker))?;
        match self.reply()?.1 {
            Ok(_) => Ok(()),
            Err(why) => Err(TaxError::Work {
                benchmark: benchmark.to_owned(),
                why,
            }),
        }
    }

    /// Runs one batch of benchmark number `slot[i]` on thread `threads[i]`, all at the same time; answers in the
    /// order of `threads`.
    pub fn batch(
        &self,
        threads: &[(usize, usize)],
        operations: u64,
        benchmark: &str,
    ) -> Result<Vec<Batch>, TaxError> {
        let line = Arc::new(StartLine {
            missing: AtomicUsize::new(threads.len()),
        });
        for &(thread, slot) in threads {
            self.send(
                thread,
                Command::Run {
                    benchmark: slot,
                    operations,
                    line: line.clone(),
                },
            )?;
        }
        let mut batches = vec![None; threads.len()];
        let mut failed = None;
        for _ in threads {
            let (thread, reply) = self.reply()?;
            match reply {
                Ok(batch) => {
                    let place = threads.iter().position(|&(t, _)| t == thread);
                    batches[place.expect("only these were asked")] = batch;
                }
                Err(why) => failed = Some(why),
            }
        }
        if let Some(why) = failed {
            return Err(TaxError::Work {
                benchmark: benchmark.to_owned(),
                why,
            });
        }
        Ok(batches.into_iter().flatten().collect())
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.commands.clear();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
