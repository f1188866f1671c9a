//! How rounds become times, and when neighbours are objected to.

use super::*;

/// Rounds of one benchmark, 1 us an operation with 2 % of noise. In a share of them a neighbour takes
/// `stolen` of the CPU's time.
fn entry(random: &mut Random, rounds: usize, share: f64, stolen: f64) -> Entry {
    let batch = |random: &mut Random| {
        let noise = 1.0 + 0.02 * (random.unit() + random.unit() + random.unit() - 1.5) / 0.5;
        let cpu_ns = 1_000_000.0 * noise;
        let shared = random.unit() < share;
        let wall_ns = if shared {
            cpu_ns / (1.0 - stolen)
        } else {
            cpu_ns
        };
        Batch {
            operations: 1000,
            begin_ns: 0,
            wall_ns: wall_ns as u64,
            cpu_ns: cpu_ns as u64,
            preemptions: u64::from(shared),
            checksum: 1,
        }
    };
    Entry {
        benchmark: 0,
        all: false,
        places: vec![(0, 0)],
        operations: 1000,
        bytes_per_operation: None,
        compressed_ratio: None,
        rounds: (0..rounds).map(|_| vec![batch(random)]).collect(),
    }
}

/// How much faster the mean over `count` such benchmarks is without the neighbour.
fn lost_ratio(random: &mut Random, rounds: usize, share: f64, stolen: f64) -> f64 {
    let entries: Vec<Entry> = (0..30)
        .map(|_| entry(random, rounds, share, stolen))
        .collect();
    let measured = geometric_mean(entries.iter().map(|one| {
        let times: Vec<f64> = one.rounds.iter().map(|r| round_time_ns(r)).collect();
        estimate(&times, QUANTILE).expect("rounds").value
    }));
    let alone = geometric_mean(entries.iter().map(|one| undisturbed_time_ns(one, false)));
    measured.expect("times") / alone.expect("times") - 1.0
}

#[test]
fn workers_on_all_cores_add_up() {
    let batch = |wall_ns| Batch {
        operations: 1000,
        begin_ns: 0,
        wall_ns,
        cpu_ns: wall_ns,
        preemptions: 0,
        checksum: 1,
    };
    let entry = Entry {
        benchmark: 0,
        all: true,
        places: vec![(0, 0), (1, 0)],
        operations: 1000,
        bytes_per_operation: None,
        compressed_ratio: None,
        rounds: vec![vec![batch(1_000_000), batch(4_000_000)]; 20],
    };
    let all = measure(&entry, false).expect("rounds");
    let close = |found: f64, known: f64| (found / known - 1.0).abs() < 1e-9;
    assert!(close(all.rate_per_s, 1_250_000.0), "{}", all.rate_per_s);
    assert!(close(all.worker_rates_per_s[0], 1_000_000.0));
    assert!(close(all.worker_rates_per_s[1], 250_000.0));
    assert_eq!(all.overlap_ratio, 0.25);
}

#[test]
fn neighbours_are_objected_to_where_they_move_the_score_and_only_there() {
    let mut random = Random::stream(3, "neighbours");
    for rounds in [13, 40] {
        // Disturbed batches and times that the quartile does not see: no objection in 200 trials.
        for (share, stolen) in [(0.0, 0.0), (0.1, 0.5), (0.25, 0.5), (0.4, 0.3), (1.0, 0.03)] {
            let alarms = (0..200)
                .filter(|_| {
                    lost_ratio(&mut random, rounds, share, stolen)
                        > CONSTANTS.headline_suspect_ratio
                })
                .count();
            assert!(alarms <= 10, "{rounds} {share} {stolen}: {alarms} of 200");
        }
        // Neighbours that no quartile gets round: every trial objects.
        for (share, stolen) in [(1.0, 0.1), (0.95, 0.5), (1.0, 0.5)] {
            let misses = (0..200)
                .filter(|_| {
                    lost_ratio(&mut random, rounds, share, stolen)
                        <= CONSTANTS.headline_suspect_ratio
                })
                .count();
            assert!(misses <= 10, "{rounds} {share} {stolen}: {misses} of 200");
        }
    }
}
