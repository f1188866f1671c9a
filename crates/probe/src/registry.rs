//! The list of all sources: which there are, and which can be read here.

use std::collections::BTreeMap;

use steelyard_kernel::Tree;

use crate::error::ProbeError;
use crate::source::{Availability, Definition};
use crate::{counters, sources};

/// All sources, in the order in which they are read.
pub fn definitions() -> &'static [Definition] {
    sources::ALL
}

/// The source that records nothing but what a plan names.
const COUNTERS: &str = counters::DEFINITION.name;

/// The definitions of `names`, or all of them but the counters, which a plan asks for.
pub fn select(names: Option<&[String]>) -> Result<Vec<&'static Definition>, ProbeError> {
    let settled = |known: &&Definition| known.name != COUNTERS;
    let Some(names) = names else {
        return Ok(definitions().iter().filter(settled).collect());
    };
    if let Some(name) = names
        .iter()
        .find(|name| definitions().iter().all(|known| known.name != **name))
    {
        return Err(ProbeError::UnknownSource {
            name: name.clone(),
            known: definitions()
                .iter()
                .map(|known| known.name)
                .collect::<Vec<_>>()
                .join(", "),
        });
    }
    if names.iter().any(|name| name == COUNTERS) {
        return Err(ProbeError::Unsettled {
            name: COUNTERS.to_owned(),
        });
    }
    Ok(definitions()
        .iter()
        .filter(|known| names.iter().any(|name| name == known.name))
        .collect())
}

/// What of every source can be read in `tree`.
pub fn survey(tree: &Tree) -> Vec<Availability> {
    definitions()
        .iter()
        .map(|definition| match (definition.open)(tree) {
            Ok(source) => Availability {
                definition,
                columns: source.columns(),
                missing: source.missing(),
                missing_items: source.missing_items(),
                notes: source.notes(),
                unavailable: None,
            },
            Err(unavailable) => Availability {
                definition,
                columns: definition.columns.to_vec(),
                missing: Vec::new(),
                missing_items: BTreeMap::new(),
                notes: Vec::new(),
                unavailable: Some(unavailable),
            },
        })
        .collect()
}
