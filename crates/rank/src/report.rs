//! What a service counts, as `rank_stats` records.
//!
//! Not here: deriving shares or rates; they are the control plane's.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use steelyard_kernel::usage::{Usage, rss_bytes};
use steelyard_record::{Kind, RankStage, RankStats, RankThread, monotonic_ns};
use steelyard_serve::Threads;

use crate::net::serve::Counts;
use crate::pool::QueueCounts;
use crate::service::{Refusal, StageTimes};

/// What one worker counts. Only the worker adds, so that adding needs no locked instruction.
#[derive(Debug)]
#[repr(align(128))]
pub struct WorkerCounts {
    requests: AtomicU64,
    checksum_sum: AtomicU64,
    service_ns: AtomicU64,
    stages: Vec<(AtomicU64, AtomicU64)>,
}

fn add(cell: &AtomicU64, amount: u64) {
    cell.store(cell.load(Relaxed).wrapping_add(amount), Relaxed);
}

impl WorkerCounts {
    /// Zero of everything.
    pub fn new(stages: usize) -> Self {
        Self {
            requests: AtomicU64::new(0),
            checksum_sum: AtomicU64::new(0),
            service_ns: AtomicU64::new(0),
            stages: (0..stages).map(|_| Default::default()).collect(),
        }
    }

    /// Counts a request that was answered with a result.
    pub fn answered(&self, checksum: u64, service_ns: u64, stages: &StageTimes) {
        add(&self.requests, 1);
        add(&self.checksum_sum, checksum);
        add(&self.service_ns, service_ns);
        for (sum, time) in self.stages.iter().zip(stages.times()) {
            add(&sum.0, time.0);
            add(&sum.1, time.1);
        }
    }
}

/// What does not change while a service runs.
#[derive(Debug, Clone)]
pub struct Shown {
    /// `root` or `leaf`.
    pub role: &'static str,
    /// Which process of how many.
    pub instance: (u32, u32),
    /// The work settings by flag.
    pub work: BTreeMap<String, String>,
    /// Machine code of the hot extractors.
    pub feature_code_bytes: Option<u64>,
    /// Names of the stages.
    pub stages: &'static [&'static str],
}

/// Gathers what a service counts.
#[derive(Debug)]
pub struct Reporter {
    /// What does not change.
    pub shown: Shown,
    /// Its threads.
    pub threads: Arc<Threads>,
    /// Its workers, by number.
    pub workers: Vec<Arc<WorkerCounts>>,
    /// Refused requests by number of their kind.
    pub refused: [AtomicU64; Refusal::KINDS.len()],
    /// What the I/O threads count.
    pub io: Arc<Counts>,
}

impl Reporter {
    fn sum(&self, of: impl Fn(&WorkerCounts) -> u64) -> u64 {
        self.workers
            .iter()
            .fold(0, |sum, worker| sum.wrapping_add(of(worker)))
    }

    /// One line of statistics.
    pub fn record(&self, queue: QueueCounts, backend_depth: Option<u64>) -> RankStats {
        let (cpu_user_ns, cpu_system_ns) = Usage::of_process().times_ns();
        let checksum_sum = self.sum(|worker| worker.checksum_sum.load(Relaxed));
        let stages = self.shown.stages.iter().enumerate();
        RankStats {
            kind: Kind::of::<RankStats>(),
            monotonic_ns: monotonic_ns(),
            role: self.shown.role.to_owned(),
            instance: self.shown.instance.0,
            instances: self.shown.instance.1,
            work: self.shown.work.clone(),
            feature_code_bytes: self.shown.feature_code_bytes,
            requests: self.sum(|worker| worker.requests.load(Relaxed)),
            refused_by_kind: Refusal::KINDS
                .iter()
                .zip(&self.refused)
                .map(|(kind, count)| ((*kind).to_owned(), count.load(Relaxed)))
                .collect(),
            checksum_sum: format!("{checksum_sum:016x}"),
            service_ns_total: self.sum(|worker| worker.service_ns.load(Relaxed)),
            stages: stages
                .map(|(stage, name)| RankStage {
                    name: (*name).to_owned(),
                    wall_ns_total: self.sum(|worker| worker.stages[stage].0.load(Relaxed)),
                    cpu_ns_total: self.sum(|worker| worker.stages[stage].1.load(Relaxed)),
                })
                .collect(),
            queue_depth: queue.depth,
            queue_depth_max: queue.depth_max,
            backend_depth,
            connections: self.io.connections.load(Relaxed),
            connections_total: self.io.connections_total.load(Relaxed),
            closed_malformed: self.io.closed_malformed.load(Relaxed),
            closed_stalled: self.io.closed_stalled.load(Relaxed),
            bytes_read: self.io.bytes_read.load(Relaxed),
            bytes_written: self.io.bytes_written.load(Relaxed),
            threads: self.thread_rows(),
            cpu_user_ns,
            cpu_system_ns,
            rss_bytes: rss_bytes(),
        }
    }

    fn thread_rows(&self) -> Vec<RankThread> {
        let rows = self.threads.rows().into_iter().map(|thread| {
            let cpu = thread.cpu_ns();
            let worker = match (thread.kind, thread.number()) {
                ("worker", Some(number)) => self.workers.get(number),
                _ => None,
            };
            RankThread {
                requests: worker.map(|worker| worker.requests.load(Relaxed)),
                name: thread.name,
                kind: thread.kind.to_owned(),
                cpu_user_ns: cpu.map(|cpu| cpu.0),
                cpu_system_ns: cpu.map(|cpu| cpu.1),
            }
        });
        rows.collect()
    }
}
