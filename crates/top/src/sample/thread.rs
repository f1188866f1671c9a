//! One thread of a process: its turns, which show whether anything has changed, and its costlier files.

use std::io;
use std::rc::Rc;

use steelyard_kernel::{Stat, ns_per_clock_tick, page_bytes};

use super::files::{Files, Place};
use super::parse;
use super::process::Context;
use super::reading::{Counter, Counters, Identity, Reading, TaskId};
use crate::Reason;

/// A thread that is looked after.
#[derive(Debug, Default)]
pub struct Thread {
    pub(super) tid: u32,
    pub(super) schedstat: Place,
    pub(super) status: Place,
    pub(super) stat: Place,
    pub(super) io: Place,
    /// Time run, time waited, turns; None before the first read.
    pub(super) turns: Option<[u64; 3]>,
    pub(super) switches: Option<[u64; 2]>,
    pub(super) ran: bool,
    pub(super) run_ns: u64,
    pub(super) wait_ns: u64,
    pub(super) switches_sum: [u64; 2],
    pub(super) reading: Option<Reading>,
}

impl Thread {
    /// Reads its turns; whether it ran.
    pub(super) fn look(&mut self, pid: u32, context: &mut Context<'_>) -> io::Result<bool> {
        let tid = self.tid;
        let text = context.files.read(&mut self.schedstat, || {
            format!("proc/{pid}/task/{tid}/schedstat")
        })?;
        let now = parse::schedstat(text).ok_or(io::ErrorKind::NotFound)?;
        self.ran = self.turns != Some(now);
        let before = self.turns.replace(now).unwrap_or([0; 3]);
        self.run_ns += now[0].saturating_sub(before[0]);
        self.wait_ns += now[1].saturating_sub(before[1]);
        Ok(self.ran)
    }

    pub(super) fn read(
        &mut self,
        context: &mut Context<'_>,
        process: &Reading,
        has_schedstat: bool,
    ) {
        let (pid, tid) = (process.id.pid, self.tid);
        let time_ns = (context.clock)();
        let Ok(text) = context
            .files
            .read(&mut self.stat, || format!("proc/{pid}/task/{tid}/stat"))
        else {
            return;
        };
        let Some(stat) = Stat::parse(text) else {
            return;
        };
        let who = Rc::new(Identity {
            name: parse::harmless(stat.command),
            ..(*process.who).clone()
        });
        let stat = stat.without_name();
        let [read_bytes, written_bytes] = if process.who.is_kernel {
            [Err(Reason::KERNEL_THREAD), Err(Reason::KERNEL_THREAD)]
        } else {
            let read = context
                .files
                .read(&mut self.io, || format!("proc/{pid}/task/{tid}/io"))
                .map(steelyard_kernel::storage_bytes);
            io_counters(read)
        };
        let tick_ns = ns_per_clock_tick();
        let (minor_faults, major_faults) = faults(&stat);
        let counter_if = |is_reported: bool, value: u64| {
            is_reported.then_some(value).ok_or(Reason::NOT_REPORTED)
        };
        self.reading = Some(Reading {
            id: TaskId {
                pid,
                tid: Some(tid),
                start_ticks: stat.start_ticks,
            },
            who,
            time_ns,
            state: stat.state,
            counters: Counters {
                user_ns: stat.user_ticks.saturating_mul(tick_ns),
                system_ns: stat.system_ticks.saturating_mul(tick_ns),
                wait_ns: counter_if(has_schedstat, self.turns.map_or(0, |turns| turns[1])),
                minor_faults,
                major_faults,
                read_bytes,
                written_bytes,
                voluntary: counter_if(self.switches.is_some(), self.switches_sum[0]),
                involuntary: counter_if(self.switches.is_some(), self.switches_sum[1]),
            },
            rss_bytes: process.rss_bytes.clone(),
            threads: 1,
            nodes: process.nodes.clone(),
        });
    }

    pub(super) fn close(&mut self, files: &mut Files) {
        for place in [
            &mut self.schedstat,
            &mut self.status,
            &mut self.stat,
            &mut self.io,
        ] {
            files.close(place);
        }
    }
}

pub(super) fn is_denied(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

pub(super) fn io_counters(read: io::Result<[Option<u64>; 2]>) -> [Counter; 2] {
    match read {
        Ok(bytes) => bytes.map(|bytes| bytes.ok_or(Reason::NOT_REPORTED)),
        Err(error) if is_denied(&error) => {
            [Err(Reason::not_permitted()), Err(Reason::not_permitted())]
        }
        Err(_) => [Err(Reason::NOT_REPORTED), Err(Reason::NOT_REPORTED)],
    }
}

pub(super) fn faults(stat: &Stat<'_>) -> (Counter, Counter) {
    let [minor, major] = stat.faults.map(|faults| faults.ok_or(Reason::NOT_REPORTED));
    (minor, major)
}

pub(super) fn rss(stat: &Stat<'_>, who: &Identity) -> Counter {
    if who.is_kernel {
        return Err(Reason::KERNEL_THREAD);
    }
    stat.rss_pages
        .map(|pages| pages.saturating_mul(page_bytes()))
        .ok_or(Reason::NOT_REPORTED)
}
