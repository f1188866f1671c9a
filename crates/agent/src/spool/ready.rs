//! A file that waits for the store, by its name.

use crate::table::{Table, key};

/// What a waiting file's name says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready {
    /// Its batch; the order of batches is that of their beginnings.
    pub id: String,
    /// Its table.
    pub table: Table,
    /// UTC day of its windows.
    pub date: String,
    /// The cluster, percent-encoded.
    pub cluster: String,
    /// Its name in the store.
    pub name: String,
}

impl Ready {
    /// The file's name in the spool. No part holds a comma: names from outside are percent-encoded.
    pub fn file_name(&self) -> String {
        let Self {
            id,
            table,
            date,
            cluster,
            name,
        } = self;
        format!("{id},{table},{date},{cluster},{name}")
    }

    /// What a name says; None when it is no waiting file's.
    pub fn parse(file_name: &str) -> Option<Self> {
        let mut parts = file_name.split(',');
        let mut next = || parts.next().filter(|part| !part.is_empty());
        let ready = Self {
            id: next()?.to_owned(),
            table: Table::named(next()?)?,
            date: next()?.to_owned(),
            cluster: next()?.to_owned(),
            name: next()?.to_owned(),
        };
        (parts.next().is_none() && ready.name.ends_with(".parquet")).then_some(ready)
    }

    /// Its path below the store.
    pub fn key(&self) -> String {
        key(self.table, &self.date, &self.cluster, &self.name)
    }
}
