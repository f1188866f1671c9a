//! Time a cache line takes from one CPU to another: two pinned threads hand one line back and forth.
//!
//! The time of a hand-over is half a round trip. Both threads spin, so that nothing but the line moves; a partner
//! that the scheduler holds back shows as an outlier, which the median of the repeats passes over.

use std::collections::BTreeSet;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use steelyard_launch::pin_to_cpus;
use steelyard_record::{CoreToCore, Estimate, HealthCpu};

use crate::context::{Mode, Run};
use crate::error::HealthError;
use crate::estimate::estimate;

/// Above this many CPUs a sample is measured: all pairs of 64 are 2,016, a matter of seconds.
const CPUS_AT_MOST: usize = 64;
/// Nothing that works takes this long for a repeat; a partner that never answers must not hang the check.
const PATIENCE: Duration = Duration::from_secs(2);

/// The CPUs to measure, and how they were chosen when those are not all: evenly over the machine in the order
/// of node, last-level cache and core, each with its siblings as far as they fit.
pub(crate) fn choose(cpus: &[HealthCpu], at_most: usize) -> (Vec<u32>, Option<String>) {
    let mut ordered: Vec<&HealthCpu> = cpus.iter().collect();
    ordered.sort_by_key(|cpu| (cpu.socket, cpu.node, cpu.last_level_cache, cpu.core, cpu.id));
    if ordered.len() <= at_most {
        return (cpus.iter().map(|cpu| cpu.id).collect(), None);
    }
    let mut cores: Vec<Vec<u32>> = Vec::new();
    let mut last = None;
    for cpu in ordered {
        let core = cpu.core.unwrap_or(cpu.id);
        if last == Some(core) {
            cores.last_mut().expect("one was pushed").push(cpu.id);
        } else {
            cores.push(vec![cpu.id]);
        }
        last = Some(core);
    }
    let widest = cores.iter().map(Vec::len).max().unwrap_or(1);
    let taken = (at_most / widest).clamp(1, cores.len());
    let mut chosen = BTreeSet::new();
    for index in 0..taken {
        chosen.extend(&cores[index * cores.len() / taken]);
    }
    let why = format!(
        "{} of {} CPUs: every {:.1}th core with all its threads, in the order of socket, node, cache and core",
        chosen.len(),
        cpus.len(),
        cores.len() as f64 / taken as f64
    );
    (chosen.into_iter().collect(), Some(why))
}

/// The same with the bound of a check.
pub(crate) fn choose_default(cpus: &[HealthCpu]) -> (Vec<u32>, Option<String>) {
    choose(cpus, CPUS_AT_MOST)
}

/// Measures every pair of the chosen CPUs.
pub(crate) fn measure(run: &mut Run<'_>) -> Result<CoreToCore, HealthError> {
    let (cpus, sample) = choose_default(&run.topology.cpus);
    if cpus.len() < 2 {
        return Err(HealthError::Unavailable(
            "this process may use only one CPU; a cache line needs two to move between".to_owned(),
        ));
    }
    let (repeats, round_trips) = match run.settings.mode {
        Mode::Quick => (7, 1000),
        Mode::Full => (15, 2000),
    };
    let none = vec![vec![None; cpus.len()]; cpus.len()];
    let (mut median_ns, mut low_ns, mut high_ns) = (none.clone(), none.clone(), none);
    let pairs = cpus.len() * (cpus.len() - 1) / 2;
    let mut done = 0;
    for row in 0..cpus.len() {
        for column in row + 1..cpus.len() {
            run.check_stop()?;
            run.progress("core_to_core", f64::from(done) / pairs as f64);
            done += 1;
            let found = pair([cpus[row], cpus[column]], repeats, round_trips, run.stop())?;
            // Half a round trip is the same in either direction: it is written to both places.
            for (row, column) in [(row, column), (column, row)] {
                median_ns[row][column] = Some(found.median);
                low_ns[row][column] = Some(found.low);
                high_ns[row][column] = Some(found.high);
            }
        }
    }
    Ok(CoreToCore {
        cpus,
        sample,
        repeats: repeats as u32,
        round_trips,
        median_ns,
        low_ns,
        high_ns,
    })
}

/// The line, alone on its own even where lines are fetched in pairs.
#[repr(align(256))]
struct Line {
    turn: AtomicU64,
}

/// Time of a hand-over between two CPUs, ns.
fn pair(
    cpus: [u32; 2],
    repeats: usize,
    round_trips: u64,
    stop: &AtomicBool,
) -> Result<Estimate, HealthError> {
    let line = Line {
        turn: AtomicU64::new(0),
    };
    let broken = AtomicBool::new(false);
    let total = round_trips * (repeats as u64 + 1);
    let pin = |cpu: u32| {
        pin_to_cpus(&[cpu as usize]).map_err(|source| {
            broken.store(true, Ordering::Relaxed);
            HealthError::Io {
                what: format!("CPU {cpu}"),
                source,
            }
        })
    };
    let waiting = Waiting {
        line: &line,
        broken: &broken,
        stop,
    };
    let samples = std::thread::scope(|scope| {
        let answering = scope.spawn(|| {
            pin(cpus[1])?;
            // Odd turns are this thread's.
            for trip in 0..total {
                waiting.until(2 * trip + 1, cpus)?;
                line.turn.store(2 * trip + 2, Ordering::Release);
            }
            Ok(())
        });
        let asking = scope.spawn(|| {
            pin(cpus[0])?;
            let mut samples = Vec::with_capacity(repeats);
            for repeat in 0..=repeats as u64 {
                let began = Instant::now();
                for trip in repeat * round_trips..(repeat + 1) * round_trips {
                    line.turn.store(2 * trip + 1, Ordering::Release);
                    waiting.until(2 * trip + 2, cpus)?;
                }
                // The first repeat waits for the other thread to start, and does not count.
                if repeat > 0 {
                    samples.push(began.elapsed().as_nanos() as f64 / (2 * round_trips) as f64);
                }
            }
            Ok(samples)
        });
        let samples: Result<Vec<f64>, HealthError> =
            asking.join().expect("the thread does not panic");
        let answered: Result<(), HealthError> =
            answering.join().expect("the thread does not panic");
        answered.and(samples)
    })?;
    if line.turn.load(Ordering::Acquire) != 2 * total {
        return Err(HealthError::Wrong(format!(
            "the turns of CPUs {} and {}",
            cpus[0], cpus[1]
        )));
    }
    Ok(estimate(samples).expect("times are finite"))
}

struct Waiting<'a> {
    line: &'a Line,
    broken: &'a AtomicBool,
    stop: &'a AtomicBool,
}

impl Waiting<'_> {
    /// Spins until it is turn `wanted`; gives up when the other thread has, or takes too long.
    fn until(&self, wanted: u64, cpus: [u32; 2]) -> Result<(), HealthError> {
        let mut spins = 0u32;
        let mut began = None;
        while self.line.turn.load(Ordering::Acquire) != wanted {
            spin_loop();
            spins += 1;
            // The clock is looked at rarely: it is far more work than a turn.
            if spins.is_multiple_of(1 << 14) {
                let began = began.get_or_insert_with(Instant::now);
                let late = began.elapsed() > PATIENCE;
                if late || self.broken.load(Ordering::Relaxed) || self.stop.load(Ordering::Relaxed)
                {
                    self.broken.store(true, Ordering::Relaxed);
                    return Err(HealthError::Unavailable(format!(
                        "CPUs {} and {} did not respond to each other",
                        cpus[0], cpus[1]
                    )));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(id: u32, core: u32, cache: u32, node: u32) -> HealthCpu {
        HealthCpu {
            id,
            core: Some(core),
            last_level_cache: Some(cache),
            socket: Some(node),
            node: Some(node),
        }
    }

    #[test]
    fn a_sample_keeps_siblings_and_reaches_every_node() {
        // 2 nodes of 64 cores with two threads: CPU n and n + 128 share a core.
        let cpus: Vec<HealthCpu> = (0..256)
            .map(|id| cpu(id, id % 128, id % 128 / 8, id % 128 / 64))
            .collect();
        let (chosen, why) = choose(&cpus, 64);
        assert_eq!(chosen.len(), 64);
        assert!(
            chosen.iter().all(|id| chosen.contains(&((id + 128) % 256))),
            "siblings come together"
        );
        assert_eq!(
            chosen.iter().filter(|id| *id % 128 < 64).count(),
            32,
            "half of each node"
        );
        assert!(why.expect("a reason").starts_with("64 of 256 CPUs"));
        let (all, why) = choose(&cpus[..40], 64);
        assert_eq!((all, why), ((0..40).collect(), None));
    }

    #[test]
    fn a_cpu_without_places_counts_as_its_own_core() {
        let nowhere = |id| HealthCpu {
            id,
            core: None,
            last_level_cache: None,
            socket: None,
            node: None,
        };
        let cpus: Vec<HealthCpu> = (0..100).map(nowhere).collect();
        assert_eq!(choose(&cpus, 10).0.len(), 10);
    }

    #[test]
    fn two_cpus_hand_the_line_over() {
        let usable = steelyard_launch::usable_cpus().expect("CPUs");
        let Some([first, second]) = usable.first_chunk::<2>() else {
            println!("skipped: one CPU only");
            return;
        };
        let found = pair(
            [*first as u32, *second as u32],
            3,
            100,
            &AtomicBool::new(false),
        )
        .expect("a time");
        assert!(
            found.median > 1.0 && found.median < 1e7,
            "{} ns",
            found.median
        );
        assert!(found.low <= found.median && found.median <= found.high);
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_an_error_and_no_hang() {
        let first = steelyard_launch::usable_cpus().expect("CPUs")[0] as u32;
        let error =
            pair([first, 60_000], 3, 100, &AtomicBool::new(false)).expect_err("no such CPU");
        assert!(
            matches!(&error, HealthError::Io { what, .. } if what == "CPU 60000"),
            "{error}"
        );
    }
}
