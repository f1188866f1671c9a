//! The search against queues whose capacity is known.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::evidence::{Counted, Counts, sum_up, weigh};
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
                if std::env::var("TRACE").is_ok() {
                    let a = search.answer();
                    println!(
                        "  {rate:8.1} {:12} {said:?} before: {:.1}..{:.1} {:?}",
                        purpose.name(),
                        a.low_per_s.unwrap_or(0.0),
                        a.high_per_s.unwrap_or(0.0),
                        a.estimate_per_s
                    );
                }
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
        bound: "p95<=500ms",
        warmup_s: 2.0,
        measure_s: 10.0,
    },
];

#[test]
#[ignore = "prints figures"]
fn noise() {
    for queue in QUEUES {
        let slo: Slo = queue.bound.parse().unwrap();
        let queue = Queue {
            spread: 0.0,
            ..queue
        };
        let truth = queue.sweep(&slo, 61, 4.0);
        let mut random = Random::stream(5, Purpose::Requests, 1);
        let (mut y, mut e) = (vec![], vec![]);
        let mut m = 0;
        for _ in 0..400 {
            let said = sum_up(&weigh(&slo, &queue.run(&slo, truth, &mut random)));
            if let Some(x) = said.excess {
                y.push(x.logits);
                e.push(x.error);
            }
            m += usize::from(said.met);
        }
        let mean = y.iter().sum::<f64>() / y.len() as f64;
        let sd = (y.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / y.len() as f64).sqrt();
        e.sort_by(f64::total_cmp);
        y.sort_by(f64::total_cmp);
        println!(
            "{:12} met {m} of 400, n {} logits mean {mean:.2} median {:.2} sd {sd:.2}; error median {:.2} p10 {:.2} p90 {:.2}",
            queue.name,
            y.len(),
            y[y.len() / 2],
            e[e.len() / 2],
            e[e.len() / 10],
            e[e.len() * 9 / 10]
        );
    }
}

#[test]
#[ignore = "prints figures"]
fn explore() {
    let seeds: u64 = std::env::var("SEEDS")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(100);
    for queue in QUEUES {
        let slo: Slo = queue.bound.parse().unwrap();
        let truth = queue.sweep(&slo, 61, 4.0);
        let (mut inside, mut width, mut probes, mut error, mut confirmed, mut conf) =
            (0, 0.0, 0.0, 0.0, 0, 0.0);
        let mut worst: f64 = 0.0;
        let (mut under, mut over) = (0, 0);
        for seed in 0..seeds {
            let found = find(&queue, &slo, seed);
            if found.low <= truth && truth <= found.high {
                inside += 1
            } else if truth > found.high {
                under += 1
            } else {
                over += 1
            }
            width += (found.high - found.low) / truth;
            worst = worst.max((found.high - found.low) / truth);
            probes += found.probes as f64;
            error += (found.estimate / truth - 1.0).abs();
            confirmed += u64::from(found.ended == Ended::Confirmed);
            conf += found.confidence;
        }
        let n = seeds as f64;
        println!(
            "{:12} sweep {truth:8.1}  inside {:5.1} % (too low {under}, too high {over})  width {:5.2} % worst {:5.2} %  probes {:4.1}  error {:4.2} %  confirmed {:3.0} %  stated {:.3}",
            queue.name,
            inside as f64 / n * 100.0,
            width / n * 100.0,
            worst * 100.0,
            probes / n,
            error / n * 100.0,
            confirmed as f64 / n * 100.0,
            conf / n
        );
    }
}
