//! Following a load of several processes while it runs: its phases and rates as progress lines, by the clock here,
//! and the line `measure` on the control input, which ends the warm-up of a held load.
//!
//! In: what the processes have reported so far. Out: lines on standard error. Not here: the record ([`super::merge`]).

use std::io::BufRead;
use std::sync::mpsc::{Receiver, TryRecvError};

use super::member::{Member, MemberLoad};
use crate::LoadError;
use crate::control::{Interval, Phase};
use crate::progress::Progress;
use crate::runner::{Order, listen};

/// Who watches a load, and who commands it.
pub struct Follow {
    progress: Progress,
    orders: Option<Receiver<Order>>,
    phase_reported: Option<Phase>,
    /// How many intervals of each process have been reported.
    seen: Vec<usize>,
    row: Interval,
}

impl Follow {
    /// Follows with `progress`; a held load takes its order from `input`.
    pub fn new(progress: Progress, input: Option<Box<dyn BufRead + Send>>) -> Self {
        Self {
            progress,
            orders: input.map(listen),
            phase_reported: None,
            seen: Vec::new(),
            row: Interval::default(),
        }
    }

    /// A process fills the server, from `now_ns` on.
    pub fn fill(&mut self, now_ns: u64) {
        self.progress.phase("prefill", now_ns);
    }

    /// The load has begun, here at `now_ns`.
    pub fn begin(&mut self, now_ns: u64, members: usize) {
        self.phase_reported = Some(Phase::Warmup);
        self.seen = vec![0; members];
        self.row.restart(now_ns);
        self.progress.phase(Phase::Warmup.name(), now_ns);
    }

    /// What the control input says of a held load: None while it is to go on, whether to measure otherwise.
    pub fn order(&mut self) -> Option<bool> {
        match self.orders.as_ref()?.try_recv() {
            Ok(Order::Measure) => Some(true),
            Ok(Order::Gone) | Err(TryRecvError::Disconnected) => {
                tracing::warn!("the control input ended before the line `measure`");
                Some(false)
            }
            Err(TryRecvError::Empty) => None,
        }
    }

    /// Tells of what has been reported up to `now_ns`, in rows of `length_ns`.
    pub fn look(
        &mut self,
        members: &[Member],
        now_ns: u64,
        length_ns: u64,
        duration_ns: u64,
    ) -> Result<(), LoadError> {
        let Some(phase_reported) = self.phase_reported else {
            return Ok(());
        };
        for (member, seen) in members.iter().zip(&mut self.seen) {
            for interval in &member.load().intervals[*seen..] {
                self.row.counts.add(&interval.counts);
                let latencies = interval.latencies.unpack();
                let latencies = latencies.map_err(|why| member.error(&why))?;
                self.row.latencies.add(&latencies);
            }
            *seen = member.load().intervals.len();
        }
        if now_ns >= self.row.begin_ns + length_ns {
            self.row.end_ns = now_ns;
            self.progress.interval(&self.row, phase_reported);
            self.row.restart(now_ns);
        }
        let begins = members.iter().map(|member| begin_ns(member.load()));
        let Some(begins) = begins.collect::<Option<Vec<u64>>>() else {
            return Ok(());
        };
        let last_ns = begins.iter().copied().max().unwrap_or(now_ns);
        let first_ns = begins.iter().copied().min().unwrap_or(now_ns);
        for (phase, at_ns) in [
            (Phase::Measure, last_ns),
            (Phase::Drain, first_ns + duration_ns),
        ] {
            if self.phase_reported < Some(phase) && now_ns >= at_ns {
                // A row is of one phase.
                self.row.end_ns = now_ns;
                self.progress
                    .interval(&self.row, self.phase_reported.unwrap_or(phase));
                self.row.restart(now_ns);
                self.phase_reported = Some(phase);
                self.progress.phase(phase.name(), at_ns);
            }
        }
        Ok(())
    }
}

/// When a process's measure phase began, by the clock here; None before it has said so.
fn begin_ns(load: &MemberLoad) -> Option<u64> {
    (load.ordered_ns > 0).then_some(load.ordered_ns + load.begun_after_ns?)
}
