//! Searches for capacities that are known: `capacity_truth SITUATION SEED TRIALS` prints a JSON line for each.
//!
//! A situation is a queue and a tier, such as `mm2/quick`; without arguments they are listed. Used by
//! `make truth` (python/tests/truth/situations/capacity.py), in virtual time: it loads nothing.

mod queue;

use queue::{COLLAPSING, PLAIN, Queue, Service, TIERS, WALL, WALL_VARYING};

const QUEUES: [Queue; 17] = [
    Queue {
        name: "mm2",
        ..PLAIN
    },
    Queue {
        name: "mm16",
        servers: 16,
        rate: 500.0,
        ..PLAIN
    },
    Queue {
        name: "mm10",
        servers: 10,
        rate: 200.0,
        spread: 0.015,
        ..PLAIN
    },
    Queue {
        name: "mh2",
        service: Service::Hyper,
        ..PLAIN
    },
    // A service of 100 ms and a delay of 190 ms in the median: the 95th percentile is 438 ms, 0.87 of the bound.
    Queue {
        name: "delayed",
        servers: 16,
        rate: 160.0,
        service: Service::Constant,
        delay_s: 0.19,
        ..PLAIN
    },
    WALL,
    WALL_VARYING,
    Queue {
        name: "bursts",
        burst_s: 1.0,
        ..PLAIN
    },
    Queue {
        name: "pauses",
        pause_s: 3.0,
        ..PLAIN
    },
    Queue {
        name: "spread",
        servers: 8,
        rate: 100.0,
        spread: 0.15,
        ..PLAIN
    },
    Queue {
        name: "correlated",
        servers: 8,
        rate: 100.0,
        spread: 0.05,
        correlation: 0.8,
        ..PLAIN
    },
    Queue {
        name: "slowed",
        servers: 8,
        rate: 100.0,
        slowed: 0.2,
        ..PLAIN
    },
    Queue {
        name: "collapse",
        collapse_s: 1.0,
        ..PLAIN
    },
    COLLAPSING,
    Queue {
        name: "regimes",
        servers: 16,
        rate: 500.0,
        regime_s: 5.0,
        ..PLAIN
    },
    Queue {
        name: "regimes-mild",
        servers: 16,
        rate: 500.0,
        part: 0.8,
        regime_s: 5.0,
        ..PLAIN
    },
    Queue {
        name: "never",
        delay_s: 0.4,
        ..PLAIN
    },
];

fn number(text: &str) -> u64 {
    text.parse()
        .unwrap_or_else(|_| panic!("{text:?} is no number"))
}

fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "null".to_owned(), |value| format!("{value:.6}"))
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [situation, seed, trials, rest @ ..] = &arguments[..] else {
        for queue in QUEUES {
            for tier in TIERS {
                println!("{}/{}", queue.name, tier.name);
            }
        }
        return;
    };
    let requests = rest.first().map_or(3_000_000, |text| number(text));
    let (name, tier) = situation.split_once('/').expect("QUEUE/TIER");
    let queue = QUEUES.into_iter().find(|queue| queue.name == name);
    let tier = TIERS.into_iter().find(|one| one.name == tier);
    let (queue, tier) = queue.zip(tier).expect("a situation that is listed");
    let truth = queue.truth(requests);
    for trial in 0..number(trials) {
        let (answer, search) = queue.search(&tier, number(seed).wrapping_add(trial));
        println!(
            "{{\"truth\":{},\"service_per_s\":{},\"low\":{},\"high\":{},\"estimate\":{},\"met\":{},\"unmet\":{},\"probes\":{},\"collapse\":{},\"changing\":{},\"width_ratio\":{}}}",
            optional(truth),
            queue.rate,
            optional(answer.low_per_s),
            optional(answer.high_per_s),
            optional(answer.estimate_per_s),
            optional(answer.met_per_s),
            optional(answer.unmet_per_s),
            search.seen().len(),
            answer.collapse().is_some(),
            answer.changing.is_some(),
            optional(answer.width_ratio()),
        );
    }
}
