//! Memory latency by working set: a pointer chase over one random cycle of cache lines.
//!
//! Each load's address is the value of the load before it, so that neither the core nor a prefetcher can work
//! ahead. The cycle is one (Sattolo's algorithm), so that a chase visits every line of the working set before it
//! comes back; that it does is checked by walking it once, which also warms the caches.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

use steelyard_launch::pin_to_cpus;
use steelyard_record::{LatencyPoint, MemoryLatency};
use steelyard_statistics::Random;

use crate::context::{Mode, Run};
use crate::error::HealthError;
use crate::estimate::estimate;
use crate::pages::{Pages, Region};
use crate::topology::Topology;

const SMALLEST_BYTES: u64 = 4 << 10;
/// Without a known last-level cache: large enough to leave that of most machines.
const LARGEST_WITHOUT_CACHE_BYTES: u64 = 256 << 20;
const CACHE_MULTIPLE: u64 = 4;

/// The working sets: from 4 KiB to four last-level caches, less where that is more than an eighth of the
/// memory that is available; and why they end early, if they do.
pub(crate) fn working_sets(topology: &Topology, mode: Mode) -> (Vec<u64>, Option<String>) {
    let wanted = topology
        .last_level_cache_bytes()
        .map_or(LARGEST_WITHOUT_CACHE_BYTES, |bytes| bytes * CACHE_MULTIPLE);
    let allowed = topology
        .memory_available_bytes
        .map_or(wanted, |bytes| bytes / 8);
    let mut sets = Vec::new();
    let mut power = SMALLEST_BYTES;
    while power < wanted {
        sets.push(power);
        if mode == Mode::Full {
            sets.push(power / 2 * 3);
        }
        power *= 2;
    }
    sets.push(power.max(wanted));
    sets.retain(|bytes| *bytes <= allowed);
    let largest = sets.last().copied().unwrap_or(0);
    let why = (largest < wanted).then(|| {
        format!(
            "working sets end at {largest} bytes instead of {wanted} (four last-level caches): an eighth of \
             the available memory is {allowed} bytes"
        )
    });
    (sets, why)
}

/// Measures every working set with base pages and with huge ones.
pub(crate) fn measure(run: &mut Run<'_>) -> Result<MemoryLatency, HealthError> {
    let topology = run.topology;
    let place = topology
        .cpus
        .first()
        .ok_or_else(|| HealthError::Unavailable("no usable CPU".to_owned()))?;
    let cpu = place.id as usize;
    let (sets, why) = working_sets(topology, run.settings.mode);
    if let Some(why) = why {
        run.missing.insert("memory_latency.largest".to_owned(), why);
    }
    let stride = topology
        .caches
        .last()
        .and_then(|cache| cache.line_bytes)
        .filter(|bytes| bytes.is_power_of_two() && (16..=1024).contains(bytes))
        .unwrap_or(64) as usize;
    // A thread of its own, so that the pinning ends with it.
    let (points, missing) = std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            pin_to_cpus(&[cpu]).map_err(HealthError::io(format!("CPU {cpu}")))?;
            let mut points = Vec::new();
            let mut missing = BTreeMap::new();
            for pages in [Pages::Base, Pages::Huge] {
                match chase_all(run, &sets, stride, pages) {
                    Ok(mut some) => points.append(&mut some),
                    Err(HealthError::Unavailable(why)) => {
                        missing.insert(format!("memory_latency.{}", pages.name()), why);
                    }
                    Err(error) => return Err(error),
                }
            }
            Ok((points, missing))
        });
        worker.join().expect("the thread does not panic")
    })?;
    run.missing.extend(missing);
    if points.is_empty() {
        return Err(HealthError::Unavailable(
            "too little memory is available".to_owned(),
        ));
    }
    Ok(MemoryLatency {
        cpu: place.id,
        node: place.node,
        stride_bytes: stride as u64,
        points,
    })
}

fn chase_all(
    run: &Run<'_>,
    sets: &[u64],
    stride: usize,
    pages: Pages,
) -> Result<Vec<LatencyPoint>, HealthError> {
    let largest = sets.iter().max().copied().unwrap_or(0) as usize;
    if largest == 0 {
        return Err(HealthError::Unavailable(
            "too little memory is available".to_owned(),
        ));
    }
    let region = Region::new(largest, pages, None)?;
    region.touch(largest);
    if pages == Pages::Huge {
        huge_enough(&region, run.topology)?;
    }
    let (repeats, sample_ns) = match run.settings.mode {
        Mode::Quick => (7, 5e6),
        Mode::Full => (11, 15e6),
    };
    let mut random = Random::stream(run.settings.seed, "memory latency");
    let mut points = Vec::new();
    for (index, bytes) in sets.iter().enumerate() {
        run.check_stop()?;
        run.progress("memory_latency", index as f64 / sets.len() as f64);
        let cycle = Cycle::build(&region, *bytes as usize, stride, &mut random)?;
        let samples = cycle.time(repeats, sample_ns);
        points.push(LatencyPoint {
            pages: pages.name().to_owned(),
            working_set_bytes: *bytes,
            latency_ns: estimate(samples).expect("times are finite"),
        });
    }
    Ok(points)
}

fn huge_enough(region: &Region, topology: &Topology) -> Result<(), HealthError> {
    let setting = topology
        .transparent_huge_pages
        .as_deref()
        .unwrap_or("absent from this kernel");
    match region.huge_ratio() {
        Some(ratio) if ratio >= 0.9 => Ok(()),
        Some(ratio) => Err(HealthError::Unavailable(format!(
            "transparent huge pages hold {:.0} % of the memory that asked for them \
             (transparent_hugepage/enabled: {setting})",
            ratio * 100.0
        ))),
        None => Err(HealthError::Unavailable(
            "the kernel does not show the pages' sizes (/proc/self/smaps)".to_owned(),
        )),
    }
}

/// One random cycle through the lines of a working set.
struct Cycle {
    start: *const usize,
    lines: usize,
}

impl Cycle {
    /// Links the lines of the first `bytes` of `region` into one cycle and walks it once.
    fn build(
        region: &Region,
        bytes: usize,
        stride: usize,
        random: &mut Random,
    ) -> Result<Self, HealthError> {
        assert!(bytes <= region.bytes() && stride >= size_of::<usize>());
        let lines = bytes / stride;
        // Every use gives an index below `lines`; the region is aligned to more than a usize, and nobody else has it.
        // SAFETY: the line of such an index lies inside the region.
        let at = |index: usize| unsafe { region.start().add(index * stride).cast::<usize>() };
        for index in 0..lines {
            // SAFETY: see `at`.
            unsafe { at(index).write(index) };
        }
        // Sattolo: swapping each element with one strictly before it leaves a single cycle, uniformly chosen.
        for index in (1..lines).rev() {
            let other = random.below(index as u64) as usize;
            // SAFETY: see `at`; the two are different lines.
            unsafe { std::ptr::swap(at(index), at(other)) };
        }
        for index in 0..lines {
            // SAFETY: see `at`.
            unsafe { at(index).write(at(at(index).read()) as usize) };
        }
        let cycle = Self {
            start: at(0),
            lines,
        };
        // SAFETY: every line holds the address of a line.
        let (back, early) = unsafe { cycle.walk() };
        if back != cycle.start || early {
            return Err(HealthError::Wrong("a chase over a random cycle".to_owned()));
        }
        Ok(cycle)
    }

    /// Where a lap ends, and whether it came by its start before its end.
    unsafe fn walk(&self) -> (*const usize, bool) {
        let mut at = self.start;
        let mut early = false;
        for step in 1..=self.lines {
            // SAFETY: the caller vouches that every line holds the address of a line.
            at = unsafe { at.read() } as *const usize;
            early |= at == self.start && step < self.lines;
        }
        (at, early)
    }

    /// Times of one load, ns, of `repeats` samples of about `sample_ns` each.
    fn time(&self, repeats: usize, sample_ns: f64) -> Vec<f64> {
        let mut at = self.start;
        let mut steps = 1 << 10;
        loop {
            let began = Instant::now();
            // SAFETY: `at` is a line of the cycle, and every line holds the address of a line.
            at = unsafe { chase(at, steps) };
            let took = began.elapsed().as_nanos() as f64;
            if took >= sample_ns / 4.0 {
                steps = ((steps as f64 * sample_ns / took) as usize).next_multiple_of(UNROLLED);
                break;
            }
            steps *= 2;
        }
        (0..repeats)
            .map(|_| {
                let began = Instant::now();
                // SAFETY: as above.
                at = unsafe { chase(at, steps) };
                began.elapsed().as_nanos() as f64 / steps as f64
            })
            .collect()
    }
}

const UNROLLED: usize = 16;

/// Follows `steps` pointers (a multiple of `UNROLLED`).
///
/// # Safety
///
/// `at` and whatever it leads to must hold addresses of readable usizes.
#[inline(never)]
unsafe fn chase(mut at: *const usize, steps: usize) -> *const usize {
    for _ in 0..steps / UNROLLED {
        for _ in 0..UNROLLED {
            // SAFETY: the caller vouches for every address.
            at = unsafe { at.read() } as *const usize;
        }
    }
    black_box(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::topology_with;

    #[test]
    fn a_cycle_visits_every_line_once() {
        let region = Region::new(1 << 20, Pages::Base, None).expect("memory");
        for lines in [1usize, 2, 3, 64, 1000] {
            let cycle = Cycle::build(&region, lines * 64, 64, &mut Random::stream(7, "test"))
                .expect("one cycle");
            let mut seen = std::collections::BTreeSet::new();
            let mut at = cycle.start;
            for _ in 0..lines {
                seen.insert(at as usize);
                // SAFETY: the cycle was walked when it was built.
                at = unsafe { at.read() } as *const usize;
            }
            assert_eq!(seen.len(), lines);
            assert_eq!(at, cycle.start);
        }
    }

    #[test]
    fn a_broken_cycle_is_seen() {
        let region = Region::new(1 << 16, Pages::Base, None).expect("memory");
        let cycle =
            Cycle::build(&region, 640, 64, &mut Random::stream(1, "test")).expect("one cycle");
        // The line after the start leads back to it: two lines instead of ten.
        // SAFETY: the start holds the address of a line of the region.
        unsafe { (cycle.start.read() as *mut usize).write(cycle.start as usize) };
        // SAFETY: every line still holds the address of a line.
        assert!(unsafe { cycle.walk() }.1);
    }

    #[test]
    fn working_sets_reach_four_last_level_caches_or_say_why_not() {
        let (sets, why) = working_sets(&topology_with(48 << 20, 64 << 30), Mode::Quick);
        assert_eq!((sets[0], why), (4096, None));
        assert!(*sets.last().expect("some") >= 4 * (48 << 20));
        assert!(sets.windows(2).all(|pair| pair[0] < pair[1]));
        let (full, _) = working_sets(&topology_with(48 << 20, 64 << 30), Mode::Full);
        assert!(full.len() > sets.len() && full.contains(&6144));
        let (few, why) = working_sets(&topology_with(48 << 20, 1 << 30), Mode::Quick);
        assert_eq!(*few.last().expect("some"), 128 << 20);
        assert!(why.expect("a reason").contains("an eighth"));
    }

    #[test]
    fn a_larger_working_set_is_not_faster() {
        // 4 KiB is in any first-level cache, 64 MiB in hardly any cache: the times differ even on a busy machine.
        let region = Region::new(64 << 20, Pages::Base, None).expect("memory");
        let mut random = Random::stream(3, "test");
        let median = |bytes, random: &mut Random| {
            let cycle = Cycle::build(&region, bytes, 64, random).expect("one cycle");
            estimate(cycle.time(5, 1e6)).expect("five").median
        };
        let small = median(4096, &mut random);
        let large = median(64 << 20, &mut random);
        assert!(large > 2.0 * small, "{small} ns and {large} ns");
    }
}
