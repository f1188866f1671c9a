//! How often the intervals of a score hold what endless rounds would give.

use super::*;

/// How a machine's noise is made, beside 2 % of every benchmark's own.
#[derive(Clone, Copy)]
struct Noise {
    /// What a round does to all benchmarks alike, sd.
    shared: f64,
    /// How much of that stays from one round to the next.
    memory: f64,
    /// Share of times that something else makes longer, by up to a half.
    disturbed: f64,
}

fn normal(random: &mut Random) -> f64 {
    (0..12).map(|_| random.unit()).sum::<f64>() - 6.0
}

/// Times of the rounds of 12 benchmarks in 3 categories: 1, 10 and 100 ns an operation.
fn rows(random: &mut Random, rounds: usize, noise: Noise) -> Vec<(&'static str, Vec<f64>)> {
    let mut level = normal(random);
    let levels: Vec<f64> = (0..rounds)
        .map(|_| {
            let now = level;
            let fresh = (1.0 - noise.memory * noise.memory).sqrt();
            level = noise.memory * level + fresh * normal(random);
            noise.shared * now
        })
        .collect();
    (0..12)
        .map(|index| {
            let base = 10_f64.powi(index % 3);
            let time = |level: &f64| {
                let longer = if random.unit() < noise.disturbed {
                    0.5 * random.unit()
                } else {
                    0.0
                };
                base * (level + 0.02 * normal(random) + longer).exp()
            };
            let category = ["rpc", "memory", "hashing"][index as usize % 3];
            (category, levels.iter().map(time).collect())
        })
        .collect()
}

/// How often the score has an interval, and how often those of the score and of a category hold what endless
/// rounds would give.
fn coverage(rounds: usize, noise: Noise, trials: u32) -> (f64, f64, f64) {
    let endless = Noise {
        memory: 0.0,
        ..noise
    };
    let mut random = Random::stream(7, "truth");
    let rates: Vec<_> = rows(&mut random, 20_001, endless)
        .into_iter()
        .map(|(category, mut times)| {
            times.sort_by(f64::total_cmp);
            (category, 1e9 / quantile(&times, QUANTILE))
        })
        .collect();
    let (truth, truths) = means(&rates).expect("rates");
    let (mut stated, mut held) = (0, (0, 0));
    for _ in 0..trials {
        let found = score_of_rounds(&rows(&mut random, rounds, noise), 1).expect("rounds");
        let Some(low) = found.interval_low_per_s else {
            continue;
        };
        stated += 1;
        let high = found.interval_high_per_s.expect("high");
        held.0 += u32::from(low <= truth && truth <= high);
        let (part, whole) = (&found.categories["rpc"], truths["rpc"]);
        let ends = (part.interval_low_per_s, part.interval_high_per_s);
        let (low, high) = (ends.0.expect("low"), ends.1.expect("high"));
        held.1 += u32::from(low <= whole && whole <= high);
    }
    let share = |count: u32| f64::from(count) / f64::from(stated.max(1));
    (
        f64::from(stated) / f64::from(trials),
        share(held.0),
        share(held.1),
    )
}

#[test]
fn intervals_hold_what_endless_rounds_would_give() {
    let trials = if cfg!(debug_assertions) { 30 } else { 500 };
    // Three standard errors below 93 %.
    let bar = 0.93 - 3.0 * (0.93 * 0.07 / f64::from(trials)).sqrt();
    // Rounds, noise, and how often there must be an interval.
    let situations = [
        (13, (0.0, 0.0, 0.0), 0.6),
        (13, (0.02, 0.0, 0.2), 0.6),
        (30, (0.0, 0.0, 0.0), 0.95),
        (30, (0.02, 0.0, 0.0), 0.95),
        (30, (0.02, 0.0, 0.2), 0.95),
        (30, (0.01, 0.5, 0.1), 0.8),
        (100, (0.02, 0.8, 0.0), 0.6),
    ];
    for (rounds, (shared, memory, disturbed), least) in situations {
        let noise = Noise {
            shared,
            memory,
            disturbed,
        };
        let (stated, whole, part) = coverage(rounds, noise, trials);
        println!("{rounds} {shared} {memory} {disturbed}: {stated:.2} {whole:.3} {part:.3}");
        assert!(
            stated >= least,
            "{rounds} {shared} {memory} {disturbed}: {stated}"
        );
        assert!(
            whole >= bar,
            "{rounds} {shared} {memory} {disturbed}: {whole}"
        );
        assert!(
            part >= bar,
            "{rounds} {shared} {memory} {disturbed}: {part}"
        );
    }
    // Thirteen rounds that one neighbour disturbs all along are worth one or two.
    let noise = Noise {
        shared: 0.02,
        memory: 0.8,
        disturbed: 0.0,
    };
    let (stated, whole, _) = coverage(13, noise, trials);
    println!("13 of memory 0.8: {stated:.2} {whole:.3}");
    assert!(stated <= 0.5, "{stated}");
}
