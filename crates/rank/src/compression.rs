//! Compression of the blobs inside messages.
//!
//! Invariant: unpacking never makes more bytes than were announced, and no more than its bound.

use std::str::FromStr;

/// How a blob is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(i32)]
pub enum Compression {
    /// Not at all.
    #[default]
    None = 0,
    /// Snappy's raw format.
    Snappy = 1,
    /// One Zstd frame.
    Zstd = 2,
}

impl Compression {
    /// By its number in the IDL.
    pub fn from_code(code: i32) -> Option<Self> {
        [Self::None, Self::Snappy, Self::Zstd]
            .into_iter()
            .find(|compression| *compression as i32 == code)
    }

    /// Its word on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Snappy => "snappy",
            Self::Zstd => "zstd",
        }
    }
}

impl FromStr for Compression {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::None, Self::Snappy, Self::Zstd]
            .into_iter()
            .find(|compression| compression.name() == text)
            .ok_or_else(|| format!("{text:?} is not none, snappy or zstd"))
    }
}

/// Packs and unpacks; keeps the contexts that this needs.
pub struct Packer {
    zstd: zstd::bulk::Compressor<'static>,
    unzstd: zstd::bulk::Decompressor<'static>,
    snappy: snap::raw::Encoder,
    unsnappy: snap::raw::Decoder,
}

/// Zstd's own default: what a service uses that has not thought about it.
const ZSTD_LEVEL: i32 = 3;

impl Packer {
    /// A packer.
    pub fn new() -> Self {
        Self {
            zstd: zstd::bulk::Compressor::new(ZSTD_LEVEL).expect("memory for a Zstd context"),
            unzstd: zstd::bulk::Decompressor::new().expect("memory for a Zstd context"),
            snappy: snap::raw::Encoder::new(),
            unsnappy: snap::raw::Decoder::new(),
        }
    }

    /// The bytes compressed.
    pub fn pack(&mut self, compression: Compression, bytes: &[u8]) -> Vec<u8> {
        match compression {
            Compression::None => bytes.to_vec(),
            Compression::Snappy => self
                .snappy
                .compress_vec(bytes)
                .expect("Snappy takes up to 4 GiB"),
            Compression::Zstd => self
                .zstd
                .compress(bytes)
                .expect("Zstd takes any bytes into a buffer of its bound"),
        }
    }

    /// The `length` bytes that were compressed to `packed`; None when they were not.
    pub fn unpack(
        &mut self,
        compression: Compression,
        packed: &[u8],
        length: usize,
    ) -> Option<Vec<u8>> {
        let bytes = match compression {
            Compression::None => packed.to_vec(),
            Compression::Snappy => {
                if snap::raw::decompress_len(packed).ok()? != length {
                    return None;
                }
                self.unsnappy.decompress_vec(packed).ok()?
            }
            Compression::Zstd => self.unzstd.decompress(packed, length).ok()?,
        };
        (bytes.len() == length).then_some(bytes)
    }
}

impl Default for Packer {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [Compression; 3] = [Compression::None, Compression::Snappy, Compression::Zstd];

    #[test]
    fn a_wrong_length_is_refused() {
        let mut packer = Packer::new();
        let bytes = b"story ".repeat(100);
        for compression in ALL {
            let packed = packer.pack(compression, &bytes);
            assert_eq!(
                packer.unpack(compression, &packed, 600).as_deref(),
                Some(&bytes[..])
            );
            assert_eq!(packer.unpack(compression, &packed, 599), None);
            assert_eq!(packer.unpack(compression, &packed, 601), None);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_come_back(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            let mut packer = Packer::new();
            for compression in ALL {
                let packed = packer.pack(compression, &bytes);
                let unpacked = packer.unpack(compression, &packed, bytes.len());
                prop_assert_eq!(unpacked.as_deref(), Some(&bytes[..]));
            }
        }

        #[test]
        fn any_packed_bytes_are_unpacked_or_refused(
            packed in proptest::collection::vec(any::<u8>(), 0..200), length in 0usize..4096,
        ) {
            let mut packer = Packer::new();
            for compression in ALL {
                if let Some(bytes) = packer.unpack(compression, &packed, length) {
                    prop_assert_eq!(bytes.len(), length);
                }
            }
        }
    }
}
