//! What a microbenchmark is.
//!
//! A [`Microbenchmark`] has a name, a category and an operation. [`Microbenchmark::prepare`] makes, from a
//! seed, one [`Worker`] for every core that will run it at the same time; a worker's `run` does a given
//! number of operations and returns a checksum of what it computed, so that nothing can be optimised away.
//!
//! The runner moves each worker to a thread that is pinned to one CPU, calls `begin` and `verify` there
//! once, and then `run` again and again, batches of other benchmarks between.

use std::fmt;

use crate::TaxError;

/// Which tax an operation is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Category {
    /// Compression and decompression.
    Compression,
    /// Checksums and hashes.
    Hashing,
    /// Messages to bytes and back.
    Serialization,
    /// Encryption, key agreement and handshakes.
    Encryption,
    /// Moving and touching memory.
    Memory,
    /// Allocating and freeing.
    Allocation,
    /// Locks, atomics, queues and thread switches.
    Concurrency,
    /// Remote procedure calls.
    Rpc,
    /// System calls.
    Kernel,
}

impl Category {
    /// Every category.
    pub const ALL: [Self; 9] = [
        Self::Compression,
        Self::Hashing,
        Self::Serialization,
        Self::Encryption,
        Self::Memory,
        Self::Allocation,
        Self::Concurrency,
        Self::Rpc,
        Self::Kernel,
    ];

    /// Its name in records and on command lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Compression => "compression",
            Self::Hashing => "hashing",
            Self::Serialization => "serialization",
            Self::Encryption => "encryption",
            Self::Memory => "memory",
            Self::Allocation => "allocation",
            Self::Concurrency => "concurrency",
            Self::Rpc => "rpc",
            Self::Kernel => "kernel",
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// Takes `part` into a checksum, so that order and number of parts matter. Two instructions.
#[inline]
pub fn fold(sum: u64, part: u64) -> u64 {
    // Any odd constant keeps all of the sum; this one is that of SplitMix64.
    sum.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(part)
}

/// What a benchmark is prepared for.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    /// Seed of every input: the same seed gives the same inputs.
    pub seed: u64,
    /// How many workers run at the same time: 1, or one for every core.
    pub workers: usize,
}

/// A benchmark that is ready to run.
pub struct Prepared {
    /// One worker for every core, as many as [`Setup::workers`] asked for.
    pub workers: Vec<Box<dyn Worker>>,
    /// Bytes that an operation takes in, mean over a cycle; `None` where operations have no size.
    pub bytes_per_operation: Option<f64>,
    /// Operations after which the inputs repeat. A batch is a multiple of it, so that every batch does the
    /// same work; a cycle should take less than a millisecond.
    pub cycle: u64,
    /// Size after compression over size before, where the benchmark compresses.
    pub compressed_ratio: Option<f64>,
}

impl Prepared {
    /// A benchmark whose operations are all alike and have no size.
    pub fn new(workers: Vec<Box<dyn Worker>>) -> Self {
        Self {
            workers,
            bytes_per_operation: None,
            cycle: 1,
            compressed_ratio: None,
        }
    }

    /// The same with operations of `bytes` bytes.
    #[must_use]
    pub fn bytes(mut self, bytes: f64) -> Self {
        self.bytes_per_operation = Some(bytes);
        self
    }

    /// The same with inputs that repeat after `operations`.
    #[must_use]
    pub fn cycle(mut self, operations: u64) -> Self {
        self.cycle = operations.max(1);
        self
    }
}

/// One kind of work that a datacenter's machines do beside the application.
pub trait Microbenchmark: Send + Sync {
    /// Unique name of lower-case words joined by `-`, such as `zstd-3-compress-log`.
    fn name(&self) -> &str;

    /// The category it counts in.
    fn category(&self) -> Category;

    /// What one operation is, a phrase such as "compresses one block".
    fn operation(&self) -> &str;

    /// Whether a worker sleeps as part of its work (a lock, a pipe, a socket). CPU time below wall time is
    /// then no sign of a disturbance.
    fn waits(&self) -> bool {
        false
    }

    /// Whether a batch computes the same checksum each time. Not so where keys or other parties are random.
    fn repeats(&self) -> bool {
        true
    }

    /// Why it cannot be measured on this machine with so many workers at once, none where it can.
    fn missing(&self, _workers: usize) -> Option<String> {
        None
    }

    /// Makes the workers. They may share state where the work is to contend for something; what
    /// belongs to a worker alone it should allocate in [`Worker::begin`], on the CPU that will use it.
    fn prepare(&self, setup: &Setup) -> Result<Prepared, TaxError>;
}

/// One core's share of a benchmark.
pub trait Worker: Send {
    /// Called once on the pinned thread, before anything else. Threads started here inherit its CPU.
    fn begin(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Does the operation once and compares the result with what it must be; called once after `begin`.
    fn verify(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Does `operations` operations and returns a checksum over what they computed. The same work each time:
    /// it starts again at the first input.
    fn run(&mut self, operations: u64) -> u64;
}
