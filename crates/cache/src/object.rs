//! What the backend of the read-through cache holds: for every key an object that is a pure function of the
//! key and the seed, of a size from the distribution and as compressible as was asked for.
//!
//! A stored object of 32 bytes or more is `[raw length u32][block length u32][LZ4 block][zeros]`, little
//! endian, exactly as long as the distribution says; a shorter one is not worth compressing and is raw. So
//! the sizes on the wire are those of the file, and the compression was really done.

use steelyard_statistics::Random;

use crate::sizes::Sizes;
use crate::store::hash;

/// Client flags of an object that holds an LZ4 block.
pub const COMPRESSED_FLAG: u32 = 1;
const HEAD_BYTES: usize = 8;
const LEAST_COMPRESSED_BYTES: usize = 32;
/// Random bytes and their repetition come in pieces of this size.
const PIECE_BYTES: usize = 256;
/// An LZ4 sequence costs this much besides its literals: token, offset, and lengths above 15.
const SEQUENCE_BYTES: f64 = 5.0;

/// Makes objects.
#[derive(Debug, Clone)]
pub struct Objects {
    sizes: Sizes,
    /// Compressed over raw size, 0 to 1.
    compressibility: f64,
    seed: u64,
}

/// Room that a slow thread uses again for each object.
#[derive(Debug, Default)]
pub struct Room {
    raw: Vec<u8>,
    /// The object as it is stored.
    pub value: Vec<u8>,
}

impl Objects {
    /// Objects of these sizes, compressible to `compressibility` times their raw size.
    pub fn new(sizes: Sizes, compressibility: f64, seed: u64) -> Self {
        Self {
            sizes,
            compressibility,
            seed,
        }
    }

    /// The largest size.
    pub fn largest_bytes(&self) -> usize {
        self.sizes.largest_bytes()
    }

    /// Length of the stored object of `key`.
    pub fn size(&self, key: &[u8]) -> usize {
        self.sizes.at(self.stream(key, 0).unit())
    }

    fn stream(&self, key: &[u8], purpose: u64) -> Random {
        Random::new(
            hash(key) ^ self.seed.rotate_left(32) ^ purpose.wrapping_mul(0xd6e8_feb8_6659_fd93),
        )
    }

    /// Synthesises and compresses the object of `key` into `room.value`; returns its client flags.
    pub fn make(&self, key: &[u8], room: &mut Room) -> u32 {
        let size = self.size(key);
        let mut random = self.stream(key, 1);
        room.value.clear();
        if size < LEAST_COMPRESSED_BYTES {
            room.value.resize(size, 0);
            random.fill(&mut room.value);
            return 0;
        }
        // Aimed a little low: what the block leaves is filled up, what is too long must be made again.
        let mut aim = (size - HEAD_BYTES) as f64 * 0.985;
        loop {
            let raw_bytes = ((aim / self.compressibility) as usize).max(1);
            self.synthesise(raw_bytes, &mut random.clone(), &mut room.raw);
            room.value.resize(
                HEAD_BYTES + lz4_flex::block::get_maximum_output_size(raw_bytes),
                0,
            );
            let block_bytes =
                lz4_flex::block::compress_into(&room.raw, &mut room.value[HEAD_BYTES..])
                    .expect("the room is as large as any block of this input");
            if HEAD_BYTES + block_bytes <= size {
                room.value[..4].copy_from_slice(&(raw_bytes as u32).to_le_bytes());
                room.value[4..HEAD_BYTES].copy_from_slice(&(block_bytes as u32).to_le_bytes());
                room.value.resize(size, 0);
                room.value[HEAD_BYTES + block_bytes..].fill(0);
                return COMPRESSED_FLAG;
            }
            aim *= 0.97 * (size - HEAD_BYTES) as f64 / block_bytes as f64;
        }
    }

    fn synthesise(&self, raw_bytes: usize, random: &mut Random, raw: &mut Vec<u8>) {
        raw.clear();
        raw.resize(raw_bytes, 0);
        let literals = self.compressibility * PIECE_BYTES as f64 - SEQUENCE_BYTES;
        let literals = (literals.max(1.0) as usize).min(PIECE_BYTES);
        for piece in raw.chunks_mut(PIECE_BYTES) {
            let fresh = if self.compressibility >= 1.0 {
                piece.len()
            } else {
                literals.min(piece.len())
            };
            random.fill(&mut piece[..fresh]);
            let filler = piece[fresh - 1];
            piece[fresh..].fill(filler);
        }
    }
}

/// The raw bytes of a stored object, `None` when it does not hold together.
pub fn unpack(value: &[u8], flags: u32) -> Option<Vec<u8>> {
    if flags & COMPRESSED_FLAG == 0 {
        return Some(value.to_vec());
    }
    let number = |at: usize| {
        let bytes = value.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_le_bytes(bytes) as usize)
    };
    let (raw_bytes, block_bytes) = (number(0)?, number(4)?);
    let block = value.get(HEAD_BYTES..HEAD_BYTES.checked_add(block_bytes)?)?;
    lz4_flex::block::decompress(block, raw_bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn objects_are_functions_of_the_key(key in proptest::collection::vec(any::<u8>(), 1..250),
                                            size in 0usize..70_000, ratio in 0.05f64..=1.0, seed: u64) {
            let objects = Objects::new(Sizes::constant(size), ratio, seed);
            let (mut room, mut again) = (Room::default(), Room::default());
            let flags = objects.make(&key, &mut room);
            again.value = vec![9; 5000];
            prop_assert_eq!(objects.make(&key, &mut again), flags);
            prop_assert_eq!(&room.value, &again.value);
            prop_assert_eq!(room.value.len(), size);
            let raw = unpack(&room.value, flags).expect("it unpacks");
            if size >= 4096 {
                let measured = size as f64 / raw.len() as f64;
                prop_assert!((measured / ratio - 1.0).abs() < 0.25, "{measured} for {ratio}");
            }
        }
    }

    #[test]
    fn keys_differ() {
        let objects = Objects::new(Sizes::constant(500), 0.5, 1);
        let (mut first, mut second) = (Room::default(), Room::default());
        objects.make(b"a", &mut first);
        objects.make(b"b", &mut second);
        assert_ne!(first.value, second.value);
    }
}
