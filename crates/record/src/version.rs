//! Which record a text is, and whether this program may read it.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::RecordError;

/// A record that stands in a file of its own.
pub trait Record: Serialize + DeserializeOwned {
    /// The word in the record's `kind` field.
    const KIND: &'static str;
    /// The major version this program reads and writes: readers of one major version ignore fields
    /// they do not know, so that a minor version may add some.
    const MAJOR: u32 = 1;
    /// The `schema_version` this program writes.
    const VERSION: &'static str = "1.0";
}

/// The two fields that every record opens with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kind {
    /// `major.minor` of the record's schema.
    pub schema_version: String,
    /// Which record this is.
    pub kind: String,
}

impl Kind {
    /// The opening fields of a record written by this program.
    pub fn of<R: Record>() -> Self {
        Self {
            schema_version: R::VERSION.to_owned(),
            kind: R::KIND.to_owned(),
        }
    }
}

/// Refuses a record of another kind or of a major version this program does not know.
pub fn check_version<R: Record>(kind: &Kind, path: &Path) -> Result<(), RecordError> {
    if kind.kind != R::KIND {
        return Err(RecordError::Kind {
            path: path.to_owned(),
            found: kind.kind.clone(),
            expected: R::KIND,
        });
    }
    let major = kind
        .schema_version
        .split_once('.')
        .and_then(|(major, minor)| minor.parse::<u32>().ok().and(major.parse::<u32>().ok()));
    if major != Some(R::MAJOR) {
        return Err(RecordError::Version {
            path: path.to_owned(),
            kind: R::KIND,
            found: kind.schema_version.clone(),
            supported: R::MAJOR,
        });
    }
    Ok(())
}
