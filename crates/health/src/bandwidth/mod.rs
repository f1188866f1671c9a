//! Bandwidth of each pair of NUMA nodes: the CPUs of one node work on memory that is bound to the other.
//!
//! One thread on each usable CPU of the node, each with arrays of its own. A pass lasts from the moment in which
//! the last thread is ready to the moment in which the last one is done. Contents are checked after the passes.

mod kernels;

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use steelyard_launch::pin_to_cpus;
use steelyard_record::{BandwidthRow, Estimate, MemoryBandwidth};

use self::kernels::{Arrays, Kernel};
use crate::context::{Mode, Run};
use crate::error::HealthError;
use crate::estimate::estimate;
use crate::pages::{Pages, Region};
use crate::topology::{Node, Topology};

const COUNTING: &str = "bytes that the loop requests, as STREAM counts them: read 1, write 1, copy 2, triad 3 for each \
     byte of an array; lines that plain stores bring into the cache first are not counted; plain stores but \
     for write_nontemporal; transparent huge pages requested";

/// Each array is four times the caches that the threads use, so that little of one pass is left for the next.
const CACHE_MULTIPLE: u64 = 4;
const SMALLEST_ARRAY_BYTES: u64 = 64 << 20;

/// The pairs to measure: every node with usable CPUs with every node with memory.
pub(crate) fn pairs(topology: &Topology) -> Vec<(&Node, &Node)> {
    let mut pairs = Vec::new();
    for cpus in topology.nodes.iter().filter(|node| !node.cpus.is_empty()) {
        for memory in topology
            .nodes
            .iter()
            .filter(|node| node.memory_bytes != Some(0))
        {
            pairs.push((cpus, memory));
        }
    }
    pairs
}

/// Bytes of one array over all threads, or why there is not enough memory.
pub(crate) fn array_bytes(topology: &Topology, cpus: &Node, memory: &Node) -> Result<u64, String> {
    let wanted = topology
        .node_cache_bytes(cpus)
        .map_or(SMALLEST_ARRAY_BYTES * 2, |bytes| bytes * CACHE_MULTIPLE)
        .max(SMALLEST_ARRAY_BYTES);
    // Three arrays in a quarter of what is free leave the machine room.
    let free = [memory.free_bytes, topology.memory_available_bytes]
        .into_iter()
        .flatten()
        .min()
        .unwrap_or(u64::MAX);
    let allowed = free / 4 / 3;
    // Below twice the caches it would be their bandwidth, which is not what is asked for.
    if allowed < wanted / 2 {
        return Err(format!(
            "node {} has {free} bytes free; arrays of {} bytes need four times three of them",
            memory.id,
            wanted / 2
        ));
    }
    Ok(wanted.min(allowed))
}

/// Measures every pair of nodes.
pub(crate) fn measure(run: &mut Run<'_>) -> Result<MemoryBandwidth, HealthError> {
    let topology = run.topology;
    let pairs = pairs(topology);
    let bind = topology.nodes.len() > 1;
    let budget_s = match run.settings.mode {
        Mode::Quick => 4.0,
        Mode::Full => 24.0,
    } / pairs.len().max(1) as f64;
    let mut rows = Vec::new();
    for (index, (cpus, memory)) in pairs.iter().enumerate() {
        run.check_stop()?;
        run.progress("memory_bandwidth", index as f64 / pairs.len() as f64);
        let measured = array_bytes(topology, cpus, memory)
            .map_err(HealthError::Unavailable)
            .and_then(|bytes| Ok((bytes, pair(run, cpus, memory, bytes, bind, budget_s)?)));
        match measured {
            Ok((bytes, rates)) => {
                rows.extend(Kernel::ALL.into_iter().zip(rates).map(|(kernel, rate)| {
                    BandwidthRow {
                        missing: rate
                            .is_none()
                            .then(|| "this instruction set is not supported".to_owned()),
                        ..row(cpus, memory, kernel, bytes, rate)
                    }
                }));
            }
            Err(HealthError::Unavailable(why)) => {
                rows.extend(Kernel::ALL.into_iter().map(|kernel| BandwidthRow {
                    missing: Some(why.clone()),
                    ..row(cpus, memory, kernel, 0, None)
                }));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(MemoryBandwidth {
        binding: if bind { "mbind" } else { "none" }.to_owned(),
        counting: COUNTING.to_owned(),
        rows,
    })
}

fn row(
    cpus: &Node,
    memory: &Node,
    kernel: Kernel,
    bytes: u64,
    rate: Option<Estimate>,
) -> BandwidthRow {
    BandwidthRow {
        cpu_node: cpus.id,
        memory_node: memory.id,
        kernel: kernel.name().to_owned(),
        threads: cpus.cpus.len() as u32,
        array_bytes: bytes,
        rate_bytes_per_s: rate,
        missing: None,
    }
}

/// What the threads of one pair share.
struct Team<'a> {
    run: &'a Run<'a>,
    barrier: Barrier,
    /// Passes of the kernel under way; set by the first thread between barriers.
    passes: AtomicU64,
    budget_ns: f64,
}

/// The rate of each kernel, none where the instruction set lacks it.
fn pair(
    run: &Run<'_>,
    cpus: &Node,
    memory: &Node,
    array_bytes: u64,
    bind: bool,
    budget_s: f64,
) -> Result<Vec<Option<Estimate>>, HealthError> {
    let threads = cpus.cpus.len();
    // Whole pages for each thread and array, so that no page is shared.
    let share = (array_bytes as usize / threads).next_multiple_of(4096);
    let node = bind.then_some(memory.id);
    let regions = (0..threads)
        .map(|_| Region::new(share * 3, Pages::Huge, node))
        .collect::<Result<Vec<Region>, HealthError>>()?;
    let kernels = Kernel::ALL
        .iter()
        .filter(|kernel| kernel.is_supported())
        .count();
    let team = Team {
        run,
        barrier: Barrier::new(threads),
        passes: AtomicU64::new(0),
        budget_ns: budget_s * 1e9 / kernels as f64,
    };
    let times = std::thread::scope(|scope| {
        let workers: Vec<_> = cpus
            .cpus
            .iter()
            .zip(&regions)
            .map(|(cpu, region)| scope.spawn(|| work(&team, *cpu, region, share)))
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().expect("the thread does not panic"))
            .collect::<Result<Vec<Vec<Vec<f64>>>, HealthError>>()
    })?;
    if let Some(node) = node {
        are_on(&regions, node)?;
    }
    run.check_stop()?;
    let bytes = (share * threads) as f64;
    Ok(Kernel::ALL
        .into_iter()
        .enumerate()
        .map(|(index, kernel)| {
            // Every thread timed the same passes; a pass is as long as its slowest thread.
            let passes = times[0][index].len();
            let rates = (0..passes).map(|pass| {
                let slowest = times
                    .iter()
                    .map(|of_thread| of_thread[index][pass])
                    .fold(0.0, f64::max);
                bytes * kernel.bytes_per_byte() * 1e9 / slowest
            });
            estimate(rates.collect())
        })
        .collect())
}

/// The times of the passes of each kernel on one CPU, ns. The team goes through the same barriers whatever
/// goes wrong in one of them: errors are reported at the end.
fn work(
    team: &Team<'_>,
    cpu: usize,
    region: &Region,
    share: usize,
) -> Result<Vec<Vec<f64>>, HealthError> {
    let pinned = pin_to_cpus(&[cpu]);
    let words = share / size_of::<u64>();
    let base = region.start().cast::<u64>();
    // SAFETY: three arrays of `words` inside the region, which is aligned to more than a u64 and which only
    // this thread uses; any bits are valid u64.
    let [a, b, c] = [0, 1, 2]
        .map(|array| unsafe { std::slice::from_raw_parts_mut(base.add(array * words), words) });
    let mut arrays = Arrays { a, b, c };
    arrays.fill();
    let mut times = vec![Vec::new(); Kernel::ALL.len()];
    let mut wrong = None;
    for (index, kernel) in Kernel::ALL
        .into_iter()
        .enumerate()
        .filter(|(_, kernel)| kernel.is_supported())
    {
        // Two passes that do not count: the first finds the caches and the clock of the core cold, the second
        // tells how many fit the time.
        timed_pass(team, &mut arrays, kernel, 0);
        let (first, _) = timed_pass(team, &mut arrays, kernel, 0);
        if team.barrier.wait().is_leader() {
            let fit = (team.budget_ns / first.max(1.0)) as u64;
            let stopped = team.run.check_stop().is_err();
            team.passes.store(
                if stopped { 1 } else { fit.clamp(3, 25) },
                Ordering::Relaxed,
            );
        }
        team.barrier.wait();
        let mut read = 0;
        let passes = team.passes.load(Ordering::Relaxed);
        for pass in 1..=passes {
            let (took, sum) = timed_pass(team, &mut arrays, kernel, pass);
            times[index].push(took);
            read = sum;
        }
        if !arrays.is_right(kernel, passes, read) {
            wrong = Some(format!("memory bandwidth, {} on CPU {cpu}", kernel.name()));
        }
    }
    pinned.map_err(HealthError::io(format!("CPU {cpu}")))?;
    match wrong {
        Some(what) => Err(HealthError::Wrong(what)),
        None => Ok(times),
    }
}

fn timed_pass(team: &Team<'_>, arrays: &mut Arrays<'_>, kernel: Kernel, pass: u64) -> (f64, u64) {
    team.barrier.wait();
    let began = Instant::now();
    let sum = arrays.pass(kernel, pass);
    (began.elapsed().as_nanos() as f64, sum)
}

/// Whether the kernel put the pages where they were bound, as far as it reports.
fn are_on(regions: &[Region], node: u32) -> Result<(), HealthError> {
    for region in regions {
        for offset in [0, region.bytes() / 2, region.bytes() - 1] {
            match region.node_of(offset) {
                Some(found) if found != node => {
                    return Err(HealthError::Unavailable(format!(
                        "memory that was bound to node {node} is on node {found}"
                    )));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::topology_with;

    fn node(id: u32, cpus: &[usize], memory: u64) -> Node {
        Node {
            id,
            cpus: cpus.to_vec(),
            memory_bytes: Some(memory),
            free_bytes: Some(memory),
            distances: vec![],
        }
    }

    #[test]
    fn nodes_without_cpus_or_memory_are_paired_as_what_they_are() {
        let mut topology = topology_with(1 << 20, 8 << 30);
        topology.nodes = vec![
            node(0, &[0], 1 << 33),
            node(1, &[1], 0),
            node(2, &[], 1 << 33),
        ];
        let found: Vec<(u32, u32)> = pairs(&topology)
            .iter()
            .map(|(cpus, memory)| (cpus.id, memory.id))
            .collect();
        assert_eq!(found, [(0, 0), (0, 2), (1, 0), (1, 2)]);
    }

    #[test]
    fn arrays_leave_the_caches_or_say_that_memory_is_short() {
        let topology = topology_with(32 << 20, 64 << 30);
        let (cpus, memory) = (node(0, &[0], 1 << 36), node(1, &[], 1 << 36));
        assert_eq!(array_bytes(&topology, &cpus, &memory), Ok(128 << 20));
        let small = node(1, &[], 1 << 30);
        assert_eq!(array_bytes(&topology, &cpus, &small), Ok((1 << 30) / 12));
        let error = array_bytes(&topology, &cpus, &node(1, &[], 256 << 20)).expect_err("too small");
        assert!(error.contains("node 1 has 268435456 bytes free"), "{error}");
    }
}
