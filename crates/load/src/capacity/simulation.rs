//! The search against queues whose capacity is known.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::evidence::{Counted, Counts, Excess, Said, sum_up, weigh};
use super::posterior::Prior;
use super::search::{Ended, Plan, Search, Seen, Step};
use crate::random::{Purpose, Random};
use crate::slo::Slo;

/// Service times, mean 1.
#[derive(Clone, Copy)]
enum Service {
    Exponential,
    /// Half short and a few long: squared coefficient of variation 4.
    Hyper,
    Constant,
}

/// A queue of `servers` that serve `rate` per second in all, in runs whose capacity differs by `spread`.
#[derive(Clone, Copy)]
struct Queue {
    name: &'static str,
    servers: usize,
    rate: f64,
    service: Service,
    spread: f64,
    bound: &'static str,
    warmup_s: f64,
    measure_s: f64,
}

impl Queue {
    fn service_s(&self, random: &mut Random, factor: f64) -> f64 {
        let mean = self.servers as f64 / (self.rate * factor);
        mean * match self.service {
            Service::Exponential => random.exponential(),
            Service::Constant => 1.0,
            // Mixture of two exponentials with mean 1 and squared coefficient of variation 4.
            Service::Hyper => {
                let p = 0.887_298;
                if random.unit() < p {
                    random.exponential() / (2.0 * p)
                } else {
                    random.exponential() / (2.0 * (1.0 - p))
                }
            }
        }
    }

    /// One run at `offered` per second, as a probe would count it.
    fn run(&self, slo: &Slo, offered: f64, random: &mut Random) -> Counted {
        let normal = (-2.0 * (1.0 - random.unit()).ln()).sqrt()
            * (std::f64::consts::TAU * random.unit()).cos();
        let factor = (self.spread * normal).exp();
        let bound_s = slo.percentiles[0].at_most_ns as f64 / 1e9;
        let (begin, end) = (self.warmup_s, self.warmup_s + self.measure_s);
        let pieces = 20;
        let mut batches = vec![
            Counts {
                beyond: vec![0],
                ..Counts::default()
            };
            pieces
        ];
        let piece = |at: f64| {
            (at >= begin && at < end)
                .then(|| ((at - begin) / self.measure_s * pieces as f64) as usize)
        };
        let mut whole = Counts {
            beyond: vec![0],
            ..Counts::default()
        };
        let mut free: BinaryHeap<Reverse<u64>> = (0..self.servers).map(|_| Reverse(0)).collect();
        let mut at = 0.0;
        let mut in_time = 0u64;
        loop {
            at += random.exponential() / offered;
            if at >= end {
                break;
            }
            let Reverse(free_ns) = free.pop().unwrap();
            let done = at.max(free_ns as f64 / 1e9) + self.service_s(random, factor);
            free.push(Reverse((done * 1e9) as u64));
            let slow = u64::from(done - at > bound_s);
            if let Some(index) = piece(at) {
                whole.due += 1;
                whole.completed += 1;
                whole.beyond[0] += slow;
                batches[index].due += 1;
            }
            if let Some(index) = piece(done) {
                in_time += 1;
                batches[index].completed += 1;
                batches[index].beyond[0] += slow;
            }
        }
        Counted {
            achieved_ratio: in_time as f64 / whole.due.max(1) as f64,
            whole,
            batches,
        }
    }

    /// The exhaustive sweep: many long runs at each of many rates; the highest that most of them met.
    fn sweep(&self, slo: &Slo, runs: usize, longer: f64) -> f64 {
        let long = Self {
            measure_s: self.measure_s * longer,
            warmup_s: self.warmup_s * 4.0,
            ..*self
        };
        let mut random = Random::stream(99, Purpose::Arrivals, 7);
        let (mut low, mut high) = (0.3 * self.rate, 1.1 * self.rate);
        // The share of runs that meet falls with the rate, so the sweep need not visit what it knows.
        while high / low > 1.003 {
            let middle = (low * high).sqrt();
            let met =
                (0..runs).filter(|_| sum_up(&weigh(slo, &long.run(slo, middle, &mut random))).met);
            if 2 * met.count() > runs {
                low = middle;
            } else {
                high = middle;
            }
        }
        (low * high).sqrt()
    }
}

struct Found {
    low: f64,
    high: f64,
    probes: usize,
    estimate: f64,
    ended: Ended,
    confidence: f64,
}

fn find(queue: &Queue, slo: &Slo, seed: u64) -> Found {
    let mut random = Random::stream(seed, Purpose::Requests, 1);
    let closed = queue.rate * (1.0 + 0.02 * (random.unit() - 0.5));
    let plan = Plan {
        probes: 11,
        confidence: 0.95,
        width_ratio: 0.05,
        rate_min_per_s: queue.rate / 200.0,
    };
    let mut search = Search::new(plan, Prior::ClosedLoop(closed));
    loop {
        match search.next() {
            Step::Done(ended) => {
                let answer = search.answer();
                return Found {
                    low: answer.low_per_s.unwrap(),
                    high: answer.high_per_s.unwrap_or(queue.rate * 1.2),
                    probes: search.seen().len(),
                    estimate: answer.estimate_per_s.unwrap_or(queue.rate),
                    ended,
                    confidence: answer.confidence,
                };
            }
            Step::Probe(rate, purpose) => {
                let said = sum_up(&weigh(slo, &queue.run(slo, rate, &mut random)));
                search.tell(Seen {
                    rate_per_s: rate,
                    purpose,
                    said,
                    generator_bound: false,
                });
            }
        }
    }
}

const QUEUES: [Queue; 6] = [
    Queue {
        name: "M/M/1",
        servers: 1,
        rate: 2000.0,
        service: Service::Exponential,
        spread: 0.01,
        bound: "p95<=10ms",
        warmup_s: 1.0,
        measure_s: 5.0,
    },
    Queue {
        name: "M/M/1 tight",
        servers: 1,
        rate: 2000.0,
        service: Service::Exponential,
        spread: 0.01,
        bound: "p99<=5ms",
        warmup_s: 1.0,
        measure_s: 5.0,
    },
    Queue {
        name: "M/M/8",
        servers: 8,
        rate: 2000.0,
        service: Service::Exponential,
        spread: 0.02,
        bound: "p95<=20ms",
        warmup_s: 1.0,
        measure_s: 5.0,
    },
    Queue {
        name: "M/H2/1",
        servers: 1,
        rate: 2000.0,
        service: Service::Hyper,
        spread: 0.01,
        bound: "p95<=20ms",
        warmup_s: 1.0,
        measure_s: 5.0,
    },
    Queue {
        name: "M/D/2",
        servers: 2,
        rate: 4000.0,
        service: Service::Constant,
        spread: 0.005,
        bound: "p99<=10ms",
        warmup_s: 1.0,
        measure_s: 5.0,
    },
    Queue {
        name: "slow M/M/10",
        servers: 10,
        rate: 200.0,
        service: Service::Exponential,
        spread: 0.015,
        bound: "p95<=500ms,errors<=0.1%",
        warmup_s: 2.0,
        measure_s: 10.0,
    },
];

/// What halving a bracket by each probe's plain answer finds with as many probes: the last bracket.
fn halve(queue: &Queue, slo: &Slo, seed: u64) -> (f64, f64) {
    let mut random = Random::stream(seed, Purpose::Requests, 1);
    let (mut low, mut high) = (0.0, queue.rate * (1.0 + 0.02 * (random.unit() - 0.5)));
    for _ in 0..11 {
        let middle = 0.5 * (low + high);
        if sum_up(&weigh(slo, &queue.run(slo, middle, &mut random))).met {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low, high)
}

/// A search that sees nothing but perfect answers about a capacity of 1000, up to a generator's limit.
fn find_sharp(prior: Prior, capacity: f64, generator: f64) -> Search {
    let plan = Plan {
        probes: 11,
        confidence: 0.95,
        width_ratio: 0.05,
        rate_min_per_s: 10.0,
    };
    let mut search = Search::new(plan, prior);
    while let Step::Probe(rate_per_s, purpose) = search.next() {
        let met = rate_per_s <= capacity.min(generator);
        let said = Said {
            met,
            met_probability: f64::from(u8::from(met)),
            excess: Some(Excess {
                logits: if met { -4.0 } else { 4.0 },
                error: 0.1,
            }),
        };
        search.tell(Seen {
            rate_per_s,
            purpose,
            said,
            generator_bound: !met && rate_per_s > generator,
        });
    }
    search
}

#[test]
fn a_sharp_capacity_is_found_from_any_start() {
    for (prior, widest) in [
        (Prior::ClosedLoop(1100.0), 200.0),
        (Prior::ClosedLoop(3000.0), 300.0),
        (Prior::Guess(900.0), 300.0),
        (Prior::Guess(100.0), 450.0),
        (Prior::Guess(9000.0), 800.0),
    ] {
        let search = find_sharp(prior, 1000.0, f64::INFINITY);
        let answer = search.answer();
        let (low, high) = (answer.low_per_s.unwrap(), answer.high_per_s.unwrap());
        assert!(low < 1000.0 && 1000.0 < high, "{prior:?} {low} {high}");
        assert!(high - low < widest, "{prior:?} {low} {high}");
        assert!(search.seen().len() <= 11);
    }
}

#[test]
fn a_generator_that_can_do_no_more_gives_a_lower_bound() {
    let search = find_sharp(Prior::ClosedLoop(1000.0), 5000.0, 950.0);
    assert!(matches!(search.next(), Step::Done(Ended::GeneratorBound)));
    let answer = search.answer();
    assert_eq!(answer.high_per_s, None);
    let low = answer.low_per_s.unwrap();
    assert!((700.0..=955.0).contains(&low), "{low}");
}

#[test]
fn a_server_that_always_meets_the_objective_gives_a_lower_bound() {
    let search = find_sharp(Prior::Guess(100.0), f64::INFINITY, f64::INFINITY);
    let answer = search.answer();
    assert_eq!((answer.high_per_s, answer.estimate_per_s), (None, None));
    assert!(answer.low_per_s.unwrap() > 10_000.0);
}

#[test]
fn a_server_that_never_meets_it_is_given_up_early() {
    let search = find_sharp(Prior::ClosedLoop(1000.0), 0.0, f64::INFINITY);
    assert!(matches!(search.next(), Step::Done(Ended::NeverMet)));
    assert_eq!(search.answer().low_per_s, None);
    assert!(search.seen().len() <= 8, "{}", search.seen().len());
}

/// The bar: in 19 of 20 seeded simulations the sweep's answer lies inside, with at most 12 loads (the closed loop
/// is one of them).
#[test]
fn the_interval_holds_what_an_exhaustive_sweep_finds() {
    for (queue, widest) in [(QUEUES[0], 0.12), (QUEUES[4], 0.08)] {
        let slo: Slo = queue.bound.parse().unwrap();
        let truth = queue.sweep(&slo, 31, 3.0);
        let found: Vec<Found> = (0..20).map(|seed| find(&queue, &slo, seed)).collect();
        let inside = found.iter().filter(|f| f.low <= truth && truth <= f.high);
        assert!(inside.count() >= 19, "{}: {truth}", queue.name);
        assert!(
            found
                .iter()
                .all(|f| f.probes <= 11 && f.confidence >= 0.949)
        );
        let width = found.iter().map(|f| (f.high - f.low) / truth).sum::<f64>() / 20.0;
        assert!(width < widest, "{}: {width}", queue.name);
        let confirmed = found.iter().filter(|f| f.ended == Ended::Confirmed);
        assert!(confirmed.count() >= 12, "{}", queue.name);
    }
}

/// The figures of the journal: `SEEDS=400 cargo test --release -p steelyard-load figures -- --ignored --nocapture`.
#[test]
#[ignore = "prints figures, takes minutes"]
fn figures() {
    let number = |name: &str, otherwise| {
        let text = std::env::var(name).ok();
        text.and_then(|text| text.parse().ok()).unwrap_or(otherwise)
    };
    let (seeds, seconds) = (number("SEEDS", 100.0) as u64, number("SECONDS", 0.0));
    for queue in QUEUES {
        let slo: Slo = queue.bound.parse().unwrap();
        let truth = queue.sweep(&slo, 61, 4.0);
        let queue = Queue {
            measure_s: if seconds > 0.0 {
                seconds
            } else {
                queue.measure_s
            },
            ..queue
        };
        let found: Vec<Found> = (0..seeds).map(|seed| find(&queue, &slo, seed)).collect();
        let halved: Vec<(f64, f64)> = (0..seeds).map(|seed| halve(&queue, &slo, seed)).collect();
        let share = |count: usize| 100.0 * count as f64 / seeds as f64;
        let mean = |sum: f64| sum / seeds as f64;
        let inside = found.iter().filter(|f| f.low <= truth && truth <= f.high);
        let above = found.iter().filter(|f| f.low > truth);
        let confirmed = found.iter().filter(|f| f.ended == Ended::Confirmed);
        let mut widths: Vec<f64> = found.iter().map(|f| (f.high - f.low) / truth).collect();
        widths.sort_by(f64::total_cmp);
        let halved_inside = halved
            .iter()
            .filter(|(low, high)| *low <= truth && truth <= *high);
        println!(
            "{:12} sweep {truth:8.1}  inside {:5.1} % (too high {:4.1} %)  width median {:5.2} % p90 {:5.2} %  probes {:4.1}  error {:4.2} %  confirmed {:3.0} %  | halving: inside {:4.1} %  width {:4.2} %  error {:4.2} %",
            queue.name,
            share(inside.count()),
            share(above.count()),
            100.0 * widths[widths.len() / 2],
            100.0 * widths[widths.len() * 9 / 10],
            mean(found.iter().map(|f| f.probes as f64).sum()),
            100.0 * mean(found.iter().map(|f| (f.estimate / truth - 1.0).abs()).sum()),
            share(confirmed.count()),
            share(halved_inside.count()),
            100.0 * mean(halved.iter().map(|(low, high)| (high - low) / truth).sum()),
            100.0
                * mean(
                    halved
                        .iter()
                        .map(|(low, high)| (0.5 * (low + high) / truth - 1.0).abs())
                        .sum()
                ),
        );
    }
}
