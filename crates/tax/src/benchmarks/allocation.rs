//! malloc and free of the C library, by size and by how long objects live.
//!
//! Sizes come from `data/tax/allocation-sizes.json`. How long an object lives is counted in allocations: at once
//! (freed before the next), young (half die within eight, the rest live up to thousands: what servers do), and
//! large (256 KiB to 1 MiB, which the C library may map for each object). Every object is written at both ends,
//! and what was written is checked when it is freed. Lives are our choice.

use libc::c_void;
use steelyard_statistics::Random;

use crate::TaxError;
use crate::benchmark::{Category, Microbenchmark, Prepared, Setup, Worker};
use crate::inputs::Sizes;

const OBJECTS: usize = 1024;
const SLOTS: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    AtOnce,
    Mixed,
    Large,
}

struct Allocation {
    name: &'static str,
    operation: &'static str,
    life: Life,
}

/// All benchmarks of this category.
pub fn benchmarks() -> Vec<Box<dyn Microbenchmark>> {
    vec![
        Box::new(Allocation {
            name: "malloc-at-once",
            operation: "allocates an object and frees it",
            life: Life::AtOnce,
        }),
        Box::new(Allocation {
            name: "malloc-mixed-lives",
            operation: "allocates an object and frees an older one",
            life: Life::Mixed,
        }),
        Box::new(Allocation {
            name: "malloc-large",
            operation: "allocates 256 KiB to 1 MiB and frees an older such object",
            life: Life::Large,
        }),
    ]
}

impl Microbenchmark for Allocation {
    fn name(&self) -> &str {
        self.name
    }

    fn category(&self) -> Category {
        Category::Allocation
    }

    fn operation(&self) -> &str {
        self.operation
    }

    fn prepare(&self, setup: &Setup) -> Result<Prepared, TaxError> {
        let plan = plan(self.life, setup.seed);
        let cycle = plan.len() as u64;
        let workers = (0..setup.workers)
            .map(|_| {
                Box::new(Objects {
                    plan: plan.clone(),
                    live: vec![Live::NONE; SLOTS],
                }) as _
            })
            .collect();
        Ok(Prepared::new(workers).cycle(cycle))
    }
}

#[derive(Debug, Clone, Copy)]
struct Object {
    size: usize,
    /// The slot it takes; what was there is freed.
    slot: usize,
}

/// The objects of a cycle. A slot that is chosen often makes short lives, one of many makes long ones.
fn plan(life: Life, seed: u64) -> Vec<Object> {
    let mut random = Random::stream(seed, "allocation");
    if life == Life::Large {
        // Few, because each costs page faults.
        return (0..8)
            .map(|index| Object {
                size: (256 << 10) + random.below(768 << 10) as usize,
                slot: index % 2,
            })
            .collect();
    }
    let mut sizes =
        Sizes::parse(include_str!("../../../../data/tax/allocation-sizes.json")).evenly(OBJECTS);
    random.shuffle(&mut sizes);
    sizes
        .into_iter()
        .map(|size| {
            let slot = match life {
                Life::AtOnce | Life::Large => 0,
                Life::Mixed if random.below(2) == 0 => random.below(4) as usize,
                Life::Mixed => random.below(SLOTS as u64) as usize,
            };
            Object { size, slot }
        })
        .collect()
}

#[derive(Debug, Clone, Copy)]
struct Live {
    start: *mut u8,
    size: usize,
    mark: u8,
}

impl Live {
    const NONE: Self = Self {
        start: std::ptr::null_mut(),
        size: 0,
        mark: 0,
    };
}

struct Objects {
    plan: Vec<Object>,
    live: Vec<Live>,
}

// SAFETY: the objects belong to this worker alone, and free may be called from any thread.
unsafe impl Send for Objects {}

/// Allocates and marks both ends; none where there is no memory.
fn allocate(size: usize, mark: u8) -> Option<Live> {
    // SAFETY: malloc has no preconditions.
    let start = unsafe { libc::malloc(size) }.cast::<u8>();
    if start.is_null() {
        return None;
    }
    // SAFETY: `size`, which is not 0, bytes are ours.
    unsafe {
        start.write_volatile(mark);
        start.add(size - 1).write_volatile(mark);
    }
    Some(Live { start, size, mark })
}

/// Frees an object; whether both ends hold its mark.
fn free(object: Live) -> bool {
    if object.start.is_null() {
        return true;
    }
    // SAFETY: the object was allocated with this size, written at both ends, and not freed yet.
    unsafe {
        let whole = object.start.read_volatile() == object.mark
            && object.start.add(object.size - 1).read_volatile() == object.mark;
        libc::free(object.start.cast::<c_void>());
        whole
    }
}

impl Worker for Objects {
    fn verify(&mut self) -> Result<(), String> {
        // All at once: no two objects may share a byte.
        let objects: Vec<Live> = self
            .plan
            .iter()
            .enumerate()
            .map(|(index, object)| allocate(object.size, index as u8).ok_or("no memory"))
            .collect::<Result<_, _>>()?;
        let mut ranges: Vec<(usize, usize)> = objects
            .iter()
            .map(|one| (one.start as usize, one.start as usize + one.size))
            .collect();
        ranges.sort_unstable();
        let apart = ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0);
        let whole = objects
            .into_iter()
            .map(free)
            .fold(true, |all, one| all & one);
        if apart && whole {
            Ok(())
        } else {
            Err("malloc returned the same memory twice".to_owned())
        }
    }

    fn run(&mut self, operations: u64) -> u64 {
        let mut wrong = 0u64;
        let mut bytes = 0u64;
        let mut objects = self.plan.iter().cycle();
        for index in 0..operations {
            let object = objects.next().expect("a cycle has no end");
            match allocate(object.size, index as u8) {
                Some(live) => {
                    // With one slot the object before is freed, which no other was allocated since.
                    let old = std::mem::replace(&mut self.live[object.slot], live);
                    wrong += u64::from(!free(old));
                    bytes += object.size as u64;
                }
                None => wrong += 1,
            }
        }
        bytes ^ (wrong << 48)
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        for live in self.live.drain(..) {
            free(live);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_whole_when_freed_and_a_batch_repeats_its_checksum() {
        for life in [Life::AtOnce, Life::Mixed, Life::Large] {
            let plan = plan(life, 1);
            let cycle = plan.len() as u64;
            let bytes: usize = plan.iter().map(|object| object.size).sum();
            let mut worker = Objects {
                plan,
                live: vec![Live::NONE; SLOTS],
            };
            worker.verify().expect("right");
            assert_eq!(worker.run(cycle), bytes as u64, "{life:?}");
            assert_eq!(worker.run(cycle), bytes as u64, "{life:?}");
        }
    }

    #[test]
    fn an_overwritten_object_is_seen() {
        let object = allocate(100, 7).expect("memory");
        // SAFETY: the last byte of our own object.
        unsafe { object.start.add(99).write_volatile(8) };
        assert!(!free(object));
    }

    #[test]
    fn most_objects_are_small_and_half_die_young() {
        let plan = plan(Life::Mixed, 1);
        let small = plan.iter().filter(|object| object.size <= 1024).count();
        assert!(
            (OBJECTS * 97 / 100..=OBJECTS * 99 / 100).contains(&small),
            "{small}"
        );
        let young = plan.iter().filter(|object| object.slot < 4).count();
        assert!(
            (OBJECTS * 4 / 10..OBJECTS * 6 / 10).contains(&young),
            "{young}"
        );
    }
}
