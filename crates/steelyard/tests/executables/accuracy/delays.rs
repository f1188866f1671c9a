//! Response times against a server whose delays follow a law in full: every quantile has an exact value.

use std::sync::{Arc, Mutex};

use steelyard_load::schedule::Arrival;

use super::theory::{intended, until_quiet};
use crate::load::support::{Server, now_ns, result, sleep_until};

/// Requests of a run: enough for a 99th percentile, few enough for the threads of the server.
const REQUESTS: usize = 1_200;
/// Coprime to their number: the delays come in an order that hides their law.
const STRIDE: usize = 509;
const RATE: f64 = 400.0;
/// How far the server itself may stray from the law before only its own record says what is right.
const KEPT: f64 = 0.003;

/// One run against a server that delays request number i by the law at an even share of 0 to 1, each share once;
/// an error says which quantile departs by more than 1 % from what the server did by its own clock or, where that
/// is what the law says, from the law.
fn run(name: &str, law: fn(f64) -> f64, io: &str) -> Result<(), String> {
    // When each request was answered, in the order in which they came.
    let answered = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&answered);
    let server = Server::answering(move |_| {
        let arrived_ns = now_ns();
        let number = {
            let mut record = record.lock().unwrap();
            record.push(0);
            record.len() - 1
        };
        let place = number * STRIDE % REQUESTS;
        let delay_ns = law((place as f64 + 0.5) / REQUESTS as f64) as u64;
        sleep_until(arrived_ns + delay_ns);
        // Before the write: what the client measures beyond it is delay, never less.
        record.lock().unwrap()[number] = now_ns();
    });
    let rate = RATE.to_string();
    let arguments = "--arrival constant --connections 160 --warmup 0s --duration 3s --drain 5s";
    let mut arguments: Vec<&str> = arguments.split(' ').collect();
    arguments.extend(["--rate", rate.as_str(), "--io", io]);
    let result = result(server.address, &arguments);
    let requests = &result["requests"];
    assert_eq!(requests["completed"], REQUESTS, "{requests}");
    let mut did: Vec<f64> = intended(&result, &Arrival::Constant, RATE)
        .iter()
        .zip(answered.lock().unwrap().iter())
        .map(|(&intended_ns, &answered_ns)| answered_ns as f64 - intended_ns as f64)
        .collect();
    assert_eq!(did.len(), REQUESTS);
    did.sort_unstable_by(f64::total_cmp);
    let response = &result["latency"]["response"];
    let mut departs = Ok(());
    for (key, q) in [
        ("p50_ns", 0.5),
        ("p90_ns", 0.9),
        ("p95_ns", 0.95),
        ("p99_ns", 0.99),
    ] {
        // The value that the quantile's share of the requests does not exceed.
        let rank = (q * REQUESTS as f64).ceil();
        let (exact, did) = (law((rank - 0.5) / REQUESTS as f64), did[rank as usize - 1]);
        let found = response[key].as_f64().unwrap();
        // A server may sleep too long on a busy machine, but it never sleeps too short.
        for least in [exact, did] {
            assert!(
                found > 0.99 * least,
                "{name} {key}: {found} ns, by the law {exact} ns, by the server {did} ns"
            );
        }
        let kept = did < (1.0 + KEPT) * exact;
        if found > 1.01 * if kept { exact } else { did } {
            departs = Err(format!(
                "{name} {key} by {io}: {found} ns, by the law {exact} ns, by the server {did} ns"
            ));
        }
    }
    departs
}

#[test]
#[ignore = "slow: accuracy under load"]
fn constant_delays_are_measured_to_1_percent() {
    until_quiet(|| run("constant", |_| 60e6, "auto"));
}

#[test]
#[ignore = "slow: accuracy under load"]
fn exponential_delays_are_measured_to_1_percent() {
    until_quiet(|| run("exponential", |share| -60e6 * (1.0 - share).ln(), "auto"));
}

#[test]
#[ignore = "slow: accuracy under load"]
fn bimodal_delays_are_measured_to_1_percent() {
    // One in thirteen goes a long way: the 90th percentile lies in one mode, the 95th in the other.
    let law = |share: f64| if share < 12.0 / 13.0 { 40e6 } else { 200e6 };
    until_quiet(move || run("bimodal", law, "epoll"));
}
