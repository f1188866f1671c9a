//! Pages of columns, by their headers.

use std::ops::Range;

use bytes::Bytes;
use parquet::basic::Type as Physical;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use steelyard_thrift::Reader;

use super::lengths::check_lengths;
use super::structures::{
    DATA_PAGE_ENCODING, DATA_PAGE_HEADER, DATA_PAGE_HEADER_V2, DATA_PAGE_V2_ENCODING,
    DICTIONARY_PAGE_ENCODING, DICTIONARY_PAGE_HEADER, PAGE_COMPRESSED, PAGE_HEADER, PAGE_TYPE,
    PAGE_UNCOMPRESSED, PAGE_VALUES, Structure,
};
use super::walk::{Event, walk};
use super::{AnnouncedError, metadata_range, within};

/// Most uncompressed bytes of all pages.
const UNCOMPRESSED_BYTES_MAX: i64 = 512 << 20;
/// Most values of a dictionary.
const DICTIONARY_VALUES_MAX: i64 = 2_000_000;

/// Types of pages.
const DATA_PAGE: i64 = 0;
const INDEX_PAGE: i64 = 1;
const DICTIONARY_PAGE: i64 = 2;
const DATA_PAGE_V2: i64 = 3;
/// Encodings of text. The second gives each text the beginning of the one before: a page may repeat it without bound.
const DELTA_LENGTH_BYTE_ARRAY: i64 = 6;
const DELTA_BYTE_ARRAY: i64 = 7;

/// Checks the pages of those columns of the file `bytes` that are read: leaves of its schema, by number, without nesting.
///
/// # Errors
/// Why the library may not read them.
pub fn check_pages(
    bytes: &Bytes,
    metadata: &ParquetMetaData,
    columns: &[usize],
) -> Result<(), AnnouncedError> {
    let end = metadata_range(bytes)?.start;
    let (mut rows, mut ranges) = (0_i64, Vec::new());
    for group in metadata.row_groups() {
        within("rows of a row group", group.num_rows(), 0, i64::MAX)?;
        rows = rows.saturating_add(group.num_rows());
        for &column in columns {
            ranges.push(range_of(group.column(column), end)?);
        }
    }
    if rows != metadata.file_metadata().num_rows() {
        return Err(AnnouncedError::Contradiction(
            "row groups with other rows than the file",
        ));
    }
    check_apart(ranges.clone())?;
    let mut ranges = ranges.into_iter();
    let mut uncompressed = 0;
    for group in metadata.row_groups() {
        for (&column, range) in columns.iter().zip(&mut ranges) {
            let mut pages = Pages {
                chunk: group.column(column),
                rows: group.num_rows(),
                values: 0,
                has_dictionary: false,
                has_lengths: false,
            };
            pages.check(&bytes[range], &mut uncompressed)?;
            if pages.has_lengths {
                check_lengths(bytes, pages.chunk, pages.rows)?;
            }
        }
    }
    Ok(())
}

/// The bytes of a chunk, which lie before the metadata at `end`.
fn range_of(chunk: &ColumnChunkMetaData, end: usize) -> Result<Range<usize>, AnnouncedError> {
    let first = chunk.dictionary_page_offset();
    let start = first.unwrap_or_else(|| chunk.data_page_offset());
    within("offset of a column", start, 0, end as i64)?;
    let left = end as i64 - start;
    within("bytes of a column", chunk.compressed_size(), 0, left)?;
    let start = start as usize;
    Ok(start..start + chunk.compressed_size() as usize)
}

/// Refuses bytes of two columns: they would be read as often as a column has them.
fn check_apart(mut ranges: Vec<Range<usize>>) -> Result<(), AnnouncedError> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_by_key(|range| range.start);
    if ranges.windows(2).any(|pair| pair[1].start < pair[0].end) {
        return Err(AnnouncedError::Contradiction("columns that overlap"));
    }
    Ok(())
}

/// The pages of one chunk of a column.
struct Pages<'m> {
    chunk: &'m ColumnChunkMetaData,
    rows: i64,
    values: i64,
    has_dictionary: bool,
    /// Whether a page has text in the encoding `DELTA_LENGTH_BYTE_ARRAY`.
    has_lengths: bool,
}

impl Pages<'_> {
    fn check(&mut self, bytes: &[u8], uncompressed: &mut i64) -> Result<(), AnnouncedError> {
        let mut reader = Reader::new(bytes);
        while !reader.rest().is_empty() {
            let page = Page::read(&mut reader)?;
            let rest = reader.rest();
            let compressed = announced(page.compressed)?;
            within("bytes of a page", compressed, 0, rest.len() as i64)?;
            let size = announced(page.uncompressed)?;
            within("uncompressed bytes of a page", size, 0, i64::MAX)?;
            *uncompressed += size;
            within(
                "uncompressed bytes of all pages",
                *uncompressed,
                0,
                UNCOMPRESSED_BYTES_MAX,
            )?;
            self.check_page(&page, size)?;
            reader = Reader::new(&rest[compressed as usize..]);
        }
        Ok(())
    }

    fn check_page(&mut self, page: &Page, size: i64) -> Result<(), AnnouncedError> {
        let is_text = self.chunk.column_type() == Physical::BYTE_ARRAY;
        if page.kind == Some(INDEX_PAGE) {
            return Ok(());
        }
        if page.own.is_none() || page.own != page.kind {
            return Err(AnnouncedError::Contradiction(
                "a page whose header is of another type",
            ));
        }
        let values = announced(page.values)?;
        if page.kind == Some(DICTIONARY_PAGE) {
            if std::mem::replace(&mut self.has_dictionary, true) {
                return Err(AnnouncedError::Contradiction(
                    "a column with two dictionaries",
                ));
            }
            // Numbers take 8 bytes; a text has its length before it, in 4.
            let most = size / if is_text { 4 } else { 8 };
            let most = most.min(DICTIONARY_VALUES_MAX);
            return within("values of a dictionary", values, 0, most);
        }
        let encoding = announced(page.encoding)?;
        if is_text && encoding == DELTA_BYTE_ARRAY {
            return Err(AnnouncedError::Encoding("DELTA_BYTE_ARRAY"));
        }
        self.has_lengths |= is_text && encoding == DELTA_LENGTH_BYTE_ARRAY;
        within("values of a page", values, 0, self.rows - self.values)?;
        self.values += values;
        Ok(())
    }
}

/// What a page's header announces.
#[derive(Debug, Default)]
struct Page {
    kind: Option<i64>,
    uncompressed: Option<i64>,
    compressed: Option<i64>,
    /// The type whose own header there is.
    own: Option<i64>,
    values: Option<i64>,
    encoding: Option<i64>,
}

impl Page {
    fn read(reader: &mut Reader<'_>) -> Result<Self, AnnouncedError> {
        let mut page = Self::default();
        walk(reader, &PAGE_HEADER, &mut |structure, event| {
            page.meet(structure, event)
        })?;
        Ok(page)
    }

    fn meet(&mut self, structure: &'static Structure, event: Event) -> Result<(), AnnouncedError> {
        let (own, encoding) = if structure.is(&PAGE_HEADER) {
            match event {
                Event::Field(PAGE_TYPE, value) => self.kind = Some(value),
                Event::Field(PAGE_UNCOMPRESSED, value) => self.uncompressed = Some(value),
                Event::Field(PAGE_COMPRESSED, value) => self.compressed = Some(value),
                _ => {}
            }
            return Ok(());
        } else if structure.is(&DATA_PAGE_HEADER) {
            (DATA_PAGE, DATA_PAGE_ENCODING)
        } else if structure.is(&DATA_PAGE_HEADER_V2) {
            (DATA_PAGE_V2, DATA_PAGE_V2_ENCODING)
        } else if structure.is(&DICTIONARY_PAGE_HEADER) {
            (DICTIONARY_PAGE, DICTIONARY_PAGE_ENCODING)
        } else {
            return Ok(());
        };
        match event {
            Event::Field(PAGE_VALUES, value) => self.values = Some(value),
            Event::Field(id, value) if id == encoding => self.encoding = Some(value),
            Event::Field(..) => {}
            Event::End if self.own.is_some() => {
                return Err(AnnouncedError::Contradiction("a page with two headers"));
            }
            Event::End => self.own = Some(own),
        }
        Ok(())
    }
}

/// A number that the library refuses to go without.
fn announced(number: Option<i64>) -> Result<i64, AnnouncedError> {
    number.ok_or(AnnouncedError::Contradiction(
        "a page without its type, sizes or values",
    ))
}
