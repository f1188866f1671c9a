//! Checksums and hashes: CRC-32C, XXH3, SHA-256 and SipHash-1-3 over buffers of several sizes.
//!
//! Small buffers stand for hash-table keys and log records, large ones for blocks and files; the sizes are our
//! choice, powers of two from a cache line to a page cache's read-ahead.

use std::hash::Hasher;

use steelyard_statistics::Random;

use super::buffer::Buffer;
use crate::TaxError;
use crate::benchmark::{Category, Microbenchmark, Prepared, Setup, Worker, fold};

/// A hash function with its name and the sizes it is measured at.
struct Kind {
    name: &'static str,
    sizes: &'static [usize],
    hash: fn(&[u8]) -> u64,
    /// The hash of "123456789", from its specification.
    known: u64,
}

fn sha256(data: &[u8]) -> u64 {
    let digest = ring::digest::digest(&ring::digest::SHA256, data);
    let first = digest.as_ref()[..8].try_into().expect("32 bytes");
    u64::from_be_bytes(first)
}

fn siphash(data: &[u8]) -> u64 {
    let mut hasher = siphasher::sip::SipHasher13::new_with_keys(0, 0);
    hasher.write(data);
    hasher.finish()
}

const KINDS: [Kind; 4] = [
    Kind {
        name: "crc32c",
        sizes: &[64, 4096, 65_536],
        hash: |data| u64::from(crc32c::crc32c(data)),
        // The check value of CRC-32/ISCSI in the catalogue of parametrised CRC algorithms.
        known: 0xe306_9283,
    },
    Kind {
        name: "sha256",
        sizes: &[64, 4096, 65_536],
        hash: sha256,
        // FIPS 180-4 applied by coreutils: printf 123456789 | sha256sum.
        known: 0x15e2_b0d3_c338_91eb,
    },
    Kind {
        name: "xxh3",
        sizes: &[16, 64, 4096, 65_536],
        hash: xxhash_rust::xxh3::xxh3_64,
        // The C reference through Python's xxhash.
        known: 0x72dc_b18b_67a1_7dff,
    },
    Kind {
        name: "siphash13",
        sizes: &[16, 64, 1024],
        hash: siphash,
        // CPython's hash of bytes with PYTHONHASHSEED=0, which is SipHash-1-3 with the key 0.
        known: 0x0fbc_0f00_0796_5fcf,
    },
];

struct Hash {
    name: String,
    kind: &'static Kind,
    size: usize,
}

/// All benchmarks of this category.
pub fn benchmarks() -> Vec<Box<dyn Microbenchmark>> {
    let mut found: Vec<Box<dyn Microbenchmark>> = Vec::new();
    for kind in &KINDS {
        for &size in kind.sizes {
            found.push(Box::new(Hash {
                name: format!("{}-{size}", kind.name),
                kind,
                size,
            }));
        }
    }
    found
}

impl Microbenchmark for Hash {
    fn name(&self) -> &str {
        &self.name
    }

    fn category(&self) -> Category {
        Category::Hashing
    }

    fn operation(&self) -> &str {
        "hashes one buffer"
    }

    fn prepare(&self, setup: &Setup) -> Result<Prepared, TaxError> {
        let workers = (0..setup.workers)
            .map(|_| {
                let mut data = Buffer::zeroed(self.size, 0);
                Random::stream(setup.seed, "hashing").fill(&mut data);
                Box::new(Core {
                    kind: self.kind,
                    data,
                }) as _
            })
            .collect();
        Ok(Prepared::new(workers).bytes(self.size as f64))
    }
}

struct Core {
    kind: &'static Kind,
    data: Buffer,
}

impl Worker for Core {
    fn verify(&mut self) -> Result<(), String> {
        let found = (self.kind.hash)(b"123456789");
        if found == self.kind.known {
            Ok(())
        } else {
            Err(format!(
                "the hash of 123456789 is {found:x} and not {:x}",
                self.kind.known
            ))
        }
    }

    fn run(&mut self, operations: u64) -> u64 {
        let mut sum = 0u64;
        for _ in 0..operations {
            // Hidden from the optimiser, or one hash would do for all.
            let hash = (self.kind.hash)(std::hint::black_box(&*self.data));
            sum = fold(sum, hash);
        }
        sum
    }
}
