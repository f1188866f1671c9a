//! Access patterns, and what a repeat of one measures.

/// How blocks are chosen and what is done with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pattern {
    SequentialRead,
    SequentialWrite,
    RandomRead,
    RandomWrite,
}

impl Pattern {
    /// The word in the record.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::SequentialRead => "sequential_read",
            Self::SequentialWrite => "sequential_write",
            Self::RandomRead => "random_read",
            Self::RandomWrite => "random_write",
        }
    }

    /// fio's word for it.
    pub(crate) fn fio_name(self) -> &'static str {
        match self {
            Self::SequentialRead => "read",
            Self::SequentialWrite => "write",
            Self::RandomRead => "randread",
            Self::RandomWrite => "randwrite",
        }
    }

    pub(crate) fn is_read(self) -> bool {
        matches!(self, Self::SequentialRead | Self::RandomRead)
    }

    pub(crate) fn is_random(self) -> bool {
        matches!(self, Self::RandomRead | Self::RandomWrite)
    }
}

/// One access pattern.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access {
    pub(crate) pattern: Pattern,
    pub(crate) block_bytes: usize,
    pub(crate) depth: u32,
}

/// What one repeat measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// Bytes per second.
    pub rate_bytes_per_s: f64,
    /// Operations per second.
    pub operations_per_s: f64,
    /// Median time of an operation, ns.
    pub latency_p50_ns: Option<f64>,
    /// 99th percentile of an operation, ns.
    pub latency_p99_ns: Option<f64>,
}
