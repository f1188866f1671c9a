//! Searches against servers whose capacity is known: sharp ones, and a few queues in virtual time.
//!
//! The coverage of the intervals is another's matter: `make truth`, which runs the same queues by the hundred.

#[path = "../examples/capacity_truth/queue.rs"]
#[allow(dead_code)]
mod queue;

use queue::{PLAIN, Queue, TIERS};
use steelyard_load::capacity::curve::Bound;
use steelyard_load::capacity::evidence::{Said, Share};
use steelyard_load::capacity::posterior::Prior;
use steelyard_load::capacity::search::{Ended, Limits, Plan, Search, Seen, Step};

const CLOSED: Prior = Prior::ClosedLoop {
    per_s: 1050.0,
    completed: 5000.0,
};

/// A search that sees nothing but clear answers about a capacity, up to a generator's limit.
fn find_sharp(prior: Prior, capacity: f64, generator: f64) -> Search {
    let limits = Limits {
        probes: 12,
        time_s: 60.0,
        warmup_s: 0.5,
        measure_s: 2.0,
        confidence: 0.95,
        width_ratio: 0.05,
    };
    let slo = "p95<=10ms".parse().unwrap();
    let plan = Plan::new(&slo, &limits, prior.centre_per_s());
    let mut search = Search::new(plan, prior);
    while let Step::Probe(probe) = search.next() {
        let rate_per_s = probe.rate_per_s;
        let met = rate_per_s <= capacity.min(generator);
        let all = (rate_per_s * probe.measure_s).round();
        let share = Share {
            bad: if met { 0.0 } else { all },
            all,
            bound: Bound {
                ratio: 0.05,
                at_most_s: 0.01,
            },
        };
        search.tell(Seen {
            probe,
            said: Said {
                met,
                met_probability: f64::from(u8::from(met)),
                share: Some(share),
            },
            throughput_per_s: rate_per_s.min(capacity),
            generator_bound: !met && rate_per_s > generator,
        });
    }
    search
}

#[test]
fn a_sharp_capacity_is_found_from_any_start() {
    for prior in [
        CLOSED,
        Prior::Guess(900.0),
        Prior::Guess(100.0),
        Prior::Guess(9000.0),
    ] {
        let search = find_sharp(prior, 1000.0, f64::INFINITY);
        let answer = search.answer();
        let (low, high) = (answer.low_per_s.unwrap(), answer.high_per_s.unwrap());
        assert!(low < 1000.0 && 1000.0 < high, "{prior:?} {low} {high}");
        assert!(high < 2.0 * low, "{prior:?} {low} {high}");
        assert!(search.seen().len() <= 12);
    }
}

#[test]
fn a_generator_that_can_do_no_more_gives_a_lower_bound() {
    let search = find_sharp(CLOSED, 5000.0, 950.0);
    assert!(matches!(search.next(), Step::Done(Ended::GeneratorBound)));
    let answer = search.answer();
    assert_eq!((answer.high_per_s, answer.estimate_per_s), (None, None));
    let low = answer.low_per_s.unwrap();
    assert!((600.0..=955.0).contains(&low), "{low}");
}

#[test]
fn a_server_that_always_meets_the_objective_gives_a_lower_bound() {
    let search = find_sharp(Prior::Guess(100.0), f64::INFINITY, f64::INFINITY);
    let answer = search.answer();
    assert_eq!((answer.high_per_s, answer.estimate_per_s), (None, None));
    assert!(answer.low_per_s.unwrap() > 1_000.0, "{answer:?}");
}

#[test]
fn a_server_that_is_slow_without_a_queue_is_given_up_early() {
    let search = find_sharp(CLOSED, 0.0, f64::INFINITY);
    assert!(matches!(search.next(), Step::Done(Ended::NeverMet)));
    let answer = search.answer();
    assert_eq!((answer.low_per_s, answer.met_per_s), (None, None));
    assert!(search.seen().len() <= 8, "{}", search.seen().len());
}

#[test]
fn probes_that_are_too_short_state_nothing() {
    let (answer, search) = PLAIN.search(&TIERS[0], 5);
    assert_eq!((answer.high_per_s, answer.estimate_per_s), (None, None));
    assert!(search.seen().len() <= 4);
}

/// A slow queue: neither its time nor its service rate is passed, and few seeds miss the truth.
#[test]
fn the_interval_holds_the_long_run_capacity_of_queues() {
    let tier = &TIERS[1];
    for queue in [
        PLAIN,
        Queue {
            servers: 16,
            rate: 500.0,
            ..PLAIN
        },
    ] {
        let truth = queue.truth(0).unwrap();
        let mut inside = 0;
        for seed in 0..4 {
            let (answer, search) = queue.search(tier, seed);
            let used = search
                .seen()
                .iter()
                .map(|seen| seen.probe.warmup_s + seen.probe.measure_s);
            assert!(used.sum::<f64>() < tier.time_s + 1.0);
            let (low, high) = (answer.low_per_s.unwrap(), answer.high_per_s.unwrap());
            inside += usize::from(low <= truth && truth <= high);
        }
        assert!(inside >= 3, "{truth}: {inside}");
    }
}
