//! Where the requests of an open loop come from, and when they are due: a schedule with a stream of draws, or a trace.

use crate::LoadError;
use crate::random::Random;
use crate::schedule::Schedule;
use crate::trace::TraceStream;
use crate::workload::{Request, Workload};

/// The requests of one thread's open loop.
pub enum Source {
    /// Drawn from a mix when a schedule says so.
    Drawn {
        /// When.
        schedule: Schedule,
        /// What.
        random: Random,
    },
    /// As they were recorded.
    Trace(TraceStream),
}

impl Source {
    /// Tells when the measure phase begins, `u64::MAX` while unknown.
    #[inline]
    pub fn measure(&mut self, begin_ns: u64) {
        if let Self::Drawn { schedule, .. } = self {
            schedule.measure(begin_ns);
        }
    }

    /// When the next request is due; `u64::MAX` if there is none.
    #[inline]
    pub fn peek(&mut self) -> u64 {
        match self {
            Self::Drawn { schedule, .. } => schedule.peek(),
            Self::Trace(stream) => stream.peek(),
        }
    }

    /// The request whose time `peek` returned.
    #[inline]
    pub fn take(&mut self, workload: &Workload) -> Request {
        match self {
            Self::Drawn { schedule, random } => {
                schedule.advance();
                workload.next(random)
            }
            Self::Trace(stream) => stream.take(workload),
        }
    }

    /// Why no more can come, if so.
    #[inline]
    pub fn take_failure(&mut self) -> Option<LoadError> {
        match self {
            Self::Drawn { .. } => None,
            Self::Trace(stream) => stream.take_failure(),
        }
    }
}
