//! The same seed gives the same requests, whatever the threads do.

use std::collections::BTreeMap;
use std::io::{BufReader, Write};
use std::sync::{Arc, Mutex};

use super::support::{Server, answer, next_request, result};

/// The request lines of every connection, in the order of their arrival on it.
fn streams(arguments: &[&str]) -> Vec<Vec<String>> {
    let log: Arc<Mutex<BTreeMap<u16, Vec<String>>>> = Arc::default();
    let seen = Arc::clone(&log);
    let server = Server::start(move |stream| {
        let port = stream.peer_addr().unwrap().port();
        let mut write = stream.try_clone().unwrap();
        let mut read = BufReader::new(stream);
        while let Some(request) = next_request(&mut read) {
            seen.lock()
                .unwrap()
                .entry(port)
                .or_default()
                .push(request.clone());
            if write.write_all(answer(&request).as_bytes()).is_err() {
                break;
            }
        }
    });
    result(server.address, arguments);
    log.lock().unwrap().values().cloned().collect()
}

const WORKLOAD: [&str; 12] = [
    "--keys",
    "1000",
    "--key-distribution",
    "zipf:0.9",
    "--set-ratio",
    "0.3",
    "--value-sizes",
    "50",
    "--warmup",
    "0s",
    "--duration",
    "400ms",
];

#[test]
fn closed_loops_send_the_same_stream_on_each_connection() {
    let run = |more: &[&str]| {
        let mut streams =
            streams(&[&WORKLOAD[..], more, &["--connections", "4", "--depth", "3"]].concat());
        streams.sort();
        streams
    };
    let one = run(&["--threads", "1", "--seed", "5", "--io", "epoll"]);
    let two = run(&["--threads", "2", "--seed", "5"]);
    let other = run(&["--threads", "1", "--seed", "6"]);
    assert_eq!((one.len(), two.len()), (4, 4));
    for (left, right) in one.iter().zip(&two) {
        // How far each came depends on the machine; as far as both came they are the same.
        let common = left.len().min(right.len());
        assert!(common > 50);
        assert_eq!(left[..common], right[..common]);
    }
    assert_ne!(one[0][..50], other[0][..50]);
    assert!(
        one[0].iter().any(|line| line.starts_with("set "))
            && one[0].iter().any(|line| line.starts_with("get "))
    );
}

#[test]
fn open_loops_send_the_same_requests() {
    let run = |seed: &str| {
        let fixed = [
            "--rate",
            "2000",
            "--arrival",
            "poisson",
            "--threads",
            "2",
            "--connections",
            "8",
            "--seed",
            seed,
        ];
        let mut requests = streams(&[&WORKLOAD[..], &fixed].concat()).concat();
        requests.sort();
        requests
    };
    let (one, two) = (run("5"), run("5"));
    assert!(one.len() > 600);
    assert_eq!(one, two);
    assert_ne!(one, run("6"));
}
