//! Where files go: a fleet's store, in a folder or behind S3's interface.
//!
//! In: a URL, files with their keys. Out: the store holds each whole, or says why it does not.
//!
//! Invariants: a file is there under its key only when it is whole and safe; nothing is written into a place that does
//! not say that it is a store, since a folder whose disk is not mounted looks like an empty one.
//!
//! Not here: retrying (`spool`), reading tables.

mod credentials;
mod directory;
pub mod http;
pub mod s3;

use serde::Deserialize;

pub use self::directory::Directory;
use crate::disk;
use crate::table::{FIRST_MAJOR, SCHEMA_VERSION};

/// The file that makes a place a store.
pub const MARKER: &str = "steelyard-store.json";

/// What is wrong with a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A URL that names none.
    #[error("{url}: {reason}")]
    Url {
        /// The URL.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The place does not say that it is a store.
    #[error("{url} is no store: it has no {MARKER}")]
    NoStore {
        /// The URL.
        url: String,
    },
    /// A store of another version, or something else altogether.
    #[error("{url}/{MARKER}: {reason}")]
    Marker {
        /// The URL.
        url: String,
        /// What is wrong.
        reason: String,
    },
    /// A file that cannot be written or read.
    #[error("{place}: {reason}")]
    Access {
        /// The file.
        place: String,
        /// What the system or the server said.
        reason: String,
    },
}

impl StoreError {
    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Url { .. } => Some("name a folder, or s3://BUCKET/PREFIX"),
            Self::NoStore { .. } => Some("--create-store makes it one; is its disk mounted?"),
            Self::Marker { .. } => {
                Some("the store was made by another version of Steelyard, or is none")
            }
            Self::Access { .. } => None,
        }
    }
}

/// A place for files.
pub trait Store {
    /// What the user calls it.
    fn url(&self) -> &str;
    /// Puts a file there; it is safe when this returns. One of the same key is replaced.
    fn put(&mut self, key: &str, bytes: &[u8]) -> Result<(), StoreError>;
    /// A file's content; None when there is none.
    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, StoreError>;
}

/// The store that `url` names. It is not asked for yet.
pub fn open(url: &str) -> Result<Box<dyn Store + Send>, StoreError> {
    if let Some(rest) = url.strip_prefix("s3://") {
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(_, value)| !value.is_empty());
        return Ok(Box::new(s3::S3::new(url, rest, environment.collect())?));
    }
    let path = url.strip_prefix("file://").unwrap_or(url);
    if url.contains("://") && !url.starts_with("file://") {
        return Err(StoreError::Url {
            url: url.to_owned(),
            reason: "no store is reached by this scheme".to_owned(),
        });
    }
    if path.is_empty() {
        return Err(StoreError::Url {
            url: url.to_owned(),
            reason: "no folder is named".to_owned(),
        });
    }
    // Names are made safe folder by folder, up to the one above the store: a relative path need not have one.
    let folder = std::path::absolute(path).map_err(|error| StoreError::Url {
        url: url.to_owned(),
        reason: error.to_string(),
    })?;
    Ok(Box::new(Directory::new(&folder, disk::Live)))
}

#[derive(Deserialize)]
struct Marker {
    kind: String,
    schema_version: String,
}

/// Whether the place says that it is a store of a version that is known; `create` makes it one where it says nothing.
pub fn check(store: &mut dyn Store, create: bool) -> Result<(), StoreError> {
    let url = store.url().to_owned();
    let Some(text) = store.get(MARKER)? else {
        if !create {
            return Err(StoreError::NoStore { url });
        }
        let text = format!(
            "{{\"schema_version\": \"{}\", \"kind\": \"steelyard-store\"}}\n",
            SCHEMA_VERSION
        );
        return store.put(MARKER, text.as_bytes());
    };
    let refuse = |reason: String| StoreError::Marker {
        url: url.clone(),
        reason,
    };
    let marker: Marker =
        serde_json::from_slice(&text).map_err(|error| refuse(error.to_string()))?;
    if marker.kind != "steelyard-store" {
        return Err(refuse(format!("its kind is {:?}", marker.kind)));
    }
    let major = |version: &str| version.split('.').next()?.parse::<u32>().ok();
    let known = FIRST_MAJOR..=major(SCHEMA_VERSION).unwrap_or(FIRST_MAJOR);
    if !major(&marker.schema_version).is_some_and(|version| known.contains(&version)) {
        return Err(refuse(format!(
            "version {} is not known",
            marker.schema_version
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_of_known_versions_take_files() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Directory::new(folder.path(), disk::Live);
        for (version, known) in [("1.0", true), ("2.7", true), ("3.0", false), ("x", false)] {
            let text =
                format!("{{\"schema_version\": \"{version}\", \"kind\": \"steelyard-store\"}}");
            store.put(MARKER, text.as_bytes()).unwrap();
            assert_eq!(check(&mut store, false).is_ok(), known, "{version}");
        }
    }
}
