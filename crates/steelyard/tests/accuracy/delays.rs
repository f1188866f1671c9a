//! Response times against a server whose delays follow a law in full: every quantile has an exact value.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{Server, now_ns, result, sleep_until};
use crate::theory::until_quiet;

/// Requests of a run: enough for a 99th percentile, few enough for the threads of the server.
const REQUESTS: usize = 1_200;
/// Coprime to their number: the delays come in an order that hides their law.
const STRIDE: usize = 509;

/// One run against a server that delays request number i by the law at an even share of 0 to 1, each share once;
/// an error says which quantile departs from the law by more than 1 %.
fn run(name: &str, law: fn(f64) -> f64, io: &str) -> Result<(), String> {
    let next = AtomicUsize::new(0);
    let server = Server::answering(move |_| {
        let arrived_ns = now_ns();
        let place = next.fetch_add(1, Ordering::Relaxed) * STRIDE % REQUESTS;
        let delay_ns = law((place as f64 + 0.5) / REQUESTS as f64) as u64;
        sleep_until(arrived_ns + delay_ns);
    });
    let result = result(
        server.address,
        &[
            "--rate",
            "400",
            "--arrival",
            "constant",
            "--connections",
            "160",
            "--warmup",
            "0s",
            "--duration",
            "3s",
            "--drain",
            "5s",
            "--io",
            io,
        ],
    );
    let requests = &result["requests"];
    assert_eq!(requests["completed"], REQUESTS, "{requests}");
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
        let exact = law((rank - 0.5) / REQUESTS as f64);
        let found = response[key].as_f64().unwrap();
        // A server may sleep too long on a busy machine, but it never sleeps too short.
        assert!(
            found > 0.99 * exact,
            "{name} {key}: {found} ns, by the law {exact} ns"
        );
        if found > 1.01 * exact {
            departs = Err(format!(
                "{name} {key} by {io}: {found} ns, by the law {exact} ns"
            ));
        }
    }
    departs
}

#[test]
fn constant_delays_are_measured_to_1_percent() {
    until_quiet(|| run("constant", |_| 60e6, "auto"));
}

#[test]
fn exponential_delays_are_measured_to_1_percent() {
    until_quiet(|| run("exponential", |share| -60e6 * (1.0 - share).ln(), "auto"));
}

#[test]
fn bimodal_delays_are_measured_to_1_percent() {
    // One in thirteen goes a long way: the 90th percentile lies in one mode, the 95th in the other.
    let law = |share: f64| if share < 12.0 / 13.0 { 40e6 } else { 200e6 };
    until_quiet(move || run("bimodal", law, "epoll"));
}
