//! Records that `perf record -z` compressed: one zstd stream in pieces, cut without regard to records.

use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

/// Bytes that one piece may stand for: `perf` compresses what fits a ring buffer, a hostile file anything.
const MOST_BYTES: usize = 256 << 20;

/// Takes pieces and gives bytes of records.
pub struct Inflater {
    decoder: Decoder<'static>,
    bytes: Vec<u8>,
}

impl Inflater {
    /// At the begin of a stream; None when there is no memory for it.
    pub fn new() -> Option<Self> {
        Some(Self {
            decoder: Decoder::new().ok()?,
            bytes: Vec::new(),
        })
    }

    /// Takes a piece and gives every whole record that it completes: type, misc, body. None when the stream
    /// is damaged.
    pub fn feed(&mut self, piece: &[u8], mut give: impl FnMut(u32, u16, &[u8])) -> Option<()> {
        let mut input = InBuffer::around(piece);
        let mut buffer = vec![0; 1 << 16];
        let mut taken = 0;
        loop {
            let mut output = OutBuffer::around(&mut buffer[..]);
            self.decoder.run(&mut input, &mut output).ok()?;
            let written = output.pos();
            self.bytes.extend_from_slice(&buffer[..written]);
            if self.bytes.len() > MOST_BYTES {
                return None;
            }
            if written < buffer.len() && input.pos() == piece.len() {
                break;
            }
            // Neither taken nor given: a stream that goes nowhere.
            if written == 0 && input.pos() == taken {
                return None;
            }
            taken = input.pos();
        }
        let mut rest = self.bytes.as_slice();
        while let Some((header, _)) = rest.split_first_chunk::<8>() {
            let kind = u32::from_le_bytes(header[..4].try_into().expect("4 bytes"));
            let misc = u16::from_le_bytes(header[4..6].try_into().expect("2 bytes"));
            let size = usize::from(u16::from_le_bytes(header[6..].try_into().expect("2 bytes")));
            if size < 8 {
                return None;
            }
            let Some(record) = rest.get(..size) else {
                break;
            };
            give(kind, misc, &record[8..]);
            rest = &rest[size..];
        }
        let kept = rest.len();
        self.bytes.drain(..self.bytes.len() - kept);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_found_across_pieces() {
        let record = |kind: u32, length: usize| {
            let mut bytes = kind.to_le_bytes().to_vec();
            bytes.extend([0, 0]);
            bytes.extend((8 + length as u16).to_le_bytes());
            bytes.resize(8 + length, kind as u8);
            bytes
        };
        let plain: Vec<u8> = (1..200)
            .flat_map(|kind| record(kind, 300 * kind as usize % 7000))
            .collect();
        let packed = zstd::encode_all(plain.as_slice(), 1).unwrap();
        let mut inflater = Inflater::new().unwrap();
        let mut kinds = Vec::new();
        for piece in packed.chunks(100) {
            let give = |kind, _: u16, body: &[u8]| {
                assert!(body.iter().all(|&byte| byte == kind as u8));
                kinds.push(kind);
            };
            inflater.feed(piece, give).unwrap();
        }
        assert_eq!(kinds, (1..200).collect::<Vec<_>>());
        assert!(inflater.feed(&[0xff; 50], |_, _, _| {}).is_none());
    }
}
