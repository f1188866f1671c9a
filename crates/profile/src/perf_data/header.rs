//! How perf.data begins: its magic number, and where its parts are.

use crate::sample::Cursor;

/// What every file begins with.
pub const MAGIC: &[u8; 8] = b"PERFILE2";
/// The same, written by a machine of the other byte order.
pub const MAGIC_SWAPPED: &[u8; 8] = b"2ELIFREP";

/// Size of the header of a stream; a file's is longer.
pub const STREAM_HEADER_BYTES: u64 = 16;

/// A part of the file.
#[derive(Debug, Clone, Copy)]
pub struct Section {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
}

/// Reads the place of a part.
pub fn section(cursor: &mut Cursor<'_>) -> Option<Section> {
    Some(Section {
        offset: cursor.u64()?,
        size: cursor.u64()?,
    })
}

/// What a file begins with.
pub struct Header {
    /// Bytes of one attribute with its ids.
    pub attribute_bytes: u64,
    /// All attributes.
    pub attributes: Section,
    /// The records.
    pub data: Section,
    /// Which sections about the recording there are.
    pub features: [u64; 4],
}

/// Reads the header of a file; None when it is cut off.
pub fn parse_header(bytes: &[u8]) -> Option<Header> {
    let mut cursor = Cursor::new(bytes);
    cursor.skip(16)?;
    let attribute_bytes = cursor.u64()?;
    let attributes = section(&mut cursor)?;
    let data = section(&mut cursor)?;
    let _event_types = section(&mut cursor)?;
    let mut features = [0; 4];
    for word in &mut features {
        *word = cursor.u64()?;
    }
    Some(Header {
        attribute_bytes,
        attributes,
        data,
        features,
    })
}

/// The size of the header that follows the magic number.
pub fn check_start(start: &[u8]) -> Result<u64, String> {
    if start.starts_with(MAGIC_SWAPPED) {
        return Err("it was recorded on a machine of the other byte order".to_owned());
    }
    if !start.starts_with(MAGIC) {
        return Err("it does not begin with PERFILE2".to_owned());
    }
    let mut cursor = Cursor::new(&start[8..]);
    cursor
        .u64()
        .ok_or_else(|| "its header is cut off".to_owned())
}
