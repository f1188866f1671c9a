//! A finished stream as a Parquet file, batch by batch, so that memory stays small whatever the length.

use std::fs::{self, File};
use std::path::Path;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_schema::{DataType, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use crate::ProbeError;
use crate::stream::{Batches, source_name};

/// Encoded bytes that may wait in memory for the end of their row group.
const ROW_GROUP_BYTES: usize = 4 << 20;

/// What [`convert`] made.
pub struct Converted {
    /// The source's name.
    pub name: String,
    /// Rows in the Parquet file.
    pub rows: u64,
    /// The time in the last row.
    pub last_time_ns: Option<u64>,
    /// What ended the stream before its time.
    pub cut_short: Option<String>,
}

/// Makes `<name>.parquet` beside the stream `<name>.arrows` and removes the stream.
pub fn convert(stream: &Path) -> Result<Converted, ProbeError> {
    let mut batches = Batches::open(stream)?;
    let path = stream.with_extension("parquet");
    let partial = stream.with_extension("parquet.partial");
    let mut converted = Converted {
        name: source_name(stream),
        rows: 0,
        last_time_ns: None,
        cut_short: None,
    };
    let written = write(&mut batches, &partial, &mut converted)
        .and_then(|()| fs::rename(&partial, &path).map_err(ParquetError::from));
    if let Err(source) = written {
        let _ = fs::remove_file(&partial);
        return Err(ProbeError::Parquet { path, source });
    }
    converted.cut_short = batches.cut_short().map(ToString::to_string);
    fs::remove_file(stream).map_err(|source| ProbeError::Write {
        path: stream.to_owned(),
        source,
    })?;
    Ok(converted)
}

fn write(
    batches: &mut Batches,
    path: &Path,
    converted: &mut Converted,
) -> Result<(), ParquetError> {
    let schema = batches.schema();
    let file = File::create(path)?;
    let mut writer = ArrowWriter::try_new(file, schema.clone(), Some(properties(&schema)))?;
    for batch in batches {
        writer.write(&batch)?;
        converted.rows += batch.num_rows() as u64;
        converted.last_time_ns = last_time_ns(&batch).or(converted.last_time_ns);
        if writer.in_progress_size() > ROW_GROUP_BYTES {
            writer.flush()?;
        }
    }
    writer.into_inner()?.sync_all()?;
    Ok(())
}

/// Counters grow by little from row to row, so the differences are what is stored; names repeat, so a
/// dictionary holds them.
fn properties(schema: &Schema) -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::Chunk);
    for field in schema.fields() {
        let column = ColumnPath::from(field.name().as_str());
        properties = match field.data_type() {
            DataType::Utf8 => properties.set_column_dictionary_enabled(column, true),
            DataType::Float64 => properties,
            _ => properties.set_column_encoding(column, Encoding::DELTA_BINARY_PACKED),
        };
    }
    properties.build()
}

fn last_time_ns(batch: &RecordBatch) -> Option<u64> {
    let times = batch.columns().first()?.as_primitive_opt::<UInt64Type>()?;
    (!times.is_empty()).then(|| times.value(times.len() - 1))
}
