//! Queues in virtual time, whose capacity is known: what searches are tried against.
//!
//! Nothing here is the search's own model: these are requests that wait for servers, one by one.

use steelyard_load::capacity::evidence::{Counted, Counts, sum_up, weigh};
use steelyard_load::capacity::posterior::Prior;
use steelyard_load::capacity::search::{Answer, Limits, Plan, Search, Seen, Step};
use steelyard_load::capacity::served::Served;
use steelyard_load::random::{Purpose, Random};
use steelyard_load::slo::Slo;

/// Service times, mean 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Service {
    Exponential,
    /// Many short and a few long: squared coefficient of variation 4.
    Hyper,
    Constant,
}

/// A queue, and how its runs differ.
#[derive(Debug, Clone, Copy)]
pub struct Queue {
    pub name: &'static str,
    pub slo: &'static str,
    pub servers: usize,
    /// Served per second by all of them.
    pub rate: f64,
    pub service: Service,
    /// Median of a lognormal delay after service, which takes no server; sigma 0.35.
    pub delay_s: f64,
    /// Arrivals at 1.5 and 0.5 times the rate in turn, for this mean time each; 0: Poisson.
    pub burst_s: f64,
    /// Pauses of all servers of 0.1 s, so far apart on average; 0: none.
    pub pause_s: f64,
    /// Standard deviation of the logarithm of a run's speed, and its correlation with the run before.
    pub spread: f64,
    pub correlation: f64,
    /// Share of runs that are slower by a third.
    pub slowed: f64,
    /// Wait from which on the server works at a part of its speed, until no request waits any more; 0: never.
    pub collapse_s: f64,
    /// That part; and that of its speed in the slower of two states that last `regime_s` on average.
    pub part: f64,
    /// Mean length of states of full speed and of a part of it, in turn; 0: one state.
    pub regime_s: f64,
    /// Whether a collapse outlasts the load and is over only when no request has waited for a second.
    pub stays: bool,
}

pub const PLAIN: Queue = Queue {
    name: "",
    slo: "p95<=500ms,errors<=0.1%,achieved>=90%",
    servers: 2,
    rate: 50.0,
    service: Service::Exponential,
    delay_s: 0.0,
    burst_s: 0.0,
    pause_s: 0.0,
    spread: 0.0,
    correlation: 0.0,
    slowed: 0.0,
    collapse_s: 0.0,
    part: 0.6,
    regime_s: 0.0,
    stays: false,
};

/// A tail that is there at any rate, and a wall: 0.4 % take more than 500 ms without a queue.
pub const WALL: Queue = Queue {
    name: "wall",
    servers: 16,
    rate: 900.0,
    delay_s: 0.2,
    ..PLAIN
};

/// The same where runs differ.
pub const WALL_VARYING: Queue = Queue {
    name: "wall-varying",
    spread: 0.05,
    correlation: 0.8,
    slowed: 0.1,
    ..WALL
};

/// A server that works at 0.6 of its speed once a request has waited for a second, until none has for a second.
pub const COLLAPSING: Queue = Queue {
    name: "collapse-stays",
    servers: 16,
    rate: 500.0,
    collapse_s: 1.0,
    stays: true,
    ..PLAIN
};

/// What a search is given, closed loop included.
#[derive(Debug, Clone, Copy)]
pub struct Tier {
    pub name: &'static str,
    pub probes: usize,
    pub time_s: f64,
    pub measure_s: f64,
    pub warmup_s: f64,
    pub closed_s: f64,
}

/// As `steelyard run feed` asks for them.
pub const TIERS: [Tier; 3] = [
    Tier {
        name: "smoke",
        probes: 4,
        time_s: 5.2,
        measure_s: 1.0,
        warmup_s: 0.3,
        closed_s: 1.0,
    },
    Tier {
        name: "quick",
        probes: 12,
        time_s: 52.0,
        measure_s: 2.5,
        warmup_s: 0.5,
        closed_s: 3.1,
    },
    Tier {
        name: "standard",
        probes: 24,
        time_s: 280.0,
        measure_s: 5.0,
        warmup_s: 1.0,
        closed_s: 17.0,
    },
];

const PIECES: usize = 20;

fn normal(random: &mut Random) -> f64 {
    (-2.0 * (1.0 - random.unit()).ln()).sqrt() * (std::f64::consts::TAU * random.unit()).cos()
}

/// Requests as they come, and when each is done.
struct Stream<'a> {
    queue: &'a Queue,
    rate: f64,
    speed: f64,
    free: Vec<f64>,
    at: f64,
    high: bool,
    turn: f64,
    pause: f64,
    collapsed: bool,
    /// When a request waited last.
    waited: f64,
    /// Whether the state is the slower one, and until when.
    slower: bool,
    until: f64,
}

impl<'a> Stream<'a> {
    fn new(queue: &'a Queue, rate: f64, speed: f64) -> Self {
        let (turn, pause) = (
            0.0,
            if queue.pause_s > 0.0 {
                0.0
            } else {
                f64::INFINITY
            },
        );
        Self {
            queue,
            rate,
            speed,
            free: vec![0.0; queue.servers],
            at: 0.0,
            high: false,
            turn,
            pause,
            collapsed: false,
            waited: 0.0,
            slower: false,
            until: if queue.regime_s > 0.0 {
                0.0
            } else {
                f64::INFINITY
            },
        }
    }

    /// Share of its full speed at which the server works on a request that came `at` and begins at `begin`.
    fn part(&mut self, at: f64, begin: f64, random: &mut Random) -> f64 {
        while self.until < begin {
            // The first state is either.
            self.slower = if self.until == 0.0 {
                random.unit() < 0.5
            } else {
                !self.slower
            };
            self.until += random.exponential() * self.queue.regime_s;
        }
        if self.queue.collapse_s > 0.0 {
            if begin > at {
                self.waited = at;
            }
            self.collapsed |= begin - at > self.queue.collapse_s;
            let quiet_s = if self.queue.stays { 1.0 } else { 0.0 };
            self.collapsed &= begin > at || at - self.waited < quiet_s;
        }
        if self.slower || self.collapsed {
            self.queue.part
        } else {
            1.0
        }
    }

    /// When the next request arrives.
    fn arrive(&mut self, random: &mut Random) -> f64 {
        if self.queue.burst_s == 0.0 {
            self.at += random.exponential() / self.rate;
            return self.at;
        }
        loop {
            let factor = if self.high { 1.5 } else { 0.5 };
            let next = self.at + random.exponential() / (self.rate * factor);
            if next < self.turn {
                self.at = next;
                return next;
            }
            self.at = self.turn;
            self.turn += random.exponential() * self.queue.burst_s;
            self.high = !self.high;
        }
    }

    fn next(&mut self, random: &mut Random) -> (f64, f64) {
        let at = self.arrive(random);
        while self.pause < at {
            for free in &mut self.free {
                *free = free.max(self.pause) + 0.1;
            }
            self.pause += random.exponential() * self.queue.pause_s;
        }
        let free = self.free.iter().copied().fold(f64::INFINITY, f64::min);
        let part = self.part(at, at.max(free), random);
        let mean = self.queue.servers as f64 / (self.queue.rate * self.speed * part);
        let service = mean
            * match self.queue.service {
                Service::Exponential => random.exponential(),
                Service::Constant => 1.0,
                Service::Hyper => {
                    // Mixture of two exponentials, balanced means.
                    let p = 0.887_298;
                    let share = if random.unit() < p { p } else { 1.0 - p };
                    random.exponential() / (2.0 * share)
                }
            };
        let free = self.free.iter_mut().min_by(|a, b| a.total_cmp(b)).unwrap();
        let begin = at.max(*free);
        *free = begin + service;
        let delay = if self.queue.delay_s > 0.0 {
            self.queue.delay_s * (0.35 * normal(random)).exp()
        } else {
            0.0
        };
        (at, begin + service + delay)
    }
}

impl Queue {
    pub fn objective(&self) -> Slo {
        self.slo.parse().expect("an objective")
    }

    /// One probe, which begins without a queue, as the load generator counts it.
    pub fn probe(
        &self,
        rate: f64,
        speed: f64,
        lengths: (f64, f64),
        collapsed: &mut bool,
        random: &mut Random,
    ) -> Counted {
        let (begin, measure_s) = lengths;
        let end = begin + measure_s;
        let bound_s = self.objective().percentiles[0].at_most_ns as f64 / 1e9;
        let piece = |at: f64| {
            (at >= begin && at < end).then(|| ((at - begin) / measure_s * PIECES as f64) as usize)
        };
        let empty = Counts {
            beyond: vec![0],
            ..Counts::default()
        };
        let (mut whole, mut batches) = (empty.clone(), vec![empty; PIECES]);
        let mut stream = Stream::new(self, rate, speed);
        stream.collapsed = *collapsed && self.stays;
        let mut in_time = 0u64;
        loop {
            let (at, done) = stream.next(random);
            if at >= end {
                break;
            }
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
        *collapsed = stream.collapsed;
        let achieved_ratio = in_time as f64 / whole.due.max(1) as f64;
        Counted {
            whole,
            achieved_ratio,
            batches,
        }
    }

    /// Share of requests beyond the bound, over `requests` of them after a fifth as many.
    fn share(&self, rate: f64, requests: u64) -> f64 {
        let bound_s = self.objective().percentiles[0].at_most_ns as f64 / 1e9;
        let mut random = Purpose::Arrivals.stream(99, 7);
        let mut stream = Stream::new(self, rate, 1.0);
        let mut slow = 0u64;
        for index in 0..requests + requests / 5 {
            let (at, done) = stream.next(&mut random);
            slow += u64::from(index >= requests / 5 && done - at > bound_s);
        }
        slow as f64 / requests as f64
    }

    /// The rate at which the objective holds in the long run: the closed form of M/M/c, else what a long
    /// simulation finds. None when it holds at no rate.
    pub fn truth(&self, requests: u64) -> Option<f64> {
        let bound = self.objective().percentiles[0];
        let plain =
            self.delay_s + self.burst_s + self.pause_s + self.collapse_s + self.regime_s == 0.0;
        let bound_s = bound.at_most_ns as f64 / 1e9;
        let share = |rate: f64| {
            if plain && self.service == Service::Exponential {
                response_beyond(self.servers, self.rate, rate, bound_s)
            } else {
                self.share(rate, requests)
            }
        };
        let (mut low, mut high) = (0.02 * self.rate, self.rate);
        if share(low) > bound.beyond_ratio_max() {
            return None;
        }
        while high / low > 1.0005 {
            let middle = 0.5 * (low + high);
            if share(middle) > bound.beyond_ratio_max() {
                high = middle;
            } else {
                low = middle;
            }
        }
        Some(0.5 * (low + high))
    }

    /// A whole search.
    pub fn search(&self, tier: &Tier, seed: u64) -> (Answer, Search) {
        let slo = self.objective();
        let mut random = Purpose::Requests.stream(seed, 1);
        let mut deviation = normal(&mut random) * self.spread;
        let mut speed = |random: &mut Random| {
            let fresh = (1.0 - self.correlation * self.correlation).sqrt() * self.spread;
            deviation = self.correlation * deviation + fresh * normal(random);
            let slowed = if random.unit() < self.slowed {
                1.0 / 1.5
            } else {
                1.0
            };
            deviation.exp() * slowed
        };
        let mut collapsed = false;
        let prior = self.closed(speed(&mut random), tier.closed_s, &mut random);
        let limits = Limits {
            probes: tier.probes,
            time_s: tier.time_s - tier.closed_s - tier.warmup_s,
            warmup_s: tier.warmup_s,
            measure_s: tier.measure_s,
            confidence: 0.95,
            width_ratio: 0.05,
        };
        let plan = Plan::new(&slo, &limits, prior.centre_per_s());
        let mut search = Search::new(plan, prior);
        while let Step::Probe(probe) = search.next() {
            let speed = speed(&mut random);
            let lengths = (probe.warmup_s, probe.measure_s);
            let counted = self.probe(
                probe.rate_per_s,
                speed,
                lengths,
                &mut collapsed,
                &mut random,
            );
            let said = sum_up(&weigh(&slo, &counted));
            let throughput_per_s =
                counted.whole.due as f64 * counted.achieved_ratio / probe.measure_s;
            search.tell(Seen {
                probe,
                judgement: said,
                throughput_per_s,
                served: Served::of(&counted, probe.measure_s, &plan.bound),
                generator_bound: false,
            });
        }
        (search.answer(), search)
    }

    /// Requests that keep every server busy for a while.
    fn closed(&self, speed: f64, length_s: f64, random: &mut Random) -> Prior {
        // Fewer connections than make it collapse, unless a collapse stays.
        let few = Queue {
            collapse_s: if self.stays { self.collapse_s } else { 0.0 },
            ..*self
        };
        let mut stream = Stream::new(&few, 1e6, speed);
        let mut completed = 0.0;
        loop {
            // All are there from the start, so that no server is ever idle.
            stream.at = 0.0;
            stream.turn = f64::INFINITY;
            let busy = stream.free.iter().copied().fold(f64::INFINITY, f64::min);
            if busy >= length_s {
                break;
            }
            while stream.pause < busy {
                for free in &mut stream.free {
                    *free += 0.1;
                }
                stream.pause += random.exponential() * self.pause_s;
            }
            let before = stream.pause;
            stream.pause = f64::INFINITY;
            stream.next(random);
            stream.pause = before;
            completed += 1.0;
        }
        Prior::ClosedLoop {
            per_s: completed / length_s,
            completed,
        }
    }
}

/// P(response > t) of M/M/c (Erlang; Kleinrock, Queueing Systems I, 1975).
fn response_beyond(servers: usize, all: f64, rate: f64, t: f64) -> f64 {
    let (c, mu) = (servers as f64, all / servers as f64);
    let load = rate / mu;
    if load >= c {
        return 1.0;
    }
    let (mut term, mut sum) = (1.0, 0.0);
    for k in 0..servers {
        sum += term;
        term *= load / (k as f64 + 1.0);
    }
    let last = term * c / (c - load);
    let waits = last / (sum + last);
    let drain = all - rate;
    let both = if (drain - mu).abs() < 1e-9 {
        mu * t * (-mu * t).exp()
    } else {
        // A wait of rate `drain` and a service of rate `mu`: P(W + S > t, W > 0).
        mu / (mu - drain) * ((-drain * t).exp() - (-mu * t).exp())
    };
    (-mu * t).exp() + waits * both
}
