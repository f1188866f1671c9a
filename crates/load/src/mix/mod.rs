//! Mixes: which operations a load is made of, and what each of them sends in a protocol.
//!
//! In: a mix file (TOML, `docs/reference/mix.md`), the name of a shipped one, or the flags of a load without
//! either. Out: a [`Mix`] for one protocol. Invariants: a file is checked whole, in every protocol that it
//! speaks, before anything is sent; a protocol that cannot do one of its operations is refused. Not here:
//! drawing from a mix (`workload`) and the bytes on the wire (`codec`).

mod file;
mod operation;
mod shipped;
mod template;
mod text;

pub use file::MixFile;
pub(crate) use file::check_weights;
pub use operation::{Effect, Operation};
pub use shipped::{SHIPPED, Shipped};
pub use template::{
    CqlTemplate, HttpTemplate, MEMCACHED_COMMANDS, Template, ThriftArgument, ThriftExpectation,
    ThriftTemplate, ThriftValue,
};
pub use text::{PLACEHOLDERS, Piece, Text};

use crate::protocol::Protocol;
use crate::{LoadError, Sizes};

/// The keys and values that a mix asks for; what it leaves open is up to the flags.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MixKeys {
    /// Number of keys at the start.
    pub count: Option<u64>,
    /// Which keys are asked for, as `--key-distribution` takes it.
    pub distribution: Option<String>,
    /// Sizes of keys.
    pub key_sizes: Option<Sizes>,
    /// Sizes of values.
    pub value_sizes: Option<Sizes>,
}

/// What a CQL server needs before the load.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CqlSetup {
    /// Statements run once, in order, before anything is prepared.
    pub setup: Vec<String>,
    /// Name of the level of consistency that is asked for; None: what drivers ask for.
    pub consistency: Option<String>,
}

/// A mix for one protocol.
#[derive(Debug, Clone, PartialEq)]
pub struct Mix {
    /// As records name it.
    pub name: String,
    /// Its protocol.
    pub protocol: Protocol,
    /// Keys and values.
    pub keys: MixKeys,
    /// Index of the operation that brings a key into the server before the load.
    pub prefill: Option<usize>,
    /// What is sent; never empty, and one of them has a weight above 0.
    pub operations: Vec<Operation>,
    /// For CQL.
    pub cql: CqlSetup,
}

impl Mix {
    /// Reads of keys, of which `set_ratio` (0 to 1) store instead.
    pub fn of_gets_and_sets(protocol: Protocol, set_ratio: f64) -> Result<Self, LoadError> {
        if !(0.0..=1.0).contains(&set_ratio) {
            let why = format!("{set_ratio} is not between 0 and 1");
            return Err(LoadError::setting("--set-ratio", why));
        }
        let words = |words: &[&str]| {
            let texts: Result<Vec<Text>, String> = words.iter().map(|w| Text::parse(w)).collect();
            // The words below are templates that parse.
            texts.unwrap_or_default()
        };
        let (get, set) = match protocol {
            Protocol::Memcached => (
                Template::Memcached(words(&["get", "{key}"])),
                Template::Memcached(words(&["set", "{key}", "{value}"])),
            ),
            Protocol::Redis => (
                Template::Redis(words(&["GET", "{key}"])),
                Template::Redis(words(&["SET", "{key}", "{value}"])),
            ),
            Protocol::Http | Protocol::Thrift | Protocol::Cql => {
                return Err(LoadError::setting(
                    "--mix",
                    format!("{} has no gets and sets: name a mix", protocol.name()),
                ));
            }
        };
        let operations = vec![
            Operation::new("get", Effect::Read, 1.0 - set_ratio, vec![get]),
            Operation::new("set", Effect::Write, set_ratio, vec![set]),
        ];
        Ok(Self {
            name: "get-set".to_owned(),
            protocol,
            keys: MixKeys::default(),
            prefill: Some(1),
            operations,
            cql: CqlSetup::default(),
        })
    }

    /// HTTP requests for one path, which may hold placeholders.
    pub fn of_path(path: &str) -> Result<Self, LoadError> {
        let get = HttpTemplate::get(path).map_err(|why| LoadError::setting("--path", why))?;
        Ok(Self {
            name: "path".to_owned(),
            protocol: Protocol::Http,
            keys: MixKeys::default(),
            prefill: None,
            operations: vec![Operation::new(
                "get",
                Effect::Call,
                1.0,
                vec![Template::Http(get)],
            )],
            cql: CqlSetup::default(),
        })
    }

    /// Every template of an operation that is ever sent.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        let sent = |(index, operation): &(usize, &Operation)| {
            operation.weight > 0.0 || self.prefill == Some(*index)
        };
        let all = self.operations.iter().enumerate().filter(sent);
        all.flat_map(|(_, operation)| &operation.steps)
    }
}

#[cfg(test)]
mod tests;
