//! What a load is to be.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::mix::Mix;
use crate::protocol::{CQL_STREAMS_MAX, Protocol};
use crate::schedule::{Arrival, Share};
use crate::trace::Trace;
use crate::{Addresses, LoadError, Sizes};

/// How a server is to prove who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// File with the certificates of the authorities that are trusted (PEM); None: the system's.
    pub ca: Option<PathBuf>,
    /// Name that the server's certificate must be for, and that the server is asked for (SNI).
    pub name: String,
    /// Whether any certificate is taken, whoever it is from and for.
    pub insecure: bool,
    /// Files with this side's certificates and their key (PEM), for servers that ask for them.
    pub client: Option<(PathBuf, PathBuf)>,
}

/// Text that is not shown: settings are written to logs.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Hides `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Secret")
    }
}

/// Who asks, where a server wants to know.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Name; empty for Redis' default user.
    pub user: String,
    /// Password.
    pub password: String,
}

/// Says who, and never the password: settings are written to logs.
impl std::fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = formatter.debug_struct("Credentials");
        out.field("user", &self.user).finish_non_exhaustive()
    }
}

/// How bytes are to be moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoChoice {
    /// io_uring where the system allows it, else epoll.
    Auto,
    /// io_uring or nothing.
    Uring,
    /// epoll.
    Epoll,
}

/// Everything that shapes a load.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Protocol.
    pub protocol: Protocol,
    /// Server.
    pub target: Addresses,
    /// TLS around the protocol.
    pub tls: Option<Tls>,
    /// Who asks; Redis, HTTP and CQL know what to do with it.
    pub credentials: Option<Credentials>,
    /// What shows who asks, in place of a name: HTTP's bearer token.
    pub token: Option<Secret>,
    /// Number of the database; Redis only.
    pub database: Option<u32>,
    /// Generator threads.
    pub threads: u32,
    /// Connections over all threads.
    pub connections: u32,
    /// Requests in flight per connection at most.
    pub depth: u32,
    /// Offered rate over all threads; None is a closed loop, or an arrival that brings its rate.
    pub rate_per_s: Option<f64>,
    /// How requests arrive in an open loop.
    pub arrival: Arrival,
    /// Length of the warm-up, ns; with `hold` its minimum.
    pub warmup_ns: u64,
    /// Length of the measure phase, ns.
    pub duration_ns: u64,
    /// How long answers are awaited at the end, ns.
    pub drain_ns: u64,
    /// How long an answer may take from the send of its request, ns; None is for ever.
    pub timeout_ns: Option<u64>,
    /// Length of an interval of the series, ns.
    pub interval_ns: u64,
    /// Seed of every random choice.
    pub seed: u64,
    /// What is sent; None is reads and stores by `set_ratio`, or GET / for HTTP.
    pub mix: Option<Arc<Mix>>,
    /// The name of the mix, if the user named one.
    pub named_mix: Option<String>,
    /// Requests with their own times, instead of drawn ones.
    pub trace: Option<Arc<Trace>>,
    /// Number of keys.
    pub keys: u64,
    /// One of `LAWS`.
    pub key_distribution: String,
    /// Sizes of keys.
    pub key_sizes: Sizes,
    /// Sizes of values.
    pub value_sizes: Sizes,
    /// Share of requests that store, 0 to 1.
    pub set_ratio: f64,
    /// Index of the operation that every key is asked for with before the load.
    pub prefill: Option<usize>,
    /// CPUs to run on; thread i gets the i-th, beginning again after the last. Empty: anywhere.
    pub cpus: Vec<usize>,
    /// Pins the calling thread.
    pub pin: fn(&[usize]) -> io::Result<()>,
    /// How bytes are moved.
    pub io: IoChoice,
    /// Whether the measure phase waits for a line `measure` on the control input.
    pub hold: bool,
    /// Most requests waiting or in flight, over all threads.
    pub max_outstanding: u64,
    /// Which of the arrivals are this process's.
    pub turn: Turn,
}

/// A process's place among those that take the arrivals of one schedule in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// Its number, from 0.
    pub process: u32,
    /// How many there are.
    pub processes: u32,
}

impl Turn {
    /// A process that takes every arrival.
    pub const ALONE: Self = Self {
        process: 0,
        processes: 1,
    };

    /// The share of thread number `thread` of this process's `threads`: every `processes`-th arrival is the
    /// process's, and of these every `threads`-th the thread's.
    pub fn share(self, thread: u32, threads: u32) -> Share {
        Share {
            thread: thread * self.processes + self.process,
            threads: threads * self.processes,
        }
    }
}

impl Settings {
    /// The mean rate that an open loop is to offer in the measure phase, per second; None in a closed loop.
    pub fn offers_per_s(&self) -> Option<f64> {
        match &self.trace {
            Some(trace) => Some(trace.mean_rate_per_s()),
            None => self.arrival.mean_rate_per_s().or(self.rate_per_s),
        }
    }

    /// The length of the warm-up, ns; `u64::MAX` where an order ends it.
    pub fn known_warmup_ns(&self) -> u64 {
        if self.hold { u64::MAX } else { self.warmup_ns }
    }

    /// Refuses what cannot be run.
    pub fn check(&self) -> Result<(), LoadError> {
        let wrong = |name, why: &str| Err(LoadError::setting(name, why.to_owned()));
        if self.threads == 0 || self.threads > 4096 {
            return wrong("--threads", "must be between 1 and 4096");
        }
        if self.connections < self.threads {
            return wrong("--connections", "must be at least the number of threads");
        }
        if self.connections > 1_000_000 {
            return wrong("--connections", "must be at most 1000000");
        }
        if self.depth == 0 || self.depth > 65_536 {
            return wrong("--depth", "must be between 1 and 65536");
        }
        if self.protocol == Protocol::Cql && self.depth > CQL_STREAMS_MAX {
            return wrong("--depth", "must be at most 32768 in CQL");
        }
        if self
            .rate_per_s
            .is_some_and(|rate| !(rate.is_finite() && rate > 0.0 && rate <= 1e9))
        {
            return wrong("--rate", "must be above 0 and at most 1e9 per second");
        }
        if self.rate_per_s.is_some() && self.arrival.mean_rate_per_s().is_some() {
            return wrong(
                "--rate",
                "needs a constant or Poisson arrival; the others define their rate",
            );
        }
        if self.duration_ns == 0 {
            return wrong("--duration", "must be above 0");
        }
        if self.interval_ns < 10_000_000 {
            return wrong("--interval", "must be at least 10ms");
        }
        if self.max_outstanding < u64::from(self.threads) {
            return wrong(
                "--max-outstanding",
                "must be at least the number of threads",
            );
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::Address;

    /// A load of one thread and one connection, closed loop, of one second.
    pub fn settings() -> Settings {
        Settings {
            protocol: Protocol::Memcached,
            target: Address::from(SocketAddr::from(([127, 0, 0, 1], 11_211))).into(),
            tls: None,
            credentials: None,
            token: None,
            database: None,
            threads: 1,
            connections: 1,
            depth: 1,
            rate_per_s: None,
            arrival: Arrival::Poisson,
            warmup_ns: 0,
            duration_ns: 1_000_000_000,
            drain_ns: 0,
            timeout_ns: None,
            interval_ns: 1_000_000_000,
            seed: 1,
            mix: None,
            named_mix: None,
            trace: None,
            keys: 1,
            key_distribution: "uniform".to_owned(),
            key_sizes: Sizes::fixed(16),
            value_sizes: Sizes::fixed(16),
            set_ratio: 0.0,
            prefill: None,
            cpus: Vec::new(),
            pin: |_| Ok(()),
            io: IoChoice::Auto,
            hold: false,
            max_outstanding: 1,
            turn: Turn::ALONE,
        }
    }
}
