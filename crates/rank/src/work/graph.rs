//! A large graph of objects, each of which says where the next one is: nothing can be fetched ahead.

use steelyard_statistics::Random;

use super::{mix, place};

const PAYLOAD: usize = 14;

/// An object on a cache line of its own.
#[derive(Debug, Clone)]
#[repr(align(64))]
struct Object {
    next: u32,
    kind: u32,
    payload: [u32; PAYLOAD],
}

/// Objects in one cycle of random order, so that no walk comes back before it has seen all of them.
#[derive(Debug)]
pub struct Graph {
    objects: Vec<Object>,
}

impl Graph {
    /// A graph of `bytes` bytes: at least two objects, at most 2^32.
    pub fn new(bytes: u64, seed: u64) -> Self {
        let count = (bytes as usize / size_of::<Object>()).clamp(2, u32::MAX as usize);
        let mut random = Random::new(mix(seed ^ 0x6a09_e667));
        // A cyclic permutation. Source: S. Sattolo, "An algorithm to generate a random cyclic permutation",
        // Information Processing Letters 22 (1986).
        let mut next: Vec<u32> = (0..count as u32).collect();
        for last in (1..count).rev() {
            next.swap(last, place(random.bits(), last));
        }
        let objects = next.into_iter().map(|next| {
            let bits = random.bits();
            Object {
                next,
                kind: bits as u32 % PAYLOAD as u32,
                payload: std::array::from_fn(|at| (bits >> 32) as u32 ^ (at as u32) << 16),
            }
        });
        Self {
            objects: objects.collect(),
        }
    }

    /// The hash of `steps` objects from where `begin` leads.
    pub fn walk(&self, begin: u64, steps: usize) -> u64 {
        let mut at = place(mix(begin), self.objects.len());
        let mut hash = begin;
        for _ in 0..steps {
            let object = &self.objects[at];
            let value = object.payload[object.kind as usize];
            hash = (hash ^ u64::from(value))
                .wrapping_mul(0x9fb2_1c65_1e98_df25)
                .rotate_left(23);
            at = object.next as usize;
        }
        hash
    }

    /// How many objects there are.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// The numbers of the objects on a walk once around.
    #[cfg(test)]
    pub fn cycle(&self) -> Vec<usize> {
        let mut at = 0;
        let mut seen = Vec::new();
        for _ in 0..self.objects.len() {
            at = self.objects[at].next as usize;
            seen.push(at);
        }
        seen
    }
}
