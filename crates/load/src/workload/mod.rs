//! What is asked of the server: operations on keys, drawn from a stream.

mod growth;
mod keyspace;
mod popularity;
mod render;
mod zipf;

use std::sync::Arc;

use crate::LoadError;
use crate::mix::{Mix, Operation, Piece, Template, Text};
use crate::protocol::Protocol;
use crate::random::{Random, mix};
use crate::settings::Settings;
use crate::trace::TraceKeys;

pub use growth::Growth;
pub use keyspace::{KEY_BYTES_MAX, Keyspace};
pub use popularity::{LAWS, Popularity};
pub use render::{decimal_digits, write_decimal};
pub use zipf::Zipf;

/// The key of an insert that has not got one yet.
pub const NEW_KEY: u64 = u64::MAX;

/// One request, before any protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Index into the workload's operations.
    pub operation: usize,
    /// Which of the operation's steps.
    pub step: u32,
    /// Distinguishes it from every other request in flight on its connection.
    pub ticket: u32,
    /// With which key; `NEW_KEY` for an insert until it is encoded.
    pub key: u64,
    /// What the numbers that the request draws are a function of; 0 where it draws none.
    pub draw: u64,
}

impl Request {
    /// The first step of an operation on a key, with ticket 0.
    pub fn of(operation: usize, key: u64) -> Self {
        Self {
            operation,
            step: 0,
            ticket: 0,
            key,
            draw: 0,
        }
    }
}

/// A key space with its popularity and its mix of operations.
#[derive(Debug)]
pub struct Workload {
    /// The keys.
    pub keys: Keyspace,
    popularity: Popularity,
    mix: Arc<Mix>,
    /// Upper ends of the operations' shares, the last of them 1.
    shares: Vec<f64>,
    /// Where the mix inserts.
    growth: Option<Growth>,
    /// Where a trace names the keys.
    trace: Option<TraceKeys>,
}

/// Index of the read in a workload of reads and stores.
pub const GET: usize = 0;
/// Index of the store in a workload of reads and stores.
pub const SET: usize = 1;

fn is_printable(text: &Text) -> bool {
    text.pieces().iter().any(|p| matches!(p, Piece::Text(_)))
}

const NUMBER_SALT: u64 = 0x6e75_6d62_6572_6f66;

impl Workload {
    /// The workload that `settings` describe.
    pub fn of(settings: &Settings) -> Result<Self, LoadError> {
        let mix = match &settings.mix {
            Some(mix) => Arc::clone(mix),
            None if settings.protocol == Protocol::Http => Arc::new(Mix::of_path("/")?),
            None => Arc::new(Mix::of_gets_and_sets(
                settings.protocol,
                settings.set_ratio,
            )?),
        };
        let keys = Keyspace::new(
            settings.keys,
            settings.key_sizes.clone(),
            settings.value_sizes.clone(),
            false,
        )?;
        let popularity = Popularity::parse(&settings.key_distribution, settings.keys)?;
        let mut workload = Self::new(keys, popularity, mix)?;
        if let Some(trace) = &settings.trace {
            workload.trace = Some(TraceKeys::new(settings.threads));
            let printable = workload.texts().any(is_printable);
            workload.keys = workload
                .keys
                .with_values(trace.largest_value_bytes, printable);
        }
        Ok(workload)
    }

    /// Every text that is ever sent.
    fn texts(&self) -> impl Iterator<Item = &Text> {
        self.mix.templates().flat_map(Template::texts)
    }

    /// A workload over `keys` of the operations of `mix` in the shares of their weights.
    pub fn new(
        mut keys: Keyspace,
        popularity: Popularity,
        mix: Arc<Mix>,
    ) -> Result<Self, LoadError> {
        let weights = mix.operations.iter().map(|o| (o.name.as_str(), o.weight));
        crate::mix::check_weights(weights).map_err(|why| LoadError::setting("--mix", why))?;
        let sum: f64 = mix.operations.iter().map(|o| o.weight).sum();
        let mut below = 0.0;
        let mut shares: Vec<f64> = mix
            .operations
            .iter()
            .map(|operation| {
                below += operation.weight / sum;
                below
            })
            .collect();
        // Rounding must not leave a gap below 1, and what has no weight is never drawn.
        let last = mix
            .operations
            .iter()
            .rposition(|o| o.weight > 0.0)
            .unwrap_or(0);
        shares[last..].fill(1.0);
        let texts: Vec<&Text> = mix.templates().flat_map(Template::texts).collect();
        if texts.iter().any(|text| text.has_value()) {
            keys = keys.with_values(0, texts.iter().any(|text| is_printable(text)));
        }
        let mut growth = None;
        if mix.operations.iter().any(|o| o.inserts && o.weight > 0.0) {
            keys = keys.growing()?;
            growth = Some(Growth::new(keys.count()));
        }
        Ok(Self {
            keys,
            popularity,
            mix,
            shares,
            growth,
            trace: None,
        })
    }

    /// A workload of reads over memcached, of which `set_ratio` (0 to 1) are stores instead.
    pub fn of_gets_and_sets(
        keys: Keyspace,
        popularity: Popularity,
        set_ratio: f64,
    ) -> Result<Self, LoadError> {
        let mix = Mix::of_gets_and_sets(Protocol::Memcached, set_ratio)?;
        Self::new(keys, popularity, Arc::new(mix))
    }

    /// What the workload is mixed of.
    #[inline]
    pub fn operations(&self) -> &[Operation] {
        &self.mix.operations
    }

    /// The mix.
    pub fn mix(&self) -> &Arc<Mix> {
        &self.mix
    }

    /// The inserted keys, where the mix inserts.
    pub fn growth(&self) -> Option<&Growth> {
        self.growth.as_ref()
    }

    /// The next request of the stream `random`, with ticket 0. Every request takes its values from the stream in the
    /// same order, so that the same seed gives the same requests; only how far inserts have come, and so which
    /// keys there are, depends on the server.
    #[inline]
    pub fn next(&self, random: &mut Random) -> Request {
        let index = if self.shares[0] >= 1.0 {
            0
        } else {
            let point = random.unit();
            // A handful of operations: looking at each in turn is faster than anything clever.
            self.shares
                .iter()
                .position(|&share| point < share)
                .unwrap_or(0)
        };
        let operation = &self.mix.operations[index];
        let key = if operation.inserts {
            NEW_KEY
        } else {
            let present = match &self.growth {
                Some(growth) => growth.present(),
                None => self.keys.count(),
            };
            self.popularity.next(&self.keys, present, random)
        };
        let draw = if operation.draws { random.bits() } else { 0 };
        Request {
            draw,
            ..Request::of(index, key)
        }
    }

    /// Keeps the key of a trace's request; returns its number.
    #[inline]
    pub fn keep_key(&self, thread: u32, text: &[u8], value_bytes: Option<u32>) -> u64 {
        match &self.trace {
            Some(trace) => trace.keep(thread, text, value_bytes),
            None => 0,
        }
    }

    /// The request is over, or never will be sent.
    #[inline]
    pub fn forget(&self, request: &Request) {
        if let Some(trace) = &self.trace {
            trace.forget(request.key);
        }
    }

    /// Size of the text of the request's key, bytes.
    #[inline]
    pub fn key_bytes(&self, request: &Request) -> usize {
        match &self.trace {
            Some(trace) => trace.len(request.key),
            None => self.keys.key_size(request.key),
        }
    }

    /// Appends the text of the request's key.
    #[inline]
    pub fn write_key(&self, request: &Request, out: &mut Vec<u8>) {
        match &self.trace {
            Some(trace) => trace.write(request.key, out),
            None => self.keys.write_key(request.key, out),
        }
    }

    /// Size of the request's value, bytes.
    #[inline]
    pub fn value_bytes(&self, request: &Request) -> usize {
        match &self.trace {
            Some(trace) => {
                let (hash, bytes) = trace.value(request.key);
                bytes.unwrap_or_else(|| self.keys.value_size(hash))
            }
            None => self.keys.value_size(request.key),
        }
    }

    /// What the values of the request's key are a function of.
    #[inline]
    fn key_hash(&self, request: &Request) -> u64 {
        match &self.trace {
            Some(trace) => trace.value(request.key).0,
            None => request.key,
        }
    }

    /// Value number `number` of the request's key: random bytes.
    #[inline]
    pub fn value(&self, request: &Request, number: u32) -> &[u8] {
        if number == 0 && self.trace.is_none() {
            return self.keys.value(request.key);
        }
        let hash = mix(self.key_hash(request) ^ mix(NUMBER_SALT ^ u64::from(number)));
        self.keys.bytes_at(hash, self.value_bytes(request))
    }

    /// Value number `number` of the request's key, of digits and letters only.
    #[inline]
    pub fn text(&self, request: &Request, number: u32) -> &[u8] {
        let hash = mix(self.key_hash(request) ^ mix(NUMBER_SALT ^ u64::from(number)));
        self.keys.printable_at(hash, self.value_bytes(request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sizes;
    use crate::random::Purpose;

    #[test]
    fn the_mix_has_the_asked_share() {
        let keys = Keyspace::new(100, Sizes::fixed(16), Sizes::fixed(10), true).unwrap();
        let workload = Workload::of_gets_and_sets(keys, Popularity::Uniform, 0.1).unwrap();
        let mut random = Purpose::Requests.stream(1, 0);
        let sets = (0..100_000)
            .filter(|_| workload.next(&mut random).operation == SET)
            .count();
        // Binomial: standard deviation 95, four of them allowed.
        assert!((9_620..=10_380).contains(&sets), "{sets}");
    }
}
