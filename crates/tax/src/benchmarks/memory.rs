//! memcpy, memmove, memset and memcmp of the C library, at four working sets.
//!
//! Sizes come from `data/tax/memory-operations.json`. Of the starts, half are aligned to 16 bytes, as an allocator
//! gives them, and half are anywhere (our choice). memmove's source and destination overlap in half of the calls, by
//! any number of bytes and to either side. Places are drawn over the whole working set, so that the set, and not the
//! size of a call, decides which cache serves it: three quarters of the first level, half of the second, half of
//! the last, and twice the last. The two large ones are shared out among the cores that run at once.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use libc::c_void;
use steelyard_statistics::Random;

use crate::TaxError;
use crate::benchmark::{Category, Microbenchmark, Prepared, Setup, Worker};
use crate::inputs::Sizes;

/// Calls of a cycle; the places go on from batch to batch, or a batch would make a small working set of its own.
const CALLS: usize = 1024;
const LARGEST: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Function {
    Copy,
    Move,
    Set,
    Compare,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    First,
    Second,
    Last,
    Memory,
}

struct Memory {
    name: String,
    operation: &'static str,
    function: Function,
    level: Level,
}

/// All benchmarks of this category.
pub fn benchmarks() -> Vec<Box<dyn Microbenchmark>> {
    let mut found: Vec<Box<dyn Microbenchmark>> = Vec::new();
    for (function, word, operation) in [
        (Function::Copy, "memcpy", "copies bytes between two buffers"),
        (
            Function::Move,
            "memmove",
            "moves bytes, in half of the calls within one buffer",
        ),
        (Function::Set, "memset", "fills bytes"),
        (
            Function::Compare,
            "memcmp",
            "compares equal bytes of two buffers",
        ),
    ] {
        for (level, place) in [
            (Level::First, "l1"),
            (Level::Second, "l2"),
            (Level::Last, "llc"),
            (Level::Memory, "memory"),
        ] {
            let name = format!("{word}-{place}");
            found.push(Box::new(Memory {
                name,
                operation,
                function,
                level,
            }));
        }
    }
    found
}

/// Sizes of the first, the second and the last cache of this machine, read once.
fn caches() -> Option<(u64, u64, u64)> {
    static CACHES: OnceLock<Option<(u64, u64, u64)>> = OnceLock::new();
    *CACHES.get_or_init(|| {
        let cpu = *steelyard_launch::usable_cpus().ok()?.first()?;
        let caches = data_caches(Path::new(&format!(
            "/sys/devices/system/cpu/cpu{cpu}/cache"
        )))?;
        Some((*caches.get(&1)?, *caches.get(&2)?, *caches.values().last()?))
    })
}

/// Bytes of the data and unified caches below a CPU's `cache` folder of /sys, by level.
fn data_caches(folder: &Path) -> Option<BTreeMap<u32, u64>> {
    let mut caches = BTreeMap::new();
    for entry in fs::read_dir(folder).ok()?.flatten() {
        let text = |name| fs::read_to_string(entry.path().join(name)).ok();
        // Such as 32K; the kernel writes no other unit.
        let size = || text("size")?.trim().strip_suffix('K')?.parse::<u64>().ok();
        if let Some((kind, level)) = text("type").zip(text("level"))
            && kind.trim() != "Instruction"
            && let (Ok(level), Some(kibibytes)) = (level.trim().parse(), size())
        {
            caches.insert(level, kibibytes << 10);
        }
    }
    Some(caches)
}

/// Bytes of one worker's working set.
fn working_set(level: Level, caches: (u64, u64, u64), workers: usize) -> usize {
    let (first, second, last) = caches;
    let bytes = match level {
        Level::First => first * 3 / 4,
        Level::Second => second / 2,
        Level::Last => last / 2 / workers as u64,
        Level::Memory => last * 2 / workers as u64,
    };
    // Two buffers, each with room for the longest call.
    (bytes as usize).max(4 * LARGEST)
}

impl Microbenchmark for Memory {
    fn name(&self) -> &str {
        &self.name
    }

    fn category(&self) -> Category {
        Category::Memory
    }

    fn operation(&self) -> &str {
        self.operation
    }

    fn missing(&self, _workers: usize) -> Option<String> {
        caches().is_none().then(|| {
            "the kernel does not list the sizes of the caches (/sys/devices/system/cpu)".to_owned()
        })
    }

    fn prepare(&self, setup: &Setup) -> Result<Prepared, TaxError> {
        let caches = caches().ok_or_else(|| TaxError::Environment {
            what: "the sizes of the caches".to_owned(),
            source: std::io::ErrorKind::Unsupported.into(),
        })?;
        let set = working_set(self.level, caches, setup.workers);
        let sizes = sizes(setup.seed);
        let bytes = sizes.iter().sum::<usize>() as f64 / CALLS as f64;
        let workers = (0..setup.workers)
            .map(|_| Box::new(Calls::new(self.function, set, &sizes, setup.seed)) as _)
            .collect();
        Ok(Prepared::new(workers).bytes(bytes).cycle(CALLS as u64))
    }
}

/// The sizes of a cycle, in random order.
fn sizes(seed: u64) -> Vec<usize> {
    let file = Sizes::parse(include_str!("../../../../data/tax/memory-operations.json"));
    let mut sizes = file.evenly(CALLS);
    Random::stream(seed, "memory sizes").shuffle(&mut sizes);
    sizes
}

struct Call {
    size: usize,
    /// Added to the place to leave alignment.
    source_offset: usize,
    target_offset: usize,
    /// Where the target of an overlapping move lies from its source.
    shift: Option<isize>,
}

struct Calls {
    function: Function,
    calls: Vec<Call>,
    /// Bytes of one buffer.
    half: usize,
    source: Vec<u8>,
    target: Vec<u8>,
    places: Random,
}

fn byte_at(index: usize) -> u8 {
    // A prime period, so that no shift by a power of two goes unseen.
    (index % 251) as u8
}

impl Calls {
    fn new(function: Function, set: usize, sizes: &[usize], seed: u64) -> Self {
        let mut random = Random::stream(seed, "memory places");
        let mut offset = || {
            if random.below(2) == 0 {
                0
            } else {
                random.below(16) as usize
            }
        };
        let mut calls: Vec<Call> = sizes
            .iter()
            .map(|&size| Call {
                size,
                source_offset: offset(),
                target_offset: offset(),
                shift: None,
            })
            .collect();
        if function == Function::Move {
            for call in calls.iter_mut().filter(|call| call.size > 1).step_by(2) {
                let distance = 1 + random.below(call.size as u64 - 1) as isize;
                call.shift = Some(if random.below(2) == 0 {
                    distance
                } else {
                    -distance
                });
            }
        }
        // memset has one buffer: all of the working set.
        let half = if function == Function::Set {
            set
        } else {
            set / 2
        };
        Self {
            function,
            calls,
            half,
            source: Vec::new(),
            target: Vec::new(),
            places: Random::stream(seed, "memory walk"),
        }
    }

    /// A multiple of 16 from which the longest call, its offset and its shift to either side stay in the buffer.
    #[inline]
    fn place(places: &mut Random, half: usize) -> usize {
        let room = half - 3 * LARGEST;
        LARGEST + (places.below(room as u64 / 16) as usize) * 16
    }
}

/// Does one call; returns 0, or something else where memcmp finds a difference.
///
/// # Safety
///
/// `size` bytes must be readable from `source` and writable at `target`; they may overlap for `Move` only.
#[inline]
unsafe fn call(function: Function, source: *mut u8, target: *mut u8, size: usize) -> u64 {
    let (source, target) = (source.cast::<c_void>(), target.cast::<c_void>());
    // SAFETY: as the caller vouches.
    unsafe {
        match function {
            Function::Copy => {
                libc::memcpy(target, source, size);
                0
            }
            Function::Move => {
                libc::memmove(target, source, size);
                0
            }
            Function::Set => {
                libc::memset(target, (size & 0xff) as i32, size);
                0
            }
            Function::Compare => libc::memcmp(target, source, size) as u64,
        }
    }
}

impl Worker for Calls {
    fn begin(&mut self) -> Result<(), String> {
        if self.half < 4 * LARGEST {
            self.half = 4 * LARGEST;
        }
        let fill = |half: usize| (0..half).map(byte_at).collect::<Vec<u8>>();
        self.target = fill(self.half);
        if self.function != Function::Set {
            self.source = fill(self.half);
        }
        Ok(())
    }

    fn verify(&mut self) -> Result<(), String> {
        let start = LARGEST * 2;
        for (index, one) in self.calls.iter().enumerate() {
            let mut buffer: Vec<u8> = (0..LARGEST * 6).map(byte_at).collect();
            let mut expected = buffer.clone();
            let other: Vec<u8> = (7..LARGEST * 6 + 7).map(byte_at).collect();
            let mut source_copy = other.clone();
            let target = start + one.target_offset;
            let wrong = || {
                Err(format!(
                    "call {index} of {} bytes left wrong bytes",
                    one.size
                ))
            };
            let (from, to) = match one.shift {
                Some(shift) => {
                    let to = (start as isize + shift) as usize;
                    expected.copy_within(start..start + one.size, to);
                    // SAFETY: both ranges lie inside `buffer`, which has six times the longest call.
                    (unsafe { buffer.as_mut_ptr().add(start) }, to)
                }
                None => {
                    let from = start + one.source_offset;
                    match self.function {
                        Function::Copy | Function::Move => {
                            expected[target..target + one.size]
                                .copy_from_slice(&other[from..from + one.size]);
                        }
                        Function::Set => {
                            expected[target..target + one.size].fill((one.size & 0xff) as u8)
                        }
                        Function::Compare => {
                            source_copy[from..from + one.size]
                                .copy_from_slice(&buffer[target..target + one.size]);
                        }
                    }
                    // SAFETY: the range lies inside `source_copy`, which has six times the longest call.
                    (unsafe { source_copy.as_mut_ptr().add(from) }, target)
                }
            };
            // SAFETY: both ranges lie inside their vectors, and overlap in a move only.
            let found = unsafe { call(self.function, from, buffer.as_mut_ptr().add(to), one.size) };
            if found != 0 || buffer != expected {
                return wrong();
            }
            if self.function == Function::Compare {
                buffer[to + one.size - 1] ^= 1;
                // SAFETY: as above.
                if unsafe { call(self.function, from, buffer.as_mut_ptr().add(to), one.size) } == 0
                {
                    return Err(format!("memcmp of {} bytes misses a difference", one.size));
                }
            }
        }
        Ok(())
    }

    fn run(&mut self, operations: u64) -> u64 {
        let (source, target) = (self.source.as_mut_ptr(), self.target.as_mut_ptr());
        let (mut done, mut differences) = (0u64, 0u64);
        let mut calls = self.calls.iter().cycle();
        for _ in 0..operations {
            let one = calls.next().expect("a cycle has no end");
            let place = Self::place(&mut self.places, self.half);
            // SAFETY: a place leaves the longest call, its offset and its shift inside either buffer; memset and
            // moves within one buffer use the target only.
            differences |= unsafe {
                match one.shift {
                    Some(shift) => call(
                        self.function,
                        target.add(place),
                        target.offset(place as isize + shift),
                        one.size,
                    ),
                    None if self.function == Function::Set => call(
                        self.function,
                        target,
                        target.add(place + one.target_offset),
                        one.size,
                    ),
                    // The same offset where bytes are compared: only equal ones are read to their end.
                    None if self.function == Function::Compare => call(
                        self.function,
                        source.add(place + one.source_offset),
                        target.add(place + one.source_offset),
                        one.size,
                    ),
                    None => call(
                        self.function,
                        source.add(place + one.source_offset),
                        target.add(place + one.target_offset),
                        one.size,
                    ),
                }
            };
            done += one.size as u64;
        }
        std::hint::black_box((&self.source, &self.target));
        done ^ (differences << 48)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_leaves_what_it_must_and_stays_in_its_buffers() {
        for function in [
            Function::Copy,
            Function::Move,
            Function::Set,
            Function::Compare,
        ] {
            let mut worker = Calls::new(function, 64 << 10, &sizes(1), 1);
            worker.begin().expect("memory");
            worker.verify().expect("right");
            let first = worker.run(2 * CALLS as u64);
            assert_eq!(
                first,
                worker.run(2 * CALLS as u64),
                "{function:?}: a batch repeats its checksum"
            );
            let bytes: usize = worker.calls.iter().map(|one| one.size).sum();
            assert_eq!(first, 2 * bytes as u64);
        }
    }

    #[test]
    fn half_of_the_moves_overlap_and_half_of_the_starts_are_aligned() {
        let worker = Calls::new(Function::Move, 64 << 10, &sizes(1), 1);
        let overlapping = worker
            .calls
            .iter()
            .filter(|one| one.shift.is_some())
            .count();
        assert!(
            (CALLS * 4 / 10..=CALLS / 2).contains(&overlapping),
            "{overlapping}"
        );
        let later = worker
            .calls
            .iter()
            .filter(|one| one.shift.is_some_and(|shift| shift > 0))
            .count();
        assert!(
            (overlapping / 3..overlapping * 2 / 3).contains(&later),
            "{later} of {overlapping}"
        );
        let aligned = worker
            .calls
            .iter()
            .filter(|one| one.source_offset == 0)
            .count();
        assert!((CALLS / 2..CALLS * 2 / 3).contains(&aligned), "{aligned}");
    }

    #[test]
    fn working_sets_follow_the_caches_and_are_shared_out() {
        let caches = (32 << 10, 1 << 20, 64 << 20);
        assert_eq!(working_set(Level::First, caches, 8), 24 << 10);
        assert_eq!(working_set(Level::Second, caches, 8), 512 << 10);
        assert_eq!(working_set(Level::Last, caches, 1), 32 << 20);
        assert_eq!(working_set(Level::Memory, caches, 1), 128 << 20);
        assert_eq!(working_set(Level::Memory, caches, 8), 16 << 20);
    }
}
