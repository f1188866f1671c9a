//! One Parquet file of the store's table `cpi_specs`, read.
//!
//! In: bytes of a file that another machine wrote. Out: its rows, or why there are none. Columns are found by name; those that
//! the guard does not use may be absent or of any type.

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_array::{Array, Float64Array, Int64Array, RecordBatch, StringArray};
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};

use crate::rows::CpiSpec;

/// Largest file that is read: a specification of each of 100,000 jobs has 20 MB.
const BYTES_MAX: usize = 64 << 20;
/// Most rows of a file.
const ROWS_MAX: usize = 2_000_000;

/// The rows of a file.
pub fn decode(bytes: Vec<u8>) -> Result<Vec<CpiSpec>, String> {
    if bytes.len() > BYTES_MAX {
        return Err(format!(
            "{} bytes is too large for a file of specifications",
            bytes.len()
        ));
    }
    // The library reads what other machines wrote; a panic of it must not end the agent.
    catch_unwind(AssertUnwindSafe(|| decode_trusting(bytes.into())))
        .unwrap_or_else(|_| Err("malformed Parquet".into()))
}

fn decode_trusting(bytes: Bytes) -> Result<Vec<CpiSpec>, String> {
    // Python writes its own types (dictionaries of strings) into the metadata; without it, they are Parquet's.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(bytes, options)
        .map_err(|error| error.to_string())?;
    let rows = builder.metadata().file_metadata().num_rows();
    if usize::try_from(rows).map_or(true, |rows| rows > ROWS_MAX) {
        return Err(format!(
            "{rows} rows is too many for a file of specifications"
        ));
    }
    let reader = builder.build().map_err(|error| error.to_string())?;
    let mut specs = Vec::new();
    for batch in reader {
        append(&batch.map_err(|error| error.to_string())?, &mut specs)?;
    }
    Ok(specs)
}

fn append(batch: &RecordBatch, specs: &mut Vec<CpiSpec>) -> Result<(), String> {
    let (job, platform, source) = (
        column::<StringArray>(batch, "job")?,
        column::<StringArray>(batch, "platform")?,
        column::<StringArray>(batch, "cpi_source")?,
    );
    let (built, samples, tasks) = (
        column::<Int64Array>(batch, "built_unix_s")?,
        column::<Int64Array>(batch, "samples")?,
        column::<Int64Array>(batch, "tasks")?,
    );
    let (usage, mean, deviation) = (
        column::<Float64Array>(batch, "cpu_usage_mean")?,
        column::<Float64Array>(batch, "cpi_mean")?,
        column::<Float64Array>(batch, "cpi_sd")?,
    );
    let (sigmas, limit) = (
        column::<Float64Array>(batch, "threshold_sigmas")?,
        column::<Float64Array>(batch, "threshold_cpi")?,
    );
    for row in 0..batch.num_rows() {
        specs.push(CpiSpec {
            job: job.value(row).to_owned(),
            platform: platform.value(row).to_owned(),
            built_unix_s: built.value(row),
            cpi_source: source.value(row).to_owned(),
            samples: samples.value(row),
            tasks: tasks.value(row),
            cpu_usage_mean: usage.value(row),
            cpi_mean: mean.value(row),
            cpi_sd: deviation.value(row),
            // The guard judges by the threshold; the distribution's shape is for queries.
            gev_shape: None,
            gev_location: None,
            gev_scale: None,
            threshold_sigmas: sigmas.value(row),
            threshold_cpi: limit.value(row),
        });
    }
    Ok(())
}

/// A column without missing values.
fn column<'b, A: Array + 'static>(batch: &'b RecordBatch, name: &str) -> Result<&'b A, String> {
    let column = batch
        .column_by_name(name)
        .ok_or_else(|| format!("no column {name}"))?;
    if column.null_count() > 0 {
        return Err(format!("column {name} has missing values"));
    }
    column
        .as_any()
        .downcast_ref()
        .ok_or_else(|| format!("column {name} is of type {}", column.data_type()))
}
