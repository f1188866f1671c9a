//! Rows of a load of several processes: the intervals that they reported, put together by time.
//!
//! In: what each process reported. Out: one interval a length and phase, with counts summed and histograms added
//! exactly, by the clock here. Intervals are put together by the time since the begin of each process's own
//! measure phase. Invariant: histograms are unpacked for one row at a time, whatever the load's length.

use std::collections::BTreeMap;

use steelyard_record::{Clock, IntervalRow};

use super::log::Log;
use super::member::MemberLoad;
use super::wire::PackedInterval;
use crate::LoadError;
use crate::control::{Interval, Phase};
use crate::settings::Settings;
use crate::slo::Slo;
use crate::summary::row;

/// What is put together.
pub struct Parts<'a> {
    /// The whole load.
    pub settings: &'a Settings,
    /// What batches are counted by.
    pub slo: &'a Slo,
    /// Both clocks here when the load was ordered.
    pub clock: Clock,
    /// The processes.
    pub members: &'a [Part<'a>],
}

/// One process.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    /// Its host.
    pub name: &'a str,
    /// Its connections.
    pub connections: u32,
    /// What it reported.
    pub load: &'a MemberLoad,
    /// Those of its intervals that are to be put together, in order.
    pub intervals: &'a [PackedInterval],
}

impl Part<'_> {
    /// The begin of its measure phase, by its clock, ns; without one the end of what there is.
    pub fn origin_ns(&self) -> i64 {
        let mut intervals = self.intervals.iter();
        let first = intervals.find(|interval| interval.phase != Phase::Warmup);
        let last = self.intervals.last();
        let at_ns = first
            .map(|first| first.begin_ns)
            .or(last.map(|last| last.end_ns));
        at_ns.unwrap_or(0) as i64
    }

    /// An error about its host.
    pub fn error(&self, why: String) -> LoadError {
        LoadError::Host {
            host: self.name.to_owned(),
            why,
        }
    }
}

impl Parts<'_> {
    /// When each process's measure phase began, by the clock here, late by what the order took on its way, ns.
    pub fn begins_ns(&self) -> Vec<u64> {
        let begin = |part: &Part<'_>| {
            let ordered_ns = part.load.ordered_ns.max(self.clock.monotonic_ns);
            ordered_ns.saturating_add(part.load.begun_after_ns.unwrap_or(0))
        };
        self.members.iter().map(begin).collect()
    }

    /// When the first of the measure phases began, by the clock here, ns.
    pub fn begin_ns(&self) -> u64 {
        let first = self.begins_ns().into_iter().min();
        first.unwrap_or(self.clock.monotonic_ns)
    }

    /// Shows `see` every row of `length_ns`, in order.
    pub fn rows(
        &self,
        length_ns: u64,
        see: &mut dyn FnMut(&Interval, Phase) -> Result<(), LoadError>,
    ) -> Result<(), LoadError> {
        type Places<'a> = BTreeMap<(Phase, i64), Vec<(&'a Part<'a>, i64, &'a PackedInterval)>>;
        let mut places = Places::new();
        for part in self.members {
            let origin_ns = part.origin_ns();
            for interval in part.intervals {
                let since_ns = interval.begin_ns as i64 - origin_ns;
                let place = (interval.phase, since_ns.div_euclid(length_ns as i64));
                let intervals = places.entry(place).or_default();
                intervals.push((part, origin_ns, interval));
            }
        }
        let begin_ns = self.begin_ns() as i64;
        for ((phase, _), intervals) in places {
            let mut row = Interval::default();
            row.begin_ns = u64::MAX;
            for (part, origin_ns, interval) in intervals {
                let here_ns = |at_ns: u64| (at_ns as i64 - origin_ns + begin_ns).max(0) as u64;
                row.begin_ns = row.begin_ns.min(here_ns(interval.begin_ns));
                row.end_ns = row.end_ns.max(here_ns(interval.end_ns));
                row.counts.add(&interval.counts);
                let latencies = interval.latencies.unpack();
                row.latencies
                    .add(&latencies.map_err(|why| part.error(why))?);
            }
            see(&row, phase)?;
        }
        Ok(())
    }

    /// The series of the record; its histograms go to `log` too.
    pub fn series(&self, mut log: Option<&mut Log<'_>>) -> Result<Vec<IntervalRow>, LoadError> {
        let mut series = Vec::new();
        self.rows(self.settings.interval_ns, &mut |interval, phase| {
            series.push(row(interval, phase));
            log.as_mut().map_or(Ok(()), |log| log.write(interval))
        })?;
        Ok(series)
    }
}
