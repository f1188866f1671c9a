//! What the tests of the probe share: a recording in a temporary directory, and its files as plain values.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_ipc::reader::StreamReader;
use arrow_schema::{DataType, SchemaRef};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use steelyard_record::Telemetry;

/// The executable under test.
pub fn probe() -> Command {
    Command::new(env!("CARGO_BIN_EXE_steelyard-probe"))
}

/// Waits until `ready`, and fails after a time no machine needs.
pub fn wait_for(ready: impl Fn() -> bool) {
    let start = Instant::now();
    while !ready() {
        assert!(start.elapsed() < Duration::from_secs(60), "it never came");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Where a recording goes.
pub struct Recording {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

impl Recording {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("telemetry");
        Self {
            _directory: directory,
            path,
        }
    }

    /// A place for a recording inside `path`, which someone else looks after.
    pub fn at(path: PathBuf) -> Self {
        Self {
            path,
            ..Self::new()
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The command `record` with `arguments`.
    pub fn start(&self, arguments: &[&str]) -> Command {
        let mut command = probe();
        command.args(["record", "--out"]).arg(&self.path);
        command.args(arguments);
        command
    }

    /// Records, and fails unless the probe succeeds.
    pub fn run(&self, arguments: &[&str]) {
        let output = self.start(arguments).output().expect("the probe runs");
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {message}");
    }

    pub fn telemetry(&self) -> Telemetry {
        steelyard_record::read(&self.path.join("telemetry.json")).expect("telemetry.json is whole")
    }

    /// The finished table of `source`.
    pub fn parquet(&self, source: &str) -> Rows {
        let path = self.path.join(format!("{source}.parquet"));
        let file = File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let reader = ParquetRecordBatchReaderBuilder::try_new(file)
            .and_then(ParquetRecordBatchReaderBuilder::build)
            .expect("it is Parquet");
        let mut rows = Rows::new(arrow_array::RecordBatchReader::schema(&reader));
        for batch in reader {
            rows.add(&batch.expect("the batch is whole"));
        }
        rows
    }

    /// The stream of `source`, up to its last whole batch, as any Arrow library reads it.
    pub fn stream(&self, source: &str) -> Rows {
        let path = self.path.join(format!("{source}.arrows"));
        let file = File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let reader = StreamReader::try_new(file, None).expect("it is an Arrow stream");
        let mut rows = Rows::new(reader.schema());
        for batch in reader {
            match batch {
                Ok(batch) => rows.add(&batch),
                Err(_) => break,
            }
        }
        rows
    }
}

/// A table's values: numbers by column, labels by column. Nulls are left out.
pub struct Rows {
    pub rows: usize,
    pub names: Vec<String>,
    pub columns: HashMap<String, Vec<u64>>,
    pub labels: HashMap<String, Vec<String>>,
    schema: SchemaRef,
}

impl Rows {
    fn new(schema: SchemaRef) -> Self {
        Self {
            rows: 0,
            names: schema
                .fields()
                .iter()
                .map(|field| field.name().clone())
                .collect(),
            columns: HashMap::new(),
            labels: HashMap::new(),
            schema,
        }
    }

    fn add(&mut self, batch: &RecordBatch) {
        self.rows += batch.num_rows();
        for (name, column) in self.names.iter().zip(batch.columns()) {
            match column.data_type() {
                DataType::UInt64 => self
                    .columns
                    .entry(name.clone())
                    .or_default()
                    .extend(column.as_primitive::<UInt64Type>().iter().flatten()),
                DataType::Int32 => self.columns.entry(name.clone()).or_default().extend(
                    column
                        .as_primitive::<Int32Type>()
                        .iter()
                        .flatten()
                        .map(|value| value as u64),
                ),
                DataType::Utf8 => self.labels.entry(name.clone()).or_default().extend(
                    column
                        .as_string::<i32>()
                        .iter()
                        .flatten()
                        .map(str::to_owned),
                ),
                _ => {}
            }
        }
    }

    /// A field's metadata.
    pub fn field(&self, name: &str, key: &str) -> Option<&str> {
        let field = self
            .schema
            .field_with_name(name)
            .expect("the column is there");
        field.metadata().get(key).map(String::as_str)
    }
}
