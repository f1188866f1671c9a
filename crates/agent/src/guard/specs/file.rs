//! One Parquet file of the store's table `cpi_specs`, read.
//!
//! In: bytes of a file that another machine wrote. Out: its rows, or why there are none. Columns are found by name; those that
//! the guard does not use are not read, and may be absent or of any type.
//!
//! Invariants: work and memory are bounded by the constants here and in [`super::announced`].

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::{Array, Float64Array, Int64Array, RecordBatch, StringViewArray};
use arrow_schema::{DataType, Field, Schema};
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::ConvertedType;
use parquet::file::metadata::{PageIndexPolicy, ParquetStatisticsPolicy};

use super::announced::{check_footer, check_pages};
use crate::rows::CpiSpec;

/// Largest file that is read: a specification of each of 100,000 jobs has 20 MB.
const BYTES_MAX: usize = 64 << 20;
/// Most rows of a file.
const ROWS_MAX: usize = 2_000_000;
/// Most bytes of text in all rows: a dictionary may have a long text once, for many rows.
const TEXT_BYTES_MAX: usize = 256 << 20;

/// Columns that are read, and their types.
const COLUMNS: [(&str, DataType); 11] = [
    ("job", DataType::Utf8),
    ("platform", DataType::Utf8),
    ("built_unix_s", DataType::Int64),
    ("cpi_source", DataType::Utf8),
    ("samples", DataType::Int64),
    ("tasks", DataType::Int64),
    ("cpu_usage_mean", DataType::Float64),
    ("cpi_mean", DataType::Float64),
    ("cpi_sd", DataType::Float64),
    ("threshold_sigmas", DataType::Float64),
    ("threshold_cpi", DataType::Float64),
];

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
    check_footer(&bytes).map_err(|error| error.to_string())?;
    // Python writes its own types (dictionaries of strings) into the metadata; without it, they are Parquet's.
    let options = ArrowReaderOptions::new()
        .with_skip_arrow_metadata(true)
        .with_page_index_policy(PageIndexPolicy::Skip)
        .with_column_stats_policy(ParquetStatisticsPolicy::SkipAll)
        .with_encoding_stats_policy(ParquetStatisticsPolicy::SkipAll)
        .with_size_stats_policy(ParquetStatisticsPolicy::SkipAll);
    let file =
        ArrowReaderMetadata::load(&bytes, options.clone()).map_err(|error| error.to_string())?;
    let rows = file.metadata().file_metadata().num_rows();
    if usize::try_from(rows).map_or(true, |rows| rows > ROWS_MAX) {
        return Err(format!(
            "{rows} rows is too many for a file of specifications"
        ));
    }
    let columns = columns_of(&file)?;
    check_pages(&bytes, file.metadata(), &columns).map_err(|error| error.to_string())?;
    let options = options.with_schema(with_views(file.schema()));
    let file = ArrowReaderMetadata::try_new(file.metadata().clone(), options)
        .map_err(|error| error.to_string())?;
    let projection = ProjectionMask::leaves(file.parquet_schema(), columns);
    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(bytes, file)
        .with_projection(projection)
        .build()
        .map_err(|error| error.to_string())?;
    let (mut specs, mut text_bytes) = (Vec::new(), 0);
    for batch in reader {
        append(
            &batch.map_err(|error| error.to_string())?,
            &mut specs,
            &mut text_bytes,
        )?;
    }
    Ok(specs)
}

/// The leaves of [`COLUMNS`] in a file's schema, by number.
fn columns_of(file: &ArrowReaderMetadata) -> Result<Vec<usize>, String> {
    let leaves = file.parquet_schema().columns();
    let mut columns = Vec::new();
    for (name, expected) in COLUMNS {
        let mut fields = file.schema().fields().iter();
        let field = fields
            .find(|field| field.name() == name)
            .ok_or_else(|| format!("no column {name}"))?;
        let leaf = leaves.iter().position(|leaf| leaf.path().parts() == [name]);
        let of_type = || format!("column {name} is of type {}", field.data_type());
        let leaf = leaf
            .filter(|_| *field.data_type() == expected)
            .ok_or_else(of_type)?;
        // The library checks that text is UTF-8 only where it has this type, not where it is JSON.
        if expected == DataType::Utf8 && leaves[leaf].converted_type() != ConvertedType::UTF8 {
            return Err(format!("column {name} is not text"));
        }
        columns.push(leaf);
    }
    Ok(columns)
}

/// A schema in which text is not copied for each row that has it.
fn with_views(schema: &Schema) -> Arc<Schema> {
    let fields = schema.fields().iter().map(|field| {
        let is_text = *field.data_type() == DataType::Utf8;
        let is_read = COLUMNS.iter().any(|(name, _)| name == field.name());
        if is_text && is_read {
            Arc::new(Field::clone(field).with_data_type(DataType::Utf8View))
        } else {
            field.clone()
        }
    });
    let fields: Vec<_> = fields.collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn append(
    batch: &RecordBatch,
    specs: &mut Vec<CpiSpec>,
    text_bytes: &mut usize,
) -> Result<(), String> {
    let texts = [
        column::<StringViewArray>(batch, "job")?,
        column::<StringViewArray>(batch, "platform")?,
        column::<StringViewArray>(batch, "cpi_source")?,
    ];
    let [job, platform, source] = texts;
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
    if specs.len() + batch.num_rows() > ROWS_MAX {
        return Err(format!("more than {ROWS_MAX} rows"));
    }
    let lengths = texts.iter().flat_map(|text| text.lengths());
    *text_bytes += lengths.map(|length| length as usize).sum::<usize>();
    if *text_bytes > TEXT_BYTES_MAX {
        return Err(format!("more than {TEXT_BYTES_MAX} bytes of text"));
    }
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

#[cfg(test)]
mod tests {
    use arrow_array::types::Int32Type;
    use arrow_array::{ArrayRef, DictionaryArray, Int32Array, ListArray, StringArray};
    use parquet::basic::{Compression, Encoding, ZstdLevel};
    use parquet::file::metadata::SortingColumn;
    use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};

    use super::*;
    use crate::guard::testing::{spec, specs_batch, specs_file};

    fn specs() -> Vec<CpiSpec> {
        let specs = (0..500).map(|number| CpiSpec {
            built_unix_s: number,
            ..spec(
                &format!("job {}", number % 7),
                1.0 + number as f64,
                0.2,
                2.0,
            )
        });
        specs.collect()
    }

    fn rows() -> RecordBatch {
        specs_batch(&specs(), "")
    }

    /// The rows with another column of this name, or with one more.
    fn with_column(name: &str, values: ArrayRef) -> RecordBatch {
        let rows = specs_batch(&specs(), name);
        let fields = rows.schema();
        let names = fields.fields().iter().map(|field| field.name().clone());
        let columns = names.zip(rows.columns().iter().cloned());
        let added = std::iter::once((name.to_owned(), values));
        RecordBatch::try_from_iter(columns.chain(added)).unwrap()
    }

    #[test]
    fn files_of_this_librarys_writer_are_read_in_all_forms() {
        let build = WriterProperties::builder;
        let zstd = Compression::ZSTD(ZstdLevel::default());
        let sorting = SortingColumn {
            column_idx: 2,
            descending: false,
            nulls_first: false,
        };
        for (form, properties) in [
            ("as it is", build()),
            ("snappy", build().set_compression(Compression::SNAPPY)),
            ("zstd", build().set_compression(zstd)),
            (
                "pages of version 2",
                build()
                    .set_writer_version(WriterVersion::PARQUET_2_0)
                    .set_compression(zstd),
            ),
            ("no dictionary", build().set_dictionary_enabled(false)),
            (
                "row groups and pages",
                build()
                    .set_max_row_group_row_count(Some(60))
                    .set_data_page_row_count_limit(20)
                    .set_write_batch_size(10),
            ),
            (
                "statistics, page index, order, bloom filter",
                build()
                    .set_statistics_enabled(EnabledStatistics::Page)
                    .set_write_page_header_statistics(true)
                    .set_sorting_columns(Some(vec![sorting]))
                    .set_bloom_filter_enabled(true),
            ),
        ] {
            let read = decode(specs_file(&rows(), Some(properties.build())));
            assert_eq!(read.as_ref(), Ok(&specs()), "{form}");
        }
        assert_eq!(
            decode(specs_file(&rows().slice(0, 0), None)),
            Ok(Vec::new())
        );
    }

    #[test]
    fn other_columns_may_be_of_any_type_and_are_not_read() {
        let lists = (0..500).map(|number| Some(vec![Some(number), None]));
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(lists);
        let mut bytes = specs_file(&with_column("labels", Arc::new(lists)), None);
        assert_eq!(decode(bytes.clone()), Ok(specs()));
        // The last column's first page lies before the footer; nothing of it is looked at.
        let file =
            ArrowReaderMetadata::load(&Bytes::from(bytes.clone()), ArrowReaderOptions::new());
        let (start, length) = file
            .unwrap()
            .metadata()
            .row_group(0)
            .column(11)
            .byte_range();
        bytes[start as usize..(start + length) as usize].fill(0xff);
        assert_eq!(decode(bytes), Ok(specs()));
    }

    #[test]
    fn columns_of_another_type_are_named() {
        let doubles = Float64Array::from_iter_values((0..500).map(f64::from));
        let rows = with_column("tasks", Arc::new(doubles));
        assert_eq!(
            decode(specs_file(&rows, None)),
            Err("column tasks is of type Float64".into())
        );
        assert_eq!(
            decode(specs_file(&specs_batch(&specs(), "cpi_sd"), None)),
            Err("no column cpi_sd".into())
        );
    }

    #[test]
    fn all_encodings_are_read_but_one_that_repeats_text() {
        for (column, encoding, read) in [
            ("job", Encoding::DELTA_BYTE_ARRAY, false),
            ("job", Encoding::DELTA_LENGTH_BYTE_ARRAY, true),
            ("built_unix_s", Encoding::DELTA_BINARY_PACKED, true),
            ("cpi_mean", Encoding::BYTE_STREAM_SPLIT, true),
        ] {
            let properties = WriterProperties::builder()
                .set_column_dictionary_enabled(column.into(), false)
                .set_column_encoding(column.into(), encoding);
            let found = decode(specs_file(&rows(), Some(properties.build())));
            let expected = if read {
                Ok(specs())
            } else {
                Err(format!("text in the encoding {encoding} is not read"))
            };
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_long_text_that_many_rows_have_is_not_copied_for_each() {
        let long = "x".repeat(1 << 20);
        let long = StringArray::from_iter_values([long]);
        let long = DictionaryArray::new(Int32Array::from(vec![0; 500]), Arc::new(long));
        let properties = WriterProperties::builder()
            .set_dictionary_page_size_limit(2 << 20)
            .set_statistics_enabled(EnabledStatistics::None);
        let bytes = specs_file(
            &with_column("job", Arc::new(long)),
            Some(properties.build()),
        );
        assert!(bytes.len() < 2 << 20, "the dictionary has it once");
        assert_eq!(
            decode(bytes),
            Err("more than 268435456 bytes of text".into())
        );
    }
}
