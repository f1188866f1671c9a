//! TCP over the loopback interface: throughput of one connection, and the round trip of a small message.
//!
//! No hardware of the network takes part: this is the kernel's network stack and the copy between two CPUs, which a
//! change of kernel, mitigation or firewall moves. The receiver knows which byte belongs where, and checks one in
//! every read; it counts all.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use steelyard_launch::pin_to_cpus;
use steelyard_record::LoopbackHealth;
use steelyard_statistics::nearest_rank;

use crate::context::{Mode, Run};
use crate::error::HealthError;
use crate::estimate::estimate;

const BLOCK_BYTES: usize = 128 << 10;
const MESSAGE_BYTES: usize = 64;
const PATIENCE: Duration = Duration::from_secs(10);
/// A prime, so that a byte's place in the stream can be distinguished from its value.
const PERIOD: u64 = 251;

struct Plan {
    client_cpu: Option<usize>,
    server_cpu: Option<usize>,
    repeats: usize,
    /// Bytes of one repeat of the throughput test.
    bytes: usize,
    /// Round trips of one repeat.
    trips: usize,
}

/// Measures throughput, then round trips.
pub(crate) fn measure(run: &mut Run<'_>) -> Result<LoopbackHealth, HealthError> {
    let cpus = run.topology.cpu_ids();
    let (repeats, bytes, trips) = match run.settings.mode {
        Mode::Quick => (7, 256 << 20, 5_000),
        Mode::Full => (15, 1 << 29, 20_000),
    };
    let plan = Plan {
        client_cpu: cpus.first().copied(),
        // The next CPU may be a sibling; the last one is the farthest that there is.
        server_cpu: cpus.last().copied(),
        repeats,
        bytes,
        trips,
    };
    let listener = TcpListener::bind("127.0.0.1:0").map_err(HealthError::io("127.0.0.1"))?;
    let (rates, trips) = std::thread::scope(|scope| {
        let server = scope.spawn(|| serve(&listener, &plan));
        let client = scope.spawn(|| ask(&listener, &plan, run));
        let asked = client.join().expect("the thread does not panic");
        let served = server.join().expect("the thread does not panic");
        // The side that went wrong by itself tells more than the one that then found the connection closed.
        match (asked, served) {
            (Err(error @ (HealthError::Wrong(_) | HealthError::Interrupted)), _)
            | (_, Err(error)) => Err(error),
            (asked, Ok(())) => asked,
        }
    })?;
    let [mut p50, mut p99] = [Vec::new(), Vec::new()];
    for mut trips in trips {
        p50.extend(nearest_rank(&mut trips, 0.5));
        p99.extend(nearest_rank(&mut trips, 0.99));
    }
    let nothing = || HealthError::Unavailable("nothing was measured".to_owned());
    Ok(LoopbackHealth {
        client_cpu: plan.client_cpu.map(|cpu| cpu as u32),
        server_cpu: plan.server_cpu.map(|cpu| cpu as u32),
        block_bytes: BLOCK_BYTES as u64,
        rate_bytes_per_s: estimate(rates).ok_or_else(nothing)?,
        message_bytes: MESSAGE_BYTES as u64,
        round_trip_p50_ns: estimate(p50).ok_or_else(nothing)?,
        round_trip_p99_ns: estimate(p99).ok_or_else(nothing)?,
    })
}

fn prepare(stream: &TcpStream, cpu: Option<usize>) -> Result<(), HealthError> {
    if let Some(cpu) = cpu {
        pin_to_cpus(&[cpu]).map_err(HealthError::io(format!("CPU {cpu}")))?;
    }
    let set = || {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))
    };
    set().map_err(HealthError::io("a connection over 127.0.0.1"))
}

/// Turns an I/O error of one side into a reason; the kernel reports a timeout as "temporarily unavailable".
fn failed(side: &'static str) -> impl FnOnce(io::Error) -> HealthError {
    move |error| match error.kind() {
        io::ErrorKind::WouldBlock => HealthError::Unavailable(format!(
            "the {side} of a connection over 127.0.0.1 waited {} s for the other side",
            PATIENCE.as_secs()
        )),
        _ => HealthError::io(format!("the {side}'s side of 127.0.0.1"))(error),
    }
}

/// The side that receives what is thrown at it, then returns messages.
fn serve(listener: &TcpListener, plan: &Plan) -> Result<(), HealthError> {
    let what = || failed("server");
    let (mut stream, _) = listener.accept().map_err(what())?;
    prepare(&stream, plan.server_cpu)?;
    let mut buffer = vec![0u8; BLOCK_BYTES];
    for _ in 0..=plan.repeats {
        let mut received = 0;
        while received < plan.bytes {
            let room = BLOCK_BYTES.min(plan.bytes - received);
            let count = stream.read(&mut buffer[..room]).map_err(what())?;
            if count == 0 {
                return Ok(());
            }
            let place = (received + count - 1) as u64;
            if u64::from(buffer[count - 1]) != place % PERIOD {
                return Err(HealthError::Wrong(format!(
                    "byte {place} of a stream over 127.0.0.1"
                )));
            }
            received += count;
        }
        // One byte back ends the repeat: all of it has been received, not only sent.
        stream.write_all(&[1]).map_err(what())?;
    }
    let mut message = [0u8; MESSAGE_BYTES];
    for _ in 0..(plan.repeats + 1) * plan.trips {
        match stream.read_exact(&mut message) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            read => read.map_err(what())?,
        }
        stream.write_all(&message).map_err(what())?;
    }
    Ok(())
}

type Times = (Vec<f64>, Vec<Vec<u64>>);

/// The side that measures. The first repeat of either test does not count: windows and caches are cold.
fn ask(listener: &TcpListener, plan: &Plan, run: &Run<'_>) -> Result<Times, HealthError> {
    let what = || failed("client");
    let address = listener.local_addr().map_err(what())?;
    let mut stream = TcpStream::connect(address).map_err(what())?;
    prepare(&stream, plan.client_cpu)?;
    // Long enough that every place of the period can be the start of a block.
    let pattern: Vec<u8> = (0..BLOCK_BYTES as u64 + PERIOD)
        .map(|place| (place % PERIOD) as u8)
        .collect();
    let mut rates = Vec::new();
    for repeat in 0..=plan.repeats {
        run.check_stop()?;
        run.progress("loopback", repeat as f64 / (2 * plan.repeats) as f64);
        let began = Instant::now();
        let mut sent = 0;
        while sent < plan.bytes {
            let first = sent % PERIOD as usize;
            let room = BLOCK_BYTES.min(plan.bytes - sent);
            sent += stream
                .write(&pattern[first..first + room])
                .map_err(what())?;
        }
        stream.read_exact(&mut [0]).map_err(what())?;
        if repeat > 0 {
            rates.push(plan.bytes as f64 / began.elapsed().as_secs_f64());
        }
    }
    let mut all = Vec::new();
    for repeat in 0..=plan.repeats {
        run.check_stop()?;
        run.progress("loopback", 0.5 + repeat as f64 / (2 * plan.repeats) as f64);
        let mut times = Vec::with_capacity(plan.trips);
        let mut answer = [0u8; MESSAGE_BYTES];
        for trip in 0..plan.trips {
            let mut message = [0u8; MESSAGE_BYTES];
            message[..8].copy_from_slice(&(trip as u64).to_le_bytes());
            let began = Instant::now();
            stream.write_all(&message).map_err(what())?;
            stream.read_exact(&mut answer).map_err(what())?;
            times.push(began.elapsed().as_nanos() as u64);
            if answer != message {
                return Err(HealthError::Wrong("an echo over 127.0.0.1".to_owned()));
            }
        }
        if repeat > 0 {
            all.push(times);
        }
    }
    Ok((rates, all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{run_with, topology_with};

    #[test]
    fn a_wrong_stream_is_seen() {
        let plan = Plan {
            client_cpu: None,
            server_cpu: None,
            repeats: 1,
            bytes: 1 << 20,
            trips: 1,
        };
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("an address");
        let error = std::thread::scope(|scope| {
            let server = scope.spawn(|| serve(&listener, &plan));
            let mut stream = TcpStream::connect(address).expect("connected");
            let _ = stream.write_all(&vec![255u8; 1 << 20]);
            server.join().expect("no panic").expect_err("wrong")
        });
        assert!(matches!(error, HealthError::Wrong(_)), "{error}");
    }

    #[test]
    fn a_timeout_is_reported_as_one() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let mut stream =
            TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        stream
            .set_read_timeout(Some(Duration::from_millis(1)))
            .expect("set");
        let error = stream.read(&mut [0]).expect_err("nothing was sent");
        let reason = failed("client")(error).to_string();
        assert_eq!(
            reason,
            "the client of a connection over 127.0.0.1 waited 10 s for the other side"
        );
    }

    #[test]
    fn both_tests_give_the_repeats_that_were_asked_for() {
        let plan = Plan {
            client_cpu: None,
            server_cpu: None,
            repeats: 2,
            bytes: 3 << 20,
            trips: 10,
        };
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let topology = topology_with(1 << 20, 1 << 30);
        run_with(&topology, |run| {
            let (rates, trips) = std::thread::scope(|scope| {
                scope.spawn(|| serve(&listener, &plan));
                ask(&listener, &plan, run)
            })
            .expect("measured");
            assert_eq!((rates.len(), trips.len(), trips[0].len()), (2, 2, 10));
            assert!(rates.iter().all(|rate| *rate > 0.0));
        });
    }
}
