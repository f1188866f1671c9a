//! What the server says of itself: the protocol's `stats` command, and lines of `cache_stats` records.
//!
//! Not here: counting. Every number comes from the threads' counters, the store, or /proc/self.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use steelyard_kernel::usage::{Usage, rss_bytes};
use steelyard_record::{CacheStats, CacheThread, Kind, monotonic_ns};
use steelyard_serve::Threads;

use crate::clock;
use crate::counters::{COUNT, Counter, Counters};
use crate::protocol;
use crate::server::Kicks;
use crate::slow::{SlowCounts, SlowQueue};
use crate::store::Store;

/// Settings that the stats command repeats.
#[derive(Debug, Clone)]
pub struct Shown {
    /// Port.
    pub port: u16,
    /// Most connections.
    pub max_connections: usize,
    /// Fast threads.
    pub fast_threads: usize,
    /// Slow threads.
    pub slow_threads: usize,
    /// `read-through` or `look-aside`.
    pub mode: &'static str,
    /// `uring` or `epoll`.
    pub io: &'static str,
}

/// Gathers what the server counts.
#[derive(Debug)]
pub struct Reporter {
    fast: Vec<Arc<Counters>>,
    /// Its threads.
    pub threads: Arc<Threads>,
    shown: Shown,
    /// The counts at the last `stats reset`. Only the stats command starts over: records never run backwards.
    reset: Mutex<[u64; COUNT]>,
    /// Open connections.
    pub connections: AtomicU64,
    /// Connections ever accepted.
    pub connections_total: AtomicU64,
    /// Connections refused for their number.
    pub connections_refused: AtomicU64,
    /// Connections closed for what they held.
    pub kicks: Kicks,
}

fn text(out: &mut Vec<u8>, name: &str, value: impl std::fmt::Display) {
    out.extend_from_slice(format!("STAT {name} {value}\r\n").as_bytes());
}

impl Reporter {
    /// A reporter over the counters of the fast threads, and the register of all.
    pub fn new(fast: Vec<Arc<Counters>>, shown: Shown, threads: Threads) -> Self {
        Self {
            fast,
            threads: Arc::new(threads),
            reset: Mutex::new([0; COUNT]),
            shown,
            connections: AtomicU64::new(0),
            connections_total: AtomicU64::new(0),
            connections_refused: AtomicU64::new(0),
            kicks: Kicks::default(),
        }
    }

    fn sum(&self, counter: Counter) -> u64 {
        self.fast.iter().map(|counters| counters.get(counter)).sum()
    }

    /// The count since the last `stats reset`.
    fn since_reset(&self, counter: Counter) -> u64 {
        let reset = self.reset.lock().unwrap_or_else(PoisonError::into_inner);
        self.sum(counter).saturating_sub(reset[counter as usize])
    }

    /// The answer to `stats` with the arguments `what`.
    pub fn stats(&self, what: &[u8], store: &Store, slow: Option<&SlowQueue>) -> Vec<u8> {
        let mut out = Vec::new();
        match what.trim_ascii() {
            b"" => self.general(&mut out, store, slow),
            b"settings" => self.settings(&mut out, store),
            b"items" => {
                // One class holds everything: the store has no size classes.
                let counts = store.counts();
                if counts.items > 0 {
                    text(&mut out, "items:1:number", counts.items);
                    text(&mut out, "items:1:evicted", counts.evictions);
                    text(&mut out, "items:1:reclaimed", counts.reclaimed);
                    text(&mut out, "items:1:mem_requested", counts.live_bytes);
                }
            }
            b"slabs" => {
                let counts = store.counts();
                text(&mut out, "active_slabs", store.shard_count());
                text(
                    &mut out,
                    "total_malloced",
                    counts.live_bytes + counts.index_bytes,
                );
            }
            b"sizes" => text(&mut out, "sizes_status", "disabled"),
            b"reset" => {
                let counts = Counter::ALL.map(|counter| self.sum(counter));
                *self.reset.lock().unwrap_or_else(PoisonError::into_inner) = counts;
                return b"RESET\r\n".to_vec();
            }
            _ => return protocol::ERROR.to_vec(),
        }
        out.extend_from_slice(b"END\r\n");
        out
    }

    #[expect(
        clippy::too_many_lines,
        reason = "a table: one line for each of memcached's statistics"
    )]
    fn general(&self, out: &mut Vec<u8>, store: &Store, slow: Option<&SlowQueue>) {
        let (user_ns, system_ns) = Usage::of_process().times_ns();
        let micros = |ns: u64| format!("{}.{:06}", ns / 1_000_000_000, ns / 1000 % 1_000_000);
        text(out, "pid", std::process::id());
        text(out, "uptime", u64::from(clock::now_s()).saturating_sub(2));
        text(out, "time", clock::epoch_s() + i64::from(clock::now_s()));
        text(out, "version", protocol::VERSION);
        text(out, "pointer_size", usize::BITS);
        text(out, "rusage_user", micros(user_ns));
        text(out, "rusage_system", micros(system_ns));
        text(out, "max_connections", self.shown.max_connections);
        text(out, "curr_connections", self.connections.load(Relaxed));
        text(
            out,
            "total_connections",
            self.connections_total.load(Relaxed),
        );
        text(
            out,
            "rejected_connections",
            self.connections_refused.load(Relaxed),
        );
        text(out, "idle_kicks", self.kicks.idle.load(Relaxed));
        text(out, "memory_kicks", self.kicks.memory.load(Relaxed));
        for (name, counter) in [
            ("cmd_get", Counter::Gets),
            ("cmd_set", Counter::Sets),
            ("cmd_flush", Counter::Flushes),
            ("cmd_touch", Counter::Touches),
            ("get_hits", Counter::GetHits),
            ("get_misses", Counter::GetMisses),
            ("delete_misses", Counter::DeleteMisses),
            ("delete_hits", Counter::DeleteHits),
            ("incr_misses", Counter::IncrMisses),
            ("incr_hits", Counter::IncrHits),
            ("decr_misses", Counter::DecrMisses),
            ("decr_hits", Counter::DecrHits),
            ("cas_misses", Counter::CasMisses),
            ("cas_hits", Counter::CasHits),
            ("cas_badval", Counter::CasBadValues),
            ("touch_hits", Counter::TouchHits),
            ("touch_misses", Counter::TouchMisses),
            ("store_too_large", Counter::TooLarge),
            ("bytes_read", Counter::BytesRead),
            ("bytes_written", Counter::BytesWritten),
        ] {
            text(out, name, self.since_reset(counter));
        }
        let counts = store.counts();
        text(out, "limit_maxbytes", store.limit_bytes());
        text(out, "threads", self.shown.fast_threads);
        text(out, "bytes", counts.live_bytes);
        text(out, "curr_items", counts.items);
        text(out, "total_items", counts.total_items);
        text(out, "evictions", counts.evictions);
        text(out, "reclaimed", counts.reclaimed);
        let slow = slow.map(SlowQueue::counts).unwrap_or_default();
        text(out, "mode", self.shown.mode);
        text(out, "requests", self.since_reset(Counter::Requests));
        text(out, "errors", self.since_reset(Counter::Errors));
        text(
            out,
            "fast_requests",
            self.since_reset(Counter::FastRequests),
        );
        text(
            out,
            "slow_requests",
            self.since_reset(Counter::SlowRequests),
        );
        text(out, "slow_threads", self.shown.slow_threads);
        text(out, "slow_queue_depth", slow.depth);
        text(out, "slow_queue_depth_max", slow.depth_max);
        text(out, "slow_wait_us", slow.wait_ns_total / 1000);
        text(out, "slow_wait_us_max", slow.wait_ns_max / 1000);
        text(out, "slow_service_us", slow.service_ns_total / 1000);
        text(out, "index_bytes", counts.index_bytes);
        text(out, "stored_bytes", counts.live_bytes + counts.index_bytes);
        text(out, "payload_bytes", counts.payload_bytes);
    }

    fn settings(&self, out: &mut Vec<u8>, store: &Store) {
        text(out, "maxbytes", store.limit_bytes());
        text(out, "maxconns", self.shown.max_connections);
        text(out, "tcpport", self.shown.port);
        text(out, "udpport", 0);
        text(out, "evictions", "on");
        text(out, "num_threads", self.shown.fast_threads);
        text(out, "slow_threads", self.shown.slow_threads);
        text(out, "cas_enabled", "yes");
        text(out, "item_size_max", store.max_value_bytes());
        text(out, "maxconns_fast", "yes");
        text(out, "flush_enabled", "yes");
        text(out, "binding_protocol", "ascii");
        text(out, "mode", self.shown.mode);
        text(out, "io", self.shown.io);
        text(out, "shards", store.shard_count());
    }

    /// One line of statistics.
    pub fn record(&self, store: &Store, slow: Option<&SlowQueue>) -> CacheStats {
        let counts = store.counts();
        let slow_counts: SlowCounts = slow.map(SlowQueue::counts).unwrap_or_default();
        let (cpu_user_ns, cpu_system_ns) = Usage::of_process().times_ns();
        CacheStats {
            kind: Kind::of::<CacheStats>(),
            monotonic_ns: monotonic_ns(),
            requests: self.sum(Counter::Requests),
            fast_requests: self.sum(Counter::FastRequests),
            slow_requests: self.sum(Counter::SlowRequests),
            get_hits: self.sum(Counter::GetHits),
            get_misses: self.sum(Counter::GetMisses),
            sets: self.sum(Counter::Sets),
            evictions: counts.evictions,
            items: counts.items,
            stored_bytes: counts.live_bytes + counts.index_bytes,
            memory_limit_bytes: store.limit_bytes(),
            connections: self.connections.load(Relaxed),
            bytes_read: self.sum(Counter::BytesRead),
            bytes_written: self.sum(Counter::BytesWritten),
            errors: self.sum(Counter::Errors),
            slow_queue_depth: slow_counts.depth,
            slow_queue_depth_max: slow_counts.depth_max,
            slow_wait_ns_total: slow_counts.wait_ns_total,
            slow_wait_ns_max: slow_counts.wait_ns_max,
            slow_service_ns_total: slow_counts.service_ns_total,
            threads: self.thread_rows(slow),
            cpu_user_ns,
            cpu_system_ns,
            rss_bytes: rss_bytes(),
        }
    }

    fn thread_rows(&self, slow: Option<&SlowQueue>) -> Vec<CacheThread> {
        self.threads
            .rows()
            .into_iter()
            .map(|thread| {
                let cpu = thread.cpu_ns();
                let requests = match (thread.kind, thread.number(), slow) {
                    ("fast", Some(number), _) => self.fast[number].get(Counter::Requests),
                    (_, Some(number), Some(slow)) => slow.served(number),
                    _ => 0,
                };
                CacheThread {
                    name: thread.name,
                    kind: thread.kind.to_owned(),
                    requests,
                    cpu_user_ns: cpu.map(|cpu| cpu.0),
                    cpu_system_ns: cpu.map(|cpu| cpu.1),
                }
            })
            .collect()
    }
}
