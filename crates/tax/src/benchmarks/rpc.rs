//! The transport of a remote call: a message to an echo and back, over TCP on the loopback interface and over a
//! Unix socket.
//!
//! The echo is a thread on the worker's own CPU, so that a call is two sends, two receives and two switches of the
//! CPU. Sizes are our choice: a small call, a page, and an answer of 64 KiB. What comes back is compared.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::Duration;

use steelyard_statistics::Random;

use crate::TaxError;
use crate::benchmark::{Category, Microbenchmark, Prepared, Setup, Worker};

const SIZES: [usize; 3] = [64, 4096, 65_536];
/// Longer than any batch: an echo that has died must not hang the run.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    Tcp,
    Unix,
}

struct Echo {
    name: String,
    transport: Transport,
    bytes: usize,
}

/// All benchmarks of this category.
pub fn benchmarks() -> Vec<Box<dyn Microbenchmark>> {
    let mut found: Vec<Box<dyn Microbenchmark>> = Vec::new();
    for (transport, word) in [(Transport::Tcp, "tcp"), (Transport::Unix, "unix")] {
        for bytes in SIZES {
            found.push(Box::new(Echo {
                name: format!("echo-{word}-{bytes}"),
                transport,
                bytes,
            }));
        }
    }
    found
}

impl Microbenchmark for Echo {
    fn name(&self) -> &str {
        &self.name
    }

    fn category(&self) -> Category {
        Category::Rpc
    }

    fn operation(&self) -> &str {
        "sends a message to an echo and receives it back"
    }

    fn waits(&self) -> bool {
        true
    }

    fn prepare(&self, setup: &Setup) -> Result<Prepared, TaxError> {
        let workers = (0..setup.workers)
            .map(|_| {
                let mut message = vec![0; self.bytes];
                Random::stream(setup.seed, "rpc").fill(&mut message);
                let answer = vec![0; self.bytes];
                Box::new(Caller {
                    transport: self.transport,
                    message,
                    answer,
                    stream: None,
                    echo: None,
                }) as _
            })
            .collect();
        Ok(Prepared::new(workers).bytes(self.bytes as f64))
    }
}

trait Stream: Read + Write + Send {}
impl<S: Read + Write + Send> Stream for S {}

struct Caller {
    transport: Transport,
    message: Vec<u8>,
    answer: Vec<u8>,
    stream: Option<Box<dyn Stream>>,
    echo: Option<JoinHandle<()>>,
}

fn tcp() -> io::Result<(Box<dyn Stream>, Box<dyn Stream>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let caller = TcpStream::connect(listener.local_addr()?)?;
    let (echo, _) = listener.accept()?;
    for stream in [&caller, &echo] {
        stream.set_nodelay(true)?;
    }
    caller.set_read_timeout(Some(PATIENCE))?;
    Ok((Box::new(caller), Box::new(echo)))
}

fn unix() -> io::Result<(Box<dyn Stream>, Box<dyn Stream>)> {
    let (caller, echo) = UnixStream::pair()?;
    caller.set_read_timeout(Some(PATIENCE))?;
    Ok((Box::new(caller), Box::new(echo)))
}

impl Caller {
    fn call(&mut self) -> io::Result<bool> {
        let stream = self.stream.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        stream.write_all(&self.message)?;
        stream.read_exact(&mut self.answer)?;
        Ok(self.answer == self.message)
    }
}

impl Worker for Caller {
    fn begin(&mut self) -> Result<(), String> {
        let (stream, mut echo) = match self.transport {
            Transport::Tcp => tcp(),
            Transport::Unix => unix(),
        }
        .map_err(|error| error.to_string())?;
        let mut buffer = vec![0; self.message.len()];
        let serve = move || {
            // A connection that was closed ends the echo.
            while echo
                .read_exact(&mut buffer)
                .and_then(|()| echo.write_all(&buffer))
                .is_ok()
            {}
        };
        self.echo = Some(
            std::thread::Builder::new()
                .spawn(serve)
                .map_err(|error| error.to_string())?,
        );
        self.stream = Some(stream);
        Ok(())
    }

    fn verify(&mut self) -> Result<(), String> {
        match self.call() {
            Ok(true) => Ok(()),
            Ok(false) => Err("the echo returned other bytes".to_owned()),
            Err(error) => Err(format!("the echo: {error}")),
        }
    }

    fn run(&mut self, operations: u64) -> u64 {
        let mut right = 0;
        for index in 0..operations {
            // Each message is another one, so that a late answer is not taken for the one that is waited for.
            self.message[..8].copy_from_slice(&index.to_le_bytes());
            match self.call() {
                Ok(same) => right += u64::from(same),
                Err(_) => return right,
            }
        }
        right
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.stream = None;
        if let Some(echo) = self.echo.take() {
            let _ = echo.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_echo_answers_and_ends() {
        for benchmark in benchmarks() {
            let mut prepared = benchmark
                .prepare(&Setup {
                    seed: 1,
                    workers: 1,
                })
                .expect("prepared");
            let worker = &mut prepared.workers[0];
            worker.begin().expect("begun");
            worker.verify().expect("right");
            assert_eq!(worker.run(20), 20, "{}", benchmark.name());
        }
    }

    #[test]
    fn an_echo_that_is_gone_is_no_success() {
        let mut caller = Caller {
            transport: Transport::Unix,
            message: vec![1; 64],
            answer: vec![0; 64],
            stream: None,
            echo: None,
        };
        assert!(caller.verify().is_err());
        assert_eq!(caller.run(5), 0);
    }
}
