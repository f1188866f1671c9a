//! The interval log of a load of several processes.
//!
//! In: rows of all processes. Out: the same file as one process writes. Not here: its format ([`crate::runner::hlog`]).

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use hdrhistogram::serialization::V2DeflateSerializer;
use steelyard_record::Clock;

use crate::LoadError;
use crate::control::Interval;
use crate::runner::file_error;
use crate::runner::hlog::{HlogWriter, begin_hlog, write_interval};

/// A log that is being written.
pub struct Log<'a> {
    path: &'a Path,
    clock: Clock,
    writer: HlogWriter<'a>,
}

impl<'a> Log<'a> {
    /// Writes what the log at `path` opens with; its times count from `clock`.
    pub fn begin(
        file: &'a mut BufWriter<File>,
        serializer: &'a mut V2DeflateSerializer,
        path: &'a Path,
        clock: Clock,
    ) -> Result<Self, LoadError> {
        let writer = begin_hlog(file, serializer, path, clock)?;
        Ok(Self {
            path,
            clock,
            writer,
        })
    }

    /// Writes one row.
    pub fn write(&mut self, row: &Interval) -> Result<(), LoadError> {
        write_interval(&mut self.writer, row, self.clock, &mut || ())
            .map_err(|source| file_error(self.path, source))
    }
}
