//! A source's rows between two flushes, in columns.
//!
//! In: one row at a time, cell by cell in the order of the columns. Out: Arrow record batches.
//!
//! Invariants: every column has as many cells as there are rows; a row left unfinished is filled with nulls.
//! The buffers are Arrow's own builders, so that a flush copies nothing and a tick allocates only when a
//! buffer doubles.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::{
    ArrayBuilder, Float64Builder, Int32Builder, Int64Builder, StringBuilder, UInt64Builder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use steelyard_record::ColumnKind;

/// How a column's values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// Counters and sizes.
    U64,
    /// Numbers of CPUs and nodes.
    I32,
    /// Values that may be negative, such as temperatures.
    I64,
    /// Fractions.
    F64,
    /// Names.
    Text,
}

/// One column of a source's table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Name, with its unit where it has one.
    pub name: Cow<'static, str>,
    /// How the values are stored.
    pub data_type: Type,
    /// What the values are.
    pub kind: ColumnKind,
    /// Unit, `1` for a plain number, None for a label.
    pub unit: Option<&'static str>,
    /// What the values mean and where they come from.
    pub about: Cow<'static, str>,
}

impl Column {
    /// The first column of every table.
    pub const TIME: Self = Self::gauge("time_ns", "ns", "CLOCK_MONOTONIC just before the read")
        .of_kind(ColumnKind::Time);

    /// A count since some moment.
    pub const fn counter(name: &'static str, unit: &'static str, about: &'static str) -> Self {
        Self::gauge(name, unit, about).of_kind(ColumnKind::Counter)
    }

    /// A value at that moment.
    pub const fn gauge(name: &'static str, unit: &'static str, about: &'static str) -> Self {
        Self {
            name: Cow::Borrowed(name),
            data_type: Type::U64,
            kind: ColumnKind::Gauge,
            unit: Some(unit),
            about: Cow::Borrowed(about),
        }
    }

    /// A name that distinguishes the rows of one tick.
    pub const fn label(name: &'static str, about: &'static str) -> Self {
        Self {
            name: Cow::Borrowed(name),
            data_type: Type::Text,
            kind: ColumnKind::Label,
            unit: None,
            about: Cow::Borrowed(about),
        }
    }

    /// A number that distinguishes the rows of one tick.
    pub const fn index(name: &'static str, about: &'static str) -> Self {
        Self::label(name, about).of_type(Type::I32)
    }

    /// A word that was read at that moment: a gauge without figures.
    pub const fn reading(name: &'static str, about: &'static str) -> Self {
        let mut column = Self::label(name, about);
        column.kind = ColumnKind::Gauge;
        column
    }

    /// The same column, stored otherwise.
    #[must_use]
    pub const fn of_type(mut self, data_type: Type) -> Self {
        self.data_type = data_type;
        self
    }

    /// The same column, where its numbers distinguish the rows of one tick.
    pub const fn label_too(mut self) -> Self {
        self.unit = None;
        self.of_kind(ColumnKind::Label)
    }

    const fn of_kind(mut self, kind: ColumnKind) -> Self {
        self.kind = kind;
        self
    }

    fn field(&self) -> Field {
        let data_type = match self.data_type {
            Type::U64 => DataType::UInt64,
            Type::I32 => DataType::Int32,
            Type::I64 => DataType::Int64,
            Type::F64 => DataType::Float64,
            Type::Text => DataType::Utf8,
        };
        let mut metadata = HashMap::from([
            ("kind".to_owned(), kind_name(self.kind).to_owned()),
            ("about".to_owned(), self.about.to_string()),
        ]);
        if let Some(unit) = self.unit {
            metadata.insert("unit".to_owned(), unit.to_owned());
        }
        Field::new(self.name.as_ref(), data_type, self.kind != ColumnKind::Time)
            .with_metadata(metadata)
    }
}

/// The word for `kind` in files.
pub fn kind_name(kind: ColumnKind) -> &'static str {
    match kind {
        ColumnKind::Time => "time",
        ColumnKind::Label => "label",
        ColumnKind::Counter => "counter",
        ColumnKind::Gauge => "gauge",
    }
}

#[derive(Debug)]
enum Cells {
    U64(UInt64Builder),
    I32(Int32Builder),
    I64(Int64Builder),
    F64(Float64Builder),
    Text(StringBuilder),
}

impl Cells {
    fn new(data_type: Type) -> Self {
        match data_type {
            Type::U64 => Self::U64(UInt64Builder::new()),
            Type::I32 => Self::I32(Int32Builder::new()),
            Type::I64 => Self::I64(Int64Builder::new()),
            Type::F64 => Self::F64(Float64Builder::new()),
            Type::Text => Self::Text(StringBuilder::new()),
        }
    }

    fn null(&mut self) {
        match self {
            Self::U64(cells) => cells.append_null(),
            Self::I32(cells) => cells.append_null(),
            Self::I64(cells) => cells.append_null(),
            Self::F64(cells) => cells.append_null(),
            Self::Text(cells) => cells.append_null(),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::U64(cells) => Arc::new(cells.finish()),
            Self::I32(cells) => Arc::new(cells.finish()),
            Self::I64(cells) => Arc::new(cells.finish()),
            Self::F64(cells) => Arc::new(cells.finish()),
            Self::Text(cells) => Arc::new(cells.finish()),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::U64(cells) => cells.len() * 8,
            Self::I32(cells) => cells.len() * 4,
            Self::I64(cells) => cells.len() * 8,
            Self::F64(cells) => cells.len() * 8,
            Self::Text(cells) => cells.len() * 4 + cells.values_slice().len(),
        }
    }
}

/// The rows of one source since the last flush.
#[derive(Debug)]
pub struct Table {
    schema: SchemaRef,
    cells: Vec<Cells>,
    rows: usize,
}

impl Table {
    /// A table of `columns` without rows.
    pub fn new(columns: &[Column]) -> Self {
        Self {
            schema: Arc::new(Schema::new(
                columns.iter().map(Column::field).collect::<Vec<_>>(),
            )),
            cells: columns
                .iter()
                .map(|column| Cells::new(column.data_type))
                .collect(),
            rows: 0,
        }
    }

    /// The table's Arrow schema, with the columns' units as field metadata.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Rows since the last flush.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// About how much memory the rows take.
    pub fn bytes(&self) -> usize {
        self.cells.iter().map(Cells::bytes).sum()
    }

    /// Opens a row whose first cell is the time of the read.
    pub fn row(&mut self, time_ns: u64) -> Row<'_> {
        self.rows += 1;
        let mut row = Row {
            cells: self.cells.iter_mut(),
        };
        row.value(Some(time_ns));
        row
    }

    /// The rows as a batch; the table is empty afterwards.
    pub fn take(&mut self) -> Result<RecordBatch, arrow_schema::ArrowError> {
        self.rows = 0;
        RecordBatch::try_new(
            self.schema(),
            self.cells.iter_mut().map(Cells::finish).collect(),
        )
    }
}

/// A row being written; empty cells are null.
pub struct Row<'t> {
    cells: std::slice::IterMut<'t, Cells>,
}

impl Row<'_> {
    fn next(&mut self) -> &mut Cells {
        // More cells than columns is a mistake of the source, which its tests meet at once.
        self.cells
            .next()
            .expect("a row has as many cells as the table has columns")
    }

    /// The next cell, a [`Type::U64`].
    pub fn value(&mut self, value: Option<u64>) -> &mut Self {
        match (self.next(), value) {
            (Cells::U64(cells), Some(value)) => cells.append_value(value),
            (Cells::U64(cells), None) => cells.append_null(),
            (other, _) => unreachable!("a u64 for {other:?}"),
        }
        self
    }

    /// The next cells, each a [`Type::U64`].
    pub fn values(&mut self, values: &[Option<u64>]) -> &mut Self {
        for value in values {
            self.value(*value);
        }
        self
    }

    /// The next cell, a [`Type::I32`].
    pub fn index(&mut self, value: Option<i32>) -> &mut Self {
        match self.next() {
            Cells::I32(cells) => cells.append_option(value),
            other => unreachable!("an i32 for {other:?}"),
        }
        self
    }

    /// The next cell, a [`Type::I64`].
    pub fn signed(&mut self, value: Option<i64>) -> &mut Self {
        match self.next() {
            Cells::I64(cells) => cells.append_option(value),
            other => unreachable!("an i64 for {other:?}"),
        }
        self
    }

    /// The next cell, a [`Type::F64`].
    pub fn float(&mut self, value: Option<f64>) -> &mut Self {
        match self.next() {
            Cells::F64(cells) => cells.append_option(value),
            other => unreachable!("an f64 for {other:?}"),
        }
        self
    }

    /// The next cell, a [`Type::Text`] that may be missing.
    pub fn optional_text(&mut self, value: Option<&[u8]>) -> &mut Self {
        match value {
            Some(value) => self.text(value),
            None => {
                self.next().null();
                self
            }
        }
    }

    /// The next cell, a [`Type::Text`]; bytes that are no UTF-8 are replaced.
    pub fn text(&mut self, value: &[u8]) -> &mut Self {
        match self.next() {
            Cells::Text(cells) => match std::str::from_utf8(value) {
                Ok(text) => cells.append_value(text),
                Err(_) => cells.append_value(String::from_utf8_lossy(value)),
            },
            other => unreachable!("text for {other:?}"),
        }
        self
    }
}

impl Drop for Row<'_> {
    fn drop(&mut self) {
        for cells in self.cells.by_ref() {
            cells.null();
        }
    }
}
