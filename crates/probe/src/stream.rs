//! The file a source appends to while it is recorded: an Arrow IPC stream.
//!
//! A stream has no footer, so whatever was written is readable up to its last whole batch however the probe
//! ended; pyarrow (`pyarrow.ipc.open_stream`) and other Arrow libraries read it as it is. [`recover`] makes
//! the Parquet files that a killed recording could not make.
//!
//! Invariant: after a failed write the file is cut back to its last whole batch.

use std::fs::File;
use std::io::{self, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_ipc::MetadataVersion;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_schema::{ArrowError, SchemaRef};
use steelyard_record::Telemetry;

use crate::ProbeError;
use crate::parquet_file;

/// Ending of a stream's name.
pub const EXTENSION: &str = "arrows";

/// A stream being written.
pub struct Stream {
    path: PathBuf,
    file: File,
    /// Encodes into memory, so that a batch reaches the file in one write.
    writer: StreamWriter<Vec<u8>>,
    /// Length up to the last whole batch.
    whole_bytes: u64,
}

impl Stream {
    /// Creates the file with its schema.
    pub fn create(path: PathBuf, schema: &SchemaRef) -> Result<Self, ProbeError> {
        let arrow = |source| ProbeError::Arrow {
            path: path.clone(),
            source,
        };
        let file = File::create(&path).map_err(|source| ProbeError::Output {
            path: path.clone(),
            source,
        })?;
        // Batches of a few rows are the rule: padding each buffer to 64 bytes would double the file.
        let options = IpcWriteOptions::try_new(8, false, MetadataVersion::V5).map_err(arrow)?;
        let writer =
            StreamWriter::try_new_with_options(Vec::new(), schema, options).map_err(arrow)?;
        let mut stream = Self {
            path,
            file,
            writer,
            whole_bytes: 0,
        };
        stream.flush()?;
        Ok(stream)
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a batch.
    pub fn append(&mut self, batch: &RecordBatch) -> Result<(), ProbeError> {
        self.writer
            .write(batch)
            .map_err(|source| ProbeError::Arrow {
                path: self.path.clone(),
                source,
            })?;
        self.flush()
    }

    /// Marks the end of the stream.
    pub fn finish(&mut self) -> Result<(), ProbeError> {
        self.writer.finish().map_err(|source| ProbeError::Arrow {
            path: self.path.clone(),
            source,
        })?;
        self.flush()
    }

    fn flush(&mut self) -> Result<(), ProbeError> {
        let bytes = self.writer.get_mut();
        let written = self.file.write_all(bytes);
        let length = bytes.len() as u64;
        bytes.clear();
        match written {
            Ok(()) => {
                self.whole_bytes += length;
                Ok(())
            }
            Err(source) => {
                // Cutting needs no space. If even this fails, readers stop at the broken batch all the same.
                let _ = self.file.set_len(self.whole_bytes);
                let _ = self.file.seek(SeekFrom::Start(self.whole_bytes));
                Err(ProbeError::Write {
                    path: self.path.clone(),
                    source,
                })
            }
        }
    }
}

/// The batches of a stream; what follows the last whole one is dropped and reported by [`Batches::cut_short`].
pub struct Batches {
    reader: StreamReader<BufReader<File>>,
    cut_short: Option<ArrowError>,
}

impl Batches {
    /// Opens the stream at `path`.
    pub fn open(path: &Path) -> Result<Self, ProbeError> {
        let arrow = |source| ProbeError::Arrow {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(|error| arrow(ArrowError::from(error)))?;
        Ok(Self {
            reader: StreamReader::try_new(BufReader::new(file), None).map_err(arrow)?,
            cut_short: None,
        })
    }

    /// The stream's schema.
    pub fn schema(&self) -> SchemaRef {
        self.reader.schema()
    }

    /// What ended the stream before its time.
    pub fn cut_short(&self) -> Option<&ArrowError> {
        self.cut_short.as_ref()
    }
}

impl Iterator for Batches {
    type Item = RecordBatch;

    fn next(&mut self) -> Option<RecordBatch> {
        if self.cut_short.is_some() {
            return None;
        }
        match self.reader.next()? {
            Ok(batch) => Some(batch),
            Err(error) => {
                self.cut_short = Some(error);
                None
            }
        }
    }
}

/// What [`recover`] did with one stream.
#[derive(Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The source's name.
    pub name: String,
    /// Rows that are now in its Parquet file.
    pub rows: u64,
    /// What ended the stream before its time.
    pub cut_short: Option<String>,
}

/// Makes Parquet files from the streams that a killed recording left in `directory` and marks the recording
/// as recovered. Streams whose Parquet file is complete are removed.
pub fn recover(directory: &Path) -> Result<Vec<Recovered>, ProbeError> {
    let read_error = |source: io::Error| ProbeError::Output {
        path: directory.to_owned(),
        source,
    };
    let mut streams: Vec<PathBuf> = std::fs::read_dir(directory)
        .map_err(read_error)?
        .collect::<Result<Vec<_>, _>>()
        .map_err(read_error)?
        .into_iter()
        .map(|entry| entry.path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == EXTENSION)
        })
        .collect();
    streams.sort();
    let record_path = directory.join("telemetry.json");
    if streams.is_empty() && !record_path.exists() {
        return Err(ProbeError::NoRecording {
            path: directory.to_owned(),
        });
    }
    let mut recovered = Vec::new();
    let mut last_ns = None;
    for path in streams {
        if let Err(error) = Batches::open(&path) {
            // Killed before the schema was whole: there are no rows, and nothing to make a table of.
            recovered.push(Recovered {
                name: source_name(&path),
                rows: 0,
                cut_short: Some(error.to_string()),
            });
            continue;
        }
        let converted = parquet_file::convert(&path)?;
        last_ns = last_ns.max(converted.last_time_ns);
        recovered.push(Recovered {
            name: converted.name,
            rows: converted.rows,
            cut_short: converted.cut_short,
        });
    }
    if record_path.exists() {
        let mut telemetry: Telemetry = steelyard_record::read(&record_path)?;
        if !telemetry.complete {
            mark_recovered(&mut telemetry, &recovered, last_ns);
            steelyard_record::write_atomically(&telemetry, &record_path)?;
        }
    }
    Ok(recovered)
}

/// The name of the source whose stream is at `path`.
pub fn source_name(path: &Path) -> String {
    path.file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn mark_recovered(telemetry: &mut Telemetry, recovered: &[Recovered], last_ns: Option<u64>) {
    telemetry.end_ns = telemetry.end_ns.max(last_ns);
    telemetry.complete = true;
    let reason = telemetry
        .end_reason
        .take()
        .unwrap_or_else(|| "killed".to_owned());
    telemetry.end_reason = Some(format!("{reason}; recovered"));
    for row in recovered {
        if let Some(source) = telemetry
            .sources
            .iter_mut()
            .find(|source| source.name == row.name)
        {
            source.rows = row.rows;
            source.file = (row.rows > 0).then(|| format!("{}.parquet", row.name));
        }
    }
}
