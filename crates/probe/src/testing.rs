//! What the tests of the sources share: recorded trees, a clock that is set by hand, and rows as text.

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::rc::Rc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;

use crate::source::{Definition, Source, Tick, Unavailable};
use crate::table::{Column, Table};
use steelyard_kernel::Tree;

/// The rows that `fill` appends to a table of `columns`, cells parted by spaces, nulls as `-`.
pub fn rows(columns: &[Column], fill: impl FnOnce(&mut Table)) -> Vec<String> {
    let mut table = Table::new(columns);
    fill(&mut table);
    table_rows(&mut table)
}

/// The rows of `table`, which is empty afterwards.
pub fn table_rows(table: &mut Table) -> Vec<String> {
    batch_rows(&table.take().expect("the table is consistent"))
}

fn batch_rows(batch: &RecordBatch) -> Vec<String> {
    (0..batch.num_rows())
        .map(|row| {
            let cells: Vec<String> = batch
                .columns()
                .iter()
                .map(|column| cell(column.as_ref(), row))
                .collect();
            cells.join(" ")
        })
        .collect()
}

fn cell(column: &dyn Array, row: usize) -> String {
    if column.is_null(row) {
        return "-".to_owned();
    }
    match column.data_type() {
        DataType::UInt64 => column.as_primitive::<UInt64Type>().value(row).to_string(),
        DataType::Int32 => column.as_primitive::<Int32Type>().value(row).to_string(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Float64 => column.as_primitive::<Float64Type>().value(row).to_string(),
        _ => column.as_string::<i32>().value(row).to_owned(),
    }
}

/// A tree of files in a temporary directory, and a source that reads it at times set by hand.
pub struct Bench {
    directory: tempfile::TempDir,
    now_ns: Rc<Cell<u64>>,
    ticks: u64,
    source: Option<(Box<dyn Source>, Table)>,
}

impl Bench {
    /// A tree of `files`: pairs of path and text.
    pub fn new(files: &[(&str, &str)]) -> Self {
        let bench = Self {
            directory: tempfile::tempdir().expect("a temporary directory"),
            now_ns: Rc::new(Cell::new(1)),
            ticks: 0,
            source: None,
        };
        for (path, text) in files {
            bench.write(path, text);
        }
        bench
    }

    /// The tree.
    pub fn tree(&self) -> Tree {
        Tree::new(self.directory.path())
    }

    /// Writes a file of the tree.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.directory.path().join(path);
        fs::create_dir_all(path.parent().expect("a file has a directory")).expect("a directory");
        fs::write(path, text).expect("a file of the tree");
    }

    /// Removes a file or directory of the tree.
    pub fn remove(&self, path: &str) {
        let path = self.directory.path().join(path);
        if path.is_dir() {
            fs::remove_dir_all(path).expect("a directory of the tree");
        } else {
            fs::remove_file(path).expect("a file of the tree");
        }
    }

    /// Opens the source.
    pub fn open(&mut self, definition: &Definition) -> Result<(), Unavailable> {
        let source = (definition.open)(&Tree::new(self.directory.path()))?;
        let table = Table::new(&source.columns());
        self.source = Some((source, table));
        Ok(())
    }

    /// Why the source cannot be opened, with the tree's own path taken out.
    pub fn refusal(&mut self, definition: &Definition) -> String {
        let refusal = self
            .open(definition)
            .expect_err("the source cannot be opened");
        let root: &Path = self.directory.path();
        refusal.reason.replace(&root.display().to_string(), "")
    }

    /// Lets time pass.
    pub fn pass_seconds(&self, seconds: u64) {
        self.now_ns.set(self.now_ns.get() + seconds * 1_000_000_000);
    }

    /// Reads the source once: its rows, without the time.
    pub fn tick(&mut self) -> Vec<String> {
        self.try_tick().expect("the source can be read")
    }

    /// The same where reading may fail.
    pub fn try_tick(&mut self) -> std::io::Result<Vec<String>> {
        self.read(false)
    }

    /// The last tick.
    pub fn last_tick(&mut self) -> Vec<String> {
        self.read(true).expect("the source can be read")
    }

    fn read(&mut self, last: bool) -> std::io::Result<Vec<String>> {
        let (source, table) = self.source.as_mut().expect("the source was opened");
        let now_ns = Rc::clone(&self.now_ns);
        let clock = move || now_ns.get();
        let tick = Tick {
            number: self.ticks,
            last,
            clock: &clock,
        };
        self.ticks += 1;
        let read = source.read(&tick, table);
        let rows = batch_rows(&table.take().expect("the table is consistent"));
        read.map(|()| {
            rows.iter()
                .map(|row| row.split_once(' ').map_or("", |(_, rest)| rest).to_owned())
                .collect()
        })
    }
}
