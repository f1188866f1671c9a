//! Text in the encoding `DELTA_LENGTH_BYTE_ARRAY`: the lengths of all texts, then their bytes.
//!
//! Within a page stands how many lengths follow, and the library makes room for as many at once. Lengths that are alike take no
//! bytes, so that no number is too large for its page.

use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::Encoding;
use parquet::column::page::Page;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::serialized_reader::SerializedPageReader;

use super::{AnnouncedError, within};

/// Checks the pages of a chunk whose headers are checked, and whose values are not nested.
pub fn check_lengths(
    file: &Bytes,
    chunk: &ColumnChunkMetaData,
    rows: i64,
) -> Result<(), AnnouncedError> {
    let broken = |error: parquet::errors::ParquetError| AnnouncedError::Page(error.to_string());
    let pages = SerializedPageReader::new(Arc::new(file.clone()), chunk, rows as usize, None);
    for page in pages.map_err(broken)? {
        let page = page.map_err(broken)?;
        if page.encoding() != Encoding::DELTA_LENGTH_BYTE_ARRAY {
            continue;
        }
        let (bytes, levels) = match &page {
            Page::DataPage {
                buf,
                def_level_encoding: Encoding::RLE,
                ..
            } if chunk.column_descr().max_def_level() > 0 => (buf, length_of_levels(buf)),
            Page::DataPageV2 {
                buf,
                def_levels_byte_len,
                rep_levels_byte_len,
                ..
            } => (
                buf,
                Some(*def_levels_byte_len as usize + *rep_levels_byte_len as usize),
            ),
            Page::DataPage { buf, .. } if chunk.column_descr().max_def_level() == 0 => {
                (buf, Some(0))
            }
            _ => return Err(AnnouncedError::Contradiction("levels of an old encoding")),
        };
        let count = levels.and_then(|levels| count_of(bytes.get(levels..)?));
        let count = count.ok_or(AnnouncedError::Contradiction("a page that is cut short"))?;
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        within("lengths of texts", count, 0, i64::from(page.num_values()))?;
    }
    Ok(())
}

/// Bytes of the levels in a page of version 1, with their length before them.
fn length_of_levels(page: &[u8]) -> Option<usize> {
    let (length, _) = page.split_first_chunk()?;
    (u32::from_le_bytes(*length) as usize).checked_add(4)
}

/// The third of the numbers that lengths begin with.
fn count_of(mut lengths: &[u8]) -> Option<u64> {
    let mut number = 0;
    for _ in 0..3 {
        let end = lengths.iter().take(10).position(|byte| *byte < 0x80)?;
        let (bytes, rest) = lengths.split_at(end + 1);
        // More than 64 bits are refused: the library would cut or misread them.
        number = bytes.iter().rev().try_fold(0_u64, |number, byte| {
            let shifted = number.checked_mul(0x80)?;
            shifted.checked_add(u64::from(byte & 0x7f))
        })?;
        lengths = rest;
    }
    Some(number)
}
